"""Reading JSON: the limits on its depth, size and members, and syntax errors in the words of Go's ``encoding/json``.

The limits are checked without building what the text describes.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import json.decoder
import json.scanner
import math
import re
from array import array
from collections.abc import Iterator
from typing import Any, NoReturn, cast

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, NULL, Document, decode
from pratique.apimachinery.statuses import go_quoted

_STRUCTURAL = b'"{}[],'
_NOT_STRUCTURAL = bytes(set(range(256)) - set(_STRUCTURAL))
_COMMAS = b","
_PORTION_BYTES = 64 * 1024
_DEPTH_CHANGES = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")
_MAX_PASSES = 8
"""What is less nested than that is soon nothing. Each pass looks at all that is left."""


def structural_characters(raw: bytes) -> bytes:
    """The brackets and commas of a text that stand in no string."""
    if b"\\" in raw:
        # In pairs from the left, so that what is left escapes what follows it.
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes side by side are a string without marks, or the end of one string and the beginning of the next.
    marks = b"".join(portion.translate(None, _NOT_STRUCTURAL) for portion in _chunks(raw)).replace(b'""', b"")
    return _outside_strings(marks) if b'"' in marks else marks


def _chunks(text: bytes) -> Iterator[bytes]:
    """A text in pieces, between which others run; a list of what is in all of it would take ten times its memory."""
    for start in range(0, len(text), _PORTION_BYTES):
        yield text[start : start + _PORTION_BYTES]


def _outside_strings(marks: bytes) -> bytes:
    """What stands between strings."""
    outside, inside = [], 0
    for portion in _chunks(marks):
        pieces = portion.split(b'"')
        outside.append(b"".join(pieces[inside::2]))
        inside ^= (len(pieces) - 1) % 2
    return b"".join(outside)


def count_values(marks: bytes) -> int:
    """How many values marks stand for, or one or two less."""
    return marks.count(b"{") + marks.count(b"[") + marks.count(b",")


def exceeds_depth(marks: bytes, most: int) -> bool:
    """True where brackets are open at a time that are more than ``most``."""
    brackets = marks.translate(None, _COMMAS)
    for taken in range(_MAX_PASSES):
        # Without its innermost pairs a text has a level less. What is still open then is on as many levels at most.
        if taken + brackets.count(b"{") + brackets.count(b"[") <= most:
            return False
        brackets = brackets.replace(b"[]", b"") if taken % 2 else brackets.replace(b"{}", b"")
    return _depth(marks) > most


def _depth(marks: bytes) -> int:
    steps = array("b", marks.translate(_DEPTH_CHANGES, _COMMAS))
    return max(itertools.accumulate(steps), default=0)


_LONGEST_FLOAT64 = 308
"""Digits that a float64 always has room for."""


class InvalidMemberError(InputError):
    """A member or item cannot be."""


def check_members(raw: bytes) -> None:
    """Look at every member and number. Nothing is kept of them, and other threads run in between.

    Raises:
        MemberFaultError: what is wrong, and the byte at which the object or array begins that holds it.
        msgspec.DecodeError: it is no JSON.
    """
    _syntax_decoder.decode(raw)
    text = str(raw, "utf-8")
    try:
        _checking_decoder.decode(text)
    except InvalidMemberError as fault:
        begin = len(text[: _fault_position(text)].encode())
        raise InvalidMemberError(f"{fault}, in the object or array that begins at byte {begin}") from None


def _check_member_names(pairs: list[tuple[str, JSON]]) -> None:
    """Look at an object's members. Nothing is kept of it, so that a large text takes no memory."""
    names = {name for name, _ in pairs}
    if len(names) != len(pairs):
        raise InvalidMemberError("holds a member twice")
    if "\0" in "".join(names):
        raise InvalidMemberError("holds a member whose name has a NUL")


def _check_integer(text: str) -> int:
    """One that is no int64 is read as a float64."""
    return 0 if len(text) <= _LONGEST_FLOAT64 else _check_float(text)


def _check_float(text: str) -> int:
    if not math.isfinite(float(text)):
        raise InvalidMemberError("holds a number out of the range of float64")
    return 0


def _refuse_constant(_: str) -> NoReturn:
    raise InvalidMemberError("holds NaN or an infinite number")


_CHECKING_HOOKS: dict[str, Any] = {
    "object_pairs_hook": _check_member_names,
    "parse_int": _check_integer,
    "parse_float": _check_float,
    "parse_constant": _refuse_constant,
}
_checking_decoder = json.JSONDecoder(**_CHECKING_HOOKS)
_syntax_decoder = msgspec.json.Decoder(msgspec.Raw)
"""Finds what is no JSON, and builds nothing."""


def _fault_position(text: str) -> int:
    """Where the object or array begins that holds the fault; the standard library's slow scanner can tell."""
    found: list[int] = []

    def noting(parse: Any) -> Any:
        def parse_container(text_and_start: tuple[str, int], *rest: Any) -> Any:
            try:
                return parse(text_and_start, *rest)
            except InvalidMemberError:
                found.append(text_and_start[1] - 1)
                raise

        return parse_container

    locator = cast("Any", json.JSONDecoder(**_CHECKING_HOOKS))
    locator.parse_object, locator.parse_array = noting(locator.parse_object), noting(locator.parse_array)
    begin = len(text) - len(text.lstrip())
    with contextlib.suppress(InvalidMemberError):
        json.scanner.py_make_scanner(locator)(text, begin)  # type: ignore[attr-defined] # not in the stubs
    return found[0] if found else begin


