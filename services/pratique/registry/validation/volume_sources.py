"""Where volumes come from: what the sources of PersistentVolumes have to say.

Source: ``validate…VolumeSource`` and ``validate…PersistentVolumeSource`` of
``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TypeAlias

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import FieldError, FieldPath, invalid, not_supported, required
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.registry.validation.csi_objects import validate_driver_name
from pratique.registry.validation.volume_paths import validate_no_backsteps

SourceCheck: TypeAlias = Callable[[JSONObject, FieldPath], list[FieldError]]
"""Validates a source of a volume at a path."""

_PATH_TYPES = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip


def requiring(*fields: str) -> SourceCheck:
    """Make the check that fields are given."""

    def check(source: JSONObject, path: FieldPath) -> list[FieldError]:
        return [required(path / field) for field in fields if not source.get(field)]

    return check


def _validate_label(name: str, path: FieldPath) -> list[FieldError]:
    return [invalid(path, name, message) for message in names.check_dns1123_label(name)]


def _validate_reference(source: JSONObject, path: FieldPath, *fields: str) -> list[FieldError]:
    """Require fields of the reference to a Secret, if there is one."""
    reference = source.get("secretRef")
    return [] if reference is None else requiring(*fields)(reference, path / "secretRef")


def _host_path(source: JSONObject, path: FieldPath) -> list[FieldError]:
    text, type_ = source.get("path", ""), source.get("type")
    if not text:
        return [required(path / "path")]
    errors = validate_no_backsteps(text, path / "path")
    if type_ is not None and type_ not in _PATH_TYPES:
        errors.append(not_supported(path / "type", type_, _PATH_TYPES))
    return errors


def _local(source: JSONObject, path: FieldPath) -> list[FieldError]:
    text = source.get("path", "")
    return validate_no_backsteps(text, path / "path") if text else [required(path / "path")]


def _with_partition(field: str) -> SourceCheck:
    """Make the check of a disk that has partitions."""
    check_name = requiring(field)

    def check(source: JSONObject, path: FieldPath) -> list[FieldError]:
        errors, partition = check_name(source, path), source.get("partition", 0)
        if not 0 <= partition <= 255:
            errors.append(invalid(path / "partition", partition, "must be between 1 and 255, inclusive"))
        return errors

    return check


def _glusterfs(source: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = requiring("endpoints", "path")(source, path)
    namespace, place = source.get("endpointsNamespace"), path / "endpointsNamespace"
    if namespace == "":
        message = "if the endpointnamespace is set, it must be a valid namespace name"
        errors.append(invalid(place, namespace, message))
    elif namespace is not None:
        errors += _validate_label(namespace, place)
    return errors


def _flocker(source: JSONObject, path: FieldPath) -> list[FieldError]:
    name, uuid = source.get("datasetName", ""), source.get("datasetUUID", "")
    errors = [] if name or uuid else [required(path, "one of datasetName and datasetUUID is required")]
    if name and uuid:
        message = "datasetName and datasetUUID can not be specified simultaneously"
        errors.append(invalid(path, "resource", message))
    if "/" in name:
        errors.append(invalid(path / "datasetName", name, "must not contain '/'"))
    return errors


def _nfs(source: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = requiring("server", "path")(source, path)
    text = source.get("path", "")
    if not text.startswith("/"):
        errors.append(invalid(path / "path", text, "must be an absolute path"))
    return errors


_HOST_PORT = "must be a host:port pair or multiple pairs separated by commas"


def _quobyte(source: JSONObject, path: FieldPath) -> list[FieldError]:
    errors, registry = [], source.get("registry", "")
    if not registry:
        errors.append(required(path / "registry", _HOST_PORT))
    elif len(source.get("tenant", "").encode()) > 64:
        message = "must be a UUID and may not exceed a length of 64 characters"
        errors.append(required(path / "tenant", message))
    else:
        pairs = registry.split(",")
        errors += [
            invalid(path / "registry", registry, _HOST_PORT) for pair in pairs if not _is_host_port(pair)
        ]
    return errors + requiring("volume")(source, path)


def _is_host_port(text: str) -> bool:
    """Tell whether a text can be split as ``net.SplitHostPort`` does."""
    host, colon, port = text.rpartition(":")
    if host.startswith("["):
        inner, bracket, rest = host[1:].partition("]")
        return bool(bracket) and not rest and not set("[]") & set(inner + port)
    return bool(colon) and ":" not in host and not set("[]") & set(host + port)


_NAME_FORMATS = {
    "iqn": pattern(r"iqn\.\d{4}-\d{2}\.[0-9A-Za-z.-]+:[^,;*&$|\t\n\f\r ]+\Z", re.ASCII),
    "eui": pattern(r"\Aeui.[0-9A-Za-z]{16}\Z"),
    "naa": pattern(r"\Anaa.[0-9A-Za-z]{32}\Z"),
}
_MALFORMED = "must be valid format"


def is_initiator(name: str) -> bool:
    """Tell whether a name is one of iSCSI, in one of its formats."""
    pattern = _NAME_FORMATS.get(name[:3])
    return pattern is not None and pattern.search(name) is not None


def validate_iscsi(source: JSONObject, volume_name: str, path: FieldPath) -> list[FieldError]:
    """Validate iSCSI of a PersistentVolume of some name: ``validateISCSIPersistentVolumeSource``."""
    errors = requiring("targetPortal")(source, path)
    portal, initiator = source.get("targetPortal", ""), source.get("initiatorName")
    if initiator is not None and len(f"{volume_name}:{portal}".encode()) > 64:
        message = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters"
        detail = f"{message} if iscsi.initiatorName is specified."
        errors.append(invalid(path / "targetportal", portal, detail))
    name = source.get("iqn", "")
    if not name:
        errors.append(required(path / "iqn"))
    elif not is_initiator(name):
        errors.append(invalid(path / "iqn", name, _MALFORMED))
    errors += validate_unit(source.get("lun", 0), path / "lun")
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.append(required(path / "secretRef"))
    errors += _validate_reference(source, path, "name")
    if initiator is not None and not is_initiator(initiator):
        errors.append(invalid(path / "initiatorname", initiator, _MALFORMED))
    return errors


def validate_unit(number: int, path: FieldPath) -> list[FieldError]:
    """Validate the number of a logical unit."""
    return [] if 0 <= number <= 255 else [invalid(path, number, "must be between 0 and 255, inclusive")]


def _fibre_channel(source: JSONObject, path: FieldPath) -> list[FieldError]:
    targets, ids, unit = source.get("targetWWNs") or [], source.get("wwids") or [], source.get("lun")
    place, errors = path / "targetWWNs", []
    if not targets and not ids:
        errors.append(required(place, "must specify either targetWWNs or wwids, but not both"))
    if targets and ids:
        errors.append(invalid(place, targets, "targetWWNs and wwids can not be specified simultaneously"))
    if targets and unit is None:
        errors.append(required(path / "lun", "lun is required if targetWWNs is specified"))
    elif targets and unit is not None:
        errors += validate_unit(unit, path / "lun")
    return errors


def _cinder(source: JSONObject, path: FieldPath) -> list[FieldError]:
    return requiring("volumeID")(source, path) + _validate_reference(source, path, "name", "namespace")


def _flex_volume(source: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = requiring("driver")(source, path)
    for option in sorted(source.get("options") or ()):
        domain = "." + option.partition("/")[0].lower()
        if domain.endswith((".kubernetes.io", ".k8s.io")):
            message = "kubernetes.io and k8s.io namespaces are reserved"
            errors.append(invalid((path / "options").key(option), option, message))
    return errors


def _azure_file(source: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = requiring("secretName", "shareName")(source, path)
    return [*errors, required(path / "secretNamespace")] if source.get("secretNamespace") == "" else errors


_CACHING_MODES = ("None", "ReadOnly", "ReadWrite")
_DISK_KINDS = ("Dedicated", "Managed", "Shared")
_DISK_URIS = {
    True: "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
    False: "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd",
}
"""What the address of a disk looks like, by whether it is managed."""


def _azure_disk(source: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = requiring("diskName", "diskURI")(source, path)
    for field, known in (("cachingMode", _CACHING_MODES), ("kind", _DISK_KINDS)):
        if (value := source.get(field)) is not None and value not in known:
            errors.append(not_supported(path / field, value, known))
    kind, uri = source.get("kind"), source.get("diskURI", "")
    is_managed = kind == "Managed"
    if kind is not None and not uri.startswith("/subscriptions/" if is_managed else "https://"):
        errors.append(not_supported(path / "diskURI", uri, (_DISK_URIS[is_managed],)))
    return errors


def validate_storage_os_names(source: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate the names of a StorageOS volume and of its namespace."""
    errors, name = [], source.get("volumeName", "")
    errors += _validate_label(name, path / "volumeName") if name else [required(path / "volumeName")]
    if namespace := source.get("volumeNamespace"):
        errors += _validate_label(namespace, path / "volumeNamespace")
    return errors


