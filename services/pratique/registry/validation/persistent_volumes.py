"""PersistentVolumes; the module of claims is beside this one.

Source: ``ValidatePersistentVolume`` and ``ValidatePersistentVolumeUpdate`` of
``pkg/apis/core/validation/validation.go``, ``pkg/volume/validation/pv_validation.go``, and
``pkg/api/persistentvolume/util.go``.
"""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.quantities import Quantity
from pratique.registry.go_values import differs, internal_diff, internal_value
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    FIELD_IS_IMMUTABLE,
    subdomain_name,
    validate_immutable_pointer,
    validate_metadata,
)
from pratique.registry.validation.node_labels import DEPRECATED_NODE_LABELS
from pratique.registry.validation.persistent_volume_claims import (
    CLAIM_VALIDATION,
    VOLUME_MODES,
    validate_access_modes,
    validate_class_name,
)
from pratique.registry.validation.resource_amounts import go_int64, validate_positive_amount
from pratique.registry.validation.scheduling_constraints import validate_node_selector
from pratique.registry.validation.volume_sources import SOURCE_CHECKS, validate_iscsi

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"
_RECLAIM_POLICIES = ("Delete", "Recycle", "Retain")
_SOURCES = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "flocker", "nfs", "rbd", "quobyte",
    "cephfs", "iscsi", "cinder", "fc", "flexVolume", "azureFile", "vsphereVolume", "photonPersistentDisk",
    "portworxVolume", "azureDisk", "scaleIO", "local", "storageos", "csi",
)  # fmt: skip
"""All sources, in the order in which the API server looks at them."""
_SECOND_NAMES = {"cephfs": "cephFS"}
"""Sources that the errors of a second one call otherwise."""
_PATHS = {"gcePersistentDisk": "persistentDisk"}
"""Sources that their own errors call otherwise."""


def _create(volume: JSONObject, _: Review) -> list[FieldError]:
    return _validate(volume, allow_invalid_labels=False) + _validate_mount_options(volume)


def _update(volume: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    spec, old_spec = volume.get("spec") or {}, old.get("spec") or {}
    errors = _validate(volume, allow_invalid_labels=_has_invalid_labels(old_spec))
    errors += _validate_mount_options(volume)
    errors += _validate_source_update(spec, old_spec)
    mode, old_mode = spec.get("volumeMode"), old_spec.get("volumeMode")
    errors += validate_immutable_pointer(mode, old_mode, ROOT / "volumeMode")
    errors += _validate_affinity_update(spec.get("nodeAffinity"), old_spec.get("nodeAffinity"))
    attributes_class = "volumeAttributesClassName"
    if old_spec.get(attributes_class) is not None and spec.get(attributes_class) is None:
        message = "update from non-nil value to nil is forbidden"
        errors.append(forbidden(_SPEC / attributes_class, message))
    return errors


def _validate(volume: JSONObject, *, allow_invalid_labels: bool) -> list[FieldError]:
    metadata, spec = volume.get("metadata") or {}, volume.get("spec") or {}
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=False)
    errors += _validate_modes(spec, _SPEC)
    errors += _validate_capacity(spec)
    policy, path = spec.get("persistentVolumeReclaimPolicy"), _SPEC / "persistentVolumeReclaimPolicy"
    if policy and policy not in _RECLAIM_POLICIES:
        errors.append(not_supported(path, policy, _RECLAIM_POLICIES))
    errors += _validate_affinity(spec.get("nodeAffinity"), allow_invalid_labels=allow_invalid_labels)
    errors += _validate_sources(spec, metadata.get("name", ""), _SPEC)
    if policy == "Recycle" and _is_root((spec.get("hostPath") or {}).get("path", "")):
        errors.append(forbidden(path, "may not be 'recycle' for a hostPath mount of '/'"))
    errors += validate_class_name(spec.get("storageClassName"), _SPEC / "storageClassName")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported(_SPEC / "volumeMode", mode, VOLUME_MODES))
    return errors + _validate_attributes_class(spec)


_INLINE = "in the context of inline volumes"


