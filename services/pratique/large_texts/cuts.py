"""Cuts: a JSON text without its largest values, which is soon read, and where these stand in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NULL = msgspec.Raw(b"null")


class Cut(msgspec.Struct, frozen=True):
    """Which values to take out."""

    of: str
    """The member of the outermost object whose members they are."""
    names: tuple[str, ...]
    """The names of those."""


class Remainder(msgspec.Struct, frozen=True):
    """What is left of a text."""

    text: bytes
    """The same with ``null`` for each value."""
    spans: dict[str, tuple[int, int]]
    """Where in the whole text each value begins and ends, by its name."""


CutOut: TypeAlias = "Callable[[Sequence[bytes], Cut], Remainder | None]"
"""Checks a text that came in pieces, and takes values out of it as :func:`cut_out` does."""


def cut_out(text: bytes, cut: Cut) -> Remainder | None:
    """Take values out of a text in which no member is twice; None where it has no such member or that is no object.

    Raises:
        msgspec.DecodeError: it is no JSON.
    """
    try:
        outer = _members.decode(text)
        inner = _members.decode(outer[cut.of])
    except (msgspec.ValidationError, KeyError):
        return None
    spans = {name: _span(text, bytes(inner[name])) for name in cut.names if name in inner}
    outer[cut.of] = msgspec.Raw(msgspec.json.encode(inner | dict.fromkeys(spans, _NULL)))
    return Remainder(msgspec.json.encode(outer), spans)


def between(pieces: Sequence[bytes], begin: int, end: int) -> bytes:
    """What stands from one byte to another of a text in pieces. It is copied without the interpreter's lock."""
    found = []
    for piece in pieces:
        if begin < len(piece) and end > 0:
            found.append(piece[max(begin, 0) : end])
        begin, end = begin - len(piece), end - len(piece)
    return b"".join(found)


def _span(text: bytes, value: bytes) -> tuple[int, int]:
    # Where the same stands earlier in the text, that is as good.
    begin = text.index(value)
    return begin, begin + len(value)
