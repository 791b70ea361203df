"""Volumes of Pods.

Source: ``ValidateVolumes`` and ``validateVolumeSource`` of ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSON, JSONObject

_SOURCES = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
_MISNAMED = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Sources that errors of a second one call otherwise, as the API server does."""
_MAX_MODE = 0o777
_MODE_MESSAGE = "must be a number between 0 and 0777 (octal), both inclusive"
_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip


def validate_volumes(
    volumes: Sequence[JSONObject], path: FieldPath
) -> tuple[dict[str, JSONObject], list[FieldError]]:
    """Validate volumes; return the valid ones by name, which containers may mount, and the errors."""
    valid: dict[str, JSONObject] = {}
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        place, name = path / index, volume.get("name", "")
        found = _validate_source(volume, place)
        if not name:
            found.append(required(place / "name"))
        else:
            found += [invalid(place / "name", name, message) for message in names.check_dns1123_label(name)]
        if name in valid:
            found.append(duplicate(place / "name", name))
        if found:
            errors += found
        else:
            valid[name] = volume
    return valid, errors


def _validate_source(volume: JSONObject, path: FieldPath) -> list[FieldError]:
    given = [name for name in _SOURCES if volume.get(name) is not None]
    if not given:
        return [required(path, "must specify a volume type")]
    first, *others = given
    check = _CHECKS.get(first)
    errors = [] if check is None else check(volume[first], path / first)
    detail = "may not specify more than 1 volume type"
    return errors + [forbidden(path / _MISNAMED.get(name, name), detail) for name in others]


def validate_descending_path(text: str, path: FieldPath) -> list[FieldError]:
    """Validate a path inside a volume: ``validateLocalDescendingPath``; an empty one is none."""
    errors = [invalid(path, text, "must be a relative path")] if text.startswith("/") else []
    return errors + _validate_no_backsteps(text, path)


def _validate_no_backsteps(text: str, path: FieldPath) -> list[FieldError]:
    return [invalid(path, text, "must not contain '..'")] if ".." in text.split("/") else []


def _validate_mode(mode: JSON, path: FieldPath) -> list[FieldError]:
    return [] if mode is None or 0 <= mode <= _MAX_MODE else [invalid(path, mode, _MODE_MESSAGE)]


def _validate_host_path(source: JSONObject, path: FieldPath) -> list[FieldError]:
    text, type_ = source.get("path", ""), source.get("type")
    if not text:
        return [required(path / "path")]
    errors = _validate_no_backsteps(text, path / "path")
    if type_ is not None and type_ not in _PATH_TYPES:
        errors.append(not_supported(path / "type", type_, _PATH_TYPES))
    return errors


def _validate_items(source: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = []
    for index, item in enumerate(source.get("items") or ()):
        place = path / "items" / index
        if not item.get("key"):
            errors.append(required(place / "key"))
        errors += _validate_relative_file(item.get("path", ""), place / "path")
        errors += _validate_mode(item.get("mode"), place / "mode")
    return errors


def _validate_relative_file(text: str, path: FieldPath) -> list[FieldError]:
    """A file of a volume, whose name may not start with two dots: ``validateLocalNonReservedPath``."""
    if not text:
        return [required(path)]
    errors = validate_descending_path(text, path)
    if text.startswith("..") and not text.startswith("../"):
        errors.append(invalid(path, text, "must not start with '..'"))
    return errors


def _named(field: str) -> Callable[[JSONObject, FieldPath], list[FieldError]]:
    """Make the check of a ConfigMap or Secret as a volume."""

    def check(source: JSONObject, path: FieldPath) -> list[FieldError]:
        errors = [] if source.get(field) else [required(path / field)]
        errors += _validate_mode(source.get("defaultMode"), path / "defaultMode")
        return errors + _validate_items(source, path)

    return check


def _requiring(*fields: str) -> Callable[[JSONObject, FieldPath], list[FieldError]]:
    def check(source: JSONObject, path: FieldPath) -> list[FieldError]:
        return [required(path / field) for field in fields if not source.get(field)]

    return check


def _validate_nfs(source: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = _requiring("server", "path")(source, path)
    if source.get("path") and not source["path"].startswith("/"):
        errors.append(invalid(path / "path", source["path"], "must be an absolute path"))
    return errors


def _validate_csi(source: JSONObject, path: FieldPath) -> list[FieldError]:
    driver = source.get("driver", "")
    if not driver:
        return [required(path / "driver")]
    messages = names.check_dns1123_subdomain(driver.lower())
    return [invalid(path / "driver", driver, message) for message in messages]


def _validate_projected(source: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = _validate_mode(source.get("defaultMode"), path / "defaultMode")
    kinds = (
        "secret",
        "configMap",
        "downwardAPI",
        "serviceAccountToken",
        "clusterTrustBundle",
        "podCertificate",
    )
    for index, projection in enumerate(source.get("sources") or ()):
        place = path / "sources" / index
        given = [name for name in kinds if projection.get(name) is not None]
        if not given:
            errors.append(required(place))
            continue
        for name in given[:1]:
            errors += _validate_projection(name, projection[name], place / name)
        detail = "may not specify more than 1 volume type per source"
        errors += [forbidden(place / name, detail) for name in given[1:]]
    return errors


def _validate_projection(name: str, projection: JSONObject, path: FieldPath) -> list[FieldError]:
    if name in {"secret", "configMap"}:
        errors = [] if projection.get("name") else [required(path / "name")]
        return errors + _validate_items(projection, path)
    if name != "serviceAccountToken":
        return []
    errors, seconds = [], projection.get("expirationSeconds", 0)
    place = path / "expirationSeconds"
    if seconds < 600:
        errors.append(invalid(place, seconds, "may not specify a duration less than 10 minutes"))
    elif seconds > 2**32:
        errors.append(invalid(place, seconds, "may not specify a duration larger than 2^32 seconds"))
    return errors + _validate_relative_file(projection.get("path", ""), path / "path")


_CHECKS: Mapping[str, Callable[[JSONObject, FieldPath], list[FieldError]]] = {
    "hostPath": _validate_host_path,
    "secret": _named("secretName"),
    "configMap": _named("name"),
    "persistentVolumeClaim": _requiring("claimName"),
    "nfs": _validate_nfs,
    "csi": _validate_csi,
    "projected": _validate_projected,
    "gitRepo": _requiring("repository"),
    "awsElasticBlockStore": _requiring("volumeID"),
    "cinder": _requiring("volumeID"),
    "flexVolume": _requiring("driver"),
    "vsphereVolume": _requiring("volumePath"),
}
