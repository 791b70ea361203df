"""Simulated outages: which requests a webhook's server needs to start, and what happens to them while it is down."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Protocol

import msgspec

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
    """The identity of a webhook: its configuration's kind and name, and its own name."""

    kind: WebhookConfigurationKind
    configuration: str
    webhook: str


class OutageResult(msgspec.Struct, frozen=True):
    """The result of one request while all webhooks are down."""

    refusing: frozenset[WebhookName] = frozenset()
    """The webhooks whose outage denies it, each by itself."""
    passed_over: frozenset[WebhookName] = frozenset()
    """The webhooks that it waits for and then goes on without."""


class OutageSimulator(Protocol):
    """Runs requests through a chain whose webhooks do not answer."""

    @property
    def controllers(self) -> frozenset[str]:
        """The names of the enabled admission controllers."""

    def reached(self, review: Review) -> frozenset[WebhookName]:
        """The webhooks that would be called for a request, or would deny it without being called."""

    def __call__(self, review: Review) -> OutageResult:
        """Run one request. Nothing is called, stored or charged."""


class AssumedCluster(msgspec.Struct, frozen=True):
    """The cluster of the configurations, in which every namespace and every ServiceAccount exists.

    A namespace that nobody described may still get requests. It has at least the label of its name.
    """

    known: Cluster

    @property
    def resources(self) -> ApiResources:
        """The resources that the cluster serves."""
        return self.known.resources

    @property
    def is_described(self) -> bool:
        """Whether the user described the cluster, so that objects not in it do not exist."""
        return isinstance(self.known, ObjectStore) and not self.known.assumes_namespaces

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """Get one object; a Namespace or ServiceAccount always exists."""
        found = self.known.get(group, resource, name, namespace)
        if (group, resource) == ("", "namespaces") and name:
            return with_namespace_defaults(found) if found else assumed_namespace(name)
        if found is None and (group, resource) == ("", "serviceaccounts") and name and namespace:
            account = assumed_service_account(namespace)
            return {**account, "metadata": {**account["metadata"], "name": name}}
        return found

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        """List the known objects of a resource."""
        return self.known.list(group, resource, namespace)


_DOMAINS = (["svc"], ["svc", "cluster", "local"])
"""The labels after name and namespace in the DNS name of a Service, short and full."""


class BackendService(NamedTuple):
    """The Service that a webhook is called at. Webhooks of several configurations may share it."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"Service {self.namespace}/{self.name}"


def backend_service(config: ClientConfig) -> BackendService | None:
    """The Service that a webhook is called at, by reference or by URL; None if it runs outside the cluster."""
    if config.service is not None:
        return BackendService(config.service.namespace, config.service.name)
    name, *rest = server_name(config).rstrip(".").split(".")
    return BackendService(rest[0], name) if rest and rest[1:] in _DOMAINS else None


def server_name(config: ClientConfig) -> str:
    """The DNS name that a webhook's server certificate must be valid for; empty if the webhook has neither."""
    if config.service is not None:
        return f"{config.service.name}.{config.service.namespace}.svc"
    return parse_url(config.url).host.partition(":")[0] if config.url else ""


NODE = "node"
"""The node of all simulated Pods."""
KUBELET = UserInfo(f"system:node:{NODE}", groups=("system:nodes", "system:authenticated"))
SCHEDULER = UserInfo("system:kube-scheduler", groups=("system:authenticated",))
CONTROLLER_MANAGER = UserInfo("system:kube-controller-manager", groups=("system:authenticated",))


def controller_user(name: str) -> UserInfo:
    """The service account of a kube-controller-manager controller."""
    namespace = "kube-system"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return UserInfo(f"system:serviceaccount:{namespace}:{name}", groups=groups)


def assumed_workload(backend: BackendService, labels: JSONObject) -> JSONObject:
    """A Deployment that the Service would select, for a Service whose workload is unknown."""
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
    """The ReplicaSet between a Deployment and its Pod."""
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
    """The Pod as stored, with the name that the API server generates."""
    metadata = pod["metadata"]
    name = metadata.get("name") or f"{metadata['generateName']}xxxxx"
    return {**pod, "metadata": {**metadata, "name": name}}


def with_running_status(pod: JSONObject) -> JSONObject:
    """The Pod as its kubelet reports it once it is ready."""
    ready = {"type": "Ready", "status": "True"}
    return {**pod, "status": {"phase": "Running", "conditions": [ready]}}


def binding_of(pod: JSONObject) -> JSONObject:
    """The Binding that assigns a Pod to its node."""
    metadata = {"name": pod["metadata"]["name"], "namespace": pod["metadata"]["namespace"]}
    target = {"apiVersion": "v1", "kind": "Node", "name": NODE}
    return {"apiVersion": "v1", "kind": "Binding", "metadata": metadata, "target": target}


