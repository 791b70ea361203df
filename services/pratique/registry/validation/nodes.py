"""Nodes.

Source: ``ValidateNode`` and ``ValidateNodeUpdate`` of ``pkg/apis/core/validation/validation.go``, and
``nodeWarnings`` of ``pkg/registry/core/node/strategy.go``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    duplicate,
    forbidden,
    internal,
    invalid,
    json_text,
    not_supported,
    required,
)
from pratique.apimachinery.json_reading import go_kind, syntax_error
from pratique.apimachinery.json_values import JSON, JSONObject, sorted_text
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.selectors import validate_label_name
from pratique.apimachinery.statuses import go_quoted
from pratique.registry.go_values import internal_value
from pratique.registry.validation.addresses import cidr_warnings, parse_cidr, validate_legacy_cidr
from pratique.registry.validation.core_objects import check_key
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_metadata,
    validate_metadata_update,
)
from pratique.registry.validation.resource_amounts import validate_amount

_METADATA, _SPEC, _STATUS = (ROOT / name for name in ("metadata", "spec", "status"))
_CIDRS = _SPEC / "podCIDRs"


def _create(node: JSONObject, _: Review) -> list[FieldError]:
    metadata, spec, status = (node.get(name) or {} for name in ("metadata", "spec", "status"))
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=False)
    errors += _validate_annotations(metadata.get("annotations") or {}, _METADATA / "annotations")
    errors += _validate_taints(spec.get("taints") or (), _METADATA / "taints")
    errors += _validate_resources(status)
    capacity = ((status.get("nodeInfo") or {}).get("swap") or {}).get("capacity")
    if capacity is not None and capacity <= 0:
        path = _METADATA / "nodeSwapStatus" / "capacity"
        errors.append(invalid(path, capacity, "must be greater than zero"))
    errors += _validate_declared_features(status.get("declaredFeatures") or ())
    return errors + _validate_cidrs(spec.get("podCIDRs") or [])


def validate_node_update(node: JSONObject, old: JSONObject, review: Review) -> list[FieldError]:
    """Validate an update of a Node, or of its status: ``ValidateNodeUpdate``."""
    metadata, spec, status = (node.get(name) or {} for name in ("metadata", "spec", "status"))
    old_spec = old.get("spec") or {}
    errors = _create(node, review)
    errors += validate_metadata_update(metadata, old.get("metadata") or {}, _METADATA)
    errors += _validate_resources(status)
    errors += _validate_declared_features(status.get("declaredFeatures") or ())
    errors += _validate_addresses(status.get("addresses") or ())
    errors += _validate_cidrs_update(spec.get("podCIDRs") or [], old_spec.get("podCIDRs") or [])
    errors += _validate_provider_update(spec.get("providerID", ""), old_spec.get("providerID", ""))
    errors += _validate_configuration(spec, status)
    errors += _validate_taints(spec.get("taints") or (), _METADATA / "taints")
    if spec.get("externalID", "") != old_spec.get("externalID", ""):
        errors.append(forbidden(_SPEC / "externalID", "may not be updated"))
    return errors


_TAINTS = "scheduler.alpha.kubernetes.io/taints"
_AVOIDED = "scheduler.alpha.kubernetes.io/preferAvoidPods"


def _validate_annotations(annotations: Mapping[str, str], path: FieldPath) -> list[FieldError]:
    """Validate what annotations said before fields did: ``ValidateNodeSpecificAnnotations``."""
    errors: list[FieldError] = []
    if text := annotations.get(_TAINTS):
        try:
            errors += _validate_taints(_taints_of(text), path / _TAINTS)
        except _AnnotationError as error:
            errors.append(invalid(path, _TAINTS, str(error)))
    if text := annotations.get(_AVOIDED):
        try:
            for index, controller in enumerate(_avoided_controllers(text)):
                errors += _validate_avoided(controller, path / _AVOIDED / index / "PodSignature")
        except _AnnotationError as error:
            errors.append(invalid(path / "AvoidPods", _AVOIDED, str(error)))
    return errors


def _validate_avoided(controller: JSONObject | None, path: FieldPath) -> list[FieldError]:
    """An API server panics over an owner that does not say whether it is a controller; here it is none."""
    if controller is None:
        return [required(path)]
    if _member(controller, "controller"):
        return []
    return [invalid(path / "PodController" / "Controller", False, "must point to a controller")]


class _AnnotationError(Exception):
    """An annotation cannot be decoded; the text is Go's."""


