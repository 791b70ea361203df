"""Where Pods may run: affinity, tolerations and spreading.

Source: ``validateAffinity``, ``ValidateTolerations`` and ``validateTopologySpreadConstraints`` of
``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Sequence

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
from pratique.apimachinery.selectors import validate_label_name
from pratique.registry.validation.metadata import validate_label_selector

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def validate_tolerations(tolerations: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    """Validate tolerations of taints."""
    errors = []
    for index, toleration in enumerate(tolerations):
        errors += _validate_toleration(toleration, path / index)
    return errors


def _validate_toleration(toleration: JSONObject, path: FieldPath) -> list[FieldError]:
    key, operator, value = (toleration.get(name, "") for name in ("key", "operator", "value"))
    errors = validate_label_name(key, path / "key") if key else []
    if not key and operator != "Exists":
        meaning = 'which means "match all values and all keys"'
        detail = f"operator must be Exists when `key` is empty, {meaning}"
        errors.append(invalid(path / "operator", operator, detail))
    effect = toleration.get("effect", "")
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(path / "effect", effect, detail))
    if operator in {"Equal", ""}:
        errors += [invalid(path / "operator", value, message) for message in names.check_label_value(value)]
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            errors.append(invalid(path / "operator", toleration, detail))
    else:
        errors.append(not_supported(path / "operator", operator, ("Equal", "Exists")))
    if effect and effect not in _EFFECTS:
        errors.append(not_supported(path / "effect", effect, _EFFECTS))
    return errors


def validate_affinity(affinity: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate affinity to nodes and Pods."""
    errors = []
    node = affinity.get("nodeAffinity") or {}
    place = path / "nodeAffinity"
    if (selector := node.get(_REQUIRED)) is not None:
        errors += validate_node_selector(selector, place / _REQUIRED)
    for index, preference in enumerate(node.get(_PREFERRED) or ()):
        weight_place = place / _PREFERRED / index
        errors += _validate_weight(preference, weight_place)
        term = preference.get("preference") or {}
        errors += _validate_term(term, weight_place / "preference", allow_invalid_labels=True)
    for name in ("podAffinity", "podAntiAffinity"):
        of_pods, place = affinity.get(name) or {}, path / name
        for index, term in enumerate(of_pods.get(_REQUIRED) or ()):
            errors += _validate_pod_term(term, place / _REQUIRED / index)
        for index, weighted in enumerate(of_pods.get(_PREFERRED) or ()):
            weight_place = place / _PREFERRED / index
            errors += _validate_weight(weighted, weight_place)
            errors += _validate_pod_term(
                weighted.get("podAffinityTerm") or {}, weight_place / "podAffinityTerm"
            )
    return errors


def _validate_weight(weighted: JSONObject, path: FieldPath) -> list[FieldError]:
    weight = weighted.get("weight", 0)
    return [] if 1 <= weight <= 100 else [invalid(path / "weight", weight, "must be in the range 1-100")]


def validate_node_selector(
    selector: JSONObject, path: FieldPath, *, allow_invalid_labels: bool = False
) -> list[FieldError]:
    """Validate a selector of nodes: ``ValidateNodeSelector``.

    Args:
        selector: The selector.
        path: The path to it.
        allow_invalid_labels: Whether it may ask for labels that no node can have, as a stored one does.
    """
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        detail = "must have at least one node selector term"
        return [required(path / "nodeSelectorTerms", detail)]
    return [
        error
        for index, term in enumerate(terms)
        for error in _validate_term(
            term, path / "nodeSelectorTerms" / index, allow_invalid_labels=allow_invalid_labels
        )
    ]


def _validate_term(term: JSONObject, path: FieldPath, *, allow_invalid_labels: bool) -> list[FieldError]:
    errors = []
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        place = path / "matchExpressions" / index
        errors += _validate_node_requirement(requirement, place)
        if not allow_invalid_labels:
            errors += [
                invalid(place / "values" / number, value, message)
                for number, value in enumerate(requirement.get("values") or ())
                for message in names.check_label_value(value)
            ]
    for index, requirement in enumerate(term.get("matchFields") or ()):
        errors += _validate_field_requirement(requirement, path / "matchFields" / index)
    return errors


def _validate_field_requirement(requirement: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate what is asked of a field of nodes: ``ValidateNodeFieldSelectorRequirement``."""
    operator, key = requirement.get("operator", ""), requirement.get("key", "")
    values = requirement.get("values") or ()
    errors = []
    if operator not in {"In", "NotIn"}:
        errors.append(invalid(path / "operator", operator, "not a valid selector operator"))
    elif len(values) != 1:
        detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        errors.append(required(path / "values", detail))
    if key != "metadata.name":
        return [*errors, invalid(path / "key", key, "not a valid field selector key")]
    return errors + [
        invalid(path / "values" / index, value, message)
        for index, value in enumerate(values)
        for message in names.check_dns1123_subdomain(value)
    ]


def _validate_node_requirement(requirement: JSONObject, path: FieldPath) -> list[FieldError]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or []
    errors = []
    match operator:
        case "In" | "NotIn":
            if not values:
                detail = "must be specified when `operator` is 'In' or 'NotIn'"
                errors.append(required(path / "values", detail))
        case "Exists" | "DoesNotExist":
            if values:
                detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
                errors.append(forbidden(path / "values", detail))
        case "Gt" | "Lt":
            if len(values) != 1:
                detail = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                errors.append(required(path / "values", detail))
        case _:
            errors.append(invalid(path / "operator", operator, "not a valid selector operator"))
    return errors + validate_label_name(requirement.get("key", ""), path / "key")


def _validate_pod_term(term: JSONObject, path: FieldPath) -> list[FieldError]:
    errors = validate_label_selector(term.get("labelSelector"), path / "labelSelector")
    errors += validate_label_selector(term.get("namespaceSelector"), path / "namespaceSelector")
    for name in term.get("namespaces") or ():
        messages = names.check_dns1123_label(name)
        errors += [invalid(path / "namespace", name, message) for message in messages]
    key, place = term.get("topologyKey", ""), path / "topologyKey"
    if not key:
        return [*errors, required(place, "can not be empty")]
    return errors + validate_label_name(key, place)


def validate_spread_constraints(constraints: Sequence[JSONObject], path: FieldPath) -> list[FieldError]:
    """Validate how Pods are spread."""
    errors, found = [], set()
    for index, constraint in enumerate(constraints):
        place = path / index
        skew, key = constraint.get("maxSkew", 0), constraint.get("topologyKey", "")
        if skew <= 0:
            errors.append(invalid(place / "maxSkew", skew, "must be greater than zero"))
        if not key:
            errors.append(required(place / "topologyKey", "can not be empty"))
        else:
            errors += validate_label_name(key, place / "topologyKey")
        action = constraint.get("whenUnsatisfiable", "")
        known = ("DoNotSchedule", "ScheduleAnyway")
        if action not in known:
            errors.append(not_supported(place / "whenUnsatisfiable", action, known))
        pair = f"{{{key}, {action}}}"
        if (key, action) in found:
            errors.append(duplicate(place / "{topologyKey, whenUnsatisfiable}", pair))
        found.add((key, action))
        errors += validate_label_selector(constraint.get("labelSelector"), place / "labelSelector")
    return errors
