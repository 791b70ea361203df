"""String formats: ``'%s is %d'.format([name, number])``.

Source: ``github.com/google/cel-go/ext/formatting.go``.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING

from pratique.cel.errors import EvaluationError
from pratique.cel.texts import duration_text, timestamp_text, to_text
from pratique.cel.values import Duration, Timestamp, TypeName, Uint, Value, type_name
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from pratique.cel.frames import Frame

_CLAUSE = re.compile(r"%(?:%|(?:\.([0-9]*))?(.?))", re.DOTALL)
_DEFAULT_PRECISION = 6
_MAXIMUM_PRECISION = 1000
"""Digits after the point; cel-go has no limit of its own here, and the process would fill its memory."""
_SPECIAL_DOUBLES = frozenset({"NaN", "Infinity", "-Infinity"})


def format_text(frame: Frame, text: str, values: list[Value]) -> str:
    """Fill in the clauses of a format. Raises EvaluationError in cel-go's words."""
    remaining = iter(enumerate(values))

    def fill(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        place, value = next(remaining, (len(values), None))
        if place == len(values):
            raise EvaluationError(f"index {place} out of range")
        if not match[2]:
            raise EvaluationError("unexpected end of string")
        filled = _clause(match[2], match[1], value)
        frame.work(len(filled))
        return filled

    return _CLAUSE.sub(fill, text)


def _clause(letter: str, precision: str | None, value: Value) -> str:
    write = _CLAUSES.get(letter)
    if write is None:
        failure = f'unrecognized formatting clause "{letter}"'
        raise EvaluationError(f"could not parse formatting clause: {failure}")
    return write(value, _precision(precision))


def _precision(digits: str | None) -> int:
    if digits is None:
        return _DEFAULT_PRECISION
    if not digits or len(digits) > 9:
        failure = f'strconv.Atoi: parsing "{digits}": invalid syntax'
        raise EvaluationError(
            "could not parse formatting clause: error while parsing precision: "
            f"error while converting precision to integer: {failure}"
        )
    if int(digits) > _MAXIMUM_PRECISION:
        raise EvaluationError(f"precision {digits} exceeds maximum allowed precision {_MAXIMUM_PRECISION}")
    return int(digits)


def _refusal(text: str, value: Value) -> EvaluationError:
    return EvaluationError(f"error during formatting: {text}, was given {type_name(value)}")


_NO_STRING = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps"
)


def _string(value: Value, _: int) -> str:
    if type(value) is list:
        return f"[{', '.join(map(_element, value))}]"
    if type(value) is dict:
        entries = sorted((_element(key), _element(member)) for key, member in value.items())
        return "{" + ", ".join(f"{key}:{member}" for key, member in entries) + "}"
    if type(value) is bytes:
        return str(value.decode(errors="replace"))
    if type(value) in (str, int, Uint, float, bool, type(None), Duration, Timestamp, TypeName):
        return to_text(value)
    raise _refusal(_NO_STRING, value)


def _element(value: Value) -> str:
    """Write a value inside a list or map, where texts stand in quotes."""
    match value:
        case str():
            return go_quoted(value)
        case bytes():
            return f"b{go_quoted(value.decode(errors='replace'))}"
        case float():
            return f"{value:.6f}" if math.isfinite(value) else go_quoted(to_text(value))
        case Timestamp():
            return f'timestamp("{timestamp_text(value)}")'
        case Duration():
            return f'duration("{duration_text(value)}")'
        case _ if hasattr(value, "cel_type"):
            raise EvaluationError(f"error during formatting: no formatting function for {type_name(value)}")
        case _:
            return _string(value, 0)


def _decimal(value: Value, _: int) -> str:
    if type(value) not in (int, Uint):
        raise _refusal("decimal clause can only be used on integers", value)
    return str(int(value))


def _double(value: Value, clause: str) -> float:
    if type(value) is float or (type(value) is str and value in _SPECIAL_DOUBLES):
        return float(value)
    raise _refusal(f"{clause} clause can only be used on doubles", value)


def _fixed(value: Value, precision: int) -> str:
    number = _double(value, "fixed-point")
    return f"{number:.{precision}f}" if math.isfinite(number) else _infinite(number)


def _scientific(value: Value, precision: int) -> str:
    number = _double(value, "scientific")
    return f"{number:.{precision}e}" if math.isfinite(number) else _infinite(number)


def _infinite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "∞" if number > 0 else "-∞"


def _binary(value: Value, _: int) -> str:
    if type(value) not in (int, Uint, bool):
        raise _refusal("only integers and bools can be formatted as binary", value)
    return format(int(value), "b")


def _octal(value: Value, _: int) -> str:
    if type(value) not in (int, Uint):
        raise _refusal("octal clause can only be used on integers", value)
    return format(int(value), "o")


def _hexadecimal(value: Value, _: int) -> str:
    if type(value) in (str, bytes):
        return (value if type(value) is bytes else value.encode()).hex()
    if type(value) not in (int, Uint):
        raise _refusal("only integers, byte buffers, and strings can be formatted as hex", value)
    return format(int(value), "x")


_CLAUSES: dict[str, Callable[[Value, int], str]] = {
    "s": _string,
    "d": _decimal,
    "f": _fixed,
    "e": _scientific,
    "b": _binary,
    "o": _octal,
    "x": _hexadecimal,
    "X": lambda value, precision: _hexadecimal(value, precision).upper(),
}
