"""Comparisons: equality and order of CEL values.

Numbers of different types compare by value, all else only with its own type. Source:
``github.com/google/cel-go/common/types``.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.structs import Struct
from pratique.cel.values import Duration, Optional, Timestamp, Uint

if TYPE_CHECKING:
    from pratique.cel.frames import Frame
    from pratique.cel.values import Value

NUMBERS = frozenset({int, Uint, float})
"""The types that compare with each other."""

_ORDERED = frozenset({bool, str, bytes, Duration, Timestamp})


def equal(left: Value, right: Value, frame: Frame) -> bool:
    """Tell whether two values are equal; values of different types are not."""
    kind, other = type(left), type(right)
    if kind is not other:
        return kind in NUMBERS and other in NUMBERS and bool(left == right)
    if kind is list:
        frame.work(len(left))
        return len(left) == len(right) and all(
            equal(one, another, frame) for one, another in zip(left, right, strict=True)
        )
    if kind is dict:
        return _equal_maps(left, right, frame)
    if kind is Optional:
        return left.present == right.present and equal(left.value, right.value, frame)
    if kind is Struct:
        return left.cel_type == right.cel_type and _equal_maps(left.fields, right.fields, frame)
    return bool(left == right)


def _equal_maps(left: dict[Value, Value], right: dict[Value, Value], frame: Frame) -> bool:
    frame.work(len(left))
    if len(left) != len(right):
        return False
    return all(key in right and equal(value, right[key], frame) for key, value in left.items())


def compare(left: Value, right: Value) -> int:
    """Order two values: -1, 0 or 1. Raises EvaluationError where they have no order."""
    kind, other = type(left), type(right)
    if kind in NUMBERS and other in NUMBERS:
        if math.isnan(left) or math.isnan(right):
            raise EvaluationError("NaN values cannot be ordered")
    elif kind is not other or kind not in _ORDERED:
        raise NoSuchOverloadError
    return int(left > right) - int(left < right)


def contains(items: list[Value], value: Value, frame: Frame) -> bool:
    """Tell whether a list has an element that equals ``value``."""
    if type(value) is str:  # strings equal only strings, and Python compares those as CEL does
        return value in items
    return any(equal(item, value, frame) for item in items)
