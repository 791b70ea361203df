"""JSON portions: a large text is looked at in pieces, each of them made a JSON text of its own.

Every call of a reader or writer in C keeps all other threads waiting. Several milliseconds of that, which a text of
7 MiB takes as a whole, are felt by everybody else whom the process serves.

A text is cut behind commas, and within long strings. A portion gets in front what opens the objects and arrays that
it is inside of, and behind it what closes those that go on. Stand-ins go where it was cut, so that all portions are
JSON exactly where the text is. The names of the members of what goes on are kept, so that none is there twice.

What is not sure is left to who looks at the text as a whole, and can tell where it is.
"""

from __future__ import annotations

import codecs
import dataclasses
from typing import TYPE_CHECKING

import msgspec

from pratique import json_members
from pratique.json_cuts import PORTION_BYTES, cuts
from pratique.json_glances import DoubtError, decode_undoubted
from pratique.json_marks import count_values, has_more_levels, marks_outside_strings, without_pairs
from pratique.json_values import decode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.json_values import JSON

_BEFORE = "<"
_AFTER = ">"
"""Names of the stand-ins. A member of theirs beside them is one that is there twice, which is looked at closely."""
_STAND_INS = {_BEFORE, _AFTER}
_OPENING = {ord("{"): b'{"<":', ord("["): b"["}
_ENDING = {ord("{"): b'">":null', ord("["): b"null"}
_utf8 = codecs.getincrementaldecoder("utf-8")
_CLOSING = bytes.maketrans(b"{[", b"}]")


@dataclasses.dataclass(frozen=True, slots=True)
class Place:
    """Where a text is cut."""

    byte: int
    opened: bytes
    """The brackets of the objects and arrays that are open there, the outermost first."""
    inside: bool
    """Whether it is in a string; behind a comma otherwise."""

    def opening(self, level: int = 0) -> bytes:
        """What makes what follows JSON, from a level on."""
        outer = b"".join([_OPENING[bracket] for bracket in self.opened[level:]])
        return outer + (b'"' if self.inside else b"null," if self.opened else b"")

    def closing(self, level: int = 0) -> bytes:
        """What makes what was before JSON, up to a level."""
        end = b'"' if self.inside else _ENDING[self.opened[-1]] if self.opened else b""
        return end + self.opened[level:][::-1].translate(_CLOSING)


@dataclasses.dataclass(frozen=True, slots=True)
class Portion:
    """A piece of a text."""

    begin: Place
    end: Place
    kept: int
    """How many of the objects and arrays that were open at its beginning are never closed in it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outline:
    """What the brackets and commas of a text tell of it."""

    portions: Sequence[Portion]
    values: int
    is_too_deep: bool


@dataclasses.dataclass(frozen=True, slots=True)
class Stretch:
    """A portion all of which is inside of one object, which is a member of an object that is a member of the text."""

    begin: Place
    end: Place
    path: tuple[str, str]
    """The names of the two members, from the outside."""


def check_text(raw: bytes) -> None:
    """Refuse what is no UTF-8.

    Raises:
        UnicodeDecodeError: it is none.
    """
    decoder = _utf8()
    try:
        for begin in range(0, len(raw), PORTION_BYTES):
            decoder.decode(raw[begin : begin + PORTION_BYTES])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        str(raw, "utf-8")  # to be told which byte of all it is
        raise


def outline(
    raw: bytes, most_values: int, most_levels: int, portion_bytes: int = PORTION_BYTES
) -> Outline | None:
    """Find where a text can be cut, and count what it holds, up to somewhat beyond ``most_values``.

    None where it cannot be cut, or its brackets do not fit each other.
    """
    ends, values, inside = [], 0, False
    for end, ends_inside, text in cuts(raw, portion_bytes):
        if not end:
            return None
        marks = marks_outside_strings(text, inside=inside)
        inside = ends_inside
        values += count_values(marks)
        if values > most_values:
            return Outline((), values, is_too_deep=False)
        ends.append((end, inside, marks))
    return _fit(ends, values, most_levels)


def _fit(ends: list[tuple[int, bool, bytes]], values: int, most_levels: int) -> Outline | None:
    place, portions, is_too_deep = Place(0, b"", inside=False), [], False
    for end, inside, marks in ends:
        is_too_deep = is_too_deep or has_more_levels(place.opened + marks, most_levels)
        halves = without_pairs(marks)
        opening = halves.lstrip(b"]}")
        closed = len(halves) - len(opening)
        kept = len(place.opened) - closed
        if kept < 0 or opening.strip(b"[{") or not (kept or opening or end == ends[-1][0]):
            return None
        following = Place(end, place.opened[:kept] + opening, inside)
        portions.append(Portion(place, following, kept))
        place = following
    return None if place.opened or place.inside else Outline(portions, values, is_too_deep)


@dataclasses.dataclass(eq=False, slots=True)
class _Open:
    """An object or array that goes on from one portion to the next."""

    names: set[str] = dataclasses.field(default_factory=set)
    """Of its members so far; none, where it is an array."""
    name: str = ""
    """Of the member in which the text was cut."""


def check_portions(raw: bytes, portions: Sequence[Portion]) -> list[Stretch] | None:
    """Look at every member and number; None where it takes a closer look, or the text is no JSON.

    Gives the portions that are deep inside of it.
    """
    opened: list[_Open] = []
    stretches = []
    for portion in portions:
        begin, end = portion.begin, portion.end
        try:
            data = _decode(begin.opening() + raw[begin.byte : end.byte] + end.closing())
            following = _follow(opened, portion, data)
        except (DoubtError, msgspec.DecodeError, RecursionError):
            return None
        if portion.kept > 2 and begin.opened.startswith(b"{{{"):
            stretches.append(Stretch(begin, end, (opened[0].name, opened[1].name)))
        opened = following
    return stretches


def _decode(text: bytes) -> JSON:
    try:
        return decode_undoubted(text)
    except DoubtError:
        data = decode(text)
        if json_members.has_fault(text):
            raise
        return data


def _follow(opened: list[_Open], portion: Portion, data: JSON) -> list[_Open]:
    """What is open behind a portion, of whose text this was read.

    Raises:
        DoubtError: a member was there in an earlier portion.
    """
    node, kept = data, opened[: portion.kept]
    inner = data
    for level, container in enumerate(opened):
        if level:
            node = _first(node)
        if isinstance(node, dict):
            if not container.names.isdisjoint(node):
                raise DoubtError
            if level < portion.kept:
                _note(container, node)
        if level < portion.kept:
            inner = node
    for level in range(portion.kept, len(portion.end.opened)):
        if level:
            inner = _last(inner)
        container = _Open()
        if isinstance(inner, dict):
            _note(container, inner)
        kept.append(container)
    return kept


def _note(container: _Open, node: dict[str, JSON]) -> None:
    container.names.update(node)
    container.names -= _STAND_INS
    last = next(reversed(node))
    if last != _BEFORE:
        container.name = last


def _first(node: JSON) -> JSON:
    return node[_BEFORE] if isinstance(node, dict) else node[0]


def _last(node: JSON) -> JSON:
    return next(reversed(node.values())) if isinstance(node, dict) else node[-1]
