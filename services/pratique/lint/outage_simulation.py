"""What becomes of a request while the servers behind all webhooks are down."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

from pratique.admission.reviews import QuotaMode, Review
from pratique.apimachinery.json_values import JSON, JSONObject, list_at, mapping_at, member
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.apimachinery.statuses import qualified_resource
from pratique.apimachinery.urls import parse_url
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.store import (
    Cluster,
    ObjectStore,
    assumed_namespace,
    assumed_service_account,
    with_namespace_defaults,
)
from pratique.configuration.admissionregistration import ClientConfig, WebhookConfigurationKind
from pratique.manifests.pod_templates import pod_of_workload
from pratique.manifests.requests import KUBECTL_USER, review_of_manifest


class WebhookName(NamedTuple):
    """Which webhook is meant."""

    kind: WebhookConfigurationKind
    configuration: str
    webhook: str


@dataclasses.dataclass(frozen=True, slots=True)
class OutageResult:
    """What came of a request."""

    refusing: frozenset[WebhookName] = frozenset()
    """The webhooks whose silence refuses it, each by itself."""
    passed_over: frozenset[WebhookName] = frozenset()
    """Those that it goes on without, once it has waited for them."""


class OutageSimulator(Protocol):
    """Puts requests to a chain whose webhooks do not answer."""

    @property
    def controllers(self) -> frozenset[str]:
        """The names of the admission controllers that are on."""

    def reached(self, review: Review) -> frozenset[WebhookName]:
        """Which webhooks would be called for a request, each by itself, or refuse it without being called."""

    def __call__(self, review: Review) -> OutageResult:
        """Try one request. Nothing is called, stored or charged for it."""


@dataclasses.dataclass(frozen=True, slots=True)
class AssumedCluster:
    """The cluster that configurations are for, with every namespace, and in it every ServiceAccount.

    That one is not described says nothing of what a webhook would be asked there. A namespace has the label of its
    name, if nothing else.
    """

    known: Cluster

    @property
    def resources(self) -> ApiResources:
        """All kinds that the cluster knows."""
        return self.known.resources

    @property
    def is_described(self) -> bool:
        """Whether somebody has said what there is: what they have not named does not exist."""
        return isinstance(self.known, ObjectStore) and not self.known.assumes_namespaces

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """One object; a Namespace or ServiceAccount in any case."""
        found = self.known.get(group, resource, name, namespace)
        if (group, resource) == ("", "namespaces") and name:
            return with_namespace_defaults(found or assumed_namespace(name))
        if found is None and (group, resource) == ("", "serviceaccounts") and name and namespace:
            account = assumed_service_account(namespace)
            return {**account, "metadata": {**account["metadata"], "name": name}}
        return found

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        """All objects of a resource that are known."""
        return self.known.list(group, resource, namespace)


_DOMAINS = (["svc"], ["svc", "cluster", "local"])
"""What follows name and namespace in the host of a Service, in its short and its full form."""


class BackendService(NamedTuple):
    """A Service of the cluster. Webhooks of several configurations may share one."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"Service {self.namespace}/{self.name}"


def backend_service(config: ClientConfig) -> BackendService | None:
    """The Service that a webhook is called at, by reference or by URL; None where it is elsewhere."""
    if config.service is not None:
        return BackendService(config.service.namespace, config.service.name)
    name, *rest = server_name(config).rstrip(".").split(".")
    return BackendService(rest[0], name) if rest and rest[1:] in _DOMAINS else None


def server_name(config: ClientConfig) -> str:
    """The DNS name that the certificate of a webhook's server has to bear; empty where there is none."""
    if config.service is not None:
        return f"{config.service.name}.{config.service.namespace}.svc"
    return parse_url(config.url).host.partition(":")[0] if config.url else ""


NODE = "node"
"""The node that everything made up here runs on."""
KUBELET = UserInfo(f"system:node:{NODE}", groups=("system:nodes", "system:authenticated"))
SCHEDULER = UserInfo("system:kube-scheduler", groups=("system:authenticated",))
CONTROLLER_MANAGER = UserInfo("system:kube-controller-manager", groups=("system:authenticated",))


def controller_user(name: str) -> UserInfo:
    """The service account by which a controller asks."""
    namespace = "kube-system"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return UserInfo(f"system:serviceaccount:{namespace}:{name}", groups=groups)


