"""Volumes of Pods.

Source: ``ValidateVolumes`` and ``validateVolumeSource`` of ``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

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
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.quantities import Quantity
from pratique.apimachinery.statuses import go_quoted
from pratique.registry.validation.csi_objects import validate_driver_name
from pratique.registry.validation.metadata import subdomain_name, validate_template_metadata
from pratique.registry.validation.persistent_volume_claims import validate_claim_spec
from pratique.registry.validation.pod_context import PodOptions
from pratique.registry.validation.projected_volumes import validate_downward_api, validate_projected
from pratique.registry.validation.valid_values import ValidValues
from pratique.registry.validation.volume_paths import (
    validate_descending_path,
    validate_file_defaults,
    validate_key_paths,
)
from pratique.registry.validation.volume_sources import (
    SOURCE_CHECKS,
    SourceCheck,
    is_initiator,
    requiring,
    validate_storage_os_names,
    validate_unit,
)

_SOURCES = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi",
    "glusterfs", "flocker", "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc",
    "flexVolume", "configMap", "azureFile", "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk",
    "storageos", "projected", "scaleIO", "csi", "ephemeral", "image",
)  # fmt: skip
_PLACES = {name: place for place, name in enumerate(_SOURCES)}
_MISNAMED = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Sources that errors of a second one call otherwise, as the API server does."""
_NAMED_IN_ERRORS = {"gcePersistentDisk": "persistentDisk"}
"""Sources that errors in them call otherwise."""
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
"""When an image may be pulled."""


def validate_volumes(
    volumes: Sequence[JSONObject], pod_name: str, path: FieldPath, options: PodOptions
) -> tuple[dict[str, JSONObject], list[FieldError]]:
    """Validate volumes: ``ValidateVolumes``.

    Args:
        volumes: The volumes.
        pod_name: The name of the Pod; empty if it is not known yet.
        path: The path to the list.
        options: What is allowed.

    Returns:
        The valid volumes by name, which containers may mount, and the errors.
    """
    valid: dict[str, JSONObject] = {}
    errors: list[FieldError] = []
    for index, volume in enumerate(volumes):
        place, name = path / index, volume.get("name", "")
        found = _validate_source(volume, pod_name, place, options)
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
        if pod_name and "persistentVolumeClaim" in volume:
            errors += _validate_claim(volume, volumes, pod_name, place)
    return valid, errors


def _validate_claim(
    volume: JSONObject, volumes: Sequence[JSONObject], pod_name: str, path: FieldPath
) -> list[FieldError]:
    """Refuse a claim that is made for another volume of the Pod."""
    claim = volume["persistentVolumeClaim"].get("claimName", "")
    made = {f"{pod_name}-{other.get('name', '')}" for other in volumes if other.get("ephemeral") is not None}
    if claim not in made:
        return []
    detail = "must not reference a PVC that gets created for an ephemeral volume"
    return [invalid(path / "persistentVolumeClaim" / "claimName", claim, detail)]


def _validate_source(
    volume: JSONObject, pod_name: str, path: FieldPath, options: PodOptions
) -> list[FieldError]:
    errors: list[FieldError] = []
    has_source = False
    # Volumes have one of the thirty, as a rule: those that are there are put in the API server's order.
    given = [field for field in volume if field in _PLACES]
    for name in sorted(given, key=_PLACES.__getitem__) if len(given) > 1 else given:
        source = volume[name]
        if source is None:
            continue
        if has_source:
            detail = "may not specify more than 1 volume type"
            errors.append(forbidden(path / _MISNAMED.get(name, name), detail))
        else:
            errors += _check_source(name, source, path, options)
        if name == "iscsi":
            errors += _validate_initiator_length(volume, path)
        elif name == "ephemeral" and not has_source:
            errors += _validate_name_of_claim(volume, pod_name, path)
        has_source = True
    return errors if has_source else [required(path, "must specify a volume type")]


def _check_source(name: str, source: JSONObject, path: FieldPath, options: PodOptions) -> list[FieldError]:
    place = path / _NAMED_IN_ERRORS.get(name, name)
    if name == "projected":
        return _projected(source, place, options)
    if name == "image":
        return _image(source, place, options)
    return _CHECKS[name](source, place)


_valid = ValidValues()


def _projected(source: JSONObject, path: FieldPath, options: PodOptions) -> list[FieldError]:
    """Validate a volume of several sources; that with the token is the same in all Pods."""
    key = _valid.key(source, options.token_paths_outside)
    errors = [] if key in _valid else validate_projected(source, path, options)
    if not errors:
        _valid.add(key)
    return errors


def _empty_dir(source: JSONObject, path: FieldPath) -> list[FieldError]:
    limit, mode = source.get("sizeLimit"), source.get("mode")
    errors = []
    if limit is not None and Quantity.from_json(limit).sign < 0:
        errors.append(forbidden(path / "sizeLimit", "SizeLimit field must be a valid resource quantity"))
    if mode is not None and not 0 <= mode <= 0o1777:
        detail = "must be a number between 0 and 01777 (octal), both inclusive"
        errors.append(invalid(path / "mode", mode, detail))
    return errors


