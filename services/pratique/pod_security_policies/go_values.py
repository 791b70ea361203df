"""Values as Go prints them in the texts of this controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.field_errors import GoLiteral

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.pod_security_policies.specs import Range

NIL = "null"
"""What field errors print, in quotes, of a pointer to nothing."""


def int64s(numbers: Sequence[int] | None) -> GoLiteral:
    """A list of numbers: ``[]int64{1, 2}``, ``[]int64(nil)`` where there is none."""
    if numbers is None:
        return GoLiteral("[]int64(nil)")
    return GoLiteral(f"[]int64{{{', '.join(map(str, numbers))}}}")


def ranges(values: Sequence[Range]) -> str:
    """Ranges of ids: ``[{1 1} {5 10}]``."""
    return f"[{' '.join(f'{{{each.min} {each.max}}}' for each in values)}]"
