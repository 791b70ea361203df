"""What is wrong with a JSON text, in the words of Go's ``encoding/json``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pratique.apimachinery.statuses import go_quoted

if TYPE_CHECKING:
    from pratique.apimachinery.json_values import JSON

_SPACES = re.compile(r"[ \t\r\n]*")
_STRING_CONTENT = re.compile(r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
_HEX_DIGITS = re.compile(r"[0-9a-fA-F]*")
_DIGITS = re.compile(r"[0-9]*")
_LITERALS = {"t": "true", "f": "false", "n": "null"}
_CLOSING = {"{": "}", "[": "]"}
_AFTER = {"{": "after object key:value pair", "[": "after array element"}


def syntax_error(raw: bytes) -> str:
    """Say where a text stops being JSON; empty where it is JSON.

    At most one character of the text is quoted.
    """
    # Latin-1 makes one character of each byte, which is how Go's scanner sees them.
    text = raw.decode("latin-1")
    try:
        _scan(text)
    except _SyntaxFaultError as fault:
        if fault.position >= len(text):
            return "unexpected end of JSON input"
        return f"invalid character {_go_quoted_character(text[fault.position])} {fault.context}"
    return ""


def type_error(value: JSON, go_type: str) -> str:
    """Say that a JSON value is not of the Go type that was expected: ``UnmarshalTypeError``."""
    return f"json: cannot unmarshal {go_kind(value)} into Go value of type {go_type}"


def go_kind(value: JSON) -> str:
    """What Go calls the kind of a JSON value."""
    match value:
        case bool():
            return "bool"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "object"
        case None:
            return "null"
        case _:
            return "number"


class _SyntaxFaultError(Exception):
    def __init__(self, position: int, context: str) -> None:
        super().__init__(context)
        self.position = position
        self.context = context


def _scan(text: str) -> None:
    opened: list[str] = []
    position = _skip_spaces(text, 0)
    while True:
        position, complete = _begin_value(text, position, opened)
        if not complete:
            continue
        while opened and text[position : position + 1] == _CLOSING[opened[-1]]:
            opened.pop()
            position = _skip_spaces(text, position + 1)
        if not opened:
            break
        position = _skip_spaces(text, _expect(text, position, ",", _AFTER[opened[-1]]))
        if opened[-1] == "{":
            position = _skip_key(text, position)
    if position < len(text):
        raise _SyntaxFaultError(position, "after top-level value")


def _begin_value(text: str, position: int, opened: list[str]) -> tuple[int, bool]:
    """Skip a scalar, or open an object or array; True where what follows is no value."""
    first = text[position : position + 1]
    if first not in _CLOSING:
        return _skip_spaces(text, _skip_scalar(text, position)), True
    opened.append(first)
    position = _skip_spaces(text, position + 1)
    if text[position : position + 1] == _CLOSING[first]:
        return position, True
    return (_skip_key(text, position) if first == "{" else position), False


def _skip_key(text: str, position: int) -> int:
    start = _expect(text, position, '"', "looking for beginning of object key string")
    position = _skip_spaces(text, _skip_string(text, start))
    return _skip_spaces(text, _expect(text, position, ":", "after object key"))


def _skip_scalar(text: str, position: int) -> int:
    first = text[position : position + 1]
    if first == '"':
        return _skip_string(text, position + 1)
    if first in _LITERALS:
        return _skip_literal(text, position, _LITERALS[first])
    if first == "-" or (first.isascii() and first.isdigit()):
        return _skip_number(text, position)
    raise _SyntaxFaultError(position, "looking for beginning of value")


def _skip_string(text: str, position: int) -> int:
    position = _end(_STRING_CONTENT, text, position)
    if text[position : position + 1] != "\\":
        return _expect(text, position, '"', "in string literal")
    if text[position + 1 : position + 2] == "u":
        raise _SyntaxFaultError(_end(_HEX_DIGITS, text, position + 2), "in \\u hexadecimal character escape")
    raise _SyntaxFaultError(position + 1, "in string escape code")


def _skip_literal(text: str, position: int, literal: str) -> int:
    for expected in literal:
        position = _expect(text, position, expected, f"in literal {literal} (expecting '{expected}')")
    return position


def _skip_number(text: str, position: int) -> int:
    if text[position] == "-":
        position += 1
    if text[position : position + 1] == "0":
        position += 1
    else:
        position = _skip_digits(text, position, "in numeric literal")
    if text[position : position + 1] == ".":
        position = _skip_digits(text, position + 1, "after decimal point in numeric literal")
    if text[position : position + 1] in ("e", "E"):
        position += 2 if text[position + 1 : position + 2] in ("+", "-") else 1
        position = _skip_digits(text, position, "in exponent of numeric literal")
    return position


def _skip_digits(text: str, position: int, context: str) -> int:
    end = _end(_DIGITS, text, position)
    if end == position:
        raise _SyntaxFaultError(position, context)
    return end


def _skip_spaces(text: str, position: int) -> int:
    return _end(_SPACES, text, position)


def _expect(text: str, position: int, character: str, context: str) -> int:
    if text[position : position + 1] != character:
        raise _SyntaxFaultError(position, context)
    return position + 1


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return found.end() if found else position


def _go_quoted_character(character: str) -> str:
    """Quote as the scanner does: Go's ``%q`` of the character, between single quotes."""
    if character in "'\"":
        return "'\\''" if character == "'" else "'\"'"
    return f"'{go_quoted(character)[1:-1]}'"
