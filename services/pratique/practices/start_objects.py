"""Start objects: what has to be written to a cluster before a server runs in it, and by whom.

Sources: ``pkg/controller/deployment/sync.go`` (ReplicaSets), ``pkg/controller/endpoint`` and
``…/endpointslice`` (endpoints), ``pkg/scheduler`` (bindings), ``pkg/kubelet`` (status, tokens, Leases).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.pod_templates.workloads import items, mapping
from pratique.reviews import UserInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.json_values import JSON, JSONObject
    from pratique.practices.backends import Backend

NODE = "node"
"""The node that everything made up here runs on."""
KUBELET = UserInfo(f"system:node:{NODE}", groups=("system:nodes", "system:authenticated"))
SCHEDULER = UserInfo("system:kube-scheduler", groups=("system:authenticated",))
CONTROLLER_MANAGER = UserInfo("system:kube-controller-manager", groups=("system:authenticated",))


def controller(name: str) -> UserInfo:
    """The service account by which a controller asks."""
    namespace = "kube-system"
    groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
    return UserInfo(f"system:serviceaccount:{namespace}:{name}", groups=groups)


def made_up_workload(backend: Backend, labels: JSONObject) -> JSONObject:
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
    labels, template = mapping(pod, "metadata", "labels"), mapping(deployment, "spec", "template")
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
            "template": {**template, "metadata": {**mapping(template, "metadata"), "labels": labels}},
        },
    }


def named(pod: JSONObject) -> JSONObject:
    """The Pod as it is stored, with the name that the API server draws for it."""
    metadata = pod["metadata"]
    name = metadata.get("name") or f"{metadata['generateName']}xxxxx"
    return {**pod, "metadata": {**metadata, "name": name}}


def running(pod: JSONObject) -> JSONObject:
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
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": _like(service, {}), "subsets": []}


def slice_of(service: JSONObject) -> JSONObject:
    """Where the Service is reached."""
    labels = {
        "kubernetes.io/service-name": service["metadata"]["name"],
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    }
    metadata = _like(service, labels)
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": metadata | {"name": f"{metadata['name']}-xxxxx"},
        "addressType": "IPv4",
        "endpoints": [],
    }


def _like(service: JSONObject, labels: JSONObject) -> JSONObject:
    metadata = service["metadata"]
    labels = {**mapping(service, "metadata", "labels"), **labels}
    return {"name": metadata["name"], "namespace": metadata["namespace"], "labels": labels}


def account_name(pod: JSON) -> str:
    """The ServiceAccount that a Pod runs as."""
    return str(member(pod, "spec", "serviceAccountName") or "default")


def mounted(pod: JSON) -> Iterator[tuple[str, str]]:
    """Kind and name of each Secret and ConfigMap that a Pod cannot start without."""
    for volume in items(pod, "spec", "volumes"):
        sources = [volume, *items(volume, "projected", "sources")]
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


def node() -> JSONObject:
    """A Node that can take Pods."""
    labels = {"kubernetes.io/hostname": NODE, "kubernetes.io/os": "linux"}
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": NODE, "labels": labels},
        "status": status,
    }
