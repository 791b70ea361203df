"""A family for NodeRestriction: what a node's kubelet may do, and what it may not."""

from __future__ import annotations

import copy
import dataclasses
from random import Random

from differential.drawn_pods import pod_spec
from differential.pairs import (
    CLAIMS,
    CONFIG_MAPS,
    CSI_NODES,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCES,
    SECRETS,
    SERVICE_ACCOUNTS,
    USUAL,
    Request,
    Setup,
    User,
    World,
    made,
)
from pratique.apimachinery.json_values import JSONObject
from support.webhook_servers import WebhookServer

_LABELS = (
    "node-restriction.kubernetes.io/team",
    "kubernetes.io/hostname",
    "kubernetes.io/other",
    "node.kubernetes.io/instance-type",
    "kubelet.kubernetes.io/any",
    "example.com/free",
    "topology.kubernetes.io/zone",
)
_LEASED = "kube-node-lease"


@dataclasses.dataclass(frozen=True, slots=True)
class NodeUsers:
    """Requests of ``system:node:n0``, for itself and for others."""

    name: str = "NodeRestriction"
    requests: int = 80
    setup: Setup = USUAL

    def world(self, random: Random, suffix: str, _server: WebhookServer) -> World:
        """Draw nodes, and Pods that run on them."""
        namespace = f"w{suffix}"
        objects = [made(NAMESPACES, namespace), made(SERVICE_ACCOUNTS, "default", namespace)]
        objects += [_node(random, "n0"), _node(random, "n1")]
        for name, node in (("mine", "n0"), ("other", "n1"), ("unbound", "")):
            spec: JSONObject = {"containers": [{"name": "c", "image": "a"}], "serviceAccountName": "default"}
            if node:
                spec["nodeName"] = node
            metadata = {"annotations": {"kubernetes.io/config.mirror": "x"}} if random.random() < 0.3 else {}
            objects.append(made(PODS, name, namespace, spec=spec, metadata=metadata))
        objects.append(made(CSI_NODES, "n1", spec={"drivers": []}))
        objects.append(made(NAMESPACES, _LEASED))
        objects.append(made(LEASES, "n1", _LEASED, spec={"holderIdentity": "n1"}))
        return World(tuple(objects), namespace)

    def request(self, random: Random, world: World) -> Request:
        """Draw a request of the node."""
        drawn = (
            _own_pod,
            _own_pod,
            _delete,
            _node_change,
            _node_change,
            _node_create,
            _lease,
            _csi,
            _token,
            _other,
        )
        return random.choice(drawn)(random, world)


def _node(random: Random, name: str) -> JSONObject:
    labels = {label: "a" for label in _LABELS if random.random() < 0.3}
    node = made(NODES, name, metadata={"labels": labels})
    if random.random() < 0.4:
        node["spec"] = {"taints": [{"key": "k", "effect": "NoSchedule"}]}
    return node


def _own_pod(random: Random, world: World) -> Request:
    """A mirror Pod, or what should have been one."""
    metadata: JSONObject = {}
    if random.random() < 0.8:
        metadata["annotations"] = {"kubernetes.io/config.mirror": "abc"}
    if random.random() < 0.7:
        owner: JSONObject = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": random.choice(("n0", "n0", "n1")),
            "uid": "u",
        }
        if random.random() < 0.5:
            owner["uid"] = _uid(world, "n0")
        if random.random() < 0.7:
            owner["controller"] = True
        if random.random() < 0.3:
            owner["blockOwnerDeletion"] = True
        metadata["ownerReferences"] = [owner] * random.choice((1, 1, 1, 2))
    plain: JSONObject = {"containers": [{"name": "c", "image": "a"}]}
    spec = pod_spec(random) if random.random() < 0.3 else plain
    for name in ("priorityClassName", "runtimeClassName"):
        spec.pop(name, None)
    spec["nodeName"] = random.choice(("n0", "n0", "n0", "n1", ""))
    body = made(PODS, f"m{random.randrange(99)}", world.namespace, spec=spec, metadata=metadata)
    return Request(User.NODE, "POST", PODS, world.namespace, body["metadata"]["name"], body)


