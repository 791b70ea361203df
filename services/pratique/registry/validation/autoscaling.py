"""HorizontalPodAutoscalers, in the form of ``autoscaling/v2``.

Sources: ``pkg/apis/autoscaling/validation/validation.go`` and ``validationOptionsForHorizontalPodAutoscaler`` of
``pkg/registry/autoscaling/horizontalpodautoscaler/strategy.go``.
"""

from __future__ import annotations

from collections.abc import Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.json_values import JSONObject, list_at, mapping_at
from pratique.apimachinery.quantities import Quantity
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import (
    subdomain_name,
    validate_metadata,
    validate_metadata_update,
)
from pratique.registry.validation.resource_amounts import validate_container_resource_name

_METADATA, _SPEC = ROOT / "metadata", ROOT / "spec"
_SOURCES = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
"""The types of metrics, and the fields that they use, in the order in which they are looked at."""
_TYPES = ("ContainerResource", "External", "Object", "Pods", "Resource")
_MAX_WINDOW, _MAX_PERIOD = 3600, 1800
_EITHER = "must set either a target raw value or a target utilization"
_NOT_BOTH = "may not set both a target raw value and a target utilization"


def _spec(spec: JSONObject, old: JSONObject | None = None) -> list[FieldError]:
    least, most = spec.get("minReplicas"), spec.get("maxReplicas", 0)
    errors = []
    if least is not None and least < 0:
        message = "must be greater than or equal to 0"
        errors += covered(invalid(_SPEC / "minReplicas", least, message), "minimum")
    path = _SPEC / "maxReplicas"
    if most == 0:
        errors += covered(required(path, "must be set and greater than 0"))
    elif most < 0:
        errors += covered(invalid(path, most, "must be greater than or equal to 1"), "minimum")
    if least is not None and most < least:
        errors.append(invalid(path, most, "must be greater than or equal to `minReplicas`"))
    errors += _validate_scaled(spec, old, _SPEC / "scaleTargetRef")
    metrics = spec.get("metrics") or ()
    checks_versions = not any(map(_has_invalid_version, list_at(old, "metrics")))
    for index, metric in enumerate(metrics):
        errors += _validate_metric(metric, _SPEC / "metrics" / index, checks_versions=checks_versions)
    if least == 0 and not {metric.get("type") for metric in metrics} & {"Object", "External"}:
        detail = "must specify at least one Object or External metric to support scaling to zero replicas"
        errors.append(forbidden(_SPEC / "metrics", detail))
    behavior = spec.get("behavior") or {}
    for name in ("scaleUp", "scaleDown"):
        if (rules := behavior.get(name)) is not None:
            errors += _validate_rules(rules, _SPEC / "behavior" / name)
    return errors


def _validate_scaled(spec: JSONObject, old: JSONObject | None, path: FieldPath) -> list[FieldError]:
    """Validate what is scaled; a version that is stored with its kind stays, whatever it is."""
    target, stored = mapping_at(spec, "scaleTargetRef"), mapping_at(old, "scaleTargetRef")
    stays = old is not None and all(
        target.get(name, "") == stored.get(name, "") for name in ("apiVersion", "kind")
    )
    needs_group = target.get("kind") != "ReplicationController"
    return _validate_reference(target, path, needs_group=needs_group, checks_version=not stays)


def _validate_reference(
    reference: JSONObject, path: FieldPath, *, needs_group: bool, checks_version: bool
) -> list[FieldError]:
    errors = []
    for name in ("kind", "name"):
        text = reference.get(name, "")
        if not text:
            errors += covered(required(path / name))
        errors += [invalid(path / name, text, message) for message in names.check_path_segment(text)]
    version = reference.get("apiVersion", "")
    if checks_version and (fault := _version_fault(version, needs_group=needs_group)):
        errors.append(invalid(path / "apiVersion", version, fault))
    return errors


def _version_fault(version: str, *, needs_group: bool) -> str:
    """What is wrong with a version; empty if nothing is: ``ValidateAPIVersion``."""
    group, _, _ = version.rpartition("/")
    if "/" in group:
        return f"unexpected GroupVersion string: {version}"
    return "apiVersion must specify API group" if needs_group and not group else ""


def _has_invalid_version(metric: JSONObject) -> bool:
    version = mapping_at(metric, "object", "describedObject").get("apiVersion", "")
    return metric.get("type") == "Object" and bool(_version_fault(version, needs_group=False))


def _validate_metric(metric: JSONObject, path: FieldPath, *, checks_versions: bool) -> list[FieldError]:
    type_, errors = metric.get("type", ""), []
    if not type_:
        errors.append(required(path / "type", "must specify a metric source type"))
    if type_ not in _TYPES:
        errors.append(not_supported(path / "type", type_, _TYPES))
    given = [field for field in _SOURCES.values() if metric.get(field) is not None]
    if given:
        source = metric[given[0]]
        errors += _validate_source(given[0], source, path / given[0], checks_versions=checks_versions)
    expected = _SOURCES.get(type_)
    if expected is None:
        errors.append(not_supported(path / "type", type_, _TYPES))
    elif expected not in given:
        detail = "must populate information for the given metric source"
        errors.append(required(path / expected, detail))
    if len(given) != 1:
        detail = "must populate the given metric source only"
        errors += [forbidden(path / field, detail) for field in given if field != expected]
    return errors


