"""Families for Pods and their nodes: bindings, resizes and other changes of Pods that run, and groups of Pods."""

from __future__ import annotations

import base64
import copy
import dataclasses
from random import Random

from differential.pairs import (
    NAMESPACES,
    NODES,
    POD_GROUPS,
    PODS,
    PRIORITY_CLASSES,
    SERVICE_ACCOUNTS,
    USUAL,
    VALIDATING_WEBHOOKS,
    Request,
    Setup,
    User,
    World,
    made,
    some,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from support.webhook_servers import WebhookServer

_FEATURES = (
    "InPlacePodLevelResourcesVerticalScaling",
    "InPlacePodVerticalScalingInitContainers",
    "InPlacePodVerticalScalingMemoryBackedVolumes",
)
_TOPOLOGY = ("topology.kubernetes.io/zone", "topology.kubernetes.io/region", "topology.kubernetes.io/other")
_USERS = (User.ADMIN, User.AUTHOR)
WITH_POD_GROUPS = Setup(
    USUAL.plugins,
    flags={"feature-gates": "GenericWorkload=true", "runtime-config": "scheduling.k8s.io/v1beta1=true"},
    gates={
        plugin: {"featureGates": {"GenericWorkload": True}} for plugin in ("PodGroupProtection", "Priority")
    },
)
_GROUPED = "scheduling.k8s.io/podgroup-protection"


@dataclasses.dataclass(frozen=True, slots=True)
class BoundPods:
    """Bindings, resizes and other updates of Pods, on nodes of all kinds."""

    name: str = "Pods on nodes"
    requests: int = 60
    setup: Setup = USUAL

    def world(self, random: Random, suffix: str, server: WebhookServer) -> World:
        """Draw nodes, and Pods with and without one; a webhook sees what becomes of bindings."""
        namespace = f"w{suffix}"
        objects = [made(NAMESPACES, namespace), made(SERVICE_ACCOUNTS, "default", namespace)]
        objects += [_node(random, f"m{index}-{suffix}") for index in range(3)]
        nodes = [str(item["metadata"]["name"]) for item in objects[2:]]
        for index in range(9):
            objects.append(_pod(random, f"p{index}", namespace, (*nodes, "missing")[index % 4]))
        objects += [_pod(random, f"u{index}", namespace, "") for index in range(3)]
        return World((*objects, _watching(server, suffix, namespace)), namespace)

    def request(self, random: Random, world: World) -> Request:
        """Draw a binding, a creation on a node, or a change."""
        draw = random.choice((_binding, _creation, _resize, _resize, _resize, _change))
        return draw(random, world)


@dataclasses.dataclass(frozen=True, slots=True)
class PodGroups:
    """PodGroups, where the API server has them."""

    name: str = "Pod groups"
    requests: int = 25
    setup: Setup = WITH_POD_GROUPS

    def world(self, random: Random, suffix: str, _server: WebhookServer) -> World:
        """Draw a namespace with groups to change."""
        namespace = f"w{suffix}"
        objects = [made(NAMESPACES, namespace), made(SERVICE_ACCOUNTS, "default", namespace)]
        objects += [made(PRIORITY_CLASSES, f"high-{suffix}", value=1000)]
        if random.random() < 0.5:
            objects.append(made(PRIORITY_CLASSES, f"usual-{suffix}", value=5, globalDefault=True))
        objects += [_group(random, f"g{index}", namespace) for index in range(3)]
        return World(tuple(objects), namespace)

    def request(self, random: Random, world: World) -> Request:
        """Draw a creation, an update or a deletion."""
        user = random.choice((*_USERS, User.GUEST))
        drawn = random.random()
        if drawn < 0.6:
            body = _group(random, f"n{random.randrange(99)}", world.namespace)
            if random.random() < 0.6:
                body["spec"]["priorityClassName"] = random.choice(
                    [*_names(world, "PriorityClass"), "missing"]
                )
            if random.random() < 0.2:
                body["spec"]["priority"] = random.choice((0, 5, 1000))
            return Request(user, "POST", POD_GROUPS, world.namespace, str(body["metadata"]["name"]), body)
        body = _stored(random, world, "PodGroup")
        name = str(body["metadata"]["name"])
        if drawn < 0.8:
            return Request(user, "DELETE", POD_GROUPS, world.namespace, name, {})
        body["metadata"]["labels"] = {"changed": "yes"}
        return Request(user, "PUT", POD_GROUPS, world.namespace, name, body)


def _group(random: Random, name: str, namespace: str) -> JSONObject:
    policy: JSONObject = random.choice(({"basic": {}}, {"gang": {"minCount": 2}}))
    group = made(POD_GROUPS, name, namespace, spec={"schedulingPolicy": policy})
    finalizers = some(random, 0.3, ("example.com/kept", _GROUPED))
    if finalizers:
        group["metadata"]["finalizers"] = list(finalizers)
    return group


def _node(random: Random, name: str) -> JSONObject:
    labels = {label: random.choice(("a", "b", "")) for label in some(random, 0.5, _TOPOLOGY)}
    if random.random() < 0.7:
        labels["kubernetes.io/os"] = random.choice(("linux", "linux", "linux", "windows"))
    allocatable = {"cpu": random.choice(("1", "500m", "4")), "memory": random.choice(("512Mi", "4Gi"))}
    for missing in some(random, 0.1, tuple(allocatable)):
        del allocatable[missing]
    status = {
        "allocatable": allocatable,
        "capacity": allocatable,
        "declaredFeatures": sorted(some(random, 0.5, _FEATURES)),
    }
    return made(NODES, name, metadata={"labels": labels}, status=status)


def _pod(random: Random, name: str, namespace: str, node: str) -> JSONObject:
    spec: JSONObject = {
        "containers": [_container(random, "c")],
        "serviceAccountName": "default",
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 30,
    }
    if random.random() < 0.4:
        spec["initContainers"] = [_container(random, "i")]
        if random.random() < 0.5:
            spec["initContainers"][0]["restartPolicy"] = "Always"
    if random.random() < 0.3:
        spec["volumes"] = [{"name": "v", "emptyDir": {"medium": "Memory", "sizeLimit": "64Mi"}}]
    if random.random() < 0.3:
        spec["resources"] = {"requests": {"cpu": "400m", "memory": "256Mi"}}
    if random.random() < 0.2:
        spec["overhead"] = {"cpu": "100m"}
    if node:
        spec["nodeName"] = node
    return made(
        PODS, name, namespace, spec=spec, metadata={"labels": dict(random.choice(({}, {"app": "web"})))}
    )


def _container(random: Random, name: str) -> JSONObject:
    requests = {"cpu": random.choice(("100m", "0.3")), "memory": "64Mi"}
    return {"name": name, "image": "registry.example/a:1", "resources": {"requests": requests}}


def _binding(random: Random, world: World) -> Request:
    pod = str(_stored(random, world, "Pod", "u")["metadata"]["name"])
    node = random.choice([*_names(world, "Node"), "missing"])
    target: JSONObject = {"kind": random.choice(("Node", "Node", "Node", "")), "name": node}
    body: JSONObject = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod}, "target": target}
    if random.random() < 0.3:
        body["metadata"]["labels"] = {random.choice(_TOPOLOGY): "mine", "app": "web"}
    return Request(random.choice(_USERS), "POST", PODS, world.namespace, pod, body, "binding")