_TAINT_FIELDS = {"Key": "string", "Value": "string", "Effect": "core.TaintEffect"}


def _taints_of(text: str) -> list[JSONObject]:
    """Taints, which are of the internal type, whose fields Go finds whatever their case."""
    taints = []
    for taint in _typed(_read(text), [], "[]core.Taint"):
        found = _typed(taint, {}, "core.Taint")
        taints.append(
            {
                name.lower(): _typed(_member(found, name), "", go_type, f"Taint.{name}")
                for name, go_type in _TAINT_FIELDS.items()
            }
        )
    return taints


def _avoided_controllers(text: str) -> list[JSONObject | None]:
    """The controllers of Pods to avoid, None for what has none: ``GetAvoidPodsFromNodeAnnotations``."""
    controllers: list[JSONObject | None] = []
    at, avoided = "preferAvoidPods", _typed(_read(text), {}, "v1.AvoidPods")
    for entry in _typed(_member(avoided, at), [], "[]v1.PreferAvoidPodsEntry", f"AvoidPods.{at}"):
        pod = _typed(entry, {}, "v1.PreferAvoidPodsEntry", f"AvoidPods.{at}")
        place = f"{at}.podSignature"
        signature = _typed(
            _member(pod, "podSignature"), {}, "v1.PodSignature", f"PreferAvoidPodsEntry.{place}"
        )
        controller, place = _member(signature, "podController"), f"{place}.podController"
        if controller is not None:
            _typed(controller, {}, "v1.OwnerReference", f"PodSignature.{place}")
            _typed(_member(controller, "controller"), False, "bool", f"OwnerReference.{place}.controller")
        controllers.append(controller)
    return controllers


def _read(text: str) -> JSON:
    """Read JSON with numbers of any size, none of which counts; Go's own limit is 10,000 levels, Python's is lower."""
    if problem := syntax_error(text.encode()):
        raise _AnnotationError(problem)
    try:
        return json.loads(text, parse_int=float, parse_float=float)
    except RecursionError:
        raise _AnnotationError("exceeded max depth") from None


def _member(holder: JSONObject, name: str) -> JSON:
    """A field, whose case does not count; the last one of several."""
    return next((holder[key] for key in reversed(holder) if key.lower() == name.lower()), None)


_LONE_SURROGATE = pattern("[\ud800-\udfff]")


def _typed(value: JSON, zero: JSON, go_type: str, field: str = "") -> JSON:
    """A value of the type of ``zero``, which stands for null."""
    if value is None:
        return zero
    if type(value) is type(zero):
        return _LONE_SURROGATE.sub("\ufffd", value) if isinstance(value, str) else value
    where = f"Go struct field {field}" if field else "Go value"
    raise _AnnotationError(f"json: cannot unmarshal {go_kind(value)} into {where} of type {go_type}")


