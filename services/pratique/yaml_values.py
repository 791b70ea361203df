"""YAML documents as JSON values, the way ``sigs.k8s.io/yaml`` makes them.

The value is built from libyaml's events in one pass, without a tree of nodes and without recursion: deep
nesting costs an error, never the stack. Source: ``sigs.k8s.io/yaml/goyaml.v2/decode.go`` for anchors, merge
keys and the bound on expansion.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TYPE_CHECKING

from yaml._yaml import CParser
from yaml.error import MarkedYAMLError, YAMLError
from yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentEndEvent,
    DocumentStartEvent,
    MappingStartEvent,
    ScalarEvent,
    SequenceStartEvent,
)
from yaml.reader import ReaderError

from pratique import yaml_scalars
from pratique.field_errors import FieldPath

if TYPE_CHECKING:
    from collections.abc import Iterator

    from yaml.events import Event

    from pratique.json_values import JSON

MAXIMUM_DEPTH = 500
"""How deep values may be nested: half of Python's recursion limit of 1,000, so that who walks them can."""

_NO_KEY = object()
_MERGE = object()


class YamlFault(ValueError):  # noqa: N818 - it becomes an InputError, which says in which file
    """A YAML text cannot be read. ``line`` and ``column`` count from 1; 0 where there is no telling."""

    def __init__(self, problem: str, line: int = 0, column: int = 0) -> None:
        """Say what is wrong, and where."""
        super().__init__(problem)
        self.problem = problem
        self.line = line
        self.column = column


@dataclasses.dataclass(frozen=True, slots=True)
class YamlValue:
    """One document: its value, and the line, from 1, on which it begins."""

    value: JSON
    line: int


def read_values(raw: bytes, *, unique_keys: bool = False) -> Iterator[YamlValue]:
    """Read the documents of a YAML text one by one; those that hold nothing are left out.

    Args:
        raw: The text, in UTF-8.
        unique_keys: Refuse a mapping that has a key twice. Otherwise the last one counts.

    Raises:
        YamlFault: the text is not YAML, or is YAML that has no place in JSON.
    """
    try:
        events = _events(raw)
        for event in events:
            if isinstance(event, DocumentStartEvent):
                document = _Builder(unique_keys=unique_keys).build(events)
                if document.value is not None:
                    yield document
    except YAMLError as error:
        raise _fault(error, raw) from None


def _events(raw: bytes) -> Iterator[Event]:
    parser = CParser(raw)
    while (event := parser.get_event()) is not None:
        yield event


class _Frame:
    """A mapping or sequence that is being read."""

    __slots__ = ("anchor", "container", "count_before", "is_mapping", "key", "merged")

    def __init__(self, anchor: str | None, count_before: int, *, is_mapping: bool) -> None:
        self.container: JSON = {} if is_mapping else []
        self.is_mapping = is_mapping
        self.key: JSON = _NO_KEY
        self.merged: set[str] = set()
        self.anchor = anchor
        self.count_before = count_before


