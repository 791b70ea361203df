"""Optionals: values that may be missing.

Source: ``github.com/google/cel-go/cel/library.go``. ``or`` and ``orValue`` do not evaluate what they do not need, so
that they are planned and not called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.cel.declarations import Library, Overload
from pratique.cel.errors import EvaluationError
from pratique.cel.libraries.strings import require_types
from pratique.cel.values import OPTIONAL_NONE, Optional, Value, optional_of, to_text

if TYPE_CHECKING:
    from pratique.cel.activation import Frame


def _optional_of(_: Frame, value: Value) -> Optional:
    return optional_of(value)


def _optional_of_non_zero(_: Frame, value: Value) -> Optional:
    """An empty text, list or map, zero, false and null are no values."""
    return OPTIONAL_NONE if value is None or value in (0, "", b"", [], {}) else optional_of(value)


def _optional_none(_: Frame) -> Optional:
    return OPTIONAL_NONE


def _optional_value(_: Frame, optional: Value) -> Value:
    require_types((Optional,), optional)
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _has_value(_: Frame, optional: Value) -> bool:
    require_types((Optional,), optional)
    return bool(optional.present)


def _unwrap_optionals(_: Frame, items: Value) -> list[Value]:
    require_types((list,), items)
    for item in items:
        if type(item) is not Optional:
            raise EvaluationError(f"value {to_text(item)} is not optional")
    return [item.value for item in items if item.present]


OPTIONALS = Library(
    overloads=(
        Overload("optional_unwrap", "optional.unwrap(list<optional_type<~T>>)", "list<~T>"),
        Overload("optional_unwrapOpt", "list<optional_type<~T>>.unwrapOpt()", "list<~T>"),
    ),
    functions={
        "optional.of": _optional_of,
        "optional.ofNonZeroValue": _optional_of_non_zero,
        "optional.none": _optional_none,
        "value": _optional_value,
        "hasValue": _has_value,
        "optional.unwrap": _unwrap_optionals,
        "unwrapOpt": _unwrap_optionals,
    },
)