def _uid(world: World, node: str) -> str:
    found = next(item for item in world.objects if (item["kind"], item["metadata"]["name"]) == ("Node", node))
    return str(found["metadata"].get("uid", "u"))


def _delete(random: Random, world: World) -> Request:
    name = random.choice(("mine", "other", "unbound"))
    return Request(User.NODE, "DELETE", PODS, world.namespace, name, {})


def _node_change(random: Random, world: World) -> Request:
    name = random.choice(("n0", "n0", "n0", "n1"))
    stored = next(
        item for item in world.objects if (item["kind"], item["metadata"]["name"]) == ("Node", name)
    )
    body = copy.deepcopy(stored)
    metadata = body["metadata"]
    metadata.pop("resourceVersion", None)
    labels = metadata.setdefault("labels", {})
    for label in random.sample(_LABELS, random.choice((0, 1, 2))):
        if label in labels and random.random() < 0.5:
            del labels[label]
        else:
            labels[label] = random.choice(("a", "b"))
    if random.random() < 0.2:
        body.setdefault("spec", {})["taints"] = [{"key": "other", "effect": "NoExecute"}]
    if random.random() < 0.1:
        metadata["ownerReferences"] = [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u"}]
    subresource = "status" if random.random() < 0.3 else ""
    return Request(User.NODE, "PUT", NODES, "", name, body, subresource)


def _node_create(random: Random, world: World) -> Request:
    name = f"n{random.randrange(3, 9)}"
    body = _node(random, random.choice(("n0", name)))
    if body["metadata"]["name"] != "n0" and random.random() < 0.3:
        body["spec"] = {"configSource": {"configMap": {"name": "c", "namespace": world.namespace}}}
    return Request(User.NODE, "POST", NODES, "", body["metadata"]["name"], body)


def _lease(random: Random, world: World) -> Request:
    namespace = random.choice((_LEASED, _LEASED, world.namespace))
    name = random.choice(("n0", "n1", "x"))
    spec = {"holderIdentity": random.choice(("n0", "n1"))}
    if name == "n1" and namespace == _LEASED:
        method = random.choice(("PUT", "DELETE"))
        body = made(LEASES, name, namespace, spec=spec) if method == "PUT" else {}
        return Request(User.NODE, method, LEASES, namespace, name, body)
    return Request(User.NODE, "POST", LEASES, namespace, name, made(LEASES, name, namespace, spec=spec))


def _csi(random: Random, world: World) -> Request:
    drivers = [{"name": "csi.example", "nodeID": "x", "topologyKeys": []}] if random.random() < 0.5 else []
    if random.random() < 0.5:
        body = made(CSI_NODES, "n1", spec={"drivers": drivers})
        return Request(User.NODE, "PUT", CSI_NODES, "", "n1", body)
    name = random.choice(("n0", "x"))
    return Request(User.NODE, "POST", CSI_NODES, "", name, made(CSI_NODES, name, spec={"drivers": drivers}))


def _token(random: Random, world: World) -> Request:
    spec: JSONObject = {"audiences": random.choice((["https://kubernetes.default.svc"], ["vault"], []))}
    if random.random() < 0.7:
        pod = random.choice(("mine", "other", "missing"))
        found = (item for item in world.objects if (item["kind"], item["metadata"]["name"]) == ("Pod", pod))
        uid = next((str(item["metadata"].get("uid", "")) for item in found), "")
        reference = {"apiVersion": "v1", "kind": "Pod", "name": pod}
        if random.random() < 0.8:
            reference["uid"] = uid
        spec["boundObjectRef"] = reference
    elif random.random() < 0.3:
        spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u"}
    body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
    return Request(User.NODE, "POST", SERVICE_ACCOUNTS, world.namespace, "default", body, "token")


def _other(random: Random, world: World) -> Request:
    resource, body = random.choice(
        (
            (CONFIG_MAPS, made(CONFIG_MAPS, "c", data={"a": "1"})),
            (SECRETS, made(SECRETS, "s")),
            (
                CLAIMS,
                made(
                    CLAIMS,
                    "c",
                    spec={"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                ),
            ),
        )
    )
    assert resource in RESOURCES.values()
    return Request(User.NODE, "POST", resource, world.namespace, body["metadata"]["name"], body)
