"""Converters for workloads, Scales, PodDisruptionBudgets, ResourceClaims and RuntimeClasses."""

from __future__ import annotations

from pratique.apimachinery.errors import ConversionError
from pratique.apimachinery.go_formats import parse_int64
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.cluster.conversion_fields import (
    SHARED,
    KindConverters,
    ObjectChange,
    VersionConverter,
    annotated,
    annotation,
    changed,
    changed_items,
    integer,
    mapping,
    mappings,
    present,
    text,
    unconverted,
    without,
)

_ROLLBACK = "deprecated.deployment.rollback.to"
_GENERATION = "deprecated.daemonset.template.generation"


def _deployment_to_shared(deployment: JSONObject) -> JSONObject:
    plain = changed(deployment, "spec", lambda spec: without(spec, "rollbackTo"))
    revision = annotation(deployment, _ROLLBACK)
    if not revision:
        return plain
    try:
        number = parse_int64(revision)
    except ValueError as error:
        raise ConversionError(
            f"failed to parse annotation[{_ROLLBACK}]={revision} as int64: {error}"
        ) from None
    spec = mapping(plain.get("spec"), "spec")
    rollback = {"revision": number} if number else {}
    return annotated({**plain, "spec": {**spec, "rollbackTo": rollback}}, {}, [_ROLLBACK])


def _deployment_from_shared(deployment: JSONObject) -> JSONObject:
    rollback = mapping(deployment.get("spec"), "spec").get("rollbackTo")
    if rollback is None:
        return annotated(
            changed(deployment, "spec", lambda spec: without(spec, "rollbackTo")), {}, [_ROLLBACK]
        )
    revision = integer(mapping(rollback, "rollbackTo").get("revision"), "revision")
    plain = changed(deployment, "spec", lambda spec: without(spec, "rollbackTo"))
    return annotated(plain, {_ROLLBACK: str(revision)})


def _daemon_set_to_shared(daemon_set: JSONObject) -> JSONObject:
    plain = changed(daemon_set, "spec", lambda spec: without(spec, "templateGeneration"))
    generation = annotation(daemon_set, _GENERATION)
    if generation is None:
        return plain
    try:
        number = parse_int64(generation)
    except ValueError as error:
        raise ConversionError(str(error)) from None
    unannotated = annotated(plain, {}, [_GENERATION])
    if not number:
        return unannotated
    spec = mapping(plain.get("spec"), "spec")
    return {**unannotated, "spec": {**spec, "templateGeneration": number}}


def _daemon_set_from_shared(daemon_set: JSONObject) -> JSONObject:
    spec = mapping(daemon_set.get("spec"), "spec")
    generation = integer(spec.get("templateGeneration"), "templateGeneration")
    plain = changed(daemon_set, "spec", lambda spec: without(spec, "templateGeneration"))
    return annotated(plain, {_GENERATION: str(generation)})


def _scale_to_shared(scale: JSONObject) -> JSONObject:
    return changed(scale, "status", _scale_status_to_shared)


def _scale_status_to_shared(status: JSONObject) -> JSONObject:
    selector = text(status.get("targetSelector"), "targetSelector")
    if not selector:
        labels = mapping(status.get("selector"), "selector")
        selector = ",".join(f"{key}={text(value, 'selector')}" for key, value in sorted(labels.items()))
    plain = without(status, "selector", "targetSelector")
    return {**plain, "selector": selector} if selector else plain


def _scale_from_shared(scale: JSONObject) -> JSONObject:
    return changed(scale, "status", _scale_status_from_shared)


def _scale_status_from_shared(status: JSONObject) -> JSONObject:
    selector = text(status.get("selector"), "selector")
    plain = without(status, "selector", "targetSelector")
    if not selector:
        return plain
    labels = _labels(selector)
    return plain | ({"selector": labels} if labels else {}) | {"targetSelector": selector}


_LABEL = pattern(r"\s*([A-Za-z0-9][-A-Za-z0-9_./]*)\s*==?\s*([-A-Za-z0-9_.]*)\s*")


