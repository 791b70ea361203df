"""Suppressions: comments in YAML that switch rules off, such as ``# pratique: disable=wildcard-rules``.

One on the line right above a field, or above an item of a list, holds for it and all within it; one above the first
line of a document holds for the whole document.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

from pratique.source_documents import YamlOrigin

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.field_errors import Step
    from pratique.source_documents import SourceDocument

_MARK = b"pratique:"
_TEXTS = 8
"""Texts whose lines are remembered: findings come by the text."""
_LINES = 256
"""Lines above which comments are remembered: those of a document, for all that is found in it."""
_COMMENT = re.compile(r"\s*#\s*pratique:\s*disable=([\w, -]+)")


def is_suppressed(source: SourceDocument | None, path: Sequence[Step], rule: str) -> bool:
    """Tell whether a comment switches a rule off for a field."""
    origin = source.origin if source is not None else None
    if source is None or not isinstance(origin, YamlOrigin) or not _is_marked(origin.text.raw):
        return False
    steps = (*source.path, *path)
    for length in range(len(steps) + 1):
        # Back from the line of the file to that of the text.
        line = origin.find(steps[:length]).line - origin.text.first_line
        if rule in _switched_off(origin.text.raw, line, is_document=length == 0):
            return True
    return False


@functools.lru_cache(maxsize=_LINES)
def _switched_off(raw: bytes, line: int, *, is_document: bool) -> frozenset[str]:
    """The rules that the comments right above a line name; above a document there may be empty lines between."""
    lines, names = _lines(raw), set[str]()
    for at in range(min(line, len(lines)) - 1, -1, -1):
        above = lines[at]
        if not above.lstrip().startswith("#") and (above.strip() or not is_document):
            break
        if found := _COMMENT.match(above):
            names |= {name.strip() for name in found[1].split(",")}
    return frozenset(names)


@functools.lru_cache(maxsize=_TEXTS)
def _lines(raw: bytes) -> list[str]:
    return raw.decode().splitlines()


@functools.lru_cache(maxsize=_TEXTS)
def _is_marked(raw: bytes) -> bool:
    return _MARK in raw
