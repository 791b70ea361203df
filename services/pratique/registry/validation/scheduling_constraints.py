"""Where Pods may run: affinity, tolerations and spreading.

Source: ``validateAffinity``, ``ValidateTolerations`` and ``validateTopologySpreadConstraints`` of
``pkg/apis/core/validation/validation.go``.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Sequence

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    covered,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    quoted_text,
    required,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.selectors import validate_label_name
from pratique.registry.validation.metadata import validate_label_selector
from pratique.registry.validation.pod_context import PodOptions

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


_INTEGER = pattern("0|-?[1-9][0-9]*", re.ASCII)
_OPERATORS = ("Equal", "Exists")
_COMPARISONS = ("Lt", "Gt")


def validate_tolerations(
    tolerations: Sequence[JSONObject],
    path: FieldPath,
    *,
    allow_comparisons: bool = False,
    is_covered: bool = True,
) -> list[FieldError]:
    """Validate tolerations of taints: ``ValidateTolerations``.

    Args:
        tolerations: The tolerations.
        path: The path to the list.
        allow_comparisons: Whether they may compare numbers.
        is_covered: Whether tags of the fields check the same, as in all places but annotations.
    """
    errors = []
    for index, toleration in enumerate(tolerations):
        place, key = path / index, toleration.get("key", "")
        found = validate_label_name(key, place / "key") if key else []
        errors += covered(found, "format=k8s-label-key") if is_covered else found
        errors += _validate_toleration(toleration, place, allow_comparisons=allow_comparisons)
    return errors


def _validate_toleration(
    toleration: JSONObject, path: FieldPath, *, allow_comparisons: bool
) -> list[FieldError]:
    key, operator, value = (toleration.get(name, "") for name in ("key", "operator", "value"))
    errors = []
    if not key and operator != "Exists":
        meaning = 'which means "match all values and all keys"'
        detail = f"operator must be Exists when `key` is empty, {meaning}"
        errors.append(invalid(path / "operator", operator, detail))
    effect = toleration.get("effect", "")
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        detail = "effect must be 'NoExecute' when `tolerationSeconds` is set"
        errors.append(invalid(path / "effect", effect, detail))
    if operator in {"Equal", ""}:
        if messages := names.check_label_value(value):
            errors.append(invalid(path / "operator", quoted_text(value), ";".join(messages)))
    elif operator == "Exists":
        if value:
            detail = "value must be empty when `operator` is 'Exists'"
            errors.append(invalid(path / "operator", quoted_text(value), detail))
    elif operator in _COMPARISONS and allow_comparisons:
        if not _INTEGER.fullmatch(value):
            detail = "must be a valid decimal integer in canonical form"
            errors.append(invalid(path / "value", value, detail))
    else:
        known = _OPERATORS + _COMPARISONS if operator in _COMPARISONS else _OPERATORS
        errors.append(not_supported(path / "operator", operator, known))
    if effect and effect not in _EFFECTS:
        errors.append(not_supported(path / "effect", effect, _EFFECTS))
    return errors


def validate_affinity(affinity: JSONObject, path: FieldPath, options: PodOptions) -> list[FieldError]:
    """Validate affinity to nodes and Pods."""
    errors = []
    node = affinity.get("nodeAffinity") or {}
    place = path / "nodeAffinity"
    if (selector := node.get(_REQUIRED)) is not None:
        errors += validate_node_selector(
            selector, place / _REQUIRED, allow_invalid_labels=options.invalid_node_label_values
        )
    for index, preference in enumerate(node.get(_PREFERRED) or ()):
        weight_place = place / _PREFERRED / index
        errors += _validate_weight(preference, weight_place)
        term = preference.get("preference") or {}
        errors += _validate_term(term, weight_place / "preference", allow_invalid_labels=True)
    for name in ("podAffinity", "podAntiAffinity"):
        of_pods, place = affinity.get(name) or {}, path / name
        for index, term in enumerate(of_pods.get(_REQUIRED) or ()):
            errors += _validate_pod_term(term, place / _REQUIRED / index, options)
        for index, weighted in enumerate(of_pods.get(_PREFERRED) or ()):
            weight_place = place / _PREFERRED / index
            errors += _validate_weight(weighted, weight_place)
            errors += _validate_pod_term(
                weighted.get("podAffinityTerm") or {}, weight_place / "podAffinityTerm", options
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


def validate_term_selectors(
    term: JSONObject, path: FieldPath, *, allow_invalid_values: bool = False
) -> list[FieldError]:
    """Validate the selectors of a term of affinity to Pods: ``ValidatePodAffinityTermSelector``."""
    return [
        error
        for name in ("labelSelector", "namespaceSelector")
        for error in validate_label_selector(
            term.get(name), path / name, allow_invalid_values=allow_invalid_values
        )
    ]


def _validate_pod_term(term: JSONObject, path: FieldPath, options: PodOptions) -> list[FieldError]:
    errors = validate_term_selectors(term, path, allow_invalid_values=options.invalid_selector_values)
    for name in term.get("namespaces") or ():
        messages = names.check_dns1123_label(name)
        errors += [invalid(path / "namespace", name, message) for message in messages]
    errors += validate_label_keys(term, path)
    key, place = term.get("topologyKey", ""), path / "topologyKey"
    if not key:
        errors.append(required(place, "can not be empty"))
    return errors + validate_label_name(key, place)


def validate_label_keys(term: JSONObject, path: FieldPath) -> list[FieldError]:
    """Validate keys whose values the Pod's own labels give: ``ValidateMatchLabelKeysAndMismatchLabelKeys``."""
    selector = term.get("labelSelector")
    matched, mismatched = (term.get(name) or () for name in ("matchLabelKeys", "mismatchLabelKeys"))
    if not matched and not mismatched:
        return []
    errors = []
    for name, keys in (("matchLabelKeys", matched), ("mismatchLabelKeys", mismatched)):
        if keys and selector is None:
            errors.append(forbidden(path / name, "must not be specified when labelSelector is not set"))
        elif keys:
            for index, key in enumerate(keys):
                errors += validate_label_name(key, path / name / index)
    selected, indexes = (
        set((selector or {}).get("matchLabels") or ()),
        {key: at for at, key in enumerate(matched)},
    )
    for requirement in (selector or {}).get("matchExpressions") or ():
        key = requirement.get("key", "")
        if key in indexes and key in selected:
            errors.append(invalid(path / indexes[key], key, _IN_BOTH))
        selected.add(key)
    detail, in_both = "exists in both matchLabelKeys and mismatchLabelKeys", {*matched} & {*mismatched}
    return errors + [
        invalid(path / "matchLabelKeys" / index, key, detail)
        for index, key in enumerate(matched)
        if key in in_both
    ]


