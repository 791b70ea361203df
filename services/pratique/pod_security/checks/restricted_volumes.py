"""``restrictedVolumes``: volumes come from the cluster's own objects and from drivers, from nowhere else.

Source: ``k8s.io/pod-security-admission/policy/check_restrictedVolumes.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_security.checks import host_path_volumes
from pratique.pod_security.checks.definitions import Check, Revision
from pratique.pod_security.findings import Finding, plural, quoted
from pratique.pod_security.levels import Level
from pratique.pod_security.pod_shapes import objects, text

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.pod_security.pod_shapes import PodShape

_ALLOWED = frozenset(
    {
        *("configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim"),
        *("projected", "secret"),
    }
)
_FORBIDDEN = (
    *("hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd"),
    *(
        "flexVolume",
        "cinder",
        "cephfs",
        "flocker",
        "fc",
        "azureFile",
        "vsphereVolume",
        "quobyte",
        "azureDisk",
    ),
    *("photonPersistentDisk", "portworxVolume", "scaleIO", "storageos"),
)
"""In the order in which one is named where a volume has several."""


def _find(pod: PodShape) -> Finding | None:
    bad: list[str] = []
    types: set[str] = set()
    for volume in objects(pod.spec, "volumes"):
        kind = _forbidden_type(volume)
        if kind:
            bad.append(text(volume, "name"))
            types.add(kind)
    if not bad:
        return None
    uses, what = plural("uses", bad, "use"), plural("restricted volume type", types)
    detail = f"{plural('volume', bad)} {quoted(bad)} {uses} {what} {quoted(sorted(types))}"
    return Finding("restricted volume types", detail)


def _forbidden_type(volume: JSONObject) -> str:
    """What a volume comes from that it may not; empty where there is nothing against it."""
    sources = {name for name, value in volume.items() if value is not None} - {"name"}
    # Without any, it is an emptyDir: pkg/apis/core/v1/defaults.go SetDefaults_Volume.
    if not sources or sources & _ALLOWED:
        return ""
    return next((name for name in _FORBIDDEN if name in sources), "unknown")


CHECK = Check("restrictedVolumes", Level.RESTRICTED, (Revision(0, _find, (host_path_volumes.ID,)),))