def assumed_workload(backend: BackendService, labels: JSONObject) -> JSONObject:
    """A Deployment that the Service would select, where nobody says what really runs behind it."""
    selected = labels or {"app": backend.name}
    container = {"name": "server", "image": "server"}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": backend.name, "namespace": backend.namespace, "labels": labels},
        "spec": {
            "selector": {"matchLabels": selected},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def replica_set_of(deployment: JSONObject, pod: JSONObject) -> JSONObject:
    """The ReplicaSet that stands between a Deployment and its Pod."""
    labels, template = mapping_at(pod, "metadata", "labels"), mapping_at(deployment, "spec", "template")
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {
            "name": member(pod, "metadata", "ownerReferences", 0, "name"),
            "namespace": member(pod, "metadata", "namespace"),
            "labels": labels,
        },
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": labels},
            "template": {**template, "metadata": {**mapping_at(template, "metadata"), "labels": labels}},
        },
    }


def with_generated_name(pod: JSONObject) -> JSONObject:
    """The Pod as it is stored, with the name that the API server draws for it."""
    metadata = pod["metadata"]
    name = metadata.get("name") or f"{metadata['generateName']}xxxxx"
    return {**pod, "metadata": {**metadata, "name": name}}


def with_running_status(pod: JSONObject) -> JSONObject:
    """The Pod as its kubelet reports it, so that the Service sends requests to it."""
    ready = {"type": "Ready", "status": "True"}
    return {**pod, "status": {"phase": "Running", "conditions": [ready]}}


def binding_of(pod: JSONObject) -> JSONObject:
    """What gives a Pod its node."""
    metadata = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def endpoints_of(service: JSONObject) -> JSONObject:
    """Where the Service is reached, as kube-proxy knows it in old clusters."""
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": _service_metadata(service, {}),
        "subsets": [],
    }


def endpoint_slice_of(service: JSONObject) -> JSONObject:
    """Where the Service is reached."""
    labels = {
        "kubernetes.io/service-name": service["metadata"]["name"],
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    metadata = _service_metadata(service, labels)
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata | {"name": f"{metadata['name']}-xxxxx"},
        "addressType": "IPv4",
        "endpoints": [],
    }


def _service_metadata(service: JSONObject, labels: JSONObject) -> JSONObject:
    metadata = service["metadata"]
    labels = {**mapping_at(service, "metadata", "labels"), **labels}
    return {"name": metadata["name"], "namespace": metadata["namespace"], "labels": labels}


def service_account_name(pod: JSON) -> str:
    """The ServiceAccount that a Pod runs as."""
    return str(member(pod, "spec", "serviceAccountName") or "default")


def mounted_sources(pod: JSON) -> Iterator[tuple[str, str]]:
    """Kind and name of each Secret and ConfigMap that a Pod cannot start without."""
    for volume in list_at(pod, "spec", "volumes"):
        sources = [volume, *list_at(volume, "projected", "sources")]
        for source in sources:
            for field, kind, key in (
                ("secret", "Secret", "name" if source is not volume else "secretName"),
                ("configMap", "ConfigMap", "name"),
            ):
                name, optional = member(source, field, key), member(source, field, "optional")
                if isinstance(name, str) and name and optional is not True:
                    yield kind, name


def lease(namespace: str, name: str) -> JSONObject:
    """A Lease, by which somebody says that it is alive."""
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"holderIdentity": name},
    }


def ready_node() -> JSONObject:
    """A Node that can take Pods."""
    labels = {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"}
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "labels": labels},
        "status": status,
    }


_WORKLOADS = (("apps", "deployments"), ("apps", "statefulsets"), ("apps", "daemonsets"))
_RESOURCES = {"Secret": "secrets", "ConfigMap": "configmaps", "ServiceAccount": "serviceaccounts"}


@dataclasses.dataclass(frozen=True, slots=True)
class StartupRequest:
    """One request that a start goes through."""

    review: Review
    of: str = ""
    """Whose start needs it, where that is a workload: ``Deployment "hook"``."""

    def __str__(self) -> str:
        review = self.review
        what = qualified_resource(review.resource.group, review.resource.resource)
        what += "/" * bool(review.subresource) + review.subresource
        where = f" in namespace {review.namespace}" if review.namespace else ""
        return f"{review.operation} of {what}{where}{f' for {self.of}' if self.of else ''}"


def startup_requests(backend: BackendService, cluster: Cluster) -> Iterator[StartupRequest]:
    """Tell what the Pods behind a Service need to run, and the Service to find them.

    They are those of the Deployments, StatefulSets and DaemonSets that the Service selects; where the cluster has
    none, those of a Deployment that it would select. A Service that only stands for a name needs nothing.
    """
    service = cluster.get("", "services", backend.name, backend.namespace)
    if member(service, "spec", "type") == "ExternalName":
        return
    ask = functools.partial(_create_request, cluster)
    made_up = assumed_workload(backend, _selector(backend, cluster))
    for workload in known_workloads(backend, cluster) or [made_up]:
        yield from _workload_requests(workload, backend, cluster)
    known = service or {"metadata": {"name": backend.name}}
    placed = {**known, "metadata": {**known["metadata"], "namespace": backend.namespace}}
    yield StartupRequest(ask(endpoints_of(placed), controller_user("endpoint-controller")))
    yield StartupRequest(ask(endpoint_slice_of(placed), controller_user("endpointslice-controller")))
    yield from _node_requests(cluster)


