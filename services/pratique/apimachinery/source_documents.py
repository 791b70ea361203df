"""Objects as they were written: the file and document each comes from, and the line and column of its fields."""

from __future__ import annotations

import bisect
import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import Step
from pratique.apimachinery.json_values import JSON, JSONObject, json_type
from pratique.apimachinery.patterns import pattern

_SPACES = pattern(r"[ \t\r\n]*")
_BREAK = pattern(r"\n")
_DECODER = json.JSONDecoder()
_CACHED_TEXTS = 8
"""How many texts' line breaks are cached: callers that ask for one position in a text ask for more."""
_CACHED_VALUES = 32
"""How many objects' and arrays' members are cached: enough for the paths to a few fields, lists of objects included."""


class Position(msgspec.Struct, frozen=True, order=True):
    """A line and a column, both counted from 1; columns count characters."""

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
    """The offsets of the line breaks of a text."""
    return [found.start() for found in _BREAK.finditer(text)]


@functools.lru_cache(maxsize=_CACHED_TEXTS)
def decode_text(raw: bytes) -> str:
    """Decode UTF-8; cached, because a text is decoded for every position looked up in it."""
    return raw.decode()


def find_in_json(text: str, offset: int, path: Sequence[Step]) -> int:
    """Find a field of the JSON value at ``offset``.

    Returns the offset of the member's name or of the item; if the path ends early, that of the last step found.
    """
    offset = found = skip_spaces(text, offset)
    for step in path:
        places = _child_places(text, offset, is_array=not isinstance(step, str))
        if step not in places:
            break
        found, offset = places[step]
    return found


@functools.lru_cache(maxsize=_CACHED_VALUES)
def _child_places(text: str, offset: int, *, is_array: bool) -> dict[Step, tuple[int, int]]:
    """Offsets of name (or item) and value for everything in an array or object; the last of duplicate members."""
    steps = _items(text, offset) if is_array else _members(text, offset)
    return {key: (place, value) for key, place, value in steps}


MOST_DUPLICATES = 10
"""How many duplicate fields of one document are kept: those who read of them mend the first ones."""


def find_duplicates(text: str, offset: int) -> Iterator[tuple[tuple[Step, ...], int]]:
    """Find the duplicate members within the JSON value at ``offset``: their paths and offsets, as they come."""
    offset = skip_spaces(text, offset)
    seen: set[Step] = set()
    for key, place, value in (*_members(text, offset), *_items(text, offset)):
        if key in seen:
            yield (key,), place
        seen.add(key)
        for path, inner in find_duplicates(text, value):
            yield (key, *path), inner


def _members(text: str, offset: int) -> Iterator[tuple[Step, int, int]]:
    """Yield name, offset of the name and offset of the value for every member; nothing if it is not an object."""
    if text[offset] != "{":
        return
    offset = skip_spaces(text, offset + 1)
    while text[offset] == '"':
        name, end = _DECODER.raw_decode(text, offset)
        value = skip_spaces(text, skip_spaces(text, end) + 1)
        yield name, offset, value
        offset = _after_value(text, value)


def _items(text: str, offset: int) -> Iterator[tuple[Step, int, int]]:
    """Yield index, offset and again offset for every item; nothing if it is not an array."""
    if text[offset] != "[":
        return
    offset = skip_spaces(text, offset + 1)
    index = 0
    while text[offset] != "]":
        yield index, offset, offset
        offset = _after_value(text, offset)
        index += 1


def _after_value(text: str, offset: int) -> int:
    """The offset after a value and the comma that follows it."""
    _, end = _DECODER.raw_decode(text, offset)
    offset = skip_spaces(text, end)
    return skip_spaces(text, offset + 1) if text[offset] == "," else offset


def skip_spaces(text: str, offset: int) -> int:
    """The offset after JSON's white space."""
    found = _SPACES.match(text, offset)
    return found.end() if found else offset


STDIN = "-"
"""The file name that stands for standard input."""


def display_path(file: str) -> str:
    """The name of a file in messages."""
    return "standard input" if file == STDIN else file


@dataclasses.dataclass(frozen=True, slots=True)
class SourceText:
    """A text of one or more documents, or the rest of a file that is read line by line."""

    raw: bytes = dataclasses.field(repr=False)
    """The text, presumably UTF-8."""
    file: str
    """The file it comes from."""
    first_line: int = 1
    """The line of the file at which it begins."""
    first_index: int = 0
    """How many documents of the file precede it."""

    def fault(self, index: int, place: Position | None, problem: str) -> InputError:
        """Make the error of one of its documents; ``place`` is relative to the beginning of the text."""
        where = f"{display_path(self.file)}: document {self.first_index + index + 1}"
        in_file = None if place is None else self.in_file(place)
        if in_file is not None:
            where += f", {in_file}"
        return InputError(f"{where}: {problem}", file=self.file, place=in_file)

    def in_file(self, place: Position) -> Position:
        """Turn a position in this text into the position in its file."""
        return Position(place.line + self.first_line - 1, place.column)


