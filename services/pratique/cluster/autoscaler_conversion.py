"""Converters for HorizontalPodAutoscalers, metrics included.

Source: ``pkg/apis/autoscaling/{v1,v2beta1,v2beta2,v2}/conversion.go``.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pratique.apimachinery.errors import ConversionError, InputError
from pratique.apimachinery.json_values import JSON, JSONObject, decode, go_json
from pratique.apimachinery.quantities import Quantity
from pratique.cluster.conversion_fields import (
    KindConverters,
    ObjectChange,
    VersionConverter,
    annotated,
    annotation,
    changed,
    changed_items,
    mapping,
    mappings,
    present,
    text,
    without,
)

_SOURCES = ("object", "pods", "resource", "containerResource", "external")


def nested_spec(metric: JSONObject) -> JSONObject:
    """A metric spec in v2's nested form."""
    return _each_source(metric, _NESTED_SPECS)


def flat_spec(metric: JSONObject) -> JSONObject:
    """A metric spec in the flat form of v1's annotation and v2beta1."""
    return _each_source(metric, _FLAT_SPECS)


def nested_status(metric: JSONObject) -> JSONObject:
    """A metric status in v2's nested form."""
    return _each_source(metric, _NESTED_STATUSES)


def flat_status(metric: JSONObject) -> JSONObject:
    """A metric status in the flat form of v1's annotation and v2beta1."""
    return _each_source(metric, _FLAT_STATUSES)


def cpu_utilization(metric: JSONObject, member_name: str) -> JSON:
    """The CPU utilization that a v2 metric specifies (``target``) or reports (``current``); None for other metrics."""
    if metric.get("type") != "Resource":
        return None
    resource = mapping(metric.get("resource"), "resource")
    return (
        mapping(resource.get(member_name), member_name).get("averageUtilization")
        if resource.get("name") == "cpu"
        else None
    )


def _each_source(metric: JSONObject, changes: Mapping[str, ObjectChange]) -> JSONObject:
    ordered = present(type=metric.get("type"), **{name: metric.get(name) for name in _SOURCES})
    for name, change in changes.items():
        ordered = changed(ordered, name, change)
    return ordered


def _identifier(name: JSON, selector: JSON) -> JSONObject:
    return present(name=text(name, "metricName"), selector=selector)


def _type_of_target(*, is_main: bool, main: str) -> str:
    return main if is_main else "AverageValue"


def _nested_object_spec(source: JSONObject) -> JSONObject:
    value, average = source.get("targetValue", "0"), source.get("averageValue")
    target = present(
        type=_type_of_target(is_main=average is None, main="Value"),
        # v1 cannot omit the value, and writes 0 instead.
        value=None if average is not None and _is_zero(value) else value,
        averageValue=average,
    )
    metric = _identifier(source.get("metricName"), source.get("selector"))
    return present(describedObject=source.get("target"), target=target, metric=metric)


def _flat_object_spec(source: JSONObject) -> JSONObject:
    metric, target = mapping(source.get("metric"), "metric"), mapping(source.get("target"), "target")
    return present(
        target=source.get("describedObject"),
        metricName=text(metric.get("name"), "name"),
        targetValue=_or_zero(target.get("value")),
        selector=metric.get("selector"),
        averageValue=target.get("averageValue"),
    )


def _nested_pods_spec(source: JSONObject) -> JSONObject:
    target = {"type": "AverageValue", "averageValue": _or_zero(source.get("targetAverageValue"))}
    return {"metric": _identifier(source.get("metricName"), source.get("selector")), "target": target}


def _flat_pods_spec(source: JSONObject) -> JSONObject:
    metric, target = mapping(source.get("metric"), "metric"), mapping(source.get("target"), "target")
    return present(
        metricName=text(metric.get("name"), "name"),
        targetAverageValue=_or_zero(target.get("averageValue")),
        selector=metric.get("selector"),
    )


def _nested_resource_spec(source: JSONObject) -> JSONObject:
    utilization = source.get("targetAverageUtilization")
    target = present(
        type=_type_of_target(is_main=utilization is not None, main="Utilization"),
        averageValue=source.get("targetAverageValue"),
        averageUtilization=utilization,
    )
    return present(name=source.get("name"), target=target, container=source.get("container"))


def _flat_resource_spec(source: JSONObject) -> JSONObject:
    target = mapping(source.get("target"), "target")
    return present(
        name=source.get("name"),
        targetAverageUtilization=target.get("averageUtilization"),
        targetAverageValue=target.get("averageValue"),
        container=source.get("container"),
    )


def _nested_external_spec(source: JSONObject) -> JSONObject:
    value = source.get("targetValue")
    target = present(
        type=_type_of_target(is_main=value is not None, main="Value"),
        value=value,
        averageValue=source.get("targetAverageValue"),
    )
    return {"metric": _identifier(source.get("metricName"), source.get("metricSelector")), "target": target}


