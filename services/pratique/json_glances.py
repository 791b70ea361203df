"""JSON glances: whether members and numbers of a text are undoubted can be told by reading and writing it once.

A member that is there twice is lost when a text is read, and with it a colon when it is written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import decode, encode

if TYPE_CHECKING:
    from pratique.json_values import JSON

_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_LONG_NUMBER = b"0" * 19
"""What no int64 is longer than; anything shorter fits."""
_EVERY = 4
_LONG_NUMBER_SEEN = b"0" * (19 // _EVERY)
"""What is seen of 19 digits by who looks at every fourth byte."""
_DOUBTFUL = (b"\\u0000", b"\\u003a", b"\\u003A")
"""Escapes for which a glance is not enough: of NUL, and of a colon, which is written as a colon."""


class DoubtError(Exception):
    """It takes a closer look to tell."""


def decode_undoubted(raw: bytes) -> JSON:
    """Parse a text whose members and numbers may all be.

    Raises:
        DoubtError: that is not sure.
        msgspec.DecodeError: it is no JSON; as a ``ValidationError`` where it holds a number that is no float64.
        RecursionError: it has more levels than Python has.
    """
    if b"\\" in raw and any(escape in raw for escape in _DOUBTFUL):
        raise DoubtError
    if _holds_long_number(raw):
        raise DoubtError
    data = decode(raw)
    written = encode(data)
    # Most are written as they were; in others, colons in strings stay.
    if written != raw and written.count(b":") != raw.count(b":"):
        raise DoubtError
    return data


def _holds_long_number(raw: bytes) -> bool:
    return _LONG_NUMBER_SEEN in raw[::_EVERY].translate(_DIGITS) and _LONG_NUMBER in raw.translate(_DIGITS)
