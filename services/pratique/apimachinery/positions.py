"""Where a field stands in the text of a document, and in JSON."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.apimachinery.field_errors import Step

_SPACES = re.compile(r"[ \t\r\n]*")
_BREAK = re.compile(r"\n")
_DECODER = json.JSONDecoder()
_CACHED_TEXTS = 8
"""Texts whose lines are remembered: who asks for one place in a text asks for more."""
_CACHED_VALUES = 32
"""Objects and arrays whose members are remembered: those on the way to a few places, lists of objects among them."""


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Position:
    """A line and a column, both from 1; columns count characters."""

    line: int
    column: int

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"


def position_of_offset(text: str, offset: int) -> Position:
    """The line and column of the character at ``offset``."""
    breaks = _line_breaks(text)
    line = bisect.bisect_left(breaks, offset)
    return Position(line + 1, offset - (breaks[line - 1] if line else -1))


@functools.lru_cache(maxsize=_CACHED_TEXTS)
def _line_breaks(text: str) -> list[int]:
    """Where lines end, looked for once for all places in a text."""
    return [found.start() for found in _BREAK.finditer(text)]


@functools.lru_cache(maxsize=_CACHED_TEXTS)
def decode_text(raw: bytes) -> str:
    """A text in UTF-8 as characters, decoded once for all places in it."""
    return raw.decode()


def find_in_json(text: str, offset: int, path: Sequence[Step]) -> int:
    """Find a field of the JSON value at ``offset``.

    The answer is the offset of the member's name or of the item; where the path ends early, that of what was
    found last.
    """
    offset = found = _skip_spaces(text, offset)
    for step in path:
        places = _child_places(text, offset, is_array=not isinstance(step, str))
        if step not in places:
            break
        found, offset = places[step]
    return found


@functools.lru_cache(maxsize=_CACHED_VALUES)
def _child_places(text: str, offset: int, *, is_array: bool) -> dict[Step, tuple[int, int]]:
    """Place and value's offset of everything in an array or object; of a member that is there twice, the last."""
    steps = _items(text, offset) if is_array else _members(text, offset)
    return {key: (place, value) for key, place, value in steps}


def find_duplicate(text: str, offset: int) -> tuple[tuple[Step, ...], int] | None:
    """Find the first member of the JSON value at ``offset`` whose name stands there twice, and its offset."""
    offset = _skip_spaces(text, offset)
    seen: set[Step] = set()
    for key, place, value in (*_members(text, offset), *_items(text, offset)):
        if key in seen:
            return (key,), place
        seen.add(key)
        if (inner := find_duplicate(text, value)) is not None:
            return (key, *inner[0]), inner[1]
    return None


def _members(text: str, offset: int) -> Iterator[tuple[Step, int, int]]:
    """Yield name, place and value's offset of each member of an object; nothing where it is none."""
    if text[offset] != "{":
        return
    offset = _skip_spaces(text, offset + 1)
    while text[offset] == '"':
        name, end = _DECODER.raw_decode(text, offset)
        value = _skip_spaces(text, _skip_spaces(text, end) + 1)
        yield name, offset, value
        offset = _after_value(text, value)


def _items(text: str, offset: int) -> Iterator[tuple[Step, int, int]]:
    """Yield index, place and value's offset of each item of an array; nothing where it is none."""
    if text[offset] != "[":
        return
    offset = _skip_spaces(text, offset + 1)
    index = 0
    while text[offset] != "]":
        yield index, offset, offset
        offset = _after_value(text, offset)
        index += 1


def _after_value(text: str, offset: int) -> int:
    """Skip a value and the comma after it."""
    _, end = _DECODER.raw_decode(text, offset)
    offset = _skip_spaces(text, end)
    return _skip_spaces(text, offset + 1) if text[offset] == "," else offset


def _skip_spaces(text: str, offset: int) -> int:
    found = _SPACES.match(text, offset)
    return found.end() if found else offset