def _git_repo(source: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = requiring("repository")(source, path)
    return errors + validate_descending_path(source.get("directory", ""), path / "directory")


def _named(field: str) -> SourceCheck:
    """Make the check of a ConfigMap or Secret as a volume."""

    def check(source: JSONObject, path: FieldPath) -> list[FieldError]:
        errors = [] if source.get(field) else [required(path / field)]
        errors += validate_file_defaults(source, path)
        return errors + validate_key_paths(source.get("items") or (), path / "items")

    return check


_INITIATORS = ("iqn", "eui", "naa")
_MALFORMED = "must be valid format"


def _validate_initiator(name: str, path: FieldPath) -> list[FieldError]:
    if is_initiator(name):
        return []
    starts_well = name.startswith(_INITIATORS)
    return [
        invalid(path, name, _MALFORMED if starts_well else f"{_MALFORMED} starting with iqn, eui, or naa")
    ]


def _iscsi(source: JSONObject, path: FieldPath) -> list[FieldError]:
    name, initiator = source.get("iqn", ""), source.get("initiatorName")
    errors = requiring("targetPortal")(source, path)
    errors += _validate_initiator(name, path / "iqn") if name else [required(path / "iqn")]
    errors += validate_unit(source.get("lun", 0), path / "lun")
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and source.get("secretRef") is None:
        errors.append(required(path / "secretRef"))
    return errors if initiator is None else errors + _validate_initiator(initiator, path / "initiatorname")


def _validate_initiator_length(volume: JSONObject, path: FieldPath) -> list[FieldError]:
    source, name = volume["iscsi"], volume.get("name", "")
    portal = source.get("targetPortal", "")
    if source.get("initiatorName") is None or len(f"{name}:{portal}".encode()) <= 64:
        return []
    limit = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters"
    return [invalid(path / "name", name, f"{limit} if iscsi.initiatorName is specified.")]


def _validate_secret_name(source: JSONObject, path: FieldPath) -> list[FieldError]:
    reference = source.get("secretRef")
    return [] if reference is None else requiring("name")(reference, path / "secretRef")


def _cinder(source: JSONObject, path: FieldPath) -> list[FieldError]:
    return requiring("volumeID")(source, path) + _validate_secret_name(source, path)


def _storage_os(source: JSONObject, path: FieldPath) -> list[FieldError]:
    return validate_storage_os_names(source, path) + _validate_secret_name(source, path)


def _csi(source: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = validate_driver_name(source.get("driver", ""), path / "driver")
    reference = source.get("nodePublishSecretRef")
    if reference is None:
        return errors
    name = reference.get("name", "")
    if not name:
        return [*errors, required(path / "nodePublishSecretRef" / "name")]
    return errors + [invalid(path / "name", name, message) for message in subdomain_name(name, False)]


def _ephemeral(source: JSONObject, path: FieldPath) -> list[FieldError]:
    template, place = source.get("volumeClaimTemplate"), path / "volumeClaimTemplate"
    if template is None:
        return [required(place)]
    errors = validate_template_metadata(template.get("metadata") or {}, place / "metadata")
    return errors + validate_claim_spec(template.get("spec") or {}, place / "spec")


def _validate_name_of_claim(volume: JSONObject, pod_name: str, path: FieldPath) -> list[FieldError]:
    name = volume.get("name", "")
    if not pod_name or not name:
        return []
    claim = f"{pod_name}-{name}"
    return [
        invalid(path / "name", name, f"PVC name {go_quoted(claim)}: {message}")
        for message in subdomain_name(claim, False)
    ]


def _image(source: JSONObject, path: FieldPath, options: PodOptions) -> list[FieldError]:
    errors = (
        [] if source.get("reference") or options.empty_image_references else [required(path / "reference")]
    )
    return errors + validate_pull_policy(source.get("pullPolicy", ""), path / "pullPolicy")


def validate_pull_policy(policy: str, path: FieldPath) -> list[FieldError]:
    """Validate when an image is pulled."""
    if policy in PULL_POLICIES:
        return []
    return [not_supported(path, policy, PULL_POLICIES) if policy else required(path)]


_CHECKS: Mapping[str, SourceCheck] = {
    **SOURCE_CHECKS,
    "emptyDir": _empty_dir,
    "gitRepo": _git_repo,
    "secret": _named("secretName"),
    "configMap": _named("name"),
    "downwardAPI": validate_downward_api,
    "persistentVolumeClaim": requiring("claimName"),
    "iscsi": _iscsi,
    "cinder": _cinder,
    "storageos": _storage_os,
    "csi": _csi,
    "ephemeral": _ephemeral,
}
"""The checks of sources that need nothing but the source."""