def _flat_external_spec(source: JSONObject) -> JSONObject:
    metric, target = mapping(source.get("metric"), "metric"), mapping(source.get("target"), "target")
    return present(
        metricName=text(metric.get("name"), "name"),
        metricSelector=metric.get("selector"),
        targetValue=target.get("value"),
        targetAverageValue=target.get("averageValue"),
    )


def _nested_object_status(source: JSONObject) -> JSONObject:
    average = source.get("averageValue")
    value = _or_zero(source.get("currentValue")) if average is None else None
    metric = _identifier(source.get("metricName"), source.get("selector"))
    return present(
        metric=metric,
        current=present(value=value, averageValue=average),
        describedObject=source.get("target"),
    )


def _flat_object_status(source: JSONObject) -> JSONObject:
    metric, current = mapping(source.get("metric"), "metric"), mapping(source.get("current"), "current")
    return present(
        target=source.get("describedObject"),
        metricName=text(metric.get("name"), "name"),
        currentValue=_or_zero(current.get("value")),
        selector=metric.get("selector"),
        averageValue=current.get("averageValue"),
    )


def _nested_pods_status(source: JSONObject) -> JSONObject:
    current = {"averageValue": _or_zero(source.get("currentAverageValue"))}
    return {"metric": _identifier(source.get("metricName"), source.get("selector")), "current": current}


def _flat_pods_status(source: JSONObject) -> JSONObject:
    metric, current = mapping(source.get("metric"), "metric"), mapping(source.get("current"), "current")
    return present(
        metricName=text(metric.get("name"), "name"),
        currentAverageValue=_or_zero(current.get("averageValue")),
        selector=metric.get("selector"),
    )


def _nested_resource_status(source: JSONObject) -> JSONObject:
    current = present(
        averageValue=_or_zero(source.get("currentAverageValue")),
        averageUtilization=source.get("currentAverageUtilization"),
    )
    return present(name=source.get("name"), current=current, container=source.get("container"))


def _flat_resource_status(source: JSONObject) -> JSONObject:
    current = mapping(source.get("current"), "current")
    return present(
        name=source.get("name"),
        currentAverageUtilization=current.get("averageUtilization"),
        currentAverageValue=_or_zero(current.get("averageValue")),
        container=source.get("container"),
    )


def _nested_external_status(source: JSONObject) -> JSONObject:
    current = present(
        value=_or_zero(source.get("currentValue")), averageValue=source.get("currentAverageValue")
    )
    return {"metric": _identifier(source.get("metricName"), source.get("metricSelector")), "current": current}


def _flat_external_status(source: JSONObject) -> JSONObject:
    metric, current = mapping(source.get("metric"), "metric"), mapping(source.get("current"), "current")
    return present(
        metricName=text(metric.get("name"), "name"),
        metricSelector=metric.get("selector"),
        currentValue=_or_zero(current.get("value")),
        currentAverageValue=current.get("averageValue"),
    )


def _or_zero(quantity: JSON) -> JSON:
    """Go writes "0" for a missing quantity that it cannot omit."""
    return "0" if quantity is None else quantity


def _is_zero(quantity: JSON) -> bool:
    try:
        return Quantity.parse(str(quantity)).sign == 0
    except InputError:
        return False


_NESTED_SPECS = {
    "object": _nested_object_spec,
    "pods": _nested_pods_spec,
    "resource": _nested_resource_spec,
    "containerResource": _nested_resource_spec,
    "external": _nested_external_spec,
}
_FLAT_SPECS = {
    "object": _flat_object_spec,
    "pods": _flat_pods_spec,
    "resource": _flat_resource_spec,
    "containerResource": _flat_resource_spec,
    "external": _flat_external_spec,
}
_NESTED_STATUSES = {
    "object": _nested_object_status,
    "pods": _nested_pods_status,
    "resource": _nested_resource_status,
    "containerResource": _nested_resource_status,
    "external": _nested_external_status,
}
_FLAT_STATUSES = {
    "object": _flat_object_status,
    "pods": _flat_pods_status,
    "resource": _flat_resource_status,
    "containerResource": _flat_resource_status,
    "external": _flat_external_status,
}


_PREFIX = "autoscaling.alpha.kubernetes.io"
_METRICS = f"{_PREFIX}/metrics"
_CURRENT_METRICS = f"{_PREFIX}/current-metrics"
_CONDITIONS = f"{_PREFIX}/conditions"
_BEHAVIOR = f"{_PREFIX}/behavior"
_TOLERANCES = {
    "scaleDown": f"{_PREFIX}/scale-down-tolerance",
    "scaleUp": f"{_PREFIX}/scale-up-tolerance",
}
_ROUND_TRIP = (_METRICS, _BEHAVIOR, _CURRENT_METRICS, _CONDITIONS, *_TOLERANCES.values())