_encoder = msgspec.json.Encoder()
_UNCERTAIN_ESCAPES = (b"\\u0000", b"\\u003a", b"\\u003A")
"""Escapes for which a glance is not enough: of NUL, and of a colon, which is written as a colon."""


class UncertainError(Exception):
    """It takes a closer look to tell."""


def decode_if_certain(raw: bytes) -> JSON:
    """Parse a text whose members may all be.

    Raises:
        DoubtError: that is not sure.
        msgspec.DecodeError: it is no JSON; as a ``ValidationError`` where it holds a number that is no float64.
        RecursionError: it has more levels than Python has.
    """
    if b"\\" in raw and any(escape in raw for escape in _UNCERTAIN_ESCAPES):
        raise UncertainError
    data = decode(raw)
    written = _encoder.encode(data)
    # Most are written as they were; in others, colons in strings stay.
    if written != raw and written.count(b":") != raw.count(b":"):
        raise UncertainError
    return data


MAX_LEVELS = 200
"""How deep objects and arrays may nest. A schema of a CustomResourceDefinition takes two levels a field and is the
deepest that is met: 60. Python's own limit, which is a crash, is at less than 1,000."""

MAX_VALUES = 600_000
"""How many values a text may hold. Pods have one in 20 bytes, so that a legal review of 7 MiB holds 370,000; the worst
of the same length holds 2.4 million and takes a second and 200 MiB to build."""

TOO_MANY_VALUES = f"more than {MAX_VALUES} values"
"""What is said of a text that holds more."""

LARGE_BYTES = 256 * 1024
"""From here on a text is not for an event loop: it may take longer than 5 ms."""

WHOLE_VALUES = 60_000
"""Up to here a large text is parsed as a whole, too: other threads wait for some 40 ns for each value, and 1 ms for
2 MiB. What holds more is only looked at, and others run in between, which takes five times as long."""

_FEW_BYTES = 16 * 1024
"""Up to here it is worth while to count brackets, for they may be so few that nothing else is to be looked at."""


class JsonLimitError(InputError):
    """A text holds what it may not. Says what and where, and repeats nothing of the text."""


def read_document(raw: bytes) -> Document:
    """Make a document of JSON text that :func:`parse_checked` lets pass; parsed already, where that was cheap.

    Raises:
        JsonLimitError: as :func:`parse_checked`, like the others.
    """
    if not raw:
        return NULL
    data = parse_checked(raw)
    if data is msgspec.UNSET:
        return Document.from_raw(raw)
    return NULL if data is None else Document(raw, data, parsed=True)


def parse_checked(raw: bytes) -> JSON | msgspec.UnsetType:
    """Refuse JSON that no API server writes, or that takes too much to be read; give what it is parsed to otherwise.

    UNSET is given where parsing it is not cheap. It costs about 15 microseconds for 2 KB of a Pod. From
    :data:`LARGE_BYTES` on call it in a thread.

    Raises:
        JsonLimitError: the text is too deep, holds too many values, a member twice, a number that is no float64, or a
            member whose name has a NUL. What it says follows the name of the text.
        msgspec.DecodeError: it is no JSON.
        UnicodeDecodeError: it is no UTF-8.
    """
    str(raw, "utf-8")
    if _check_structure(raw) <= WHOLE_VALUES:
        try:
            return decode_if_certain(raw)
        except (UncertainError, msgspec.ValidationError):
            pass  # a number that is no float64, like all that is in doubt, is to be told where
        except RecursionError:
            raise _too_deep_error() from None
    _check_members(raw)
    return msgspec.UNSET


def _too_many_values_error() -> JsonLimitError:
    return JsonLimitError(f"holds {TOO_MANY_VALUES}")


def _too_deep_error() -> JsonLimitError:
    return JsonLimitError(f"is nested too deeply: it has more than {MAX_LEVELS} levels")


def has_too_many_values(raw: bytes) -> bool:
    """True where a text holds more than :data:`MOST_NODES` values; of a text that is no JSON it says nothing."""
    if len(raw) <= MAX_VALUES or raw.count(b"{") + raw.count(b"[") + raw.count(b",") <= MAX_VALUES:
        return False
    return count_values(structural_characters(raw)) > MAX_VALUES


def _check_structure(raw: bytes) -> int:
    """Refuse too many values and too many levels; gives the number of values, 0 where the text is not large.

    Brackets in strings count at first, for most texts have few of both.
    """
    if len(raw) <= _FEW_BYTES and raw.count(b"{") + raw.count(b"[") <= MAX_LEVELS:
        return 0
    marks = structural_characters(raw)
    values = count_values(marks) if len(raw) > LARGE_BYTES else 0
    if values > MAX_VALUES:
        raise _too_many_values_error()
    if exceeds_depth(marks, MAX_LEVELS):
        raise _too_deep_error()
    return values


def _check_members(raw: bytes) -> None:
    try:
        check_members(raw)
    except InvalidMemberError as fault:
        raise JsonLimitError(str(fault)) from None


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
