"""Text sizes: how many bytes values have as JSON that Go writes; nothing of what was measured before is read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import encode

if TYPE_CHECKING:
    from pratique.json_values import JSON

_MOST_LOOKED_AT = 100
"""Values among which one is looked for that was measured before. 100 take 40 microseconds. A value that doubles by
being copied into itself has two that are new each time; the rest of its megabytes is in one that is known."""
_MOST_NESTED = 100
"""Measured values within one another. What is in more of them is written all the same, for it may be too deep to be."""


class TextSizes:
    """The sizes of values that do not change any more."""

    def __init__(self) -> None:
        """Know none."""
        # By identity, with size, and how many measured ones are within one another in it. What is measured is kept, so
        # that nothing else has its identity.
        self._known: dict[int, tuple[JSON, int, int]] = {}

    def of(self, value: JSON) -> int:
        """Measure a value, in bytes. It must not be changed afterwards, nor what it holds.

        Raises:
            RecursionError: it is too deep to be written.
        """
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        size, nested = (self._sum(value) if self._known else None) or (0, 0)
        if not size or nested > _MOST_NESTED:
            size = _text_size(value)
        self._known[id(value)] = (value, size, nested)
        return size

    def _sum(self, value: JSON) -> tuple[int, int] | None:
        """Add up the sizes of what a value holds; None where that is too much to look at."""
        size, nested, left = 0, 0, [value]
        for _ in range(_MOST_LOOKED_AT):
            if not left:
                return size, nested
            one = left.pop()
            known = self._known.get(id(one))
            if known is not None:
                size += known[1]
                nested = max(nested, known[2] + 1)
            elif not isinstance(one, dict | list):
                size += _text_size(one)
            elif len(one) > _MOST_LOOKED_AT:
                return None
            else:
                # Brackets, commas, and names with their colons.
                size += 2 + max(0, len(one) - 1)
                if isinstance(one, dict):
                    size += sum(_text_size(name) + 1 for name in one)
                left.extend(one.values() if isinstance(one, dict) else one)
        return None


def _text_size(value: JSON) -> int:
    raw = encode(value)
    # Go writes "<", ">" and "&" with six bytes (\u003c) in place of one, and U+2028 and U+2029 with six in place of
    # three. To look for them takes far less time than to count them, and most texts have none.
    short = sum(raw.count(mark) for mark in (b"<", b">", b"&") if mark in raw)
    long = 0 if raw.isascii() else raw.count(b"\xe2\x80\xa8") + raw.count(b"\xe2\x80\xa9")
    return len(raw) + 5 * short + 3 * long
