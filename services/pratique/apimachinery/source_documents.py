"""One object that somebody wrote, and where it stands."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.positions import Position, decode_text, find_in_json, position_of_offset

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.apimachinery.field_errors import Step
    from pratique.apimachinery.json_values import JSONObject

STDIN = "-"
"""Names standard input."""


def display_path(file: str) -> str:
    """The name of a file as messages show it."""
    return "standard input" if file == STDIN else file


@dataclasses.dataclass(frozen=True, slots=True)
class SourceText:
    """A text of one or more documents, or the rest of one that is read line by line."""

    raw: bytes = dataclasses.field(repr=False)
    """The text, in UTF-8 as far as it is known."""
    file: str
    """Where it comes from."""
    first_line: int = 1
    """The line of the file on which it begins."""
    first_index: int = 0
    """How many documents of the file came before it."""

    def fault(self, index: int, place: Position | None, problem: str) -> InputError:
        """Make the error of one of its documents; ``place`` counts lines from the beginning of the text."""
        where = f"{display_path(self.file)}: document {self.first_index + index + 1}"
        in_file = None if place is None else self.in_file(place)
        if in_file is not None:
            where += f", {in_file}"
        return InputError(f"{where}: {problem}", file=self.file, place=in_file)

    def in_file(self, place: Position) -> Position:
        """Turn a place in this text into the place in its file."""
        return Position(place.line + self.first_line - 1, place.column)


@dataclasses.dataclass(frozen=True, slots=True)
class JsonOrigin:
    """A JSON value within a text, found by its offset in characters."""

    text: SourceText
    offset: int

    def find(self, path: Sequence[Step]) -> Position:
        """Find a field in the file."""
        text = decode_text(self.text.raw)
        return self.text.in_file(position_of_offset(text, find_in_json(text, self.offset, path)))


@dataclasses.dataclass(frozen=True, slots=True)
class YamlOrigin:
    """A YAML document within a text, found by the line on which it begins."""

    text: SourceText
    line: int

    def find(self, path: Sequence[Step]) -> Position:
        """Find a field in the file."""
        from pratique.apimachinery.yaml_positions import find_in_yaml  # noqa: PLC0415 - what is JSON needs no YAML parser

        return self.text.in_file(find_in_yaml(self.text.raw, self.line, path))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SourceDocument:
    """One object that somebody wrote, and where it stands. Two are equal only where they are the same one."""

    data: JSONObject = dataclasses.field(repr=False)
    """The object. Not to be changed in place."""
    file: str
    """The path of its file, as it was given; ``-`` is standard input."""
    index: int
    """Which document of the file it is in, from 0; documents that hold nothing do not count."""
    _line: int | None
    """Where it begins; None where that is only looked for once somebody wants to know."""
    origin: JsonOrigin | YamlOrigin = dataclasses.field(repr=False)
    """The document that it is, or is part of, in its text."""
    path: tuple[Step, ...] = ()
    """Where it stands in that document, such as ``("items", 3)``; empty where it is the whole of it."""

    @property
    def line(self) -> int:
        """The line on which it begins, from 1."""
        return self.origin.find(self.path).line if self._line is None else self._line

    def position(self, path: Sequence[Step] = ()) -> Position:
        """Find a field, such as ``("spec", "containers", 0, "image")``: its name's place, or the item's.

        Where there is no such field, the answer is the place of the last step that there is. The text is read
        again to find it.
        """
        return self.origin.find((*self.path, *path))

    def part(self, data: JSONObject, path: tuple[Step, ...]) -> SourceDocument:
        """An object within this one, as a document of its own."""
        return dataclasses.replace(self, data=data, path=(*self.path, *path), _line=None)

    def fault(self, path: Sequence[Step], problem: str) -> InputError:
        """Make the error that a field of this document is wrong."""
        place = self.position(path)
        where = f"{display_path(self.file)}: document {self.index + 1}, {place}"
        return InputError(f"{where}: {problem}", file=self.file, place=place)