_DEFAULT_METRIC = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
"""The default for a v1 autoscaler without metrics."""


def _spec(autoscaler: JSONObject) -> JSONObject:
    return mapping(autoscaler.get("spec"), "spec")


def _status(autoscaler: JSONObject) -> JSONObject:
    return mapping(autoscaler.get("status"), "status")


def _unannotated(autoscaler: JSONObject) -> JSONObject:
    return annotated(autoscaler, {}, _ROUND_TRIP)


def _v1_to_shared(autoscaler: JSONObject) -> JSONObject:
    spec, status = _spec(autoscaler), _status(autoscaler)
    others = _read_annotation(autoscaler, _METRICS, nested_spec) or []
    utilization = spec.get("targetCPUUtilizationPercentage")
    metrics = others + ([_cpu_metric(utilization, "target")] if utilization is not None else [])
    new_spec = without(spec, "targetCPUUtilizationPercentage", "metrics", "behavior") | present(
        metrics=metrics or [_DEFAULT_METRIC], behavior=_read_behavior_annotation(autoscaler)
    )
    current = status.get("currentCPUUtilizationPercentage")
    current_metrics = [_cpu_metric(current, "current")] if current is not None else None
    kept = _read_annotation(autoscaler, _CURRENT_METRICS, nested_status)
    new_status = without(status, "currentCPUUtilizationPercentage", "currentMetrics", "conditions") | present(
        currentMetrics=current_metrics if kept is None else kept,
        conditions=_read_annotation(autoscaler, _CONDITIONS, dict),
    )
    converted = {**_unannotated(autoscaler), "spec": new_spec}
    return {**converted, "status": new_status} if new_status or "status" in autoscaler else converted


def _v1_from_shared(autoscaler: JSONObject) -> JSONObject:
    spec, status = _spec(autoscaler), _status(autoscaler)
    metrics = mappings(spec.get("metrics"), "metrics")
    utilizations = [cpu_utilization(metric, "target") for metric in metrics]
    current_metrics = mappings(status.get("currentMetrics"), "currentMetrics")
    others = [
        flat_spec(metric)
        for metric, utilization in zip(metrics, utilizations, strict=True)
        if utilization is None
    ]
    new_spec = without(spec, "metrics", "behavior") | present(
        targetCPUUtilizationPercentage=next(
            (utilization for utilization in utilizations if utilization is not None), None
        )
    )
    new_status = without(status, "currentMetrics", "conditions") | present(
        currentCPUUtilizationPercentage=_last_value(
            [cpu_utilization(metric, "current") for metric in current_metrics]
        )
    )
    conditions = mappings(status.get("conditions"), "conditions")
    texts = {
        _METRICS: others,
        _CURRENT_METRICS: [flat_status(metric) for metric in current_metrics],
        _BEHAVIOR: _go_behavior(spec.get("behavior")),
        _CONDITIONS: [_go_condition(condition) for condition in conditions],
    }
    added = {key: go_json(value) for key, value in texts.items() if value}
    converted = annotated({**autoscaler, "spec": new_spec}, added, _ROUND_TRIP)
    return {**converted, "status": new_status} if "status" in autoscaler else converted


def _v2beta1_to_shared(autoscaler: JSONObject) -> JSONObject:
    converted = _with_metrics(autoscaler, nested_spec, nested_status)
    behavior = _read_behavior_annotation(autoscaler)
    if behavior:
        converted = {**converted, "spec": {**_spec(converted), "behavior": behavior}}
    return _unannotated(converted)


def _v2beta1_from_shared(autoscaler: JSONObject) -> JSONObject:
    converted = _with_metrics(autoscaler, flat_spec, flat_status)
    behavior = _spec(autoscaler).get("behavior")
    added = {} if behavior is None else {_BEHAVIOR: go_json(_go_behavior(behavior))}
    return annotated(changed(converted, "spec", lambda spec: without(spec, "behavior")), added, _ROUND_TRIP)


def _with_metrics(autoscaler: JSONObject, spec: ObjectChange, status: ObjectChange) -> JSONObject:
    converted = changed(autoscaler, "spec", lambda part: changed_items(part, "metrics", spec))
    return changed(converted, "status", lambda part: changed_items(part, "currentMetrics", status))


def _v2beta2_to_shared(autoscaler: JSONObject) -> JSONObject:
    tolerances = {rules: annotation(autoscaler, key) for rules, key in _TOLERANCES.items()}
    converted = _unannotated(autoscaler)
    behavior = mapping(_spec(autoscaler).get("behavior"), "behavior")
    for rules, tolerance in tolerances.items():
        if tolerance is not None:
            behavior = {**behavior, rules: {**mapping(behavior.get(rules), rules), "tolerance": tolerance}}
    return {**converted, "spec": {**_spec(converted), "behavior": behavior}} if behavior else converted


