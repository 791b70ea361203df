"""Optionals: values that may be missing.

Source: ``github.com/google/cel-go/cel/library.go``. ``or`` and ``orValue`` do not evaluate what they do not need, so
that they are planned and not called.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.cel.declarations import Library, Overload
from pratique.cel.errors import EvaluationError
from pratique.cel.libraries.strings import require
from pratique.cel.values import NOTHING, Optional, Value, something, to_text

if TYPE_CHECKING:
    from pratique.cel.activation import Frame


def _of(_: Frame, value: Value) -> Optional:
    return something(value)


def _of_non_zero(_: Frame, value: Value) -> Optional:
    """An empty text, list or map, zero, false and null are no values."""
    return NOTHING if value is None or value in (0, "", b"", [], {}) else something(value)


def _none(_: Frame) -> Optional:
    return NOTHING


def _value(_: Frame, optional: Value) -> Value:
    require((Optional,), optional)
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _has_value(_: Frame, optional: Value) -> bool:
    require((Optional,), optional)
    return bool(optional.present)


def _unwrap(_: Frame, items: Value) -> list[Value]:
    require((list,), items)
    for item in items:
        if type(item) is not Optional:
            raise EvaluationError(f"value {to_text(item)} is not optional")
    return [item.value for item in items if item.present]


LIBRARY = Library(
    overloads=(
        Overload("optional_unwrap", "optional.unwrap(list<optional_type<~T>>)", "list<~T>"),
        Overload("optional_unwrapOpt", "list<optional_type<~T>>.unwrapOpt()", "list<~T>"),
    ),
    functions={
        "optional.of": _of,
        "optional.ofNonZeroValue": _of_non_zero,
        "optional.none": _none,
        "value": _value,
        "hasValue": _has_value,
        "optional.unwrap": _unwrap,
        "unwrapOpt": _unwrap,
    },
)
