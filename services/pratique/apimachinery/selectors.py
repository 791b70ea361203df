"""Label selectors and label sets: parsing, matching and validation, in the API server's words.

Sources: ``k8s.io/apimachinery/pkg/labels/{labels,selector}.go`` and ``pkg/apis/meta/v1/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import msgspec

from pratique.apimachinery import names
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import ROOT, FieldError, FieldPath, forbidden, invalid, join, required
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.statuses import go_quoted


def parse_label_set(text: str) -> dict[str, str]:
    """Parse labels: ``ConvertSelectorToLabelsMap``. The last of several values of a key wins.

    Raises:
        InputError: it is not a list of ``key=value``, or a key or value is invalid. The message is Kubernetes', which
            names no field.
    """
    return dict(_parse_label(pair) for pair in text.split(",")) if text else {}


def _parse_label(pair: str) -> tuple[str, str]:
    parts = pair.split("=")
    if len(parts) != 2:
        raise InputError(f"invalid selector: [{' '.join(parts)}]")
    key, value = parts[0].strip(), parts[1].strip()
    # Kubernetes prints a nil field path here.
    _check_form("<nil>", key, names.check_qualified_name(key))
    _check_form(f"[{key}]", value, names.check_label_value(value))
    return key, value


def _check_form(where: str, value: str, messages: list[str]) -> None:
    if messages:
        raise InputError(f"{where}: Invalid value: {go_quoted(value)}: {'; '.join(messages)}")


def conflict(first: Mapping[str, str], second: Mapping[str, str]) -> bool:
    """Tell whether two label sets have different values for a key: ``labels.Conflicts``."""
    return any(second.get(key, value) != value for key, value in first.items())


def is_subset(labels: Mapping[str, str], allowed: Mapping[str, str]) -> bool:
    """Tell whether all labels are among the allowed ones; an empty ``allowed`` allows all."""
    return not allowed or all(allowed.get(key) == value for key, value in labels.items())


Labels: TypeAlias = Mapping[str, str]
Matcher: TypeAlias = Callable[[Labels], bool]
"""Tells whether an object with these labels matches."""

IN = "In"
NOT_IN = "NotIn"
EXISTS = "Exists"
DOES_NOT_EXIST = "DoesNotExist"


class LabelSelectorRequirement(msgspec.Struct, frozen=True):
    """One of ``matchExpressions``: a requirement on one label."""

    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A label selector as written: all its requirements must hold."""

    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True if it matches everything."""
        return not self.match_labels and not self.match_expressions


EVERYTHING = LabelSelector()
"""The empty selector, which matches everything."""


def first_contradiction(*selectors: LabelSelector) -> str:
    """The first label key on which selectors contradict each other; empty if some labels satisfy them all."""
    wanted: dict[str, list[LabelSelectorRequirement]] = {}
    for selector in selectors:
        exact = [LabelSelectorRequirement(key, IN, (value,)) for key, value in selector.match_labels.items()]
        for requirement in (*exact, *selector.match_expressions):
            wanted.setdefault(requirement.key, []).append(requirement)
    return next((key for key, requirements in wanted.items() if not _is_possible(requirements)), "")


def _is_possible(requirements: list[LabelSelectorRequirement]) -> bool:
    """Tell whether some value of one label, or its absence, satisfies all requirements on it."""
    by_operator: dict[str, list[LabelSelectorRequirement]] = {}
    for requirement in requirements:
        by_operator.setdefault(requirement.operator, []).append(requirement)
    must_be_absent = DOES_NOT_EXIST in by_operator
    if must_be_absent and (IN in by_operator or EXISTS in by_operator):
        return False
    if IN not in by_operator:
        return True
    allowed = set.intersection(*(set(requirement.values) for requirement in by_operator[IN]))
    return bool(allowed.difference(*(requirement.values for requirement in by_operator.get(NOT_IN, []))))


class Selector:
    """A compiled label selector."""

    __slots__ = ("_matchers", "is_empty", "required_label")

    def __init__(self, matchers: tuple[Matcher, ...], required_label: tuple[str, str] | None = None) -> None:
        """Use :func:`compile_selector`."""
        self._matchers = matchers
        self.is_empty = not matchers
        """True if it matches everything."""
        self.required_label = required_label
        """Key and value of a label of everything that it matches; None if it requires no value of any label."""

    def matches(self, labels: Labels) -> bool:
        """Tell whether an object with these labels matches."""
        for matches in self._matchers:  # noqa: SIM110 - a thousand webhooks may ask this about one review
            if not matches(labels):
                return False
        return True

    def matches_object(self, *objects: JSON) -> bool:
        """Tell whether any of the objects matches, such as the new and the old object of a review.

        None never matches, nor does an object without metadata, such as the options of a CONNECT. An object whose
        metadata has no labels has an empty label set. The empty selector matches even without an object.
        Source: ``k8s.io/apiserver/pkg/admission/plugin/webhook/predicates/object/matcher.go``.
        """
        if self.is_empty:
            return True
        for candidate in objects:
            labels = labels_of(candidate)
            if labels is not None and self.matches(labels):
                return True
        return False


def labels_of(candidate: JSON) -> Labels | None:
    """The labels of an object; None for an object without metadata, which cannot have any."""
    metadata = candidate.get("metadata") if isinstance(candidate, dict) else None
    if not isinstance(metadata, dict):
        return None
    labels = metadata.get("labels")
    return labels if isinstance(labels, dict) else {}


def compile_selector(selector: LabelSelector) -> Selector:
    """Compile a selector: ``LabelSelectorAsSelector``.

    Raises:
        InputError: a key, operator or value is invalid; the message is the API server's.
    """
    wanted = [LabelSelectorRequirement(key, IN, (value,)) for key, value in selector.match_labels.items()]
    requirements = (*wanted, *selector.match_expressions)
    exact = (
        (requirement.key, requirement.values[0])
        for requirement in requirements
        if requirement.operator == IN and len(requirement.values) == 1
    )
    return Selector(tuple(map(_compile, requirements)), next(exact, None))


def _compile(requirement: LabelSelectorRequirement) -> Matcher:
    build = _MATCHERS.get(requirement.operator)
    if build is None:
        raise InputError(f"{go_quoted(requirement.operator)} is not a valid label selector operator")
    errors = _requirement_errors(requirement)
    if errors:
        raise InputError(join(errors))
    return build(requirement.key, requirement.values)


def _requirement_errors(requirement: LabelSelectorRequirement) -> list[FieldError]:
    """The errors of ``labels.NewRequirement``, which differ from those of validation."""
    errors = []
    if messages := names.check_qualified_name(requirement.key):
        errors.append(invalid(ROOT / "key", requirement.key, "; ".join(messages)))
    path = ROOT / "values"
    if detail := _values_message(requirement):
        errors.append(invalid(path, requirement.values or None, detail))
    errors.extend(_value_errors(requirement, path))
    return errors


def _value_errors(requirement: LabelSelectorRequirement, path: FieldPath) -> list[FieldError]:
    return [
        invalid((path / index).key(requirement.key), value, "; ".join(messages))
        for index, value in enumerate(requirement.values)
        if (messages := names.check_label_value(value))
    ]


def _values_message(requirement: LabelSelectorRequirement) -> str:
    if requirement.operator in {IN, NOT_IN}:
        return "" if requirement.values else "for 'in', 'notin' operators, values set can't be empty"
    return "values set must be empty for exists and does not exist" if requirement.values else ""


def _in(key: str, values: tuple[str, ...]) -> Matcher:
    return lambda labels: key in labels and labels[key] in values


def _not_in(key: str, values: tuple[str, ...]) -> Matcher:
    return lambda labels: key not in labels or labels[key] not in values


def _exists(key: str, _values: tuple[str, ...]) -> Matcher:
    return lambda labels: key in labels


def _does_not_exist(key: str, _values: tuple[str, ...]) -> Matcher:
    return lambda labels: key not in labels


_MATCHERS: Mapping[str, Callable[[str, tuple[str, ...]], Matcher]] = {
    IN: _in,
    NOT_IN: _not_in,
    EXISTS: _exists,
    DOES_NOT_EXIST: _does_not_exist,
}


def validate_selector(
    selector: LabelSelector | None, path: FieldPath, *, allow_invalid_values: bool = False
) -> list[FieldError]:
    """Validate a selector; None is valid: ``ValidateLabelSelector``.

    Args:
        selector: The selector as written.
        path: The path to it.
        allow_invalid_values: Tolerate values in ``matchExpressions`` that no label can have, as the API server does
            when it updates an object that already has them.
    """
    if selector is None:
        return []
    errors = validate_labels(selector.match_labels, path / "matchLabels")
    for index, requirement in enumerate(selector.match_expressions):
        place = path / "matchExpressions" / index
        errors += _validate_requirement(requirement, place)
        if not allow_invalid_values:
            errors += _validate_values(requirement.values, place / "values")
    return errors


def validate_labels(labels: Mapping[str, str], path: FieldPath) -> list[FieldError]:
    """Validate labels, in the order of their keys: ``ValidateLabels``."""
    wrong = [
        key
        for key, value in labels.items()
        if names.check_qualified_name(key) or names.check_label_value(value)
    ]
    errors = []
    for key in sorted(wrong):
        errors += validate_label_name(key, path)
        errors += [invalid(path, labels[key], message) for message in names.check_label_value(labels[key])]
    return errors


def validate_label_name(name: str, path: FieldPath) -> list[FieldError]:
    """Validate the key of a label: ``ValidateLabelName``."""
    return [invalid(path, name, message) for message in names.check_qualified_name(name)]


def _validate_requirement(requirement: LabelSelectorRequirement, path: FieldPath) -> list[FieldError]:
    errors = []
    if requirement.operator in {IN, NOT_IN}:
        if not requirement.values:
            detail = "must be specified when `operator` is 'In' or 'NotIn'"
            errors.append(required(path / "values", detail))
    elif requirement.operator in {EXISTS, DOES_NOT_EXIST}:
        if requirement.values:
            detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden(path / "values", detail))
    else:
        errors.append(invalid(path / "operator", requirement.operator, "not a valid selector operator"))
    return errors + validate_label_name(requirement.key, path / "key")


def _validate_values(values: tuple[str, ...], path: FieldPath) -> list[FieldError]:
    return [
        invalid(path / index, value, message)
        for index, value in enumerate(values)
        for message in names.check_label_value(value)
    ]
