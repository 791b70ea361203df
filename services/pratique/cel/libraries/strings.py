"""Strings: cel-go's extension, version 2, as Kubernetes has it, with ``format``; and ``jsonpatch.escapeKey``.

Sources: ``github.com/google/cel-go/ext/strings.go`` and ``k8s.io/apiserver/pkg/cel/library/jsonpatch.go``. Only the
expressions of mutations may call ``jsonpatch.escapeKey``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from typing import TYPE_CHECKING

from pratique.apimachinery.statuses import go_quoted
from pratique.cel.declarations import Library, Overload
from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.values import (
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


_CLAUSE = re.compile(r"%(?:%|(?:\.([0-9]*))?(.?))", re.DOTALL)
_DEFAULT_PRECISION = 6
_MAXIMUM_PRECISION = 1000
"""Digits after the point. cel-go has no limit here; without one, an expression could fill the process's memory."""
_SPECIAL_DOUBLES = frozenset({"NaN", "Infinity", "-Infinity"})


def format_text(frame: Frame, text: str, values: list[Value]) -> str:
    """Fill in the clauses of a format string. Raises EvaluationError with cel-go's message."""
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
        frame.add_work(len(filled))
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


def _formatting_error(text: str, value: Value) -> EvaluationError:
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
    raise _formatting_error(_NO_STRING, value)


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
        case _ if hasattr(value, "cel_type"):
            raise EvaluationError(f"error during formatting: no formatting function for {type_name(value)}")
        case _:
            return _string(value, 0)


def _decimal(value: Value, _: int) -> str:
    if type(value) not in (int, Uint):
        raise _formatting_error("decimal clause can only be used on integers", value)
    return str(int(value))


def _double(value: Value, clause: str) -> float:
    if type(value) is float or (type(value) is str and value in _SPECIAL_DOUBLES):
        return float(value)
    raise _formatting_error(f"{clause} clause can only be used on doubles", value)


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
        raise _formatting_error("only integers and bools can be formatted as binary", value)
    return format(int(value), "b")


def _octal(value: Value, _: int) -> str:
    if type(value) not in (int, Uint):
        raise _formatting_error("octal clause can only be used on integers", value)
    return format(int(value), "o")


def _hexadecimal(value: Value, _: int) -> str:
    if type(value) in (str, bytes):
        return (value if type(value) is bytes else value.encode()).hex()
    if type(value) not in (int, Uint):
        raise _formatting_error("only integers, byte buffers, and strings can be formatted as hex", value)
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


_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)
"""The white space of Go's ``strings.TrimSpace``."""
_ESCAPES = {
    "\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\v": "\\v",
    "\\": "\\\\", '"': '\\"',
}  # fmt: skip


def require_types(kinds: tuple[type, ...], *values: Value) -> None:
    """Check the types of arguments. Raises NoSuchOverloadError if one has another type."""
    if any(type(value) is not kind for kind, value in zip(kinds, values, strict=True)):
        raise NoSuchOverloadError


def _char_at(_: Frame, text: Value, place: Value) -> str:
    require_types((str, int), text, place)
    if not 0 <= place <= len(text):
        raise EvaluationError(f"index out of range: {place}")
    return str(text[place : place + 1])


def index_of(text: str, part: str, start: int) -> int:
    """Find ``part`` from ``start`` on; -1 if there is none. Raises EvaluationError for a negative start."""
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    if not part:
        return min(start, len(text))
    return text.find(part, start)


def last_index_of(text: str, part: str, start: int | None) -> int:
    """Find the last ``part`` that begins at ``start`` or before; -1 if there is none. Raises as :func:`index_of`."""
    if start is None:
        return _find_last(text, part)
    if start < 0:
        raise EvaluationError(f"index out of range: {start}")
    if not part:
        return min(start, len(text))
    return -1 if start >= len(text) else _find_last(text[: start + len(part)], part)


def _find_last(text: str, part: str) -> int:
    """Find the last occurrence in linear time; ``str.rfind`` may take quadratic time."""
    place = text[::-1].find(part[::-1])
    return -1 if place < 0 else len(text) - len(part) - place