class _Builder:
    """Builds the value of one document from its events."""

    def __init__(self, *, unique_keys: bool) -> None:
        self._unique_keys = unique_keys
        self._frames: list[_Frame] = []
        self._anchors: dict[str, tuple[JSON, int]] = {}
        self._count = 0
        self._alias_count = 0
        self._value: JSON = None

    def build(self, events: Iterator[Event]) -> YamlValue:
        first_line = 0
        for event in events:
            if isinstance(event, DocumentEndEvent):
                break
            first_line = first_line or _place_of(event)[0]
            try:
                self._take(event)
            except ValueError as error:
                raise YamlFault(str(error), *_place_of(event)) from None
        return YamlValue(self._value, first_line)

    def _take(self, event: Event) -> None:
        if isinstance(event, ScalarEvent):
            self._count += 1
            value = _scalar(event)
            if event.anchor:
                self._anchors[event.anchor] = (value, 1)
            self._place(value, is_merge=_is_merge(event))
        elif isinstance(event, MappingStartEvent | SequenceStartEvent):
            self._open(event)
        elif isinstance(event, AliasEvent):
            self._place(self._expand(event.anchor or ""))
        elif isinstance(event, CollectionEndEvent):
            self._close()

    def _open(self, event: MappingStartEvent | SequenceStartEvent) -> None:
        is_mapping = isinstance(event, MappingStartEvent)
        yaml_scalars.check_collection_tag(event.tag, "map" if is_mapping else "seq")
        if len(self._frames) >= MAXIMUM_DEPTH:
            raise ValueError(f"nested deeper than {MAXIMUM_DEPTH} levels")
        if self._frames and self._frames[-1].is_mapping and self._frames[-1].key is _NO_KEY:
            raise ValueError("a key must be text, a number or a boolean")
        if event.anchor:
            self._anchors.pop(event.anchor, None)
        self._frames.append(_Frame(event.anchor, self._count, is_mapping=is_mapping))
        self._count += 1

    def _close(self) -> None:
        frame = self._frames.pop()
        if frame.anchor:
            self._anchors[frame.anchor] = (frame.container, self._count - frame.count_before)
        self._place(frame.container)

    def _place(self, value: JSON, *, is_merge: bool = False) -> None:
        if not self._frames:
            self._value = value
            return
        frame = self._frames[-1]
        if not frame.is_mapping:
            frame.container.append(_json_number(value))
        elif frame.key is _NO_KEY:
            frame.key = _MERGE if is_merge else self._checked_key(frame, value)
        else:
            key, frame.key = frame.key, _NO_KEY
            if key is _MERGE:
                _merge(frame, value)
            else:
                frame.container[key] = _json_number(value)

    def _checked_key(self, frame: _Frame, value: JSON) -> str:
        key = yaml_scalars.key_text(value)
        if self._unique_keys and key in frame.container:
            if key not in frame.merged:
                raise ValueError(f'strict decoding error: duplicate field "{self._path() / key}"')
            frame.merged.discard(key)
        return key

    def _path(self) -> FieldPath:
        outer = self._frames[:-1]
        return FieldPath(tuple(frame.key if frame.is_mapping else len(frame.container) for frame in outer))

    def _expand(self, anchor: str) -> JSON:
        """Copy what an alias stands for, unless the document grows out of proportion by it."""
        if any(frame.anchor == anchor for frame in self._frames) and anchor not in self._anchors:
            raise ValueError(f"anchor '{anchor}' value contains itself")
        if anchor not in self._anchors:
            raise ValueError(f"unknown anchor '{anchor}' referenced")
        value, size = self._anchors[anchor]
        self._count += 1 + size
        self._alias_count += size
        if (
            self._alias_count > 100
            and self._count > 1000
            and self._alias_count / self._count > _allowed_alias_share(self._count)
        ):
            raise ValueError("document contains excessive aliasing")
        return _copy(value, len(self._frames))


def _place_of(event: Event) -> tuple[int, int]:
    mark = event.start_mark
    return (mark.line + 1, mark.column + 1) if mark else (0, 0)


def _allowed_alias_share(count: int) -> float:
    """How much of a document may come from aliases: 99 % of a small one, 10 % of one of 4,000,000 values."""
    low, high = 400_000, 4_000_000
    share = (min(max(count, low), high) - low) / (high - low)
    return 0.99 - 0.89 * share


def _scalar(event: ScalarEvent) -> JSON:
    if event.tag is None:
        return yaml_scalars.resolve(event.value) if event.implicit[0] else event.value
    return event.value if event.tag == "!" else yaml_scalars.resolve_tagged(event.tag, event.value)


def _json_number(value: JSON) -> JSON:
    """Write a whole number as an integer, as Go's JSON does; refuse what JSON has no number for."""
    if type(value) is not float:
        return value
    if not math.isfinite(value):
        raise ValueError("JSON has no such number; quote it if text is meant")
    return int(value) if value.is_integer() and -(2.0**63) <= value < 2.0**63 else value


def _is_merge(event: ScalarEvent) -> bool:
    return event.value == yaml_scalars.MERGE_KEY and event.implicit[0]


def _merge(frame: _Frame, value: JSON) -> None:
    sources = value[::-1] if isinstance(value, list) else [value]
    if not all(isinstance(source, dict) for source in sources):
        raise ValueError("map merge requires map or sequence of maps as the value")
    for source in sources:
        frame.merged.update(source)
        frame.container.update(source)


def _copy(value: JSON, depth: int) -> JSON:
    if not isinstance(value, dict | list):
        return value
    if depth >= MAXIMUM_DEPTH:
        raise ValueError(f"nested deeper than {MAXIMUM_DEPTH} levels")
    if isinstance(value, dict):
        return {key: _copy(item, depth + 1) for key, item in value.items()}
    return [_copy(item, depth + 1) for item in value]


def _fault(error: YAMLError, raw: bytes) -> YamlFault:
    if isinstance(error, ReaderError):
        before = raw[: error.position]
        column = len(before) - before.rfind(b"\n")
        return YamlFault(f"{error.reason}: the text must be UTF-8", before.count(b"\n") + 1, column)
    if not isinstance(error, MarkedYAMLError):
        return YamlFault(str(error))
    mark = error.problem_mark or error.context_mark
    problem = ": ".join(text for text in (error.context, error.problem) if text)
    if mark is None:
        return YamlFault(problem)
    return YamlFault(problem + _hint(raw, mark.line), mark.line + 1, mark.column + 1)


def _hint(raw: bytes, line_index: int) -> str:
    lines = raw.splitlines()
    line = lines[line_index] if line_index < len(lines) else b""
    indent = line[: len(line) - len(line.lstrip())]
    return " (YAML is indented by spaces, not tabs)" if b"\t" in indent else ""
