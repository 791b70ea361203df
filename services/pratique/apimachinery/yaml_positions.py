"""The positions of fields in YAML documents."""

from __future__ import annotations

import bisect
import functools
from collections.abc import Sequence
from typing import NamedTuple

from yaml._yaml import CParser
from yaml.error import YAMLError
from yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode

from pratique.apimachinery import yaml_values
from pratique.apimachinery.field_errors import Step
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.source_documents import Position

_CACHED_DOCUMENTS = 8
"""How many composed documents, and texts' line offsets, are cached: callers ask for several fields of the same few
documents."""
_BREAK = pattern(rb"\r\n|[\r\n]|\xc2\x85|\xe2\x80[\xa8\xa9]")
"""The line breaks of YAML 1.1, in UTF-8."""
_MARKERS = (b"---", b"...")
"""The markers at the beginning of a line that begin or end a document."""
_PLAIN = "plain"
_QUOTED = "quoted"


def find_in_yaml(raw: bytes, line: int, path: Sequence[Step]) -> Position:
    """Find a field of the document that begins on ``line`` of a valid text.

    Returns the position of the key or of the item; if the path ends early, that of the last step found.
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
    """Composes nodes whose tags say only whether a scalar is plain (unquoted)."""

    def resolve(self, _kind: type[Node], _value: str | None, implicit: tuple[bool, bool] | bool) -> str:  # noqa: FBT001 - as the parser calls it
        return _PLAIN if isinstance(implicit, tuple) and implicit[0] else _QUOTED

    def descend_resolver(self, _parent: Node | None, _index: Node | int | None) -> None:
        """Do nothing: no tag depends on the path of a node."""

    def ascend_resolver(self) -> None:
        """Do nothing either."""


@functools.lru_cache(maxsize=_CACHED_DOCUMENTS)
def _document(raw: bytes, line: int) -> Node | None:
    """Compose one document. Only its own bytes are parsed, so all documents of a text take linear time together."""
    layout = _layout(raw)
    if line > len(layout.lines):
        return None
    return _first_on_line(raw[slice(*layout.document_at(line))], 1) or _first_on_line(raw, line)


class _Layout(NamedTuple):
    """Byte offsets of the lines of a text, and of the lines that may begin or end a document."""

    lines: list[int]
    markers: list[int]
    end: int

    def document_at(self, line: int) -> tuple[int, int]:
        """The byte range from a line, counted from 1, to the next marker after it."""
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
        # Composing refuses a redefined anchor, which is legal: such a document has no positions.
        return None
    return None


def _child(node: Node, step: Step) -> tuple[Node, Node] | None:
    """Follow one step: the node whose position counts, and the node of the value."""
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