def endpoints_of(service: JSONObject) -> JSONObject:
    """The Endpoints of the Service, which old clusters use."""
    return {
        "apiVersion": "v1",
        "kind": "Endpoints",
        "metadata": _service_metadata(service, {}),
        "subsets": [],
    }


def endpoint_slice_of(service: JSONObject) -> JSONObject:
    """The EndpointSlice of the Service."""
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
    """The name of the ServiceAccount that a Pod runs as."""
    return str(member(pod, "spec", "serviceAccountName") or "default")


def mounted_sources(pod: JSON) -> Iterator[tuple[str, str]]:
    """Yield kind and name of each Secret and ConfigMap volume that a Pod cannot start without."""
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
    """A Lease, which its holder renews to show that it is alive."""
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


class StartupRequest(msgspec.Struct, frozen=True):
    """A request that must succeed before a server can start."""

    review: Review
    of: str = ""
    """The workload that needs it, such as ``Deployment "hook"``; empty if none does."""

    def __str__(self) -> str:
        review = self.review
        what = qualified_resource(review.resource.group, review.resource.resource)
        what += "/" * bool(review.subresource) + review.subresource
        where = f" in namespace {review.namespace}" if review.namespace else ""
        return f"{review.operation} of {what}{where}{f' for {self.of}' if self.of else ''}"


def startup_requests(backend: BackendService, cluster: Cluster) -> Iterator[StartupRequest]:
    """Yield the requests that the Pods behind a Service need to start, and the Service needs to find them.

    The Pods are those of the Deployments, StatefulSets and DaemonSets that the Service selects; if the cluster has
    none, those of a Deployment that it would select. A Service of type ExternalName needs nothing.
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
    return msgspec.structs.replace(review, quota_mode=QuotaMode.COUNTED)


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
    return msgspec.structs.replace(review, quota_mode=QuotaMode.COUNTED)


def known_workloads(backend: BackendService, cluster: Cluster) -> list[JSONObject]:
    """List the known Deployments, StatefulSets and DaemonSets whose Pods a Service selects."""
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
    owner = f'{kind} "{name}"'
    ask = functools.partial(_create_request, cluster)
    creation = ask(workload)
    pod_request = pod_of_workload(creation, creation.object)
    if pod_request is None:
        return
    pod = with_generated_name(pod_request.document)
    yield StartupRequest(ask(pod_request.document, pod_request.user), owner)
    if kind == "Deployment":
        yield StartupRequest(
            ask(replica_set_of(workload, pod), controller_user("deployment-controller")), owner
        )
    yield StartupRequest(creation, owner)
    yield StartupRequest(ask(binding_of(pod), SCHEDULER, "binding"), owner)
    yield StartupRequest(_update_request(cluster, with_running_status(pod), KUBELET, "status", pod), owner)
    yield from (StartupRequest(review, owner) for review in _pod_requests(pod, backend, cluster))


def _pod_requests(pod: JSONObject, backend: BackendService, cluster: Cluster) -> Iterator[Review]:
    account = _object_or_stub("ServiceAccount", service_account_name(pod), backend, cluster)
    yield _create_request(cluster, account)
    yield _create_request(cluster, account, KUBELET, "token")
    things = list(mounted_sources(pod))
    if all(kind != "Secret" for kind, _ in things):
        # The server needs a certificate, which most likely comes from a Secret.
        things.append(("Secret", f"{backend.name}-certificate"))
    for kind, name in things:
        yield _create_request(cluster, _object_or_stub(kind, name, backend, cluster))


def _object_or_stub(kind: str, name: str, backend: BackendService, cluster: Cluster) -> JSONObject:
    """The object as the cluster has it, or else a minimal one."""
    found = cluster.get("", _RESOURCES[kind], name, backend.namespace) or {}
    metadata = {**mapping_at(found, "metadata"), "name": name, "namespace": backend.namespace}
    return {**found, "apiVersion": "v1", "kind": kind, "metadata": metadata}


def _node_requests(cluster: Cluster) -> Iterator[StartupRequest]:
    """Yield the requests that keep a node, the scheduler and the controller manager running."""
    yield StartupRequest(_update_request(cluster, ready_node(), KUBELET, "status"))
    yield StartupRequest(_update_request(cluster, lease("kube-node-lease", NODE), KUBELET))
    yield StartupRequest(_update_request(cluster, lease("kube-system", "kube-scheduler"), SCHEDULER))
    yield StartupRequest(
        _update_request(cluster, lease("kube-system", "kube-controller-manager"), CONTROLLER_MANAGER)
    )
