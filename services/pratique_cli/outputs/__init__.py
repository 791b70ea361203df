"""Outputs: one file for each format in which ``pratique review`` writes decisions."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from frontdoor.decisions import Decision
    from pratique.reviews import Review


@dataclasses.dataclass(frozen=True, slots=True)
class Reviewed:
    """One input document, and what became of it."""

    place: str
    """Where it stands, for people: file and line."""
    review: Review
    """What was asked."""
    decision: Decision
    """What was decided."""


@dataclasses.dataclass(slots=True)
class Tally:
    """How many documents came to what."""

    admitted: int = 0
    denied: int = 0
    unreadable: int = 0
    """Could not be read as a review or a manifest."""
    undecided: int = 0
    """No decision in time."""

    def count(self, *, allowed: bool) -> None:
        """Count one decision."""
        if allowed:
            self.admitted += 1
        else:
            self.denied += 1


class Output(Protocol):
    """Writes decisions one by one, each as soon as it is there."""

    def write(self, reviewed: Reviewed) -> None:
        """Write one decision, and let it reach the reader."""

    def finish(self, tally: Tally) -> None:
        """Write what comes after the last decision."""
