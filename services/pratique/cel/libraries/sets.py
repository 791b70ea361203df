"""Sets: lists taken as sets.

Source: ``github.com/google/cel-go/ext/sets.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.cel.declarations import Library
from pratique.cel.libraries.strings import require
from pratique.cel.structs import contains

if TYPE_CHECKING:
    from pratique.cel.activation import Frame
    from pratique.cel.values import Value


def _contains(frame: Frame, items: Value, part: Value) -> bool:
    require((list, list), items, part)
    return all(contains(items, item, frame) for item in part)


def _equivalent(frame: Frame, left: Value, right: Value) -> bool:
    return _contains(frame, left, right) and _contains(frame, right, left)


def _intersects(frame: Frame, left: Value, right: Value) -> bool:
    require((list, list), left, right)
    return any(contains(right, item, frame) for item in left)


LIBRARY = Library(
    functions={
        "sets.contains": _contains,
        "sets.equivalent": _equivalent,
        "sets.intersects": _intersects,
    }
)
