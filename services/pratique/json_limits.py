"""JSON limits: what a text may not hold though it is JSON, found before or without building what it describes.

What goes from an API server to its webhooks was written by Go's ``encoding/json``: no member occurs twice, every
number is an int64 or a float64, and every text is Unicode. What breaks that was not sent by an API server, and two
readers of it may see different objects: admission would decide on the one, and something else would act on the other.

``json`` of the standard library takes duplicates, NaN and lone surrogates; msgspec takes duplicates and integers of
any size. Neither bounds what a text becomes in memory: 7 MiB of ``[[],[],…]`` are 2.4 million values in 200 MiB.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import json.decoder
import json.scanner
import math
from array import array
from typing import TYPE_CHECKING, Any, NoReturn, cast

import msgspec

from pratique.errors import InputError
from pratique.json_values import NULL, Document, decode, encode

if TYPE_CHECKING:
    from pratique.json_values import JSON

MOST_LEVELS = 200
"""How deep objects and arrays may nest. A schema of a CustomResourceDefinition takes two levels a field and is the
deepest that is met: 60. Python's own limit, which is a crash, is at less than 1,000."""

MOST_NODES = 600_000
"""How many values a text may hold. Pods have one in 20 bytes, so that a legal review of 7 MiB holds 370,000; the worst
of the same length holds 2.4 million and takes a second and 200 MiB to build."""

TOO_MUCH = f"more than {MOST_NODES} values"
"""What is said of a text that holds more."""

LARGE_BYTES = 256 * 1024
"""From here on a text is not for an event loop: it takes longer than 5 ms."""

_MARKS = b'"{}[],'
_NO_MARKS = bytes(set(range(256)) - set(_MARKS))
_NO_BRACKETS = b","
_PORTION_BYTES = 64 * 1024
_STEPS = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19
"""What no int64 is longer than; anything shorter fits."""
_DOUBTFUL = (b"\\u0000", b"\\u003a", b"\\u003A")
"""Escapes for which the quick look is not enough: of NUL, and of a colon."""

_INT64 = range(-(2**63), 2**63)
_LONGEST_INT64 = 20


class JsonLimitError(InputError):
    """A text holds what it may not. Says what and where, and repeats nothing of the text."""


def check_json(raw: bytes) -> None:
    """Refuse JSON that no API server writes, or that takes too much to be read.

    It costs about 10 microseconds for 2 KB of a Pod. From :data:`LARGE_BYTES` on nothing is kept of what is read, and
    other threads run in between: call it in a thread then.

    Raises:
        JsonLimitError: the text is too deep, holds too many values, a member twice, a number that is no int64 and
            no float64, or a member whose name has a NUL. What it says follows the name of the text.
        msgspec.DecodeError: it is no JSON.
        UnicodeDecodeError: it is no UTF-8.
    """
    read_document(raw)


def read_document(raw: bytes) -> Document:
    """Make a document of JSON text that :func:`check_json` lets pass; parsed already, where that was cheap.

    Raises:
        JsonLimitError: as :func:`check_json`, like the others.
    """
    if not raw:
        return NULL
    str(raw, "utf-8")
    _check_structure(raw)
    if len(raw) <= LARGE_BYTES and _is_undoubted(raw):
        try:
            data = decode(raw)
        except msgspec.ValidationError:
            pass  # a number that is no float64: it is to be told where
        except RecursionError:
            raise _too_deep() from None
        else:
            written = encode(data)
            if written == raw or written.count(b":") == raw.count(b":"):
                return NULL if data is None else Document(raw, data, parsed=True)
    _check_members(raw)
    return Document.from_raw(raw)


def _too_deep() -> JsonLimitError:
    return JsonLimitError(f"is nested too deeply: it has more than {MOST_LEVELS} levels")


def holds_too_much(raw: bytes) -> bool:
    """True where a text holds more than :data:`MOST_NODES` values; of a text that is no JSON it says nothing."""
    if len(raw) <= MOST_NODES or raw.count(b"{") + raw.count(b"[") + raw.count(b",") <= MOST_NODES:
        return False
    return _is_too_much(_structure(raw))