def _storage_os(source: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = validate_storage_os_names(source, path)
    return errors + _validate_reference(source, path, "name", "namespace")


_CSI_SECRETS = (
    "controllerPublishSecretRef",
    "controllerExpandSecretRef",
    "nodePublishSecretRef",
    "nodeExpandSecretRef",
)


def _csi(source: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = validate_driver_name(source.get("driver", ""), path / "driver")
    errors += requiring("volumeHandle")(source, path)
    for field in _CSI_SECRETS:
        if (reference := source.get(field)) is not None:
            errors += _validate_secret_reference(reference, path / field)
    return errors


def _validate_secret_reference(reference: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = []
    checks = (("name", names.check_dns1123_subdomain), ("namespace", names.check_dns1123_label))
    for field, check in checks:
        value = reference.get(field, "")
        errors += [] if value else [required(path / field)]
        errors += [invalid(path / field, value, message) for message in (check(value) if value else ())]
    return errors


SOURCE_CHECKS: Mapping[str, SourceCheck] = {
    "hostPath": _host_path,
    "gcePersistentDisk": _with_partition("pdName"),
    "awsElasticBlockStore": _with_partition("volumeID"),
    "glusterfs": _glusterfs,
    "flocker": _flocker,
    "nfs": _nfs,
    "rbd": requiring("monitors", "image"),
    "quobyte": _quobyte,
    "cephfs": requiring("monitors"),
    "cinder": _cinder,
    "fc": _fibre_channel,
    "flexVolume": _flex_volume,
    "azureFile": _azure_file,
    "vsphereVolume": requiring("volumePath"),
    "photonPersistentDisk": requiring("pdID"),
    "portworxVolume": requiring("volumeID"),
    "azureDisk": _azure_disk,
    "scaleIO": requiring("gateway", "system", "volumeName"),
    "local": _local,
    "storageos": _storage_os,
    "csi": _csi,
}
"""The checks of all sources of PersistentVolumes but iSCSI, which has to do with the volume's name."""
