"""JSON marks: brackets, commas and quotes of a text, from which the number of its values and its levels can be told."""

from __future__ import annotations

import itertools
from array import array
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_MARKS = b'"{}[],'
_NO_MARKS = bytes(set(range(256)) - set(_MARKS))
_COMMAS = b","
_PORTION_BYTES = 64 * 1024
_STEPS = bytes.maketrans(b"{[}]", b"\x01\x01\xff\xff")
_MOST_PASSES = 8
"""What is less nested than that is soon nothing. Each pass looks at all that is left."""


def structure(raw: bytes) -> bytes:
    """The brackets and commas of a text that stand in no string."""
    if b"\\" in raw:
        # In pairs from the left, so that what is left escapes what follows it.
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    # Two quotes side by side are a string without marks, or the end of one string and the beginning of the next.
    marks = b"".join(portion.translate(None, _NO_MARKS) for portion in _portions(raw)).replace(b'""', b"")
    return _outside_strings(marks) if b'"' in marks else marks


def _portions(text: bytes) -> Iterator[bytes]:
    """A text in pieces, between which others run; a list of what is in all of it would take ten times its memory."""
    for start in range(0, len(text), _PORTION_BYTES):
        yield text[start : start + _PORTION_BYTES]


def _outside_strings(marks: bytes) -> bytes:
    """What stands between strings."""
    outside, inside = [], 0
    for portion in _portions(marks):
        pieces = portion.split(b'"')
        outside.append(b"".join(pieces[inside::2]))
        inside ^= (len(pieces) - 1) % 2
    return b"".join(outside)


def count_values(marks: bytes) -> int:
    """How many values marks stand for, or one or two less."""
    return marks.count(b"{") + marks.count(b"[") + marks.count(b",")


def has_more_levels(marks: bytes, most: int) -> bool:
    """True where brackets are open at a time that are more than ``most``."""
    brackets = marks.translate(None, _COMMAS)
    for taken in range(_MOST_PASSES):
        # Without its innermost pairs a text has a level less. What is still open then is on as many levels at most.
        if taken + brackets.count(b"{") + brackets.count(b"[") <= most:
            return False
        brackets = brackets.replace(b"[]", b"") if taken % 2 else brackets.replace(b"{}", b"")
    return _levels(marks) > most


def _levels(marks: bytes) -> int:
    steps = array("b", marks.translate(_STEPS, _COMMAS))
    return max(itertools.accumulate(steps), default=0)