_IN_BOTH = "exists in both matchLabelKeys and labelSelector"


def _validate_legacy_keys(constraint: JSONObject, path: FieldPath) -> list[FieldError]:
    """``ValidateMatchLabelKeysInTopologySpread``."""
    keys, selector, place = constraint.get("matchLabelKeys") or (), constraint.get("labelSelector"), path
    errors = []
    if keys and selector is None:
        errors.append(forbidden(place, "must not be specified when labelSelector is not set"))
    selected = set((selector or {}).get("matchLabels") or ())
    selected |= {found.get("key", "") for found in (selector or {}).get("matchExpressions") or ()}
    for index, key in enumerate(keys):
        errors += validate_label_name(key, place / index)
        if key in selected:
            errors.append(invalid(place / index, key, _IN_BOTH))
    return errors


_ACTIONS, _INCLUSIONS = ("DoNotSchedule", "ScheduleAnyway"), ("Honor", "Ignore")


def validate_spread_constraints(
    constraints: Sequence[JSONObject], path: FieldPath, options: PodOptions
) -> list[FieldError]:
    """Validate how Pods are spread: ``validateTopologySpreadConstraints``."""
    errors: list[FieldError] = []
    pairs = [
        (constraint.get("topologyKey", ""), constraint.get("whenUnsatisfiable", ""))
        for constraint in constraints
    ]
    following = collections.Counter(pairs)
    for index, constraint in enumerate(constraints):
        place, (key, action) = path / index, pairs[index]
        following[key, action] -= 1
        errors += _validate_positive(constraint.get("maxSkew", 0), place / "maxSkew")
        if not key:
            errors.append(required(place / "topologyKey", "can not be empty"))
        if action not in _ACTIONS:
            errors.append(not_supported(place / "whenUnsatisfiable", action, _ACTIONS))
        if following[key, action]:
            errors.append(duplicate(place / "{topologyKey, whenUnsatisfiable}", f"{{{key}, {action}}}"))
        if (domains := constraint.get("minDomains")) is not None:
            errors += _validate_domains(domains, action, place / "minDomains")
        errors += [
            not_supported(place / name, constraint[name], _INCLUSIONS)
            for name in ("nodeAffinityPolicy", "nodeTaintsPolicy")
            if constraint.get(name) not in {None, *_INCLUSIONS}
        ]
        if options.legacy_spread_keys:
            errors += _validate_legacy_keys(constraint, place / "matchLabelKeys")
        else:
            errors += validate_label_keys(constraint, place)
        if not options.invalid_spread_selectors:
            errors += validate_label_selector(constraint.get("labelSelector"), place / "labelSelector")
    return errors


def _validate_domains(domains: int, action: str, path: FieldPath) -> list[FieldError]:
    errors = _validate_positive(domains, path)
    if action != "DoNotSchedule":
        detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
        errors.append(invalid(path, domains, detail))
    return errors


def _validate_positive(number: int, path: FieldPath) -> list[FieldError]:
    return [] if number > 0 else [invalid(path, number, "must be greater than zero")]
