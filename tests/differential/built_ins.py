"""Families for built-in controllers: creations, and updates and deletions of what is there."""

from __future__ import annotations

import copy
import dataclasses
from random import Random

from differential.drawn_pods import pod_metadata, pod_spec
from differential.pairs import (
    CLAIMS,
    CONFIG_MAPS,
    CRON_JOBS,
    DAEMON_SETS,
    DEPLOYMENTS,
    INGRESS_CLASSES,
    INGRESSES,
    JOBS,
    LIMIT_RANGES,
    NAMESPACES,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RESOURCE_QUOTAS,
    RESOURCES,
    RUNTIME_CLASSES,
    SECRETS,
    SERVICE_ACCOUNTS,
    SERVICES,
    STATEFUL_SETS,
    STORAGE_CLASSES,
    USUAL,
    VOLUMES,
    Request,
    Resource,
    Setup,
    User,
    World,
    made,
    some,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from support.webhook_servers import WebhookServer

_LEVELS = ("privileged", "baseline", "restricted")
_WRITERS = (User.ADMIN, User.AUTHOR, User.AUTHOR, User.GUEST, User.SERVICE_ACCOUNT)
_TEMPLATED = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SETS, JOBS, CRON_JOBS)


@dataclasses.dataclass(frozen=True, slots=True)
class Creations:
    """Objects created in namespaces with limits, quotas, levels of Pod Security and defaults."""

    name: str = "built-in, create"
    requests: int = 120
    setup: Setup = USUAL

    def world(self, random: Random, suffix: str, _server: WebhookServer) -> World:
        """Draw a namespace, what is in it, and classes."""
        return built_in_world(random, suffix)

    def request(self, random: Random, world: World) -> Request:
        """Draw a creation."""
        drawn = random.random()
        if drawn < 0.6:
            return create(random, PODS, world.namespace, pod(random))
        if drawn < 0.75:
            return create(random, *_workload(random, world.namespace))
        return create(random, *_other(random, world.namespace))


@dataclasses.dataclass(frozen=True, slots=True)
class Changes:
    """Updates and deletions of what is there."""

    name: str = "built-in, update and delete"
    requests: int = 120
    setup: Setup = USUAL

    def world(self, random: Random, suffix: str, _server: WebhookServer) -> World:
        """Draw a world with objects to change."""
        world = built_in_world(random, suffix)
        pods = [pod(random, f"p{index}") for index in range(8)]
        for stored in pods:
            stored["spec"] = _storable(stored["spec"])
            _place(stored, world.namespace)
        others = [
            (resource, body) for resource, _, body in (_other(random, world.namespace) for _ in range(8))
        ]
        for index, (resource, body) in enumerate(others):
            _rename(body, f"o{index}-{suffix}")
            _place(body, world.namespace if resource.namespaced else "")
        # limits and quotas come last: they would refuse what is to be changed
        return dataclasses.replace(
            world, objects=(*world.objects[:1], *pods, *(body for _, body in others), *world.objects[1:])
        )

    def request(self, random: Random, world: World) -> Request:
        """Draw an update or a deletion."""
        present = [item for item in world.objects if item["kind"] not in {"LimitRange", "PriorityClass"}]
        chosen = copy.deepcopy(random.choice(present))
        resource = RESOURCES[str(chosen["apiVersion"]), str(chosen["kind"])]
        metadata = chosen["metadata"]
        assert isinstance(metadata, dict)
        name, namespace = str(metadata["name"]), str(metadata.get("namespace", ""))
        user = random.choice(_WRITERS)
        if random.random() < 0.25:
            return Request(user, "DELETE", resource, namespace, name, {})
        for stored in ("uid", "resourceVersion"):  # as in a manifest, and not as of another time
            metadata.pop(stored, None)
        _change(random, chosen)
        return Request(user, "PUT", resource, namespace, name, chosen)