def _change_case(frame: Frame, text: Value, *, upper: bool) -> str:
    require_types((str,), text)
    frame.add_work(len(text))
    encoded = text.encode()
    return str((encoded.upper() if upper else encoded.lower()).decode())


def _replace(frame: Frame, text: Value, old: Value, new: Value, limit: Value = -1) -> str:
    require_types((str, str, str, int), text, old, new, limit)
    count = text.count(old) if limit < 0 else min(text.count(old), limit)
    frame.add_work(len(text) + count * len(new))
    return str(text.replace(old, new, limit))


def _split(frame: Frame, text: Value, separator: Value, limit: Value = -1) -> list[str]:
    require_types((str, str, int), text, separator, limit)
    frame.add_work(len(text))
    if limit == 0:
        return []
    if not separator:
        return list(text) if limit < 0 or limit >= len(text) else [*text[: limit - 1], text[limit - 1 :]]
    return list(text.split(separator, limit - 1 if limit > 0 else -1))


def _join(_: Frame, items: Value, separator: Value = "") -> str:
    require_types((list, str), items, separator)
    for item in items:
        if type(item) is not str:
            raise EvaluationError(f"join: invalid input: {to_text(item)}")
    return str(separator.join(items))


def _substring(_: Frame, text: Value, start: Value, end: Value = None) -> str:
    require_types((str, int, int), text, start, len(text) if end is None and type(text) is str else end)
    stop = len(text) if end is None else end
    if end is not None and start > stop:
        raise EvaluationError(f"invalid substring range. start: {start}, end: {end}")
    for place in (start, stop):
        if not 0 <= place <= len(text):
            raise EvaluationError(f"index out of range: {place}")
    return str(text[start:stop])


def _trim(_: Frame, text: Value) -> str:
    require_types((str,), text)
    return str(text.strip(_SPACE))


def _quote(_: Frame, text: Value) -> str:
    require_types((str,), text)
    return '"' + "".join(_ESCAPES.get(character, character) for character in text) + '"'


def _format(frame: Frame, text: Value, values: Value) -> str:
    require_types((str, list), text, values)
    return format_text(frame, text, values)


STRINGS = Library(
    overloads=(
        Overload("string_char_at_int", "string.charAt(int)", "string"),
        Overload("string_lower_ascii", "string.lowerAscii()", "string"),
        Overload("string_upper_ascii", "string.upperAscii()", "string"),
        Overload("string_replace_string_string", "string.replace(string,string)", "string"),
        Overload("string_replace_string_string_int", "string.replace(string,string,int)", "string"),
        Overload("string_split_string", "string.split(string)", "list<string>"),
        Overload("string_split_string_int", "string.split(string,int)", "list<string>"),
        Overload("string_substring_int", "string.substring(int)", "string"),
        Overload("string_substring_int_int", "string.substring(int,int)", "string"),
        Overload("string_trim", "string.trim()", "string"),
        Overload("string_format", "string.format(list<dyn>)", "string"),
        Overload("strings_quote", "strings.quote(string)", "string"),
        Overload("list_join", "list<string>.join()", "string"),
        Overload("list_join_string", "list<string>.join(string)", "string"),
    ),
    functions={
        "charAt": _char_at,
        "lowerAscii": lambda frame, text: _change_case(frame, text, upper=False),
        "upperAscii": lambda frame, text: _change_case(frame, text, upper=True),
        "replace": _replace,
        "split": _split,
        "join": _join,
        "substring": _substring,
        "trim": _trim,
        "strings.quote": _quote,
        "format": _format,
    },
)


def _escape_key(_: Frame, text: Value) -> str:
    require_types((str,), text)
    return str(text.replace("~", "~0").replace("/", "~1"))


JSON_PATCH = Library(
    overloads=(Overload("string_jsonpatch_escapeKey_string", "jsonpatch.escapeKey(string)", "string"),),
    functions={"jsonpatch.escapeKey": _escape_key},
)
