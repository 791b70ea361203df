"""What the API server says of a label selector in a configuration or policy.

Source: ``k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import names
from pratique.field_errors import FieldError, FieldPath, forbidden, invalid, required
from pratique.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.selectors import LabelSelector, Requirement


def validate_selector(
    selector: LabelSelector | None, path: FieldPath, *, allow_invalid_values: bool = False
) -> list[FieldError]:
    """Check a selector; one that is absent is right.

    Args:
        selector: The selector as written.
        path: Where it stands.
        allow_invalid_values: Tolerate values in ``matchExpressions`` that no label can have, as the API
            server does when an object that has them already is updated.
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
    """Check labels, in the order of their keys."""
    errors = []
    for key, value in sorted(labels.items()):
        errors += validate_label_name(key, path)
        errors += [invalid(path, value, message) for message in names.check_label_value(value)]
    return errors


def validate_label_name(name: str, path: FieldPath) -> list[FieldError]:
    """Check a label's key."""
    return [invalid(path, name, message) for message in names.check_qualified_name(name)]


def _validate_requirement(requirement: Requirement, path: FieldPath) -> list[FieldError]:
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
