"""PersistentVolumeClaims, and what claims and volumes have in common.

Source: ``ValidatePersistentVolumeClaim`` and ``ValidatePersistentVolumeClaimUpdate`` of
``pkg/apis/core/validation/validation.go``, and ``pkg/api/persistentvolumeclaim/util.go``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    GoLiteral,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.quantities import Quantity
from pratique.apimachinery.statuses import go_quoted
from pratique.registry.go_values import differs, internal_diff
from pratique.registry.validation.kind_validation import KindValidation
from pratique.registry.validation.metadata import (
    FIELD_IS_IMMUTABLE,
    subdomain_name,
    validate_immutable_pointer,
    validate_label_selector,
    validate_metadata,
    validate_metadata_update,
)
from pratique.registry.validation.resource_amounts import (
    is_fractional,
    validate_amount,
    validate_positive_amount,
)

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"
_ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_ALONE = "ReadWriteOncePod"
_CLASS_ANNOTATION = "volume.beta.kubernetes.io/storage-class"
VOLUME_MODES = ("Block", "Filesystem")
"""How a volume can be used: ``supportedVolumeModes``."""


def validate_access_modes(modes: Sequence[str], path: FieldPath) -> list[FieldError]:
    """Validate how a volume may be mounted."""
    errors = [not_supported(path, mode, _ACCESS_MODES) for mode in modes if mode not in _ACCESS_MODES]
    if _ALONE in modes and any(mode in _ACCESS_MODES and mode != _ALONE for mode in modes):
        errors.append(forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return errors


def validate_class_name(name: str | None, path: FieldPath) -> list[FieldError]:
    """Validate the name of a class, unless there is none or it is empty."""
    return [invalid(path, name, message) for message in names.check_dns1123_subdomain(name)] if name else []


def _create(claim: JSONObject, _: Review) -> list[FieldError]:
    return _validate(claim, None)


def _validate(claim: JSONObject, old_spec: JSONObject | None) -> list[FieldError]:
    errors = validate_metadata(claim.get("metadata") or {}, subdomain_name, _METADATA, namespaced=True)
    spec = claim.get("spec") or {}
    if old_spec is None:
        return errors + validate_claim_spec(spec, _SPEC)
    had_group = any(
        (old_spec.get(field) or {}).get("apiGroup") is not None for field in ("dataSource", "dataSourceRef")
    )
    return errors + validate_claim_spec(
        spec,
        _SPEC,
        allow_invalid_labels=bool(validate_label_selector(old_spec.get("selector"), ROOT)),
        allow_invalid_groups=had_group,
    )


def validate_claim_spec(
    spec: JSONObject,
    path: FieldPath,
    *,
    allow_invalid_labels: bool = False,
    allow_invalid_groups: bool = False,
) -> list[FieldError]:
    """Validate the spec of a claim or of a template of one: ``ValidatePersistentVolumeClaimSpec``.

    Args:
        spec: The spec.
        path: The path to it.
        allow_invalid_labels: Whether the selector may ask for labels that nothing can have, as the stored one does.
        allow_invalid_groups: Whether sources may be of groups that no API has, as the stored ones may.
    """
    modes = spec.get("accessModes") or ()
    errors = [] if modes else [required(path / "accessModes", "at least 1 access mode is required")]
    selector = spec.get("selector")
    errors += validate_label_selector(selector, path / "selector", allow_invalid_values=allow_invalid_labels)
    errors += validate_access_modes(modes, path / "accessModes")
    errors += _validate_storage(spec, (path / "resources").key("storage"))
    errors += validate_class_name(spec.get("storageClassName"), path / "storageClassName")
    mode = spec.get("volumeMode")
    if mode is not None and mode not in VOLUME_MODES:
        errors.append(not_supported(path / "volumeMode", mode, VOLUME_MODES))
    errors += _validate_sources(spec, path, allow_invalid_groups=allow_invalid_groups)
    name = "volumeAttributesClassName"
    return errors + validate_class_name(spec.get(name), path / name)


def _amount(spec: JSONObject, field: str = "requests") -> JSON:
    return ((spec.get("resources") or {}).get(field) or {}).get("storage")


def _validate_storage(spec: JSONObject, path: FieldPath) -> list[FieldError]:
    amount = _amount(spec)
    if amount is None:
        return [required(path)]
    return validate_positive_amount(amount, path) or validate_amount("storage", amount, path)


def _validate_sources(spec: JSONObject, path: FieldPath, *, allow_invalid_groups: bool) -> list[FieldError]:
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    errors = []
    for field, value in (("dataSource", source), ("dataSourceRef", reference)):
        if value is not None:
            errors += _validate_source(value, path / field, allow_invalid_groups=allow_invalid_groups)
    if source is None or reference is None:
        return errors
    # the path itself is the value that is shown, and has nothing to show
    if reference.get("namespace"):
        message = "may not be specified when dataSourceRef.namespace is specified"
        errors.append(invalid(path, GoLiteral("{}"), message))
    elif any(source.get(field) != reference.get(field) for field in ("apiGroup", "kind", "name")):
        errors.append(invalid(path, GoLiteral("{}"), "must match dataSourceRef"))
    return errors


def _validate_source(source: JSONObject, path: FieldPath, *, allow_invalid_groups: bool) -> list[FieldError]:
    errors = [required(path / field) for field in ("name", "kind") if not source.get(field)]
    group, kind = source.get("apiGroup") or "", source.get("kind", "")
    if not group and kind != "PersistentVolumeClaim":
        message = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        errors.append(invalid(path, kind, message))
    if group and not allow_invalid_groups:
        messages = names.check_dns1123_subdomain(group)
        errors += [invalid(path / "apiGroup", group, message) for message in messages]
    if namespace := source.get("namespace"):
        messages = names.check_dns1123_label(namespace)
        errors += [invalid(path / "namespace", namespace, message) for message in messages]
    return errors


def _update(claim: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    metadata, old_metadata = claim.get("metadata") or {}, old.get("metadata") or {}
    spec, old_spec = claim.get("spec") or {}, old.get("spec") or {}
    annotations, old_annotations = (found.get("annotations") or {} for found in (metadata, old_metadata))
    errors = validate_metadata_update(metadata, old_metadata, _METADATA)
    errors += _validate(claim, old_spec)
    is_upgraded = _takes_class_of_annotation(spec, annotations, old_spec, old_annotations)
    value = annotations.get(_CLASS_ANNOTATION, "")
    if not is_upgraded and value != old_annotations.get(_CLASS_ANNOTATION, ""):
        path = _METADATA / "annotations" / _CLASS_ANNOTATION
        errors.append(invalid(path, value, FIELD_IS_IMMUTABLE))
    is_bound = (claim.get("status") or {}).get("phase") == "Bound"
    compared = _with_what_may_change(spec, old_spec, is_bound=is_bound)
    before = {**old_spec, "volumeName": old_spec.get("volumeName") or spec.get("volumeName", "")}
    if is_upgraded:
        compared.pop("storageClassName", None)
    elif _takes_class_from_none(spec, old_spec, old_annotations):
        compared["storageClassName"] = None
    errors += _validate_change(compared, before)
    errors += _validate_size_update(spec, old)
    mode, old_mode = spec.get("volumeMode"), old_spec.get("volumeMode")
    errors += validate_immutable_pointer(mode, old_mode, ROOT / "volumeMode")
    return errors + _validate_attributes_class_update(spec, old)


def _takes_class_of_annotation(
    spec: JSONObject, annotations: JSONObject, old_spec: JSONObject, old_annotations: JSONObject
) -> bool:
    """Tell whether an update moves the class from the annotation into the spec."""
    name = old_annotations.get(_CLASS_ANNOTATION)
    if name is None or old_spec.get("storageClassName") is not None:
        return False
    return bool(spec.get("storageClassName") == name == annotations.get(_CLASS_ANNOTATION, name))


def _takes_class_from_none(spec: JSONObject, old_spec: JSONObject, old_annotations: JSONObject) -> bool:
    name = spec.get("storageClassName")
    if name is None or old_spec.get("storageClassName") is not None:
        return False
    return bool(old_annotations.get(_CLASS_ANNOTATION, name) == name)


def _with_what_may_change(spec: JSONObject, old: JSONObject, *, is_bound: bool) -> JSONObject:
    """The new spec with the old values of what bound claims may change."""
    resources = spec.get("resources") or {}
    requests = resources.get("requests")
    compared = dict(spec)
    if not is_bound:
        return compared
    if requests is not None:
        requests = {**requests, "storage": _amount(old) or "0"}
        compared["resources"] = {**resources, "requests": requests}
    compared["volumeAttributesClassName"] = old.get("volumeAttributesClassName")
    return compared


def _validate_change(compared: JSONObject, before: JSONObject) -> list[FieldError]:
    type_ = "core.PersistentVolumeClaimSpec"
    if not differs(type_, before, compared):
        return []
    rule = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
    return [forbidden(_SPEC, f"{rule}\n{internal_diff(type_, before, compared)}")]


def _validate_size_update(spec: JSONObject, old: JSONObject) -> list[FieldError]:
    old_spec, old_status = old.get("spec") or {}, old.get("status") or {}
    size, old_size = Quantity.from_json(_amount(spec)), Quantity.from_json(_amount(old_spec))
    stored = Quantity.from_json((old_status.get("capacity") or {}).get("storage"))
    if size.compare(old_size) >= 0 or size.compare(stored) > 0:
        return []
    path = _SPEC / "resources" / "requests" / "storage"
    return [forbidden(path, "field can not be less than status.capacity")]


def _validate_attributes_class_update(spec: JSONObject, old: JSONObject) -> list[FieldError]:
    field = "volumeAttributesClassName"
    name, old_name = spec.get(field), (old.get("spec") or {}).get(field)
    current = "status.currentVolumeAttributesClassName"
    if name or name == old_name or (old.get("status") or {}).get("currentVolumeAttributesClassName") is None:
        return []
    what = "nil" if name is None else "empty string"
    return [forbidden(_SPEC / field, f"update to {what} is forbidden when {current} is not nil")]


def _warnings(claim: JSONObject, _old: JSONObject | None, _: Review) -> Iterator[str]:
    if _CLASS_ANNOTATION in ((claim.get("metadata") or {}).get("annotations") or {}):
        advice = 'deprecated since v1.8; use "storageClassName" attribute instead'
        yield f"metadata.annotations[{_CLASS_ANNOTATION}]: {advice}"
    yield from claim_spec_warnings(claim.get("spec") or {}, _SPEC)


def claim_spec_warnings(spec: JSONObject, path: FieldPath) -> Iterator[str]:
    """Amounts that are no whole bytes: ``GetWarningsForPersistentVolumeClaimSpec``."""
    for field in ("requests", "limits"):
        amount = Quantity.from_json(_amount(spec, field))
        if is_fractional(amount):
            place = (path / "resources" / field).key("storage")
            value = go_quoted(str(amount))
            yield f"{place}: fractional byte value {value} is invalid, must be an integer"


CLAIM_VALIDATION = KindValidation(_create, _update, _warnings)
"""The validation of PersistentVolumeClaims."""
