"""Base64 as Go's ``encoding/base64`` reads it: the standard alphabet, padded, with line breaks anywhere."""

from __future__ import annotations

import base64
import re

_DIGITS = re.compile(r"[A-Za-z0-9+/]*")
_PADDING = re.compile(r"={0,2}")


def decode_base64(text: str) -> bytes:
    """Decode a text.

    Raises:
        ValueError: it is not base64; the message is Go's, and names the first byte that cannot be there.
    """
    kept = [(index, character) for index, character in enumerate(text) if character not in "\r\n"]
    digits = "".join(character for _, character in kept)
    bad = _first_bad(digits)
    if bad is None:
        return base64.b64decode(digits)
    place = kept[bad][0] if bad < len(kept) else len(text)
    raise ValueError(f"illegal base64 data at input byte {place}")


def _first_bad(digits: str) -> int | None:
    """Find the first character that cannot be there; ``len(digits)`` where padding is missing."""
    end = _end(_DIGITS, digits, 0)
    over = end % 4
    padded = _end(_PADDING, digits, end)
    if padded == end:
        return _unpadded(end, digits)
    if over < 2:
        return end
    wanted = end + 4 - over
    if padded < wanted:
        return padded if padded == len(digits) else end
    return None if wanted == len(digits) else wanted


def _unpadded(end: int, digits: str) -> int | None:
    if end < len(digits):
        return end
    return end - end % 4 if end % 4 else None


def _end(pattern: re.Pattern[str], text: str, start: int) -> int:
    found = pattern.match(text, start)
    return found.end() if found else start
