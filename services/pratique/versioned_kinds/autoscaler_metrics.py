"""Metrics of HorizontalPodAutoscalers: v2 nests what v1 and v2beta1 write side by side.

Members are written in the order of Go's types, because v1 keeps metrics as JSON text. Sources:
``pkg/apis/autoscaling/{v1,v2beta1}/conversion.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.errors import InputError
from pratique.quantities import Quantity
from pratique.versioned_kinds.shapes import changed, mapping, present, text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.json_values import JSON, JSONObject
    from pratique.versioned_kinds.forms import Change

_SOURCES = ("object", "pods", "resource", "containerResource", "external")


def nested_spec(metric: JSONObject) -> JSONObject:
    """A metric to scale by, as v2 writes it."""
    return _each_source(metric, _NESTED_SPECS)


def flat_spec(metric: JSONObject) -> JSONObject:
    """A metric to scale by, as v1 and v2beta1 write it."""
    return _each_source(metric, _FLAT_SPECS)


def nested_status(metric: JSONObject) -> JSONObject:
    """A metric as it was last read, as v2 writes it."""
    return _each_source(metric, _NESTED_STATUSES)


def flat_status(metric: JSONObject) -> JSONObject:
    """A metric as it was last read, as v1 and v2beta1 write it."""
    return _each_source(metric, _FLAT_STATUSES)


def cpu_utilization(metric: JSONObject, of: str) -> JSON:
    """The part of the CPU that a v2 metric asks for (``target``) or tells (``current``); None for other metrics."""
    if metric.get("type") != "Resource":
        return None
    resource = mapping(metric.get("resource"), "resource")
    return mapping(resource.get(of), of).get("averageUtilization") if resource.get("name") == "cpu" else None


def _each_source(metric: JSONObject, changes: Mapping[str, Change]) -> JSONObject:
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
        # v1 cannot leave the value out, and writes 0 for none.
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
    """What Go writes for a quantity that it cannot leave out."""
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
