"""How pairs came out, and those that differ."""

from __future__ import annotations

import dataclasses
import re

from differential.comparison import Difference
from differential.pairs import Request

_NAMES = re.compile(r"\b[a-z]+-?[0-9][0-9a-z-]*\b|\d+")


@dataclasses.dataclass(frozen=True, slots=True)
class Found:
    """A pair that differs."""

    family: str
    world: str
    """What the world was drawn from; the same text draws it again."""
    request: Request
    difference: Difference

    @property
    def cause(self) -> str:
        """What pairs of the same cause have alike: the texts without names and numbers."""
        real, ours = (_NAMES.sub("…", str(side)) for side in (self.difference.real, self.difference.ours))
        return f"{self.difference.what} {_NAMES.sub('…', self.difference.path)}: {real} | {ours}"


@dataclasses.dataclass(slots=True)
class Tally:
    """How the pairs of a family came out."""

    pairs: int = 0
    same: int = 0
    refused: int = 0
    """Among the same, those that are refused."""
    listed: int = 0
    """Pairs that differ in a way that the documents argue."""
    left_out: int = 0
    """Requests that the API server refuses for other reasons than admission, beside the pairs."""
    found: list[Found] = dataclasses.field(default_factory=list)

    def add(self, other: Tally) -> None:
        """Add the pairs of another tally."""
        self.pairs += other.pairs
        self.same += other.same
        self.refused += other.refused
        self.listed += other.listed
        self.left_out += other.left_out
        self.found += other.found

    @property
    def different(self) -> int:
        """How many pairs differ in a way that no document argues."""
        return len(self.found)