def _create_request(
    cluster: Cluster, manifest: JSONObject, user: UserInfo = KUBECTL_USER, subresource: str = ""
) -> Review:
    review = review_of_manifest(
        manifest, cluster.resources, user=user, subresource=subresource, cluster=cluster
    )
    return dataclasses.replace(review, charging=QuotaMode.COUNTED)


def _update_request(
    cluster: Cluster,
    manifest: JSONObject,
    user: UserInfo,
    subresource: str = "",
    old: JSONObject | None = None,
) -> Review:
    review = review_of_manifest(
        manifest,
        cluster.resources,
        operation=Operation.UPDATE,
        old=old or manifest,
        user=user,
        subresource=subresource,
        cluster=cluster,
    )
    return dataclasses.replace(review, charging=QuotaMode.COUNTED)


def known_workloads(backend: BackendService, cluster: Cluster) -> list[JSONObject]:
    """The Deployments, StatefulSets and DaemonSets whose Pods a Service selects, as far as the cluster has them."""
    labels = _selector(backend, cluster)
    return [
        workload
        for group, resource in _WORKLOADS
        for workload in cluster.list(group, resource, backend.namespace)
        if labels and _selects(labels, mapping_at(workload, "spec", "template", "metadata", "labels"))
    ]


def _selector(backend: BackendService, cluster: Cluster) -> JSONObject:
    return mapping_at(cluster.get("", "services", backend.name, backend.namespace), "spec", "selector")


def _selects(wanted: JSONObject, labels: JSONObject) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


def _workload_requests(
    workload: JSONObject, backend: BackendService, cluster: Cluster
) -> Iterator[StartupRequest]:
    kind, name = workload["kind"], workload["metadata"]["name"]
    of = f'{kind} "{name}"'
    ask = functools.partial(_create_request, cluster)
    asked = ask(workload)
    made = pod_of_workload(asked, asked.object)
    if made is None:
        return
    pod = with_generated_name(made.document)
    yield StartupRequest(ask(made.document, made.user), of)
    if kind == "Deployment":
        yield StartupRequest(ask(replica_set_of(workload, pod), controller_user("deployment-controller")), of)
    yield StartupRequest(asked, of)
    yield StartupRequest(ask(binding_of(pod), SCHEDULER, "binding"), of)
    yield StartupRequest(_update_request(cluster, with_running_status(pod), KUBELET, "status", pod), of)
    yield from (StartupRequest(review, of) for review in _pod_requests(pod, backend, cluster))


def _pod_requests(pod: JSONObject, backend: BackendService, cluster: Cluster) -> Iterator[Review]:
    account = _object_or_stub("ServiceAccount", service_account_name(pod), backend, cluster)
    yield _create_request(cluster, account)
    yield _create_request(cluster, account, KUBELET, "token")
    things = list(mounted_sources(pod))
    if all(kind != "Secret" for kind, _ in things):
        # The server needs its certificate from somewhere, most likely from there.
        things.append(("Secret", f"{backend.name}-certificate"))
    for kind, name in things:
        yield _create_request(cluster, _object_or_stub(kind, name, backend, cluster))


def _object_or_stub(kind: str, name: str, backend: BackendService, cluster: Cluster) -> JSONObject:
    """The object as the cluster has it, or else as little as it can be."""
    found = cluster.get("", _RESOURCES[kind], name, backend.namespace) or {}
    metadata = {**mapping_at(found, "metadata"), "name": name, "namespace": backend.namespace}
    return {**found, "apiVersion": "v1", "kind": kind, "metadata": metadata}


def _node_requests(cluster: Cluster) -> Iterator[StartupRequest]:
    """What keeps a node, and those who give it Pods, at work."""
    yield StartupRequest(_update_request(cluster, ready_node(), KUBELET, "status"))
    yield StartupRequest(_update_request(cluster, lease("kube-node-lease", NODE), KUBELET))
    yield StartupRequest(_update_request(cluster, lease("kube-system", "kube-scheduler"), SCHEDULER))
    yield StartupRequest(
        _update_request(cluster, lease("kube-system", "kube-controller-manager"), CONTROLLER_MANAGER)
    )
