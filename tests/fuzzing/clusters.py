"""The cluster that fuzzed reviews are about: every controller has something to look up in it."""

from __future__ import annotations

from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from support import pod_security_policies


def _named(version: str, kind: str, name: str, namespace: str = "", **members: object) -> JSONObject:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **members}


_LIMITS = {"cpu": "500m", "memory": "128Mi"}
_NAMESPACE: JSONObject = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {
        "name": "test",
        "labels": {
            "pod-security.kubernetes.io/enforce": "baseline",
            "pod-security.kubernetes.io/warn": "restricted",
        },
        "annotations": {
            "scheduler.alpha.kubernetes.io/node-selector": "disk=ssd",
            "scheduler.alpha.kubernetes.io/defaultTolerations": '[{"key": "a", "operator": "Exists"}]',
        },
    },
}
OBJECTS: list[JSONObject] = [
    _NAMESPACE,
    _named("v1", "ServiceAccount", "default", "test", secrets=[{"name": "token"}]),
    _named(
        "v1",
        "LimitRange",
        "limits",
        "test",
        spec={
            "limits": [
                {"type": "Container", "default": _LIMITS, "defaultRequest": _LIMITS, "max": {"cpu": "8"}},
                {"type": "Pod", "max": {"cpu": "16"}},
                {"type": "PersistentVolumeClaim", "min": {"storage": "1Mi"}},
            ]
        },
    ),
    _named("v1", "ResourceQuota", "quota", "test", spec={"hard": {"pods": "100", "requests.cpu": "100"}}),
    _named("scheduling.k8s.io/v1", "PriorityClass", "usual", value=100, globalDefault=True),
    _named(
        "storage.k8s.io/v1", "StorageClass", "fast", provisioner="example.com/d", allowVolumeExpansion=True
    ),
    _named("v1", "Node", "node", metadata={"name": "node", "labels": {"kubernetes.io/hostname": "node"}}),
    _named(
        "settings.k8s.io/v1alpha1",
        "PodPreset",
        "preset",
        "test",
        spec={
            "selector": {},
            "env": [{"name": "FROM", "value": "preset"}],
            "volumes": [{"name": "cache", "emptyDir": {}}],
            "volumeMounts": [{"name": "cache", "mountPath": "/cache"}],
        },
    ),
    pod_security_policies.policy("usual", volumes=["*"], requiredDropCapabilities=["NET_RAW"]),
    *pod_security_policies.roles_of({"default": "allow"}),
]


def store() -> ObjectStore:
    """A new one."""
    return ObjectStore(OBJECTS, assume_namespaces=True)