_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def _validate_taints(taints: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    """Validate taints, which errors find in the metadata: ``validateNodeTaints``."""
    errors, found = [], set()
    for index, taint in enumerate(taints):
        place, key, effect = path / index, taint.get("key", ""), taint.get("effect", "")
        errors += validate_label_name(key, place / "key")
        value = taint.get("value", "")
        if messages := names.check_label_value(value):
            errors.append(invalid(place / "value", value, ";".join(messages)))
        if not effect:
            errors.append(required(place / "effect"))
        elif effect not in _EFFECTS:
            errors.append(not_supported(place / "effect", json_text(effect), _EFFECTS))
        if (key, effect) in found:
            repeated = duplicate(place, internal_value("core.Taint", taint))
            detail = "taints must be unique by key and effect pair"
            errors.append(msgspec.structs.replace(repeated, detail=detail))
        found.add((key, effect))
    return errors


def _validate_resources(status: JSONObject) -> list[FieldError]:
    errors = []
    for field in ("capacity", "allocatable"):
        for name, amount in sorted((status.get(field) or {}).items()):
            errors += validate_amount(name, amount, _STATUS / field / name)
    return errors


_FEATURE = pattern(r"[A-Z][a-zA-Z0-9]*(/[a-zA-Z][a-zA-Z0-9]*)*")
_MAX_FEATURE = 253


def _validate_declared_features(features: Sequence[str]) -> list[FieldError]:
    errors, path = [], _STATUS / "declaredFeatures"
    for index, feature in enumerate(features):
        if message := _feature_fault(feature):
            errors.append(
                invalid(path / index, feature, f"invalid feature name {go_quoted(feature)}: {message}")
            )
        following = features[index + 1 : index + 2]
        for other in following:
            if feature == other:
                errors.append(duplicate(path / (index + 1), other))
            elif feature > other:
                errors.append(invalid(path / (index + 1), other, "list must be sorted alphabetically"))
    return errors


def _feature_fault(feature: str) -> str:
    if len(feature.encode()) > _MAX_FEATURE:
        return f"must be no more than {_MAX_FEATURE} characters"
    if _FEATURE.fullmatch(feature):
        return ""
    return (
        "must start with an UpperCamelCase segment, with subsequent segments separated by '/' "
        "(e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
    )


def _validate_cidrs(cidrs: list[str]) -> list[FieldError]:
    errors = []
    for index, cidr in enumerate(cidrs):
        errors += validate_legacy_cidr(cidr, _CIDRS / index)
    if len(cidrs) < 2:
        return errors
    parsed = [parse_cidr(cidr) for cidr in cidrs]
    families = {found[1].version for found in parsed if found is not None}
    if None in parsed:
        errors.append(internal(_CIDRS, _unreadable(parsed.index(None), cidrs)))
    if None in parsed or len(families) < 2 or len(cidrs) > 2:
        errors.append(invalid(_CIDRS, cidrs, "may specify no more than one CIDR for each IP family"))
    return errors


def _unreadable(index: int, cidrs: list[str]) -> str:
    reason = f"invalid CIDR[{index}]: <nil> (invalid CIDR address: {cidrs[index]})"
    return f"invalid PodCIDRs. failed to check with dual stack with error:{reason}"


def _validate_cidrs_update(cidrs: list[str], old: list[str]) -> list[FieldError]:
    if not old or cidrs == old:
        return []
    return [forbidden(_CIDRS, 'node updates may not change podCIDR except from "" to valid')]


def _validate_provider_update(provider: str, old: str) -> list[FieldError]:
    if not old or provider == old:
        return []
    message = "field cannot be modified once set" if provider else "field cannot be cleared once set"
    return covered(invalid(_SPEC / "providerID", None, message), "update")


def _validate_addresses(addresses: Sequence[JSONObject]) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[bytes] = set()
    for index, address in enumerate(addresses):
        text = sorted_text(address)
        if text in seen:
            shown = internal_value("core.NodeAddress", address)
            errors.append(duplicate(_STATUS / "addresses" / index, shown))
        seen.add(text)
    return errors


def _validate_configuration(spec: JSONObject, status: JSONObject) -> list[FieldError]:
    """Validate where a kubelet's configuration comes from, which only nodes have that had it before."""
    errors = []
    if (source := spec.get("configSource")) is not None:
        errors += _validate_source(source, _SPEC / "configSource", is_status=False)
    config = status.get("config") or {}
    for name in ("assigned", "active", "lastKnownGood"):
        if (source := config.get(name)) is not None:
            errors += _validate_source(source, _STATUS / "config" / name, is_status=True)
    return errors


def _validate_source(source: JSONObject, path: FieldPath, *, is_status: bool) -> list[FieldError]:
    config_map = source.get("configMap")
    if config_map is None:
        value = internal_value("*core.NodeConfigSource", source)
        return [invalid(path, value, "exactly one reference subfield must be non-nil")]
    errors, path = [], path / "configMap"
    for name in ("uid", "resourceVersion"):
        if is_status and not config_map.get(name):
            errors.append(required(path / name))
        elif not is_status and config_map.get(name):
            errors.append(forbidden(path / name, f"{name} must not be set in spec"))
    checks = (
        ("namespace", names.check_dns1123_label),
        ("name", names.check_dns1123_subdomain),
        ("kubeletConfigKey", check_key),
    )
    for field, check in checks:
        value = config_map.get(field, "")
        errors += [] if value else [required(path / field)]
        errors += [invalid(path / field, value, message) for message in (check(value) if value else ())]
    return errors


def _warnings(node: JSONObject, _old: JSONObject | None, _: Review) -> Iterator[str]:
    spec = node.get("spec") or {}
    if spec.get("configSource") is not None:
        yield "spec.configSource: the feature is removed"
    if spec.get("externalID"):
        yield "spec.externalID: this field is deprecated, and is unused by Kubernetes"
    for index, cidr in enumerate(spec.get("podCIDRs") or ()):
        yield from cidr_warnings(cidr, _CIDRS / index)


VALIDATIONS: ValidationTable = {("", "nodes"): KindValidation(_create, validate_node_update, _warnings)}
"""The validation of Nodes."""
