"""Values as Go's ``fmt`` prints them, and texts as ``encoding/base64`` and ``strconv`` parse them."""

from __future__ import annotations

import base64
import decimal
import itertools
import re

from pratique.apimachinery.json_values import INT64, JSON, float_text, member
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import go_quoted

_SMALLEST_EXPONENT, _LARGEST_EXPONENT = -4, 6
"""Outside this range ``%v`` prints an exponent."""

_TYPES = {
    type(None): "<nil>",
    bool: "bool",
    int: "int64",
    float: "float64",
    str: "string",
    list: "[]interface {}",
    dict: "map[string]interface {}",
}


def go_type_of(value: JSON) -> str:
    """Print the type of a value, as ``%T`` does: ``map[string]interface {}``."""
    return _TYPES[type(value)]


def go_text(value: JSON) -> str:
    """Print a value as ``%v`` does: ``map[a:[1 b]]``."""
    match value:
        case None:
            return "<nil>"
        case bool():
            return str(value).lower()
        case float():
            return _general(value)
        case list():
            return f"[{' '.join(map(go_text, value))}]"
        case dict():
            return f"map[{' '.join(f'{name}:{go_text(child)}' for name, child in sorted(value.items()))}]"
        case _:
            return str(value)


def go_syntax(value: JSON) -> str:
    """Print a value as ``%#v`` does: ``map[string]interface {}{"a":1}``."""
    match value:
        case None:
            return "interface {}(nil)"
        case str():
            return go_quoted(value)
        case list():
            return f"{_TYPES[list]}{{{', '.join(map(go_syntax, value))}}}"
        case dict():
            fields = ", ".join(
                f"{go_quoted(name)}:{go_syntax(child)}" for name, child in sorted(value.items())
            )
            return f"{_TYPES[dict]}{{{fields}}}"
        case _:
            return go_text(value)


def _general(value: float) -> str:
    """Print a float as ``%v`` does: ``FormatFloat(value, 'g', -1, 64)``, with an exponent from 10^6 on."""
    digits, _, exponent = f"{decimal.Decimal(repr(value)).normalize():e}".partition("e")
    if not _SMALLEST_EXPONENT <= int(exponent) < _LARGEST_EXPONENT:
        return f"{digits}e{exponent[0]}{exponent[1:]:0>2}"
    return float_text(value)


def go_type(document: JSON) -> str:
    """Name the Go type that an API server decodes an object into: ``*core.Service``, or ``<nil>`` for no object.

    The package is that of the API group under ``k8s.io/kubernetes/pkg/apis``.
    """
    kind = member(document, "kind")
    if not isinstance(kind, str):
        return "<nil>"
    group, slash, _ = str(member(document, "apiVersion") or "").rpartition("/")
    return f"*{group.partition('.')[0] if slash else 'core'}.{kind}"


_DIGITS = pattern(r"[A-Za-z0-9+/]*")
_PADDING = pattern(r"={0,2}")
_NO_LINE_ENDS = dict.fromkeys(map(ord, "\r\n"))


def decode_base64(text: str) -> bytes:
    """Decode base64.

    Raises:
        ValueError: it is not base64; the message is Go's, and names the first illegal byte.
    """
    digits = text.translate(_NO_LINE_ENDS)
    place = _first_bad(digits, text)
    if place is None:
        return base64.b64decode(digits)
    raise ValueError(f"illegal base64 data at input byte {place}")


def _first_bad(digits: str, text: str) -> int | None:
    """Where Go says that a text is not base64, line ends counted; None if it is. ``digits`` is it without line ends."""
    end = _end(_DIGITS, digits, 0)
    over = end % 4
    padded = _end(_PADDING, digits, end)
    if end == len(digits):
        return len(text) - over if over else None
    if padded == end or over < 2:
        return _index_with_line_ends(text, end)
    wanted = end + 4 - over
    if padded < wanted:
        return len(text) if padded == len(digits) else _index_with_line_ends(text, padded) - 1
    return None if wanted == len(digits) else _index_with_line_ends(text, wanted)


def _index_with_line_ends(text: str, index: int) -> int:
    """The index of the character that has another one in the text without line ends."""
    kept = (place for place, character in enumerate(text) if character not in "\r\n")
    return next(itertools.islice(kept, index, None))


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return found.end() if found else start


_INTEGER = pattern(r"[+-]?[0-9]+")
_MAX_DIGITS = 19
"""The digits of the largest int64. Python refuses to read more than 4,300 at all, even zeros."""


_INDEX_DIGITS = 9
"""More digits than an index needs: no document has a billion values."""


def is_index(step: str) -> bool:
    """Whether a step of a path may be the index of an item; what has more digits can only be the name of a member."""
    return step.isascii() and step.isdecimal() and len(step) <= _INDEX_DIGITS


def parse_int64(text: str, function: str = "ParseInt") -> int:
    """Parse an integer as ``strconv.ParseInt`` or ``strconv.Atoi`` does.

    Raises:
        ValueError: the text is not an int64; the message is Go's, and names ``function``.
    """
    if not _INTEGER.fullmatch(text):
        raise ValueError(f"strconv.{function}: parsing {go_quoted(text)}: invalid syntax")
    digits = text.lstrip("+-0") or "0"
    number = int(digits[: _MAX_DIGITS + 1]) * (-1 if text.startswith("-") else 1)
    if number not in INT64:
        raise ValueError(f"strconv.{function}: parsing {go_quoted(text)}: value out of range")
    return number
