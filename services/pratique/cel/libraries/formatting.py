"""``format``: its clauses, and the strings that they write.

Source: ``github.com/google/cel-go/ext/formatting.go``, which Kubernetes uses with the locale ``en_US``. So ``%f``
separates thousands, and ``%e`` writes the exponent in superscript, and takes the precision for a width.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from pratique.apimachinery.statuses import go_quoted
from pratique.cel.errors import EvaluationError
from pratique.cel.values import (
    MAXIMUM_INT,
    Duration,
    Timestamp,
    TypeName,
    Uint,
    Value,
    duration_text,
    timestamp_text,
    to_text,
    type_name,
)

if TYPE_CHECKING:
    from pratique.cel.activation import Frame

_DEFAULT_PRECISION = 6
_MAXIMUM_PRECISION = 1000
"""Digits after the point. Without a limit, an expression could fill the process's memory."""
_LONGEST_INT = len(str(MAXIMUM_INT))
_DIGITS = frozenset("0123456789")
_SPECIAL_DOUBLES = frozenset({"NaN", "Infinity", "-Infinity"})


class Clause(NamedTuple):
    """A clause of a format string, ``%.2f``."""

    letter: str
    precision: int


def fill_clauses(
    text: str, arguments: int, write: Callable[[Clause, int], str], *, compiling: bool = False
) -> str:
    """Replace the clauses of a format string.

    Args:
        text: The format string.
        arguments: The number of arguments.
        write: Writes the argument that has this index by its clause.
        compiling: Report a string that ends in ``%`` before a missing argument, as cel-go's validator does.

    Raises:
        EvaluationError: a clause is malformed or has no argument, in cel-go's words.
    """
    written: list[str] = []
    place = begin = 0
    while (percent := text.find("%", begin)) >= 0:
        written.append(text[begin:percent])
        begin = percent + 1
        if text.startswith("%", begin):
            written.append("%")
            begin += 1
            continue
        if place >= arguments and (begin < len(text) or not compiling):
            raise EvaluationError(f"index {place} out of range")
        clause, begin = _read_clause(text, begin)
        written.append(write(clause, place))
        place += 1
    return "".join([*written, text[begin:]])


def _read_clause(text: str, begin: int) -> tuple[Clause, int]:
    """Read the clause that begins there; where it ends."""
    if begin == len(text):
        raise EvaluationError("unexpected end of string")
    precision, place = _read_precision(text, begin + 1) if text[begin] == "." else (_DEFAULT_PRECISION, begin)
    letter = text[place]
    if letter not in CLAUSES:
        first_byte = chr(letter.encode()[0])  # cel-go reads the string byte by byte
        raise _clause_error(f'unrecognized formatting clause "{first_byte}"')
    return Clause(letter, precision), place + 1


def _read_precision(text: str, begin: int) -> tuple[int, int]:
    end = next((place for place in range(begin, len(text)) if text[place] not in _DIGITS), None)
    if end is None:
        raise _precision_error("could not find end of precision specifier")
    digits = text[begin:end]
    significant = digits.lstrip("0") or "0"
    if not digits or len(significant) > _LONGEST_INT or int(significant) > MAXIMUM_INT:
        problem = "value out of range" if digits else "invalid syntax"
        failure = f"strconv.Atoi: parsing {go_quoted(digits)}: {problem}"
        raise _precision_error(f"error while converting precision to integer: {failure}")
    return int(significant), end


def _clause_error(text: str) -> EvaluationError:
    return EvaluationError(f"could not parse formatting clause: {text}")


def _precision_error(text: str) -> EvaluationError:
    return _clause_error(f"error while parsing precision: {text}")


def format_text(frame: Frame, text: str, values: list[Value]) -> str:
    """Fill in the clauses of a format string with values. Raises EvaluationError with cel-go's message."""

    def write(clause: Clause, place: int) -> str:
        filled = CLAUSES[clause.letter].write(values[place], clause.precision)
        frame.add_work(len(filled))
        return filled

    return fill_clauses(text, len(values), write)


def _refusal(text: str, value: Value) -> EvaluationError:
    return EvaluationError(f"{FORMATTING}: {text}, was given {type_name(value)}")


FORMATTING = "error during formatting"
"""How the error of a clause begins."""

_STRING = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps"
)
_DECIMAL = "decimal clause can only be used on integers"
_FIXED = "fixed-point clause can only be used on doubles"
_SCIENTIFIC = "scientific clause can only be used on doubles"
_BINARY = "only integers and bools can be formatted as binary"
_OCTAL = "octal clause can only be used on integers"
_HEXADECIMAL = "only integers, byte buffers, and strings can be formatted as hex"


