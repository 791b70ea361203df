"""Where a field stands in a YAML document."""

from __future__ import annotations

import bisect
import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

from yaml._yaml import CParser
from yaml.error import YAMLError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pratique.apimachinery import yaml_values
from pratique.apimachinery.field_errors import Step
from pratique.apimachinery.source_documents import Position

_CACHED_DOCUMENTS = 8
"""Documents that are kept composed, and texts whose lines are kept: who asks for one field's place asks for others' of
the same few documents."""
_BREAK = re.compile(rb"\r\n|[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9]")
"""What ends a line in YAML 1.1, in UTF-8."""
_MARKERS = (b"---", b"...")
"""What begins or ends a document where it stands at the beginning of a line."""
_PLAIN = "plain"
_QUOTED = "quoted"


def find_in_yaml(raw: bytes, line: int, path: Sequence[Step]) -> Position:
    """Find a field of the document that begins on ``line`` of a text that has been read without an error.

    The answer is the place of the key or of the item; where the path ends early, that of what was found last.
    """
    root = _document(raw, line)
    if root is None or root.start_mark is None:
        return Position(line, 1)
    place = node = root
    for step in path:
        found = _child(node, step)
        if found is None:
            break
        place, node = found
    mark = place.start_mark
    return Position(mark.line - root.start_mark.line + line, mark.column + 1) if mark else Position(line, 1)


class _Composer(CParser):
    """Composes nodes whose tags tell only whether a scalar stands there without quotes."""

    def resolve(self, _kind: type[Node], _value: str | None, implicit: tuple[bool, bool] | bool) -> str:  # noqa: FBT001 - the parser calls it so
        return _PLAIN if isinstance(implicit, tuple) and implicit[0] else _QUOTED

    def descend_resolver(self, _parent: Node | None, _index: Node | int | None) -> None:
        """Not needed: no tag depends on where a node is."""

    def ascend_resolver(self) -> None:
        """Not needed either."""


@functools.lru_cache(maxsize=_CACHED_DOCUMENTS)
def _document(raw: bytes, line: int) -> Node | None:
    """Compose one document. Nothing before or after it is read, so that all those of a text cost what it is long."""
    layout = _layout(raw)
    if line > len(layout.lines):
        return None
    return _first_on_line(raw[slice(*layout.document_at(line))], 1) or _first_on_line(raw, line)


class _Layout(NamedTuple):
    """Where the lines of a text begin, and which of them may begin or end a document, as offsets in bytes."""

    lines: list[int]
    markers: list[int]
    end: int

    def document_at(self, line: int) -> tuple[int, int]:
        """From a line, counted from 1, to the next marker after it."""
        start = self.lines[line - 1]
        following = bisect.bisect_right(self.markers, start)
        return start, self.markers[following] if following < len(self.markers) else self.end


@functools.lru_cache(maxsize=_CACHED_DOCUMENTS)
def _layout(raw: bytes) -> _Layout:
    lines = [0, *(found.end() for found in _BREAK.finditer(raw))]
    return _Layout(lines, [start for start in lines if raw.startswith(_MARKERS, start)], len(raw))


def _first_on_line(raw: bytes, line: int) -> Node | None:
    composer = _Composer(raw)
    try:
        while composer.check_node():
            node = composer.get_node()
            if node and node.start_mark and node.start_mark.line + 1 == line:
                return node
    except YAMLError:
        # Composing refuses an anchor that is set twice, which reading does not: no position, then.
        return None
    return None


def _child(node: Node, step: Step) -> tuple[Node, Node] | None:
    """Find what one step leads to: the node that marks its place, and the node of its value."""
    if isinstance(node, SequenceNode) and isinstance(step, int):
        return (node.value[step], node.value[step]) if step < len(node.value) else None
    if not isinstance(node, MappingNode):
        return None
    for key, value in reversed(node.value):
        if _is_merge(key):
            sources = value.value if isinstance(value, SequenceNode) else [value]
            found = next((pair for source in sources if (pair := _child(source, step))), None)
        else:
            found = (key, value) if _key_text(key) == step else None
        if found is not None:
            return found
    return None


def _is_merge(key: Node) -> bool:
    return isinstance(key, ScalarNode) and key.tag == _PLAIN and key.value == yaml_values.MERGE_KEY


def _key_text(key: Node) -> str:
    if key.tag in {_PLAIN, _QUOTED}:
        return yaml_values.key_text(yaml_values.resolve(key.value) if key.tag == _PLAIN else key.value)
    return yaml_values.key_text(yaml_values.resolve_tagged(key.tag, key.value))
