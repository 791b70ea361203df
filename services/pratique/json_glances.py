"""JSON glances: whether the members of a text are undoubted can be told by reading and writing it once.

A member that is there twice is lost when a text is read, and with it a colon when it is written again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pratique.json_values import decode

if TYPE_CHECKING:
    from pratique.json_values import JSON

_encoder = msgspec.json.Encoder()
_DOUBTFUL = (b"\\u0000", b"\\u003a", b"\\u003A")
"""Escapes for which a glance is not enough: of NUL, and of a colon, which is written as a colon."""


class DoubtError(Exception):
    """It takes a closer look to tell."""


def decode_undoubted(raw: bytes) -> JSON:
    """Parse a text whose members may all be.

    Raises:
        DoubtError: that is not sure.
        msgspec.DecodeError: it is no JSON; as a ``ValidationError`` where it holds a number that is no float64.
        RecursionError: it has more levels than Python has.
    """
    if b"\\" in raw and any(escape in raw for escape in _DOUBTFUL):
        raise DoubtError
    data = decode(raw)
    written = _encoder.encode(data)
    # Most are written as they were; in others, colons in strings stay.
    if written != raw and written.count(b":") != raw.count(b":"):
        raise DoubtError
    return data
