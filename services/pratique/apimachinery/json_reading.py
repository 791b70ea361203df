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
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import go_quoted

_STRUCTURAL = b'"{}[],'
_NOT_STRUCTURAL = bytes(set(range(256)) - set(_STRUCTURAL))
_COMMAS = b","
_PORTION_BYTES = 64 * 1024
_DEPTH_CHANGES = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")
_MAX_PASSES = 8
"""Shallower texts vanish within this many passes, each of which scans all that is left."""


def structural_characters(raw: bytes) -> bytes:
    """The brackets and commas of a text that are not inside strings (RFC 8259 calls them structural)."""
    if b"\\" in raw:
        # Removed in pairs from the left, so that a backslash that is left escapes what follows it.
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two adjacent quotes are a string without such characters, or the end of one string and the start of the next.
    marks = b"".join(portion.translate(None, _NOT_STRUCTURAL) for portion in _chunks(raw)).replace(b'""', b"")
    return _outside_strings(marks) if b'"' in marks else marks


def _chunks(text: bytes) -> Iterator[bytes]:
    """A text in chunks: other threads run in between, and no list of all parts takes ten times its memory."""
    for start in range(0, len(text), _PORTION_BYTES):
        yield text[start : start + _PORTION_BYTES]


def _outside_strings(marks: bytes) -> bytes:
    """What lies outside strings."""
    outside, inside = [], 0
    for portion in _chunks(marks):
        pieces = portion.split(b'"')
        outside.append(b"".join(pieces[inside::2]))
        inside ^= (len(pieces) - 1) % 2
    return b"".join(outside)


def count_values(marks: bytes) -> int:
    """The number of values that structural characters stand for, or one or two fewer."""
    return marks.count(b"{") + marks.count(b"[") + marks.count(b",")


def exceeds_depth(marks: bytes, most: int) -> bool:
    """Tell whether more than ``most`` brackets are open at once."""
    brackets = marks.translate(None, _COMMAS)
    for taken in range(_MAX_PASSES):
        # Removing the innermost pairs takes away one level. The rest has at most as many levels as opening brackets.
        if taken + brackets.count(b"{") + brackets.count(b"[") <= most:
            return False
        brackets = brackets.replace(b"[]", b"") if taken % 2 else brackets.replace(b"{}", b"")
    return _depth(marks) > most


def _depth(marks: bytes) -> int:
    steps = array("b", marks.translate(_DEPTH_CHANGES, _COMMAS))
    return max(itertools.accumulate(steps), default=0)


_LONGEST_FLOAT64 = 308
"""Digits of an integer that every float64 can hold."""


class InvalidMemberError(InputError):
    """A member or item is not allowed."""


def check_members(raw: bytes) -> None:
    """Check every member and number. Nothing is kept of them, and other threads run in between.

    Raises:
        InvalidMemberError: a member is a duplicate or has a NUL in its name, or a number does not fit a float64. The
            text names the byte at which the object or array that holds it begins.
        msgspec.DecodeError: the text is not JSON.
    """
    _syntax_decoder.decode(raw)
    text = str(raw, "utf-8")
    try:
        _checking_decoder.decode(text)
    except InvalidMemberError as fault:
        begin = len(text[: _fault_position(text)].encode())
        raise InvalidMemberError(f"{fault}, in the object or array that begins at byte {begin}") from None


def _check_member_names(pairs: list[tuple[str, JSON]]) -> None:
    """Check an object's member names. Returning None keeps nothing of it, so a large text takes no memory."""
    names = {name for name, _ in pairs}
    if len(names) != len(pairs):
        raise InvalidMemberError("holds a member twice")
    if "\0" in "".join(names):
        raise InvalidMemberError("holds a member whose name has a NUL")


def _check_integer(text: str) -> int:
    """An integer that is not an int64 is read as a float64, so it must fit one."""
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
"""Checks the syntax, and builds nothing."""


def _fault_position(text: str) -> int:
    """The offset of the object or array that holds the fault; only the standard library's slow scanner can tell."""
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
"""Escapes that need the full check: NUL, and a colon, which is encoded as a plain colon."""


class UncertainError(Exception):
    """Only the full check can tell whether a text is allowed."""


def decode_if_certain(raw: bytes) -> JSON:
    """Parse a text if a quick look shows that all its members are allowed.

    A duplicate member is lost in parsing, and so is its colon: the text encoded again has fewer colons.

    Raises:
        UncertainError: the quick look is not enough.
        msgspec.DecodeError: it is not JSON; a ``ValidationError`` if it holds a number beyond float64.
        RecursionError: it is deeper than Python's stack.
    """
    if b"\\" in raw and any(escape in raw for escape in _UNCERTAIN_ESCAPES):
        raise UncertainError
    data = decode(raw)
    written = _encoder.encode(data)
    # Most texts encode to the same bytes; in the others, colons inside strings are kept.
    if written != raw and written.count(b":") != raw.count(b":"):
        raise UncertainError
    return data


MAX_LEVELS = 200
"""The maximum depth of objects and arrays. The deepest real texts are schemas of CustomResourceDefinitions, which take
two levels per field: 60. Python's own limit, which is a crash, is below 1,000."""

MAX_VALUES = 600_000
"""The maximum number of values in a text. Pods have one value per 20 bytes, so a legal review of 7 MiB holds 370,000;
the worst text of that size holds 2.4 million and takes a second and 200 MiB to build."""