def _labels(selector: str) -> dict[str, str]:
    """The labels that a selector requires; empty if it requires anything else."""
    matches = [_LABEL.fullmatch(part) for part in selector.split(",")]
    labels = {match[1]: match[2] for match in matches if match}
    return labels if len(labels) == len(matches) else {}


_ANNOTATED_DEPLOYMENT = VersionConverter(_deployment_to_shared, _deployment_from_shared)
_ANNOTATED_DAEMON_SET = VersionConverter(_daemon_set_to_shared, _daemon_set_from_shared)
_SCALE_OF_TWO_SELECTORS = VersionConverter(_scale_to_shared, _scale_from_shared)

DEPLOYMENTS: KindConverters = {
    "extensions/v1beta1": SHARED,
    "apps/v1beta1": SHARED,
    "apps/v1beta2": _ANNOTATED_DEPLOYMENT,
    "apps/v1": _ANNOTATED_DEPLOYMENT,
}
DAEMON_SETS: KindConverters = {
    "extensions/v1beta1": SHARED,
    "apps/v1beta2": _ANNOTATED_DAEMON_SET,
    "apps/v1": _ANNOTATED_DAEMON_SET,
}
SCALES: KindConverters = {
    "autoscaling/v1": SHARED,
    "extensions/v1beta1": _SCALE_OF_TWO_SELECTORS,
    "apps/v1beta1": _SCALE_OF_TWO_SELECTORS,
    "apps/v1beta2": _SCALE_OF_TWO_SELECTORS,
}


_BUDGET_LABEL = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"
_WITH_LABEL: JSONObject = {"matchExpressions": [{"key": _BUDGET_LABEL, "operator": "Exists"}]}
"""A selector that matches no Pod."""
_WITHOUT_LABEL: JSONObject = {"matchExpressions": [{"key": _BUDGET_LABEL, "operator": "DoesNotExist"}]}
"""A selector that matches every Pod."""


def _on_selector(change: ObjectChange) -> ObjectChange:
    return lambda budget: changed(budget, "spec", lambda spec: changed(spec, "selector", change))


def _v1beta1_selector_to_shared(selector: JSONObject) -> JSONObject:
    plain = _without_empty_parts(selector)
    if not plain:
        return _WITH_LABEL
    return {} if plain == _WITHOUT_LABEL else _without_budget_label(selector)


def _v1beta1_selector_from_shared(selector: JSONObject) -> JSONObject:
    plain = _without_empty_parts(selector)
    if plain == _WITH_LABEL:
        return {}
    return selector if plain else _WITHOUT_LABEL


def _v1_selector_to_shared(selector: JSONObject) -> JSONObject:
    return selector if _without_empty_parts(selector) == _WITH_LABEL else _without_budget_label(selector)


def _without_empty_parts(selector: JSONObject) -> JSONObject:
    """The selector without its empty parts."""
    expressions = [
        _plain_expression(expression)
        for expression in mappings(selector.get("matchExpressions"), "matchExpressions")
    ]
    labels = mapping(selector.get("matchLabels"), "matchLabels")
    return ({"matchLabels": labels} if labels else {}) | (
        {"matchExpressions": expressions} if expressions else {}
    )


def _plain_expression(expression: JSONObject) -> JSONObject:
    return {name: value for name, value in expression.items() if value or name != "values"}


def _without_budget_label(selector: JSONObject) -> JSONObject:
    """The selector without the label, which is internal."""
    before = mappings(selector.get("matchExpressions"), "matchExpressions")
    after = [expression for expression in before if expression.get("key") != _BUDGET_LABEL]
    if len(after) == len(before):
        return selector
    return {**selector, "matchExpressions": after} if after else without(selector, "matchExpressions")


POD_DISRUPTION_BUDGETS: KindConverters = {
    "policy/v1": VersionConverter(_on_selector(_v1_selector_to_shared), unconverted),
    "policy/v1beta1": VersionConverter(
        _on_selector(_v1beta1_selector_to_shared), _on_selector(_v1beta1_selector_from_shared)
    ),
}


