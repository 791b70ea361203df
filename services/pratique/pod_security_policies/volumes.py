"""Volumes: the kinds of volume that a Pod may have, and what of them.

Source: ``pkg/security/podsecuritypolicy/provider.go`` ``validatePodVolumes`` and ``util/util.go`` of 1.24.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.field_errors import FieldError, FieldPath, invalid
from pratique.json_values import JSON, JSONObject, member
from pratique.pod_security_policies.security_contexts import SPEC

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pratique.pod_security_policies.security_contexts import PodSpec
    from pratique.pod_security_policies.specs import AllowedHostPath, Spec

_FIELDS = (
    "hostPath", "emptyDir", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "secret", "nfs", "iscsi",
    "glusterfs", "persistentVolumeClaim", "rbd", "flexVolume", "cinder", "cephfs", "flocker", "downwardAPI", "fc",
    "azureFile", "configMap", "vsphereVolume", "quobyte", "azureDisk", "photonPersistentDisk", "storageos",
    "projected", "portworxVolume", "scaleIO", "csi", "ephemeral",
)  # fmt: skip
"""The sources that a volume can have, in the order in which Kubernetes looks for them."""
_KINDS = dict.fromkeys(_FIELDS, "") | {"cephfs": "cephFS"}
"""What policies call a source, where it is not the name of the field."""
_ALL = "*"
_NAMELESS = frozenset({"name"})


def faults(spec: Spec, pod: PodSpec) -> Iterator[FieldError]:
    """What is wrong with the volumes of a Pod."""
    for index, volume in enumerate(pod.volumes or ()):
        path = SPEC / "volumes" / index
        field = _source(volume)
        if not field:
            name = f"unknown volume type for volume: {volume.get('name', '')}"
            yield invalid(path, "", name)
            continue
        kind = _KINDS[field] or field
        if not _allows(spec.volumes, kind, volume):
            yield invalid(path, kind, f"{kind} volumes are not allowed to be used")
        elif kind == "hostPath":
            yield from _host_path_faults(spec.allowed_host_paths, path, volume, pod)
        elif kind == "flexVolume" and spec.allowed_flex_volumes:
            drivers = [each.driver for each in spec.allowed_flex_volumes]
            where, detail = path / "driver", "Flexvolume driver is not allowed to be used"
            yield from _driver_faults(drivers, where, _driver(volume, field), detail)
        elif kind == "csi" and spec.allowed_csi_drivers:
            drivers = [each.name for each in spec.allowed_csi_drivers]
            where, detail = path / "csi" / "driver", "Inline CSI driver is not allowed to be used"
            yield from _driver_faults(drivers, where, _driver(volume, field), detail)


def _source(volume: JSONObject) -> str:
    """The field that says what a volume is; empty where that is none that policies know.

    A volume that says nothing is an empty folder: the API server writes so before it comes to admission.
    """
    found = next((field for field in _FIELDS if volume.get(field) is not None), "")
    said = {name for name, value in volume.items() if value is not None} - _NAMELESS
    return found or ("" if said else "emptyDir")


def _allows(volumes: Sequence[str], kind: str, volume: JSONObject) -> bool:
    if _ALL in volumes or kind in volumes:
        return True
    # Who may have Secrets may have the tokens that took the place of those of ServiceAccounts.
    return "secret" in volumes and kind == "projected" and _is_token(member(volume, "projected"))


def _is_token(projected: JSON) -> bool:
    """Tell whether a volume holds no more than what the ServiceAccount controller projects into Pods."""
    return all(_is_of_token(source) for source in _items(projected, "sources"))


def _is_of_token(source: JSON) -> bool:
    token, ca, downward = (
        member(source, name) for name in ("serviceAccountToken", "configMap", "downwardAPI")
    )
    if token is None and ca is None and downward is None:
        return False
    if token is not None and (member(token, "path") != "token" or member(token, "audience")):
        return False
    if ca is not None and member(ca, "name") != "kube-root-ca.crt":
        return False
    return all(
        member(item, "path") == "namespace"
        and member(item, "fieldRef", "apiVersion") in {None, "", "v1"}
        and member(item, "fieldRef", "fieldPath") == "metadata.namespace"
        for item in _items(downward, "items")
    )


def _host_path_faults(
    allowed: Sequence[AllowedHostPath], path: FieldPath, volume: JSONObject, pod: PodSpec
) -> Iterator[FieldError]:
    mounted = str(member(volume, "hostPath", "path") or "")
    matching = [each for each in allowed if _is_below(mounted, each.path_prefix)]
    if not allowed or any(not each.read_only for each in matching):
        return
    if not matching:
        yield invalid(path / "hostPath" / "pathPrefix", mounted, "is not allowed to be used")
        return
    for where, container in pod.all_containers():
        for index, mount in enumerate(container.volume_mounts or ()):
            if (mount.name or "") == volume.get("name", "") and not mount.read_only:
                at = where / "volumeMounts" / index / "readOnly"
                yield invalid(at, False, "must be read-only")


def _is_below(path: str, prefix: str) -> bool:
    """Tell whether a path is the prefix or lies below it: ``/foo`` is no prefix of ``/food``."""
    path, prefix = path.removesuffix("/"), prefix.removesuffix("/")
    return path == prefix or path.startswith(f"{prefix}/")


def _driver(volume: JSONObject, field: str) -> str:
    return str(member(volume, field, "driver") or "")


def _driver_faults(allowed: Iterable[str], path: FieldPath, driver: str, detail: str) -> Iterator[FieldError]:
    if driver not in allowed:
        yield invalid(path, driver, detail)


def _items(value: JSON, field: str) -> list[JSON]:
    items = member(value, field)
    return items if isinstance(items, list) else []
