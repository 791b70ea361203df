"""Conditions of the type that most kinds share, ``metav1.Condition``.

Source: ``ValidateConditions`` of ``k8s.io/apimachinery/pkg/apis/meta/v1/validation/validation.go``.
"""

from __future__ import annotations

from collections.abc import Iterable

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    FieldError,
    FieldPath,
    covered,
    duplicate,
    invalid,
    not_supported,
    required,
    too_long,
)
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.patterns import pattern

STATUSES = ("False", "True", "Unknown")
"""What a condition may be."""
_REASON = pattern(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_FAULT = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric"
    " characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or"
    f" 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON.pattern}')"
)
_LONGEST_REASON, _LONGEST_MESSAGE = 1024, 32 * 1024


def has_condition(conditions: Iterable[JSONObject], type_: str, status: str = "True") -> bool:
    """Tell whether there is a condition of a type with a status."""
    return any(found.get("type") == type_ and found.get("status") == status for found in conditions)


def validate_conditions(conditions: Iterable[JSONObject], path: FieldPath) -> list[FieldError]:
    """Validate conditions, of which there is one of each type: ``ValidateConditions``."""
    errors: list[FieldError] = []
    types: set[str] = set()
    for index, condition in enumerate(conditions):
        type_ = condition.get("type", "")
        if type_ in types:
            errors += covered(duplicate(path / index, type_))
        types.add(type_)
        errors += _validate_condition(condition, path / index)
    return errors


def _validate_condition(condition: JSONObject, path: FieldPath) -> list[FieldError]:
    type_, status = condition.get("type", ""), condition.get("status", "")
    if type_:
        errors = [invalid(path / "type", type_, message) for message in names.check_qualified_name(type_)]
    else:
        errors = covered(required(path / "type", "is required"))
    if not status:
        errors += covered(required(path / "status"))
    elif status not in STATUSES:
        errors += covered(not_supported(path / "status", status, STATUSES))
    generation = condition.get("observedGeneration", 0)
    if generation < 0:
        negative = invalid(path / "observedGeneration", generation, "must be greater than or equal to zero")
        errors += covered(negative, "minimum")
    if not condition.get("lastTransitionTime"):
        errors += covered(required(path / "lastTransitionTime"))
    errors += _validate_reason(condition.get("reason", ""), path / "reason")
    if len(condition.get("message", "").encode()) > _LONGEST_MESSAGE:
        errors.append(too_long(path / "message", _LONGEST_MESSAGE))
    return errors


def _validate_reason(reason: str, path: FieldPath) -> list[FieldError]:
    if not reason:
        return covered(required(path))
    errors = [] if _REASON.fullmatch(reason) else [invalid(path, reason, _REASON_FAULT)]
    if len(reason.encode()) > _LONGEST_REASON:
        errors += covered(too_long(path, _LONGEST_REASON), "maxBytes")
    return errors
