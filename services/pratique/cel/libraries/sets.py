"""Sets: lists taken as sets.

Source: ``github.com/google/cel-go/ext/sets.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.cel.declarations import Library
from pratique.cel.libraries.strings import require_types
from pratique.cel.structs import contains

if TYPE_CHECKING:
    from pratique.cel.activation import Frame
    from pratique.cel.values import Value


def _sets_contains(frame: Frame, items: Value, part: Value) -> bool:
    require_types((list, list), items, part)
    return all(contains(items, item, frame) for item in part)


def _sets_equivalent(frame: Frame, left: Value, right: Value) -> bool:
    return _sets_contains(frame, left, right) and _sets_contains(frame, right, left)


def _sets_intersects(frame: Frame, left: Value, right: Value) -> bool:
    require_types((list, list), left, right)
    return any(contains(right, item, frame) for item in left)


SETS = Library(
    functions={
        "sets.contains": _sets_contains,
        "sets.equivalent": _sets_equivalent,
        "sets.intersects": _sets_intersects,
    }
)