def validate_inline_volume(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate the volume that a VolumeAttachment has in it, which CSI alone can be."""
    given = [name for name in ("claimRef", "capacity") if spec.get(name)]
    errors = [forbidden(path / name, f"may not be specified {_INLINE}") for name in given]
    if spec.get("csi") is None:
        errors.append(required(path / "csi", f"has to be specified {_INLINE}"))
    errors += _validate_modes(spec, path)
    policy = spec.get("persistentVolumeReclaimPolicy")
    if policy and policy != "Retain":
        errors.append(forbidden(path / "persistentVolumeReclaimPolicy", f"may only be Retain {_INLINE}"))
    if spec.get("nodeAffinity") is not None:
        errors.append(forbidden(path / "nodeAffinity", f"may not be specified {_INLINE}"))
    errors += _validate_sources(spec, "", path)
    if policy == "Recycle" and _is_root((spec.get("hostPath") or {}).get("path", "")):
        text = "may not be 'recycle' for a hostPath mount of '/'"
        errors.append(forbidden(path / "persistentVolumeReclaimPolicy", text))
    if spec.get("storageClassName"):
        errors.append(forbidden(path / "storageClassName", f"may not be specified {_INLINE}"))
    mode = spec.get("volumeMode")
    if mode is not None and mode != "Filesystem":
        errors.append(
            forbidden(path / "volumeMode", f"may not specify volumeMode other than Filesystem {_INLINE}")
        )
    return errors


def _validate_modes(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    modes = spec.get("accessModes") or ()
    errors = [] if modes else [required(path / "accessModes")]
    return errors + validate_access_modes(modes, path / "accessModes")


def _validate_capacity(spec: JSONObject) -> list[FieldError]:
    capacity, path = spec.get("capacity"), _SPEC / "capacity"
    errors = [] if capacity else [required(path)]
    if capacity is None or capacity.keys() != {"storage"}:
        value = internal_value("map[core.ResourceName=string]resource.Quantity", capacity)
        errors.append(not_supported(path, value, ("storage",)))
    for name, amount in sorted((capacity or {}).items()):
        whole = go_int64(Quantity.from_json(amount))
        if whole < 0:
            errors.append(invalid(path.key(name), whole, "must be a valid resource quantity"))
        errors += validate_positive_amount(amount, path.key(name))
    return errors


def _validate_affinity(affinity: JSONObject | None, *, allow_invalid_labels: bool) -> list[FieldError]:
    if affinity is None:
        return []
    path, selector = _SPEC / "nodeAffinity" / "required", affinity.get("required")
    if selector is None:
        return [required(path, "must specify required node constraints")]
    return validate_node_selector(selector, path, allow_invalid_labels=allow_invalid_labels)


def _validate_sources(spec: JSONObject, name: str, path: FieldPath) -> list[FieldError]:
    errors: list[FieldError] = []
    given = [source for source in _SOURCES if spec.get(source) is not None]
    for index, source in enumerate(given):
        if index and source != "flexVolume":
            second = path / _SECOND_NAMES.get(source, source)
            errors.append(forbidden(second, "may not specify more than 1 volume type"))
            continue
        place = path / _PATHS.get(source, source)
        if source == "iscsi":
            errors += validate_iscsi(spec[source], name, place)
        else:
            errors += SOURCE_CHECKS[source](spec[source], place)
        if source == "local" and spec.get("nodeAffinity") is None:
            errors.append(required(path / "nodeAffinity", "Local volume requires node affinity"))
    return errors if given else [required(path, "must specify a volume type")]


def _is_root(text: str) -> bool:
    return text.startswith("/") and posixpath.normpath("/" + text.lstrip("/")) == "/"


def _validate_attributes_class(spec: JSONObject) -> list[FieldError]:
    name, path = spec.get("volumeAttributesClassName"), _SPEC / "volumeAttributesClassName"
    if name is None:
        return []
    errors = validate_class_name(name, path) if name else [required(path, "an empty string is disallowed")]
    if spec.get("csi") is None:
        message = "has to be specified when using volumeAttributesClassName"
        errors.append(required(_SPEC / "csi", message))
    return errors


_MOUNT_OPTIONS = "volume.beta.kubernetes.io/mount-options"
_MOUNTABLE = frozenset(
    {
        "gcePersistentDisk", "awsElasticBlockStore", "glusterfs", "nfs", "rbd", "quobyte", "iscsi", "cinder",
        "cephfs", "azureFile", "vsphereVolume", "azureDisk", "photonPersistentDisk",
    }
)  # fmt: skip


def _validate_mount_options(volume: JSONObject) -> list[FieldError]:
    annotations = (volume.get("metadata") or {}).get("annotations") or {}
    if _MOUNT_OPTIONS not in annotations:
        return []
    spec = volume.get("spec") or {}
    if any(spec.get(source) is not None for source in _MOUNTABLE):
        return []
    path = _METADATA / "annotations" / _MOUNT_OPTIONS
    return [forbidden(path, "may not specify mount options for this volume type")]


_EXPAND_SECRET = "controllerExpandSecretRef"  # noqa: S105 - the name of a field


def _validate_source_update(spec: JSONObject, old: JSONObject) -> list[FieldError]:
    csi, old_csi = spec.get("csi"), old.get("csi")
    if csi is not None and old_csi is not None and old_csi.get(_EXPAND_SECRET) is None:
        spec = {**spec, "csi": {name: value for name, value in csi.items() if name != _EXPAND_SECRET}}
    type_ = "core.PersistentVolumeSource"
    if not differs(type_, old, spec, _SOURCES):
        return []
    message = f"spec.persistentvolumesource is immutable after creation\n{internal_diff(type_, old, spec)}"
    return [forbidden(_SPEC / "persistentvolumesource", message)]


_STABLE_LABELS = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}


def _validate_affinity_update(affinity: JSONObject | None, old: JSONObject | None) -> list[FieldError]:
    type_ = "*core.VolumeNodeAffinity"
    if old is None or affinity == old:
        return []
    if affinity is not None and not differs(type_, old, _with_old_labels(affinity, old)):
        return []
    message = f"{FIELD_IS_IMMUTABLE}, except for updating from beta label to GA"
    return [invalid(ROOT / "nodeAffinity", internal_value(type_, affinity), message)]


def _with_old_labels(affinity: JSONObject, old: JSONObject) -> JSONObject:
    """The affinity with the labels that it had before they were stable."""
    renamed = [
        {
            field: _renamed(requirements, _items(_item(_terms(old), index), field))
            if field.startswith("match")
            else requirements
            for field, requirements in term.items()
        }
        for index, term in enumerate(_terms(affinity))
    ]
    return {**affinity, "required": {**(affinity.get("required") or {}), "nodeSelectorTerms": renamed}}


def _renamed(requirements: Sequence[JSONObject], old: Sequence[JSONObject]) -> list[JSONObject]:
    # to the API server, a label that was never renamed is now called nothing
    return [
        {**requirement, "key": before.get("key", "")}
        if (before := _item(old, index))
        and _STABLE_LABELS.get(before.get("key", ""), "") == requirement.get("key", "")
        else requirement
        for index, requirement in enumerate(requirements)
    ]


def _terms(affinity: JSONObject) -> list[JSONObject]:
    return _items(affinity.get("required") or {}, "nodeSelectorTerms")


def _items(parent: JSONObject, field: str) -> list[JSONObject]:
    found: list[JSONObject] = parent.get(field) or []
    return found


def _item(items: Sequence[JSONObject], index: int) -> JSONObject:
    return items[index] if index < len(items) else {}


def _has_invalid_labels(spec: JSONObject) -> bool:
    """Tell whether a stored volume asks for labels that no node can have."""
    return any(
        names.check_label_value(value)
        for term in _terms(spec.get("nodeAffinity") or {})
        for requirement in _items(term, "matchExpressions")
        for value in requirement.get("values") or ()
    )


_DEPRECATED_ANNOTATIONS = {
    "volume.beta.kubernetes.io/storage-class": 'deprecated since v1.8; use "storageClassName" attribute instead',
    _MOUNT_OPTIONS: 'deprecated since v1.31; use "mountOptions" attribute instead',
}
_DEPRECATED_SOURCES = (
    ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
    ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
)


def _warnings(volume: JSONObject, _old: JSONObject | None, _: Review) -> Iterator[str]:
    spec = volume.get("spec") or {}
    annotations = (volume.get("metadata") or {}).get("annotations") or {}
    for key, message in _DEPRECATED_ANNOTATIONS.items():
        if key in annotations:
            yield f"metadata.annotations[{key}]: {message}"
    if spec.get("persistentVolumeReclaimPolicy") == "Recycle":
        advice = "Instead, the recommended approach is to use dynamic provisioning."
        yield f"spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. {advice}"
    path = _SPEC / "nodeAffinity" / "required" / "nodeSelectorTerms"
    for index, term in enumerate(_terms(spec.get("nodeAffinity") or {})):
        yield from _label_warnings(term, path / index)
    for source, name, message in _DEPRECATED_SOURCES:
        if spec.get(source) is not None:
            yield f"spec.{name}: {message}"


def _label_warnings(term: JSONObject, path: FieldPath) -> Iterator[str]:
    for index, requirement in enumerate(_items(term, "matchExpressions")):
        key = requirement.get("key", "")
        if key in DEPRECATED_NODE_LABELS:
            place = path / "matchExpressions" / index / "key"
            yield f"{place}: {key} is {DEPRECATED_NODE_LABELS[key]}"


VALIDATIONS: ValidationTable = {
    ("", "persistentvolumeclaims"): CLAIM_VALIDATION,
    ("", "persistentvolumes"): KindValidation(_create, _update, _warnings),
}
"""The validation of PersistentVolumes and of claims on them."""
