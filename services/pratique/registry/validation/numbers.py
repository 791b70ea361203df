"""Numbers and percentages of workloads and budgets.

Source: ``ValidatePositiveIntOrPercent`` and ``IsNotMoreThan100Percent`` of ``pkg/apis/apps/validation/validation.go``.
"""

from __future__ import annotations

from pratique.apimachinery.field_errors import FieldError, FieldPath, invalid, json_text
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.patterns import pattern
from pratique.registry.validation.metadata import validate_nonnegative

_PERCENT = pattern("[0-9]+%")
_MESSAGE = (
    "a valid percent string must be a numeric string followed by an ending '%'"
    f" (e.g. '1%',  or '93%', regex used for validation is '{_PERCENT.pattern}')"
)


def validate_number_or_percent(value: JSON, path: FieldPath) -> list[FieldError]:
    """Validate a number that is not negative, or a percentage; None is 0."""
    if isinstance(value, str):
        return [] if _PERCENT.fullmatch(value) else [invalid(path, json_text(value), _MESSAGE)]
    return validate_nonnegative(value or 0, path)


def validate_at_most_all(value: JSON, path: FieldPath) -> list[FieldError]:
    """Refuse percentages above 100."""
    if isinstance(value, str) and _PERCENT.fullmatch(value) and _number(value[:-1]) > 100:
        return [invalid(path, value, "must not be greater than 100%")]
    return []


def number_or_percent(value: JSON) -> int:
    """The number, of a percentage or a text too: ``getIntOrPercentValue``; 0 if it is malformed."""
    if not isinstance(value, str):
        return int(value or 0)
    return _number(value[:-1] if _PERCENT.fullmatch(value) else value)


_INTEGER = pattern("[+-]?[0-9]+")
_LARGEST, _DIGITS = 2**63 - 1, 19


def _number(text: str) -> int:
    """What ``strconv.Atoi`` returns, whatever its error: the largest number for one that is too large."""
    if not _INTEGER.fullmatch(text):
        return 0
    digits = text.lstrip("+-0")
    number = int(digits or "0") if len(digits) < _DIGITS else _LARGEST
    return -number if text.startswith("-") else number