TOO_MANY_VALUES = f"more than {MAX_VALUES} values"
"""The message for a text that holds more."""

LARGE_BYTES = 256 * 1024
"""Texts longer than this may take more than 5 ms, too long for an event loop."""

WHOLE_VALUES = 60_000
"""A large text with at most this many values is parsed in one step: other threads wait 40 ns per value, and 1 ms per
2 MiB. A text with more is only checked, while other threads run in between, which takes five times as long."""

_FEW_BYTES = 16 * 1024
"""In texts up to this length brackets are counted first: if there are few, nothing else needs checking."""


class JsonLimitError(InputError):
    """A text exceeds a limit. The message says which one and where, and quotes nothing of the text."""


ENVELOPE_LEVELS = 2
"""The levels of an AdmissionReview around its objects."""


def read_document(raw: bytes, levels: int = MAX_LEVELS) -> Document:
    """Make a document of JSON text within the limits, already parsed if that was cheap.

    Raises:
        JsonLimitError: as :func:`parse_checked`, and so are the other errors.
    """
    if not raw:
        return NULL
    data = parse_checked(raw, levels)
    if data is msgspec.UNSET:
        return Document.from_raw(raw)
    return NULL if data is None else Document(raw, data, parsed=True)


def parse_checked(raw: bytes, levels: int = MAX_LEVELS) -> JSON | msgspec.UnsetType:
    """Refuse JSON that no API server writes or that is too expensive to read; otherwise return its data.

    Returns UNSET if parsing is not cheap. A Pod of 2 KB takes about 15 microseconds. Call it in a thread for texts
    longer than :data:`LARGE_BYTES`. ``levels`` is the maximum depth of objects and arrays.

    Raises:
        JsonLimitError: the text is too deep, holds too many values, a duplicate member, a number beyond float64, or a
            member name with a NUL. The message is a predicate: it follows the name of the text.
        msgspec.DecodeError: it is not JSON.
        UnicodeDecodeError: it is not UTF-8.
    """
    if not raw.isascii():
        str(raw, "utf-8")
    if _check_structure(raw, levels) <= WHOLE_VALUES:
        try:
            return decode_if_certain(raw)
        except (UncertainError, msgspec.ValidationError):
            pass  # the full check below reports the position, also of a number beyond float64
        except RecursionError:
            raise _too_deep_error(levels) from None
    _check_members(raw)
    return msgspec.UNSET


def _too_many_values_error() -> JsonLimitError:
    return JsonLimitError(f"holds {TOO_MANY_VALUES}")


def _too_deep_error(levels: int) -> JsonLimitError:
    return JsonLimitError(f"is nested too deeply: it has more than {levels} levels")


def has_too_many_values(raw: bytes) -> bool:
    """Tell whether a text holds more than :data:`MAX_VALUES` values; meaningless for a text that is not JSON."""
    if len(raw) <= MAX_VALUES or raw.count(b"{") + raw.count(b"[") + raw.count(b",") <= MAX_VALUES:
        return False
    return count_values(structural_characters(raw)) > MAX_VALUES


def _check_structure(raw: bytes, levels: int = MAX_LEVELS) -> int:
    """Refuse too many values and too many levels; return the number of values, or 0 if the text is not large.

    The quick test counts brackets inside strings too, because most texts have few of either.
    """
    if len(raw) <= _FEW_BYTES and raw.count(b"{") + raw.count(b"[") <= levels:
        return 0
    marks = structural_characters(raw)
    values = count_values(marks) if len(raw) > LARGE_BYTES else 0
    if values > MAX_VALUES:
        raise _too_many_values_error()
    if exceeds_depth(marks, levels):
        raise _too_deep_error(levels)
    return values


def is_within_structure_limits(written: bytes) -> bool:
    """Tell whether JSON from an encoder keeps the limits that encoding does not ensure; False if that is uncertain."""
    try:
        _check_structure(written)
    except JsonLimitError:
        return False
    return b"\\u0000" not in written


def _check_members(raw: bytes) -> None:
    try:
        check_members(raw)
    except InvalidMemberError as fault:
        raise JsonLimitError(str(fault)) from None


_SPACES = pattern(r"[ \t\r\n]*")
_STRING_CONTENT = pattern(r'(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*')
_HEX_DIGITS = pattern(r"[0-9a-fA-F]*")
_DIGITS = pattern(r"[0-9]*")
_LITERALS = {"t": "true", "f": "false", "n": "null"}
_CLOSING = {"{": "}", "[": "]"}
_AFTER = {"{": "after object key:value pair", "[": "after array element"}


def syntax_error(raw: bytes) -> str:
    """The error of Go's scanner for a text that is not JSON; empty if it is JSON.

    It quotes at most one character of the text.
    """
    # Latin-1 maps every byte to one character, which is how Go's scanner sees them.
    text = raw.decode("latin-1")
    try:
        _scan(text)
    except _SyntaxFaultError as fault:
        if fault.position >= len(text):
            return "unexpected end of JSON input"
        return f"invalid character {_go_quoted_character(text[fault.position])} {fault.context}"
    return ""


def type_error(value: JSON, go_type: str) -> str:
    """The error for a JSON value that does not fit a Go type: ``UnmarshalTypeError``."""
    return f"json: cannot unmarshal {go_kind(value)} into Go value of type {go_type}"


def go_kind(value: JSON) -> str:
    """Go's name for the type of a JSON value."""
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
    """Skip a scalar, or open an object or array; True if no value follows directly."""
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
