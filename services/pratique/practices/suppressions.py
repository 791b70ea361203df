"""Suppressions: comments in YAML that switch rules off, such as ``# pratique: disable=wildcard-rules``.

One on the line right above a field, or above an item of a list, holds for it and all within it; one above the first
line of a document holds for the whole document.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pratique.source_documents import YamlOrigin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.field_errors import Step
    from pratique.source_documents import SourceDocument

_MARK = b"pratique:"
_COMMENT = re.compile(r"\s*#\s*pratique:\s*disable=([\w, -]+)")


def is_suppressed(source: SourceDocument | None, path: Sequence[Step], rule: str) -> bool:
    """Tell whether a comment switches a rule off for a field."""
    origin = source.origin if source is not None else None
    if source is None or not isinstance(origin, YamlOrigin) or _MARK not in origin.text.raw:
        return False
    lines = origin.text.raw.decode().splitlines()
    steps = (*source.path, *path)
    for length in range(len(steps) + 1):
        # Back from the line of the file to that of the text.
        line = origin.find(steps[:length]).line - origin.text.first_line
        if rule in _switched_off(lines[:line], is_document=length == 0):
            return True
    return False


def _switched_off(above: Sequence[str], *, is_document: bool) -> Iterator[str]:
    """The rules that the comments right above a line name; above a document there may be empty lines between."""
    for line in reversed(above):
        if not line.lstrip().startswith("#") and (line.strip() or not is_document):
            return
        if found := _COMMENT.match(line):
            yield from (name.strip() for name in found[1].split(","))