def built_in_world(random: Random, suffix: str) -> World:
    """A namespace with what built-in controllers look up, and classes."""
    namespace = f"w{suffix}"
    labels = {
        f"pod-security.kubernetes.io/{mode}": random.choice(_LEVELS)
        for mode in some(random, 0.4, ("enforce", "audit", "warn"))
    }
    annotations = {}
    if random.random() < 0.3:
        annotations["scheduler.alpha.kubernetes.io/node-selector"] = random.choice(
            ("disk=ssd", "zone=a,disk=hdd")
        )
    if random.random() < 0.2:
        annotations["scheduler.alpha.kubernetes.io/defaultTolerations"] = (
            '[{"key":"dedicated","operator":"Exists","effect":"NoSchedule"}]'
        )
    objects = [made(NAMESPACES, namespace, metadata={"labels": labels, "annotations": annotations})]
    objects += [
        made(SERVICE_ACCOUNTS, "default", namespace),
        made(SERVICE_ACCOUNTS, "robot", namespace, automountServiceAccountToken=random.random() < 0.5),
        made(CLAIMS, "data", namespace, spec=_claim(random)),
        made(STORAGE_CLASSES, "fast", provisioner="example.com/fast", allowVolumeExpansion=True),
        made(STORAGE_CLASSES, "slow", provisioner="example.com/slow"),
        made(PRIORITY_CLASSES, "high", value=1000),
        made(PRIORITY_CLASSES, "low", value=-10, preemptionPolicy="Never"),
        made(RUNTIME_CLASSES, "plain", handler="plain"),
        _heavy_runtime_class(random),
        made(NODES, "n0", metadata={"labels": {"topology.kubernetes.io/zone": "a"}}),
        made(NODES, "n1"),
    ]
    if random.random() < 0.5:
        default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
        objects.append(made(STORAGE_CLASSES, "usual", provisioner="example.com/usual", metadata=default))
    if random.random() < 0.5:
        default = {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}}
        objects.append(
            made(INGRESS_CLASSES, "usual", spec={"controller": "example.com/usual"}, metadata=default)
        )
    if random.random() < 0.3:
        objects.append(made(PRIORITY_CLASSES, f"usual-{suffix}", value=5, globalDefault=True))
    if random.random() < 0.6:
        objects.append(made(LIMIT_RANGES, "limits", namespace, spec={"limits": _limits(random)}))
    if random.random() < 0.5:
        objects.append(_quota(random, namespace))
    return World(tuple(objects), namespace)


def create(random: Random, resource: Resource, namespace: str, body: JSONObject) -> Request:
    """A creation by somebody."""
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    inside = namespace if resource.namespaced else ""
    return Request(random.choice(_WRITERS), "POST", resource, inside, str(metadata["name"]), body)


def pod(random: Random, name: str = "") -> JSONObject:
    """A Pod."""
    metadata = pod_metadata(random, name or f"p{random.randrange(1000)}")
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": pod_spec(random)}


def _storable(spec: JSON) -> JSON:
    """The spec of a Pod that the API server stores without its plugins."""
    for name in ("priorityClassName", "runtimeClassName", "nodeName"):
        spec.pop(name, None)
    return {**spec, "serviceAccountName": "default"}


def _workload(random: Random, namespace: str) -> tuple[Resource, str, JSONObject]:
    resource = random.choice(_TEMPLATED)
    labels = {"app": "web"}
    spec = pod_spec(random)
    template: JSONObject = {"metadata": {"labels": labels}, "spec": spec}
    selector = {"matchLabels": labels}
    body: JSONObject
    if resource in (JOBS, CRON_JOBS):
        spec["restartPolicy"] = "Never"
        body = {"template": template}
        if resource is CRON_JOBS:
            body = {"schedule": "* * * * *", "jobTemplate": {"spec": body}}
    else:
        body = {"selector": selector, "template": template}
        if resource is STATEFUL_SETS:
            body["serviceName"] = "web"
    return resource, namespace, made(resource, f"w{random.randrange(1000)}", spec=body)


def _other(random: Random, namespace: str) -> tuple[Resource, str, JSONObject]:
    name = f"x{random.randrange(1000)}"
    drawn: tuple[tuple[Resource, JSONObject], ...] = (
        (CLAIMS, {"spec": _claim(random)}),
        (INGRESSES, {"spec": _ingress(random)}),
        (SERVICES, {"spec": _service(random)}),
        (CONFIG_MAPS, {"data": {"a": "1"}}),
        (SECRETS, {"stringData": {"a": "1"}}),
        (SERVICE_ACCOUNTS, {}),
        (VOLUMES, {"spec": _volume()}),
        (PRIORITY_CLASSES, {"value": random.choice((1, 100)), "globalDefault": random.random() < 0.3}),
        (NAMESPACES, {}),
        (RESOURCE_QUOTAS, {"spec": {"hard": {"pods": "1"}}}),
    )
    resource, members = random.choice(drawn)
    body = made(resource, name, **members)
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    if random.random() < 0.2:
        metadata["ownerReferences"] = [_owner(random)]
    if random.random() < 0.2:
        metadata["labels"] = {"app": "web"}
    if resource is NAMESPACES and random.random() < 0.5:
        metadata["labels"] = {"pod-security.kubernetes.io/enforce": random.choice((*_LEVELS, "strict"))}
    return resource, namespace, body