def _validate_source(
    field: str, source: JSONObject, path: FieldPath, *, checks_versions: bool
) -> list[FieldError]:
    target, place = source.get("target") or {}, path / "target"
    errors: list[FieldError] = []
    if field == "object":
        described, at = source.get("describedObject") or {}, path / "describedObject"
        errors += _validate_reference(described, at, needs_group=False, checks_version=checks_versions)
    if field in {"object", "external", "pods"}:
        errors += _validate_identifier(source.get("metric") or {}, path / "metric")
    else:
        errors += _validate_resource(field, source, path)
    errors += _validate_target(target, place)
    return errors + _validate_choice(field, target, place)


def _validate_choice(field: str, target: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate that a target is set by one of the values that its source may have."""
    value, average = target.get("value"), target.get("averageValue")
    if field == "pods":
        detail = "must specify a positive target averageValue"
        return [] if average is not None else [required(path / "averageValue", detail)]
    if field == "object":
        detail = "must set either a target value or averageValue"
        return [] if value is not None or average is not None else [required(path / "averageValue", detail)]
    if field == "external":
        if value is None and average is None:
            detail = "must set either a target value for metric or a per-pod target"
            return [required(path / "averageValue", detail)]
        detail = "may not set both a target value for metric and a per-pod target"
        return [forbidden(path / "value", detail)] if value is not None and average is not None else []
    utilization = target.get("averageUtilization")
    if utilization is None and average is None:
        return [required(path / "averageUtilization", _EITHER)]
    both = utilization is not None and average is not None
    return [forbidden(path / "averageValue", _NOT_BOTH)] if both else []


def _validate_identifier(metric: JSONObject, path: FieldPath) -> list[FieldError]:
    name = metric.get("name", "")
    if not name:
        return [required(path / "name", "must specify a metric name")]
    return [invalid(path / "name", name, message) for message in names.check_path_segment(name)]


def _validate_resource(field: str, source: JSONObject, path: FieldPath) -> list[FieldError]:
    name, container = source.get("name", ""), source.get("container", "")
    errors = [] if name else [required(path / "name", "must specify a resource name")]
    if field == "resource":
        return errors
    if name:
        errors += validate_container_resource_name(name, path / "name")
    if not container:
        return [*errors, required(path / "container", "must specify a container")]
    messages = names.check_dns1123_label(container)
    return errors + [invalid(path / "container", container, message) for message in messages]


def _validate_target(target: JSONObject, path: FieldPath) -> list[FieldError]:
    type_, errors = target.get("type", ""), []
    if not type_:
        errors.append(required(path / "type", "must specify a metric target type"))
    if type_ not in {"Utilization", "Value", "AverageValue"}:
        errors.append(invalid(path / "type", type_, "must be either Utilization, Value, or AverageValue"))
    for name in ("value", "averageValue"):
        amount = target.get(name)
        if amount is not None and Quantity.from_json(amount).sign != 1:
            errors.append(invalid(path / name, amount, "must be positive"))
    utilization = target.get("averageUtilization")
    if utilization is not None and utilization < 1:
        errors.append(invalid(path / "averageUtilization", utilization, "must be greater than 0"))
    return errors


def _validate_rules(rules: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = []
    window, place = rules.get("stabilizationWindowSeconds"), path / "stabilizationWindowSeconds"
    if window is not None and window < 0:
        errors.append(invalid(place, window, "must be greater than or equal to zero"))
    if window is not None and window > _MAX_WINDOW:
        errors.append(invalid(place, window, f"must be less than or equal to {_MAX_WINDOW}"))
    selected, known = rules.get("selectPolicy"), ("Disabled", "Max", "Min")
    if selected is not None and selected not in known:
        errors.append(not_supported(path / "selectPolicy", selected, known))
    policies = rules.get("policies") or ()
    if not policies:
        errors.append(required(path / "policies", "must specify at least one Policy"))
    errors += _validate_policies(policies, path / "policies")
    tolerance = rules.get("tolerance")
    if tolerance is not None and Quantity.from_json(tolerance).sign < 0:
        message = "must be greater than or equal to 0"
        errors.append(invalid(path / "tolerance", str(Quantity.from_json(tolerance)), message))
    return errors


def _validate_policies(policies: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    errors = []
    for index, policy in enumerate(policies):
        place, type_ = path / index, policy.get("type", "")
        value, period = policy.get("value", 0), policy.get("periodSeconds", 0)
        if type_ not in {"Pods", "Percent"}:
            errors.append(not_supported(place / "type", type_, ("Percent", "Pods")))
        if value <= 0:
            errors.append(invalid(place / "value", value, "must be greater than zero"))
        if period <= 0:
            errors.append(invalid(place / "periodSeconds", period, "must be greater than zero"))
        if period > _MAX_PERIOD:
            message = f"must be less than or equal to {_MAX_PERIOD}"
            errors.append(invalid(place / "periodSeconds", period, message))
    return errors


def _create(autoscaler: JSONObject, _: Review) -> list[FieldError]:
    metadata = autoscaler.get("metadata") or {}
    errors = validate_metadata(metadata, subdomain_name, _METADATA, namespaced=True)
    return errors + _spec(autoscaler.get("spec") or {})


def _update(autoscaler: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    metadata = autoscaler.get("metadata") or {}
    errors = validate_metadata_update(metadata, old.get("metadata") or {}, _METADATA)
    return errors + _spec(autoscaler.get("spec") or {}, old.get("spec") or {})


VALIDATIONS: ValidationTable = {("autoscaling", "horizontalpodautoscalers"): KindValidation(_create, _update)}
