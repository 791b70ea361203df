"""Where containers see the Pod's volumes: mounts and block devices.

Source: ``ValidateVolumeMounts`` and ``ValidateVolumeDevices`` of ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_found,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.registry.validation.volume_paths import validate_descending_path

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE_READ_ONLY = ("Disabled", "Enabled", "IfPossible")
_BIND_OPTIONS = ("nodev", "noexec", "nosuid")


def _paths(items: Sequence[JSONObject], field: str) -> dict[str, str]:
    return {item.get("name", ""): item.get(field, "") for item in items}


def validate_volume_mounts(
    container: JSONObject, volumes: Mapping[str, JSONObject], path: FieldPath
) -> list[FieldError]:
    """Validate the mounts of a container; errors of some fields have the path of the list."""
    errors, points = [], set()
    devices = _paths(container.get("volumeDevices") or (), "devicePath")
    for index, mount in enumerate(container["volumeMounts"]):
        place, name, point = path / index, mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(place / "name"))
        if name not in volumes:
            errors.append(not_found(place / "name", name))
        if not point:
            errors.append(required(place / "mountPath"))
        if point in points:
            errors.append(invalid(place / "mountPath", point, "must be unique"))
        points.add(point)
        if devices:
            errors += _validate_no_device(name, point, devices, place)
        if not _OPTIONAL.isdisjoint(mount):
            errors += _validate_options(mount, container, volumes.get(name), place, path)
    return errors


_OPTIONAL = frozenset({"bindMountOptions", "mountPropagation", "recursiveReadOnly", "subPath", "subPathExpr"})
"""Fields that most mounts have not."""


def _validate_options(
    mount: JSONObject, container: JSONObject, volume: JSONObject | None, place: FieldPath, path: FieldPath
) -> list[FieldError]:
    errors = _validate_sub_paths(mount, place, path)
    if (propagation := mount.get("mountPropagation")) is not None:
        errors += _validate_propagation(propagation, container, path / "mountPropagation")
    if mount.get("recursiveReadOnly") is not None:
        errors += _validate_recursive_read_only(mount, path / "recursiveReadOnly")
    if options := mount.get("bindMountOptions"):
        errors += _validate_bind_options(options, volume, place / "bindMountOptions")
    return errors


def _validate_no_device(
    name: str, point: str, devices: Mapping[str, str], path: FieldPath
) -> list[FieldError]:
    errors = []
    if name in devices:
        errors.append(invalid(path / "name", name, "must not already exist in volumeDevices"))
    if point in devices.values():
        detail = "must not already exist as a path in volumeDevices"
        errors.append(invalid(path / "mountPath", point, detail))
    return errors


def _validate_sub_paths(mount: JSONObject, place: FieldPath, path: FieldPath) -> list[FieldError]:
    sub_path, expression = mount.get("subPath", ""), mount.get("subPathExpr", "")
    errors = validate_descending_path(sub_path, path / "subPath") if sub_path else []
    if expression and sub_path:
        detail = "subPathExpr and subPath are mutually exclusive"
        errors.append(invalid(place / "subPathExpr", expression, detail))
    return errors + (validate_descending_path(expression, path / "subPathExpr") if expression else [])


def _validate_propagation(mode: str, container: JSONObject, path: FieldPath) -> list[FieldError]:
    if mode not in _PROPAGATIONS:
        return [not_supported(path, mode, _PROPAGATIONS)]
    is_privileged = (container.get("securityContext") or {}).get("privileged") is True
    if mode == "Bidirectional" and not is_privileged:
        detail = "Bidirectional mount propagation is available only to privileged containers"
        return [forbidden(path, detail)]
    return []


def _validate_recursive_read_only(mount: JSONObject, path: FieldPath) -> list[FieldError]:
    mode, errors = mount["recursiveReadOnly"], []
    if mode not in _RECURSIVE_READ_ONLY:
        return [not_supported(path, mode, _RECURSIVE_READ_ONLY)]
    if mode == "Disabled":
        return []
    if not mount.get("readOnly"):
        errors.append(forbidden(path, "may only be specified when readOnly is true"))
    if mount.get("mountPropagation") not in {None, "None"}:
        detail = "may only be specified when mountPropagation is None or not specified"
        errors.append(forbidden(path, detail))
    return errors


def _validate_bind_options(
    options: Sequence[str], volume: JSONObject | None, path: FieldPath
) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, option in enumerate(options):
        if option not in _BIND_OPTIONS:
            errors.append(not_supported(path / index, option, _BIND_OPTIONS))
        if option in seen:
            errors.append(duplicate(path / index, option))
        seen.add(option)
    if volume is not None and volume.get("image") is not None:
        detail = "bindMountOptions may not be used with image volumes"
        errors.append(invalid(path, list(options), detail))
    return errors


def validate_volume_devices(
    container: JSONObject, volumes: Mapping[str, JSONObject], path: FieldPath
) -> list[FieldError]:
    """Validate the block devices of a container."""
    errors: list[FieldError] = []
    found: set[str] = set()
    points: set[str] = set()
    mounts = _paths(container.get("volumeMounts") or (), "mountPath")
    for index, device in enumerate(container["volumeDevices"]):
        place, name, point = path / index, device.get("name", ""), device.get("devicePath", "")
        errors += _validate_device_name(name, found, volumes, place / "name")
        if not point:
            errors.append(required(place / "devicePath"))
        if point in points:
            errors.append(invalid(place / "devicePath", point, "must be unique"))
        if ".." in point.split("/"):
            errors.append(invalid(place / "devicePath", point, "can not contain backsteps ('..')"))
        else:
            points.add(point)
        if name in mounts:
            errors.append(invalid(place / "name", name, "must not already exist in volumeMounts"))
        if point in mounts.values():
            detail = "must not already exist as a path in volumeMounts"
            errors.append(invalid(place / "devicePath", point, detail))
        if name:
            found.add(name)
    return errors


def _validate_device_name(
    name: str, found: set[str], volumes: Mapping[str, JSONObject], path: FieldPath
) -> list[FieldError]:
    errors = [] if name else [required(path)]
    if name in found:
        errors.append(invalid(path, name, "must be unique"))
    volume = volumes.get(name)
    if volume is None:
        errors.append(not_found(path, name))
    elif volume.get("persistentVolumeClaim") is None and volume.get("ephemeral") is None:
        detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
        errors.append(invalid(path, name, detail))
    return errors