def _owner(random: Random) -> JSONObject:
    owner: JSONObject = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "1"}
    if random.random() < 0.7:
        owner["blockOwnerDeletion"] = random.random() < 0.7
    return owner


def _claim(random: Random) -> JSONObject:
    spec: JSONObject = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": random.choice(("1Gi", "5Gi", "20Gi"))}},
    }
    if random.random() < 0.5:
        spec["storageClassName"] = random.choice(("fast", "slow", ""))
    return spec


def _ingress(random: Random) -> JSONObject:
    spec: JSONObject = {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}
    if random.random() < 0.3:
        spec["ingressClassName"] = "usual"
    return spec


def _service(random: Random) -> JSONObject:
    spec: JSONObject = {"ports": [{"port": 80}], "selector": {"app": "web"}}
    kind = random.choice(("ClusterIP", "NodePort", "LoadBalancer"))
    if kind != "ClusterIP":
        spec["type"] = kind
    if random.random() < 0.3:
        spec["externalIPs"] = ["192.0.2.1"]
    return spec


def _volume() -> JSONObject:
    return {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "nfs": {"server": "nfs.example", "path": "/"},
    }


def _heavy_runtime_class(random: Random) -> JSONObject:
    members: JSONObject = {"handler": "heavy", "overhead": {"podFixed": {"cpu": "250m"}}}
    if random.random() < 0.5:
        members["scheduling"] = {
            "nodeSelector": {"zone": "a"},
            "tolerations": [{"key": "heavy", "operator": "Exists"}],
        }
    return made(RUNTIME_CLASSES, "heavy", **members)


def _limits(random: Random) -> list[JSON]:
    container: JSONObject = {"type": "Container"}
    if random.random() < 0.6:
        container["default"] = {"cpu": "500m", "memory": "256Mi"}
    if random.random() < 0.5:
        container["defaultRequest"] = {"cpu": "100m", "memory": "64Mi"}
    if random.random() < 0.4:
        container["max"] = {"cpu": "1", "memory": "1Gi"}
    if random.random() < 0.3:
        container["min"] = {"cpu": "60m"}
    if random.random() < 0.2:
        container["maxLimitRequestRatio"] = {"cpu": "4"}
    limits: list[JSON] = [container]
    if random.random() < 0.3:
        limits.append({"type": "Pod", "max": {"cpu": "1500m", "memory": "2Gi"}})
    if random.random() < 0.3:
        limits.append(
            {"type": "PersistentVolumeClaim", "max": {"storage": "10Gi"}, "min": {"storage": "2Gi"}}
        )
    return limits


def _quota(random: Random, namespace: str) -> JSONObject:
    amounts = {
        "pods": random.choice(("0", "10")),
        "requests.cpu": random.choice(("100m", "2")),
        "limits.memory": random.choice(("512Mi", "4Gi")),
        "services.loadbalancers": "0",
        "persistentvolumeclaims": random.choice(("1", "5")),
        "requests.storage": random.choice(("6Gi", "100Gi")),
        "count/configmaps": random.choice(("0", "10")),
        "count/deployments.apps": random.choice(("0", "10")),
    }
    hard = {name: amounts[name] for name in some(random, 0.35, tuple(amounts))} or {"pods": "1"}
    used = dict.fromkeys(hard, "0")
    return made(RESOURCE_QUOTAS, "quota", namespace, spec={"hard": hard}, status={"hard": hard, "used": used})


def _rename(body: JSONObject, name: str) -> None:
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    metadata["name"] = name


def _place(body: JSONObject, namespace: str) -> None:
    metadata = body["metadata"]
    assert isinstance(metadata, dict)
    if namespace:
        metadata["namespace"] = namespace


def _change(random: Random, body: JSONObject) -> None:
    """Change a thing or two that may be changed."""
    metadata, spec = body["metadata"], body.get("spec")
    assert isinstance(metadata, dict)
    if random.random() < 0.5:
        labels = metadata.setdefault("labels", {})
        if isinstance(labels, dict):
            labels["changed"] = random.choice(("a", "b"))
    if random.random() < 0.2:
        metadata["ownerReferences"] = [_owner(random)]
    if not isinstance(spec, dict):
        return
    containers = spec.get("containers")
    if isinstance(containers, list) and random.random() < 0.6 and isinstance(containers[0], dict):
        containers[0]["image"] = random.choice(("nginx:2", "nginx"))
    if body["kind"] == "PersistentVolumeClaim" and random.random() < 0.7:
        spec["resources"] = {"requests": {"storage": "40Gi"}}
    if body["kind"] == "Service" and random.random() < 0.5:
        spec |= _service(random)
