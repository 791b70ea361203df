"""Operators: arithmetic, order, membership and size.

Source: ``github.com/google/cel-go/common/stdlib/standard.go``.
"""

from __future__ import annotations

from collections.abc import Callable

from pratique.cel.activation import Frame
from pratique.cel.declarations import Library, Overload
from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.interpretables import find
from pratique.cel.structs import add_keyed, compare, contains
from pratique.cel.values import (
    MAXIMUM_INT,
    MAXIMUM_SECONDS,
    MAXIMUM_UINT,
    MINIMUM_INT,
    MINIMUM_SECONDS,
    NANOSECONDS,
    Duration,
    Timestamp,
    TypeName,
    Uint,
    Value,
    type_name,
)

_NUMERIC = frozenset({int, Uint, float})
_ARITHMETIC = _NUMERIC | {str, Duration, Timestamp}
"""Types whose values cel-go asks for arithmetic, though not all of them know any."""
_ADDING = _ARITHMETIC | {bytes, list}
_COMPARING = _ARITHMETIC | {bool, bytes}


def checked_int(number: int) -> int:
    """Check that a number fits a 64-bit integer. Raises EvaluationError if it overflows."""
    if MINIMUM_INT <= number <= MAXIMUM_INT:
        return number
    raise EvaluationError("integer overflow")


def checked_uint(number: int) -> Uint:
    """Convert a number to an unsigned 64-bit integer. Raises EvaluationError if it overflows."""
    if 0 <= number <= MAXIMUM_UINT:
        return Uint(number)
    raise EvaluationError("unsigned integer overflow")


def checked_duration(nanoseconds: int) -> Duration:
    """Convert nanoseconds to a duration. Raises EvaluationError if it overflows."""
    if MINIMUM_INT <= nanoseconds <= MAXIMUM_INT:
        return Duration(nanoseconds)
    raise EvaluationError("duration overflow")


def checked_timestamp(nanoseconds: int) -> Timestamp:
    """Convert nanoseconds to a timestamp. Raises EvaluationError outside the years 1 to 9999."""
    if MINIMUM_SECONDS <= nanoseconds // NANOSECONDS <= MAXIMUM_SECONDS:
        return Timestamp(nanoseconds)
    raise EvaluationError("timestamp overflow")


def _require(value: Value, kinds: frozenset[type], operator: str) -> None:
    if type(value) not in kinds:
        raise NoSuchOverloadError(operator)


def add(frame: Frame, left: Value, right: Value) -> Value:
    """Add numbers, timestamps and durations, or concatenate strings, bytes or lists."""
    _require(left, _ADDING, "_+_")
    kind, other = type(left), type(right)
    if {kind, other} == {Timestamp, Duration}:
        return checked_timestamp(left.nanoseconds + right.nanoseconds)
    if kind is not other or kind is Timestamp:
        raise NoSuchOverloadError
    if kind in (list, str, bytes):
        frame.add_work(len(left) + len(right))  # cel-go counts no cost if the checker does not know the types
    if kind is list and (keys := frame.list_keys(left)) is not None:
        merged = add_keyed(left, right, keys)
        frame.add_list(merged, tuple(map(str, keys)))
        return merged
    if kind is Duration:
        return checked_duration(left.nanoseconds + right.nanoseconds)
    return _checked(kind, left + right)


def _checked(kind: type, result: Value) -> Value:
    if kind is int:
        return checked_int(result)
    return checked_uint(result) if kind is Uint else result


def _subtract(_: Frame, left: Value, right: Value) -> Value:
    _require(left, _ARITHMETIC, "_-_")
    kind, other = type(left), type(right)
    if kind is Timestamp and other is Duration:
        return checked_timestamp(left.nanoseconds - right.nanoseconds)
    if kind is not other or kind is str:
        raise NoSuchOverloadError
    if kind in (Duration, Timestamp):
        return checked_duration(left.nanoseconds - right.nanoseconds)
    return _checked(kind, int(left) - int(right) if kind is Uint else left - right)


def _multiply(_: Frame, left: Value, right: Value) -> Value:
    _require_numbers(left, right, "_*_")
    return _checked(type(left), left * right)


def _divide(_: Frame, left: Value, right: Value) -> Value:
    _require_numbers(left, right, "_/_")
    if type(left) is float:
        return _divide_doubles(left, right)
    if right == 0:
        raise EvaluationError("division by zero")
    quotient = abs(left) // abs(right)
    return _checked(type(left), quotient if (left < 0) == (right < 0) else -quotient)