def _check_structure(raw: bytes) -> None:
    """Refuse too many values and too many levels by counting; commas and brackets in strings count at first."""
    opened = raw.count(b"{") + raw.count(b"[")
    if opened <= MOST_LEVELS and (len(raw) <= MOST_NODES or opened + raw.count(b",") <= MOST_NODES):
        return
    marks = _structure(raw)
    if _is_too_much(marks):
        raise JsonLimitError(f"holds {TOO_MUCH}")
    if _levels(marks) > MOST_LEVELS:
        raise _too_deep()


def _is_too_much(marks: bytes) -> bool:
    return marks.count(b"{") + marks.count(b"[") + marks.count(b",") > MOST_NODES


def _structure(raw: bytes) -> bytes:
    """The brackets and commas of a text that stand in no string."""
    if b"\\" in raw:
        # In pairs from the left, so that what is left escapes what follows it.
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes side by side are a string without marks, or the end of one string and the beginning of the next.
    marks = raw.translate(None, _NO_MARKS).replace(b'""', b"")
    return _outside_strings(marks) if b'"' in marks else marks


def _outside_strings(marks: bytes) -> bytes:
    """What stands between strings; in portions, for a list of all would take ten times the memory of the text."""
    outside, inside = [], 0
    for start in range(0, len(marks), _PORTION_BYTES):
        pieces = marks[start : start + _PORTION_BYTES].split(b'"')
        outside.append(b"".join(pieces[inside::2]))
        inside ^= (len(pieces) - 1) % 2
    return b"".join(outside)


def _levels(marks: bytes) -> int:
    steps = array("b", marks.translate(_STEPS, _NO_BRACKETS))
    return max(itertools.accumulate(steps), default=0)


def _is_undoubted(raw: bytes) -> bool:
    """True where duplicates show in the number of colons, and no integer can be out of range.

    A duplicate is lost when a text is read, and with it a colon when it is written again. Colons in strings stay,
    unless they were written as an escape.
    """
    if b"\\" in raw and any(escape in raw for escape in _DOUBTFUL):
        return False
    return _LONG_NUMBER not in raw.translate(_DIGITS)


class _MemberFaultError(Exception):
    """A member or item cannot be; where is not known yet."""


def _members(pairs: list[tuple[str, JSON]]) -> None:
    """Look at an object's members. Nothing is kept of it, so that a large text takes no memory."""
    names = {name for name, _ in pairs}
    if len(names) != len(pairs):
        raise _MemberFaultError("holds a member twice")
    if "\0" in "".join(names):
        raise _MemberFaultError("holds a member whose name has a NUL")


def _integer(text: str) -> int:
    if len(text) > _LONGEST_INT64 or int(text) not in _INT64:
        raise _MemberFaultError("holds an integer out of the range of int64")
    return 0


def _float(text: str) -> int:
    if not math.isfinite(float(text)):
        raise _MemberFaultError("holds a number out of the range of float64")
    return 0


def _constant(_: str) -> NoReturn:
    raise _MemberFaultError("holds NaN or an infinite number")


_READING: dict[str, Any] = {
    "object_pairs_hook": _members,
    "parse_int": _integer,
    "parse_float": _float,
    "parse_constant": _constant,
}
_reader = json.JSONDecoder(**_READING)
_skimmer = msgspec.json.Decoder(msgspec.Raw)
"""Finds what is no JSON, and builds nothing."""


def _check_members(raw: bytes) -> None:
    _skimmer.decode(raw)
    text = str(raw, "utf-8")
    try:
        _reader.decode(text)
    except _MemberFaultError as fault:
        begin = len(text[: _fault_position(text)].encode())
        raise JsonLimitError(f"{fault}, in the object or array that begins at byte {begin}") from None


def _fault_position(text: str) -> int:
    """Where the object or array begins that holds the fault; the standard library's slow scanner can tell."""
    found: list[int] = []

    def noting(parse: Any) -> Any:
        def parse_container(text_and_start: tuple[str, int], *rest: Any) -> Any:
            try:
                return parse(text_and_start, *rest)
            except _MemberFaultError:
                found.append(text_and_start[1] - 1)
                raise

        return parse_container

    locator = cast("Any", json.JSONDecoder(**_READING))
    locator.parse_object, locator.parse_array = noting(locator.parse_object), noting(locator.parse_array)
    begin = len(text) - len(text.lstrip())
    with contextlib.suppress(_MemberFaultError):
        json.scanner.py_make_scanner(locator)(text, begin)  # type: ignore[attr-defined] # not in the stubs
    return found[0] if found else begin
