"""JSON members: the closer look at each member and number of a text, by the standard library's reader."""

from __future__ import annotations

import contextlib
import json
import json.decoder
import json.scanner
import math
from typing import TYPE_CHECKING, Any, NoReturn, cast

import msgspec

from pratique.errors import InputError

if TYPE_CHECKING:
    from pratique.json_values import JSON

_LONGEST_FLOAT64 = 308
"""Digits that a float64 always has room for."""


class MemberFaultError(InputError):
    """A member or item cannot be."""


def check_members(raw: bytes) -> None:
    """Look at every member and number. Nothing is kept of them, and other threads run in between.

    Raises:
        MemberFaultError: what is wrong, and the byte at which the object or array begins that holds it.
        msgspec.DecodeError: it is no JSON.
    """
    _skimmer.decode(raw)
    text = str(raw, "utf-8")
    try:
        _reader.decode(text)
    except MemberFaultError as fault:
        begin = len(text[: _fault_position(text)].encode())
        raise MemberFaultError(f"{fault}, in the object or array that begins at byte {begin}") from None


def _members(pairs: list[tuple[str, JSON]]) -> None:
    """Look at an object's members. Nothing is kept of it, so that a large text takes no memory."""
    names = {name for name, _ in pairs}
    if len(names) != len(pairs):
        raise MemberFaultError("holds a member twice")
    if "\0" in "".join(names):
        raise MemberFaultError("holds a member whose name has a NUL")


def _integer(text: str) -> int:
    """One that is no int64 is read as a float64."""
    return 0 if len(text) <= _LONGEST_FLOAT64 else _float(text)


def _float(text: str) -> int:
    if not math.isfinite(float(text)):
        raise MemberFaultError("holds a number out of the range of float64")
    return 0


def _constant(_: str) -> NoReturn:
    raise MemberFaultError("holds NaN or an infinite number")


_READING: dict[str, Any] = {
    "object_pairs_hook": _members,
    "parse_int": _integer,
    "parse_float": _float,
    "parse_constant": _constant,
}
_reader = json.JSONDecoder(**_READING)
_skimmer = msgspec.json.Decoder(msgspec.Raw)
"""Finds what is no JSON, and builds nothing."""


def _fault_position(text: str) -> int:
    """Where the object or array begins that holds the fault; the standard library's slow scanner can tell."""
    found: list[int] = []

    def noting(parse: Any) -> Any:
        def parse_container(text_and_start: tuple[str, int], *rest: Any) -> Any:
            try:
                return parse(text_and_start, *rest)
            except MemberFaultError:
                found.append(text_and_start[1] - 1)
                raise

        return parse_container

    locator = cast("Any", json.JSONDecoder(**_READING))
    locator.parse_object, locator.parse_array = noting(locator.parse_object), noting(locator.parse_array)
    begin = len(text) - len(text.lstrip())
    with contextlib.suppress(MemberFaultError):
        json.scanner.py_make_scanner(locator)(text, begin)  # type: ignore[attr-defined] # not in the stubs
    return found[0] if found else begin