def _string(value: Value, _: int) -> str:
    if type(value) is list:
        return f"[{', '.join(map(_element, value))}]"
    if type(value) is dict:
        entries = sorted((_key(key), _element(member)) for key, member in value.items())
        return "{" + ", ".join(f"{key}:{member}" for key, member in entries) + "}"
    if type(value) is bytes:
        return str(value.decode(errors="replace"))
    if type(value) in (str, int, Uint, float, bool, type(None), Duration, Timestamp, TypeName):
        return to_text(value)
    raise _refusal(_STRING, value)


def _key(value: Value) -> str:
    if type(value) is float:
        raise EvaluationError(f"{FORMATTING}: no formatting function for map key of type double")
    return _element(value)


def _element(value: Value) -> str:
    """Format a value inside a list or map, where strings are quoted."""
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
        case bool() | int() | list() | dict() | TypeName() | None:
            return _string(value, 0)
        case _:
            raise EvaluationError(f"{FORMATTING}: no formatting function for {type_name(value)}")


def _decimal(value: Value, _: int) -> str:
    if type(value) not in (int, Uint):
        raise _refusal(_DECIMAL, value)
    return str(int(value))


def _double(value: Value, refusal: str) -> float:
    if type(value) is float or (type(value) is str and value in _SPECIAL_DOUBLES):
        return float(value) or 0.0  # there is no negative zero
    raise _refusal(refusal, value)


def _fixed(value: Value, precision: int) -> str:
    number = _double(value, _FIXED)
    _check_precision(precision)
    return f"{number:,.{precision}f}" if math.isfinite(number) else _infinite(number)


def _check_precision(precision: int) -> None:
    if precision > _MAXIMUM_PRECISION:
        raise EvaluationError(f"precision {precision} exceeds maximum allowed precision {_MAXIMUM_PRECISION}")


_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def _scientific(value: Value, width: int) -> str:
    number = _double(value, _SCIENTIFIC)
    _check_precision(width)
    if not math.isfinite(number):
        return _infinite(number).rjust(width)
    mantissa, _, exponent = f"{number:.{_DEFAULT_PRECISION}e}".partition("e")
    return f"{mantissa}\N{MULTIPLICATION SIGN}10{exponent.removeprefix('+').translate(_SUPERSCRIPTS)}".rjust(
        width
    )


def _infinite(number: float) -> str:
    if math.isnan(number):
        return "NaN"
    return "∞" if number > 0 else "-∞"


def _binary(value: Value, _: int) -> str:
    if type(value) not in (int, Uint, bool):
        raise _refusal(_BINARY, value)
    return format(int(value), "b")


def _octal(value: Value, _: int) -> str:
    if type(value) not in (int, Uint):
        raise _refusal(_OCTAL, value)
    return format(int(value), "o")


def _hexadecimal(value: Value, _: int) -> str:
    if type(value) in (str, bytes):
        return (value if type(value) is bytes else value.encode()).hex()
    if type(value) not in (int, Uint):
        raise _refusal(_HEXADECIMAL, value)
    return format(int(value), "x")


class ClauseKind(NamedTuple):
    """What a clause does."""

    write: Callable[[Value, int], str]
    """Writes a value with a precision. Raises EvaluationError if the value has another type."""
    types: frozenset[str]
    """The types of the arguments that it takes, without parameters and as cel-go writes them in errors."""
    refusal: str
    """What is wrong with an argument of another type."""


_INTEGERS = frozenset({"int", "uint"})
_DOUBLES = frozenset({"double", "string"})
_FORMATTED = _INTEGERS | _DOUBLES | {"list", "map", "bool", "timestamp", "bytes", "duration", "type", "null"}
_HEX_DIGITS = _INTEGERS | {"string", "bytes"}

CLAUSES: Mapping[str, ClauseKind] = {
    "s": ClauseKind(_string, _FORMATTED, _STRING),
    "d": ClauseKind(_decimal, _INTEGERS, _DECIMAL),
    "f": ClauseKind(_fixed, _DOUBLES, _FIXED),
    "e": ClauseKind(_scientific, _DOUBLES, _SCIENTIFIC),
    "b": ClauseKind(_binary, _INTEGERS | {"bool"}, _BINARY),
    "o": ClauseKind(_octal, _INTEGERS, _OCTAL),
    "x": ClauseKind(_hexadecimal, _HEX_DIGITS, _HEXADECIMAL),
    "X": ClauseKind(
        lambda value, precision: _hexadecimal(value, precision).upper(), _HEX_DIGITS, _HEXADECIMAL
    ),
}
"""The clauses by letter."""