class JsonOrigin(msgspec.Struct, frozen=True):
    """A JSON value within a text, identified by its offset in characters."""

    text: SourceText
    offset: int

    def find(self, path: Sequence[Step]) -> Position:
        """Find a field in the file."""
        text = decode_text(self.text.raw)
        return self.text.in_file(position_of_offset(text, find_in_json(text, self.offset, path)))


class YamlOrigin(msgspec.Struct, frozen=True):
    """A YAML document within a text, identified by its first line."""

    text: SourceText
    line: int

    def find(self, path: Sequence[Step]) -> Position:
        """Find a field in the file."""
        from pratique.apimachinery.yaml_positions import find_in_yaml  # noqa: PLC0415 - what is JSON needs no YAML parser

        return self.text.in_file(find_in_yaml(self.text.raw, self.line, path))


@dataclasses.dataclass(frozen=True, slots=True, eq=False)
class SourceDocument:
    """One object that somebody wrote, and its location. Compared by identity."""

    data: JSONObject = dataclasses.field(repr=False)
    """The object. Do not change it in place."""
    file: str
    """The path of its file as it was given; ``-`` is standard input."""
    index: int
    """The index of its document in the file, from 0; empty documents do not count."""
    _line: int | None
    """The line at which it begins; None if it is to be looked up on demand."""
    origin: JsonOrigin | YamlOrigin = dataclasses.field(repr=False)
    """The document in its text that it is, or is part of."""
    path: tuple[Step, ...] = ()
    """Its path in that document, such as ``("items", 3)``; empty if it is the whole document."""
    duplicates: tuple[tuple[tuple[Step, ...], Position], ...] = ()
    """Fields of YAML that are there again, of which the last one counts: the path of each, and its position."""

    @property
    def line(self) -> int:
        """The line at which it begins, from 1."""
        return self.origin.find(self.path).line if self._line is None else self._line

    def position(self, path: Sequence[Step] = ()) -> Position:
        """The position of a field's name or of an item, such as ``("spec", "containers", 0, "image")``.

        If there is no such field, the position of the last step that exists. The text is parsed again to find it.
        """
        return self.origin.find((*self.path, *path))

    def part(self, data: JSONObject, path: tuple[Step, ...]) -> SourceDocument:
        """An object within this one as a document of its own."""
        duplicates = tuple(
            (found[len(path) :], place) for found, place in self.duplicates if found[: len(path)] == path
        )
        whole = (*self.path, *path)
        return dataclasses.replace(self, data=data, path=whole, _line=None, duplicates=duplicates)

    def fault(self, path: Sequence[Step], problem: str, place: Position | None = None) -> InputError:
        """Make the error for a field of this document; ``place`` is where it is, if that is known."""
        place = place or self.position(path)
        where = f"{display_path(self.file)}: document {self.index + 1}, {place}"
        return InputError(f"{where}: {problem}", file=self.file, place=place)


def unwrap_lists(documents: Iterable[SourceDocument]) -> Iterator[SourceDocument]:
    """Replace every list (``kind: List``, ``PodList`` and so on) by its items.

    An item without ``kind`` and ``apiVersion`` inherits them from its list, as in
    ``k8s.io/apimachinery/pkg/apis/meta/v1/unstructured/helpers.go``.

    Raises:
        InputError: the ``items`` of a list are not a list of objects.
    """
    for document in documents:
        if is_list(document.data):
            yield from unwrap_lists(_list_items(document))
        else:
            yield document


def is_list(data: JSON) -> bool:
    """Tell whether an object is a list: ``kind: List``, or any kind that ends in ``List`` and has ``items``."""
    kind = data.get("kind")
    return kind == "List" or (isinstance(kind, str) and kind.endswith("List") and "items" in data)


def _list_items(document: SourceDocument) -> Iterator[SourceDocument]:
    items = document.data.get("items") or []
    if not isinstance(items, list):
        raise document.fault(("items",), f"items must be a list, got {json_type(items)}")
    inherited = {
        "apiVersion": document.data.get("apiVersion"),
        "kind": document.data["kind"].removesuffix("List"),
    }
    for index, item in enumerate(items):
        path: tuple[Step, ...] = ("items", index)
        if not isinstance(item, dict):
            raise document.fault(path, f"items[{index}] must be an object, got {json_type(item)}")
        named = item.get("kind") or item.get("apiVersion")
        yield document.part(item if named else {**item, **inherited}, path)
