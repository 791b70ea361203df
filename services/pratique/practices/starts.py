"""Starts: the requests without which the server of a webhook does not come up."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.manifests import KUBECTL_USER, review_of_manifest
from pratique.pod_templates import made_pod
from pratique.pod_templates.workloads import mapping
from pratique.practices.start_objects import (
    CONTROLLER_MANAGER,
    KUBELET,
    NODE,
    SCHEDULER,
    account_name,
    binding_of,
    controller,
    endpoints_of,
    lease,
    made_up_workload,
    mounted,
    named,
    node,
    replica_set_of,
    running,
    slice_of,
)
from pratique.reviews import Charging, Operation
from pratique.statuses import qualified_resource

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.clusters import Cluster
    from pratique.json_values import JSONObject
    from pratique.practices.backends import Backend
    from pratique.reviews import Review, UserInfo

_WORKLOADS = (("apps", "deployments"), ("apps", "statefulsets"), ("apps", "daemonsets"))
_RESOURCES = {"Secret": "secrets", "ConfigMap": "configmaps", "ServiceAccount": "serviceaccounts"}


@dataclasses.dataclass(frozen=True, slots=True)
class Need:
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


def needs_of(backend: Backend, cluster: Cluster) -> Iterator[Need]:
    """Tell what the Pods behind a Service need to run, and the Service to find them.

    They are those of the Deployments, StatefulSets and DaemonSets that the Service selects; where the cluster has
    none, those of a Deployment that it would select. A Service that only stands for a name needs nothing.
    """
    service = cluster.get("", "services", backend.name, backend.namespace)
    if member(service, "spec", "type") == "ExternalName":
        return
    ask = functools.partial(_ask, cluster)
    made_up = made_up_workload(backend, _selector(backend, cluster))
    for workload in known_workloads(backend, cluster) or [made_up]:
        yield from _of_workload(workload, backend, cluster)
    known = service or {"metadata": {"name": backend.name}}
    placed = {**known, "metadata": {**known["metadata"], "namespace": backend.namespace}}
    yield Need(ask(endpoints_of(placed), controller("endpoint-controller")))
    yield Need(ask(slice_of(placed), controller("endpointslice-controller")))
    yield from _of_node(cluster)


def _ask(
    cluster: Cluster, manifest: JSONObject, user: UserInfo = KUBECTL_USER, subresource: str = ""
) -> Review:
    review = review_of_manifest(
        manifest, cluster.resources, user=user, subresource=subresource, cluster=cluster
    )
    return dataclasses.replace(review, charging=Charging.DONE)


def _update(
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
    return dataclasses.replace(review, charging=Charging.DONE)


def known_workloads(backend: Backend, cluster: Cluster) -> list[JSONObject]:
    """The Deployments, StatefulSets and DaemonSets whose Pods a Service selects, as far as the cluster has them."""
    labels = _selector(backend, cluster)
    return [
        workload
        for group, resource in _WORKLOADS
        for workload in cluster.list(group, resource, backend.namespace)
        if labels and _selects(labels, mapping(workload, "spec", "template", "metadata", "labels"))
    ]


def _selector(backend: Backend, cluster: Cluster) -> JSONObject:
    return mapping(cluster.get("", "services", backend.name, backend.namespace), "spec", "selector")


def _selects(wanted: JSONObject, labels: JSONObject) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


def _of_workload(workload: JSONObject, backend: Backend, cluster: Cluster) -> Iterator[Need]:
    kind, name = workload["kind"], workload["metadata"]["name"]
    of = f'{kind} "{name}"'
    ask = functools.partial(_ask, cluster)
    asked = ask(workload)
    made = made_pod(asked, asked.object)
    if made is None:
        return
    pod = named(made.document)
    yield Need(ask(made.document, made.user), of)
    if kind == "Deployment":
        yield Need(ask(replica_set_of(workload, pod), controller("deployment-controller")), of)
    yield Need(asked, of)
    yield Need(ask(binding_of(pod), SCHEDULER, "binding"), of)
    yield Need(_update(cluster, running(pod), KUBELET, "status", pod), of)
    yield from (Need(review, of) for review in _of_pod(pod, backend, cluster))


def _of_pod(pod: JSONObject, backend: Backend, cluster: Cluster) -> Iterator[Review]:
    account = _object("ServiceAccount", account_name(pod), backend, cluster)
    yield _ask(cluster, account)
    yield _ask(cluster, account, KUBELET, "token")
    things = list(mounted(pod))
    if all(kind != "Secret" for kind, _ in things):
        # The server needs its certificate from somewhere, most likely from there.
        things.append(("Secret", f"{backend.name}-certificate"))
    for kind, name in things:
        yield _ask(cluster, _object(kind, name, backend, cluster))


def _object(kind: str, name: str, backend: Backend, cluster: Cluster) -> JSONObject:
    """The object as the cluster has it, or else as little as it can be."""
    found = cluster.get("", _RESOURCES[kind], name, backend.namespace) or {}
    metadata = {**mapping(found, "metadata"), "name": name, "namespace": backend.namespace}
    return {**found, "apiVersion": "v1", "kind": kind, "metadata": metadata}


def _of_node(cluster: Cluster) -> Iterator[Need]:
    """What keeps a node, and those who give it Pods, at work."""
    yield Need(_update(cluster, node(), KUBELET, "status"))
    yield Need(_update(cluster, lease("kube-node-lease", NODE), KUBELET))
    yield Need(_update(cluster, lease("kube-system", "kube-scheduler"), SCHEDULER))
    yield Need(_update(cluster, lease("kube-system", "kube-controller-manager"), CONTROLLER_MANAGER))