def _v2beta2_from_shared(autoscaler: JSONObject) -> JSONObject:
    behavior = mapping(_spec(autoscaler).get("behavior"), "behavior")
    tolerances = {
        key: mapping(behavior.get(rules), rules).get("tolerance") for rules, key in _TOLERANCES.items()
    }
    for rules in _TOLERANCES:
        behavior = changed(behavior, rules, lambda scaling_rules: without(scaling_rules, "tolerance"))
    converted = changed(autoscaler, "spec", lambda spec: changed(spec, "behavior", lambda _: behavior))
    added = {key: str(value) for key, value in tolerances.items() if value is not None}
    return annotated(converted, added, _ROUND_TRIP)


def _cpu_metric(utilization: JSON, member_name: str) -> JSONObject:
    metric_value = {"averageUtilization": utilization}
    value = {"type": "Utilization", **metric_value} if member_name == "target" else metric_value
    return {"type": "Resource", "resource": {"name": "cpu", member_name: value}}


def _last_value(values: list[JSON]) -> JSON:
    return next((value for value in reversed(values) if value is not None), None)


def _read_annotation(autoscaler: JSONObject, key: str, change: ObjectChange) -> list[JSONObject] | None:
    """The items of an annotation; None if it is missing or unreadable, as in the API server."""
    try:
        kept = decode(annotation(autoscaler, key) or "null")
        return None if kept is None else [change(item) for item in mappings(kept, key)]
    except (msgspec.DecodeError, ConversionError):
        return None


_RULES = {
    "ScaleUp": "scaleUp",
    "ScaleDown": "scaleDown",
}
_RULE_FIELDS = {
    "StabilizationWindowSeconds": "stabilizationWindowSeconds",
    "SelectPolicy": "selectPolicy",
    "Policies": "policies",
    "Tolerance": "tolerance",
}
_POLICY_FIELDS = {"Type": "type", "Value": "value", "PeriodSeconds": "periodSeconds"}
"""The annotation holds Go's field names, because the API server writes its internal type there."""


def _go_behavior(behavior: JSON) -> JSONObject | None:
    if behavior is None:
        return None
    written = mapping(behavior, "behavior")
    return {go: _go_rules(written.get(name)) for go, name in _RULES.items()}


def _go_rules(rules: JSON) -> JSONObject | None:
    if rules is None:
        return None
    written: JSONObject = {go: mapping(rules, "behavior").get(name) for go, name in _RULE_FIELDS.items()}
    if written["Policies"] is not None:
        policies = mappings(written["Policies"], "policies")
        written["Policies"] = [
            {go: policy.get(name, "" if go == "Type" else 0) for go, name in _POLICY_FIELDS.items()}
            for policy in policies
        ]
    return written


def _read_behavior_annotation(autoscaler: JSONObject) -> JSONObject | None:
    try:
        kept = decode(annotation(autoscaler, _BEHAVIOR) or "null")
        return None if kept is None else _read_behavior(kept)
    except (msgspec.DecodeError, ConversionError):
        return None


def _read_behavior(behavior: JSON) -> JSONObject:
    rules = _read_go_fields(behavior, _RULES)
    return {name: _read_rules(value) for name, value in rules.items()}


def _read_rules(rules: JSON) -> JSONObject:
    return changed_items(
        _read_go_fields(rules, _RULE_FIELDS),
        "policies",
        lambda policy: _read_go_fields(policy, _POLICY_FIELDS),
    )


def _read_go_fields(value: JSON, names: dict[str, str]) -> JSONObject:
    """The present members under v2's names. Go matches names case-insensitively."""
    read = {name.lower(): item for name, item in mapping(value, "behavior").items()}
    return {name: read[go.lower()] for go, name in names.items() if read.get(go.lower()) is not None}


def _go_condition(condition: JSONObject) -> JSONObject:
    """A condition with its members in the order of Go's type, and null for a missing time."""
    return present(
        type=condition.get("type", ""),
        status=condition.get("status", ""),
        observedGeneration=condition.get("observedGeneration"),
    ) | {
        "lastTransitionTime": condition.get("lastTransitionTime"),
        **present(reason=condition.get("reason") or None, message=condition.get("message") or None),
    }


AUTOSCALERS: KindConverters = {
    "autoscaling/v2": VersionConverter(_unannotated, _unannotated),
    "autoscaling/v2beta2": VersionConverter(_v2beta2_to_shared, _v2beta2_from_shared),
    "autoscaling/v2beta1": VersionConverter(_v2beta1_to_shared, _v2beta1_from_shared),
    "autoscaling/v1": VersionConverter(_v1_to_shared, _v1_from_shared),
}