def _require_numbers(left: Value, right: Value, operator: str) -> None:
    _require(left, _ARITHMETIC, operator)
    if type(left) is not type(right) or type(left) not in _NUMERIC:
        raise NoSuchOverloadError


def _divide_doubles(left: float, right: float) -> float:
    if right:
        return left / right
    sign = str(right)[0] == "-"
    if left == 0 or left != left:  # noqa: PLR0124 - NaN differs from itself
        return float("nan")
    return float("-inf") if (left < 0) != sign else float("inf")


def _modulo(_: Frame, left: Value, right: Value) -> Value:
    if type(left) is float:
        raise NoSuchOverloadError("_%_")
    _require_numbers(left, right, "_%_")
    if right == 0:
        raise EvaluationError("modulus by zero")
    remainder = abs(left) % abs(right)
    return _checked(type(left), -remainder if left < 0 else remainder)


def _negate(_: Frame, value: Value) -> Value:
    if type(value) in (str, bool, Timestamp):
        raise NoSuchOverloadError
    _require(value, frozenset({int, float, Duration}), "-_")
    if type(value) is Duration:
        return checked_duration(-value.nanoseconds)
    return checked_int(-value) if type(value) is int else -value


def _not(_: Frame, value: Value) -> Value:
    if type(value) is not bool:
        raise NoSuchOverloadError
    return not value


def _comparison(operator: str, verdict: Callable[[int], bool]) -> Callable[[Frame, Value, Value], bool]:
    def run(frame: Frame, left: Value, right: Value) -> bool:
        _require(left, _COMPARING, operator)
        if type(left) in (str, bytes):
            frame.add_work(len(left))  # cel-go counts no cost if the checker does not know the types
        return verdict(compare(left, right))

    return run


def _in(frame: Frame, value: Value, items: Value) -> bool:
    if type(items) is list:
        frame.add_work(len(items))
        return contains(items, value, frame)
    if type(items) is dict:
        return find(items, value).present
    raise NoSuchOverloadError


def _size(_: Frame, value: Value) -> int:
    if type(value) in (Duration, Timestamp):
        raise NoSuchOverloadError("")
    if type(value) not in (str, bytes, list, dict):
        raise NoSuchOverloadError("size")
    return len(value)


def _text_test(test: Callable[[str, str], bool]) -> Callable[[Frame, Value, Value], bool]:
    def run(_: Frame, text: Value, part: Value) -> bool:
        if type(text) is not str or type(part) is not str:
            raise NoSuchOverloadError
        return test(text, part)

    return run


def _type(_: Frame, value: Value) -> Value:
    return TypeName(type_name(value))


_COMPARISONS: dict[str, tuple[str, Callable[[int], bool]]] = {
    "_<_": ("less", lambda order: order < 0),
    "_<=_": ("less_equals", lambda order: order <= 0),
    "_>_": ("greater", lambda order: order > 0),
    "_>=_": ("greater_equals", lambda order: order >= 0),
}
_SAME = ("bool", "int64", "uint64", "double", "string", "bytes", "timestamp", "duration")
_MIXED = ("int64", "uint64", "double")
_TYPES = {"int64": "int", "uint64": "uint"}


def _comparison_overloads() -> tuple[Overload, ...]:
    """Declare comparisons, including those between different numeric types, which the checker lacks."""
    pairs = [(kind, kind) for kind in _SAME] + [(a, b) for a in _MIXED for b in _MIXED if a != b]
    return tuple(
        Overload(
            f"{name}_{left}" if left == right else f"{name}_{left}_{right}",
            f"{operator}({_TYPES.get(left, left)},{_TYPES.get(right, right)})",
            "bool",
        )
        for operator, (name, _) in _COMPARISONS.items()
        for left, right in pairs
    )


LIBRARY = Library(
    overloads=_comparison_overloads(),
    functions={
        "_+_": add,
        "_-_": _subtract,
        "_*_": _multiply,
        "_/_": _divide,
        "_%_": _modulo,
        "-_": _negate,
        "!_": _not,
        "@in": _in,
        "size": _size,
        "type": _type,
        "startsWith": _text_test(str.startswith),
        "endsWith": _text_test(str.endswith),
        "contains": _text_test(str.__contains__),
        **{operator: _comparison(operator, verdict) for operator, (_, verdict) in _COMPARISONS.items()},
    },
)
EXCLUDED = tuple(_COMPARISONS)
"""Functions whose own declarations the checker drops for ours."""