_EXACT = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
)  # fmt: skip
_BESIDE_BASIC = ("name",)


def _request_to_shared(request: JSONObject) -> JSONObject:
    exact = {name: request[name] for name in _EXACT if request.get(name) is not None}
    plain = without(request, "exactly", *_EXACT)
    return {**plain, "exactly": exact} if any(_is_set(value) for value in exact.values()) else plain


def _is_set(value: object) -> bool:
    """Tell whether a value is set: a Go field that is not a pointer cannot distinguish empty from absent."""
    return value not in ("", 0) or value is False


def _request_from_shared(request: JSONObject) -> JSONObject:
    return without(request, "exactly", *_EXACT) | mapping(request.get("exactly"), "exactly")


def _device_to_shared(device: JSONObject) -> JSONObject:
    return without(device, "basic") | mapping(device.get("basic"), "basic")


def _device_from_shared(device: JSONObject) -> JSONObject:
    named = {name: value for name, value in device.items() if name in _BESIDE_BASIC}
    return {**named, "basic": without(device, "basic", *_BESIDE_BASIC)}


def _in_claim(change: ObjectChange) -> ObjectChange:
    return lambda claim: changed(claim, "spec", _in_spec(change))


def _in_template(change: ObjectChange) -> ObjectChange:
    return lambda template: changed(template, "spec", lambda outer: changed(outer, "spec", _in_spec(change)))


def _in_spec(change: ObjectChange) -> ObjectChange:
    return lambda spec: changed(spec, "devices", lambda devices: changed_items(devices, "requests", change))


def _in_slice(change: ObjectChange) -> ObjectChange:
    return lambda resource_slice: changed(
        resource_slice, "spec", lambda spec: changed_items(spec, "devices", change)
    )


_RESOURCE_GROUP = "resource.k8s.io"
_V1_AND_V1BETA2: KindConverters = {f"{_RESOURCE_GROUP}/v1": SHARED, f"{_RESOURCE_GROUP}/v1beta2": SHARED}

RESOURCE_CLAIMS: KindConverters = {
    **_V1_AND_V1BETA2,
    f"{_RESOURCE_GROUP}/v1beta1": VersionConverter(
        _in_claim(_request_to_shared), _in_claim(_request_from_shared)
    ),
}
RESOURCE_CLAIM_TEMPLATES: KindConverters = {
    **_V1_AND_V1BETA2,
    f"{_RESOURCE_GROUP}/v1beta1": VersionConverter(
        _in_template(_request_to_shared), _in_template(_request_from_shared)
    ),
}
RESOURCE_SLICES: KindConverters = {
    **_V1_AND_V1BETA2,
    f"{_RESOURCE_GROUP}/v1beta1": VersionConverter(
        _in_slice(_device_to_shared), _in_slice(_device_from_shared)
    ),
}
DEVICE_CLASSES: KindConverters = {**_V1_AND_V1BETA2, f"{_RESOURCE_GROUP}/v1beta1": SHARED}


def _runtime_class_to_shared(runtime_class: JSONObject) -> JSONObject:
    spec = mapping(runtime_class.get("spec"), "spec")
    return without(runtime_class, "spec", "handler", "overhead", "scheduling") | present(
        handler=text(spec.get("runtimeHandler"), "runtimeHandler"),
        overhead=spec.get("overhead"),
        scheduling=spec.get("scheduling"),
    )


def _runtime_class_from_shared(runtime_class: JSONObject) -> JSONObject:
    spec = present(
        runtimeHandler=text(runtime_class.get("handler"), "handler"),
        overhead=runtime_class.get("overhead"),
        scheduling=runtime_class.get("scheduling"),
    )
    return without(runtime_class, "spec", "handler", "overhead", "scheduling") | {"spec": spec}


RUNTIME_CLASSES: KindConverters = {
    "node.k8s.io/v1": SHARED,
    "node.k8s.io/v1beta1": SHARED,
    "node.k8s.io/v1alpha1": VersionConverter(_runtime_class_to_shared, _runtime_class_from_shared),
}