def _creation(random: Random, world: World) -> Request:
    body = _pod(random, f"n{random.randrange(99)}", world.namespace, random.choice(_names(world, "Node")))
    if random.random() < 0.3:
        body["metadata"]["labels"][random.choice(_TOPOLOGY)] = "mine"
    return Request(random.choice(_USERS), "POST", PODS, world.namespace, str(body["metadata"]["name"]), body)


def _resize(random: Random, world: World) -> Request:
    body = _stored(random, world, "Pod")
    for field in ("containers", "initContainers"):
        for container in body["spec"].get(field, []):
            if random.random() < 0.5:
                _change_resources(random, container)
    if "resources" in body["spec"] and random.random() < 0.5:
        _change_resources(random, body["spec"])
    return _update(random, world, body, "resize")


def _change_resources(random: Random, holder: JSONObject) -> None:
    requests = holder["resources"]["requests"]
    if random.random() < 0.7:
        requests["cpu"] = random.choice(("100m", "0.1", "600m", "2"))
    if random.random() < 0.3:
        requests["memory"] = random.choice(("65536Ki", "128Mi", "1Gi"))


def _change(random: Random, world: World) -> Request:
    body = _stored(random, world, "Pod")
    if random.random() < 0.5:
        body["metadata"]["labels"] = {"changed": "yes"}
    if random.random() < 0.5:
        body["spec"]["containers"][0]["image"] = "registry.example/a:2"
    return _update(random, world, body, "")


def _update(random: Random, world: World, body: JSONObject, subresource: str) -> Request:
    name = str(body["metadata"]["name"])
    return Request(random.choice(_USERS), "PUT", PODS, world.namespace, name, body, subresource)


def _stored(random: Random, world: World, kind: str, prefix: str = "") -> JSONObject:
    found = [item for item in world.objects if item["kind"] == kind]
    named = [item for item in found if str(item["metadata"]["name"]).startswith(prefix)]
    body: JSONObject = copy.deepcopy(random.choice(named))
    for name in ("uid", "resourceVersion"):
        body["metadata"].pop(name, None)
    return body


def _names(world: World, kind: str) -> list[str]:
    return [str(item["metadata"]["name"]) for item in world.objects if item["kind"] == kind]


def _watching(server: WebhookServer, suffix: str, namespace: str) -> JSONObject:
    """A webhook that allows all bindings: what they are answered does not show their labels."""
    rule: JSONObject = {
        "apiGroups": [""],
        "apiVersions": ["v1"],
        "operations": ["CREATE"],
        "resources": ["pods/binding", "bindings"],
    }
    only: list[JSON] = [{"key": "kubernetes.io/metadata.name", "operator": "In", "values": [namespace]}]
    webhook = {
        "name": "watching.example.com",
        "clientConfig": {
            "url": f"{server.url}/allow",
            "caBundle": base64.b64encode(server.ca_bundle).decode(),
        },
        "rules": [rule],
        "namespaceSelector": {"matchExpressions": only},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return made(VALIDATING_WEBHOOKS, f"watching-{suffix}", webhooks=[webhook])
