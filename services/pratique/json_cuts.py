"""JSON cuts: the places at which a large text is cut into portions, behind commas and within long strings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PORTION_BYTES = 64 * 1024
"""How long a portion is at most. Whatever is in it, it is built or counted within a millisecond."""

_MOST_QUOTES = 256
"""How many quotes are looked at, from the end, to find a comma between two strings."""
_MOST_STEPS = 32
"""How many bytes are looked at, from the end, to find one in a string behind which it can be cut: two halves of a
character that is written as an escape are 12."""

_MASK = b"\0\1"
"""In place of escaped quotes and backslashes; JSON has neither in it."""
_UNFINISHED = re.compile(rb"(?s)(?:[\\\0]|\\u.{0,3}|\\u[dD][89abAB]..)\Z")
"""What goes on behind: an escape, or the first half of a character."""


def cuts(raw: bytes, portion_bytes: int = PORTION_BYTES) -> Iterator[tuple[int, bool, bytes]]:
    """Give for each portion where it ends, whether that is within a string, and its text without escaped quotes.

    The last one ends where the text does. 0, where no place is found, is the end as well.
    """
    begin, inside = 0, False
    while begin < len(raw):
        text = _mask(raw[begin : begin + portion_bytes])
        length = len(text)
        if begin + length == len(raw):
            yield len(raw), inside ^ bool(text.count(b'"') % 2), text
            return
        length, inside = _last_cut(text, raw[begin + length], inside=inside)
        if not length:
            yield 0, False, b""
            return
        begin += length
        yield begin, inside, text[:length]


def _mask(text: bytes) -> bytes:
    # In pairs from the left, so that what is left escapes what follows it.
    return text.replace(b"\\\\", _MASK).replace(b'\\"', _MASK) if b"\\" in text else text


def _last_cut(text: bytes, following: int, *, inside: bool) -> tuple[int, bool]:
    """Find the last place to cut a text that begins in a string, or not: its length then, and whether in a string."""
    inside ^= bool(text.count(b'"') % 2)
    end, quote = len(text), text.rfind(b'"')
    if inside and 2 * (end - quote) > len(text):
        return _within(text, following), True
    for _ in range(_MOST_QUOTES):
        if not inside and (comma := text.rfind(b",", quote + 1, end)) >= 0:
            return comma + 1, False
        if quote < 0:
            break
        end, inside = quote, not inside
        quote = text.rfind(b'"', 0, end)
    return 0, False


def _within(text: bytes, following: int) -> int:
    """Find the last place in a string that is neither within an escape or character nor between halves of one."""
    for length in range(len(text), max(len(text) - _MOST_STEPS, 0), -1):
        if following & 0xC0 != 0x80 and not _UNFINISHED.search(text[max(length - 6, 0) : length]):
            return length
        following = text[length - 1]
    return 0
