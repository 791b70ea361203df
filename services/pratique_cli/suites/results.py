"""Results: what became of a case, and what was not as expected."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from frontdoor.decisions import Decision
    from pratique.errors import InputError
    from pratique.field_errors import Step
    from pratique.positions import Position
    from pratique.reviews import Review
    from pratique_cli.suites.cases import Case


class Ending(enum.StrEnum):
    """How a case ended."""

    PASSED = "passed"
    """All is as expected."""
    FAILED = "failed"
    """Something is not."""
    UNREADABLE = "unreadable"
    """It could not be run: what it names cannot be used."""
    UNDECIDED = "undecided"
    """There was no decision in time."""


@dataclasses.dataclass(frozen=True, slots=True)
class Mismatch:
    """One thing that is not as expected."""

    path: tuple[Step, ...]
    """The member that expects it, in the suite's document."""
    expected: str
    """What was expected, in a few words."""
    got: str
    """What came."""
    difference: tuple[str, ...] = ()
    """Lines that begin with ``-`` (expected), ``+`` (came), a blank (both) or ``@@`` (something is left out)."""

    @property
    def text(self) -> str:
        """All but the difference, in one line."""
        return f"expected {self.expected}, got {self.got}"


@dataclasses.dataclass(frozen=True, slots=True)
class Observed:
    """What came of a review, with all that an expectation may ask for."""

    review: Review
    decision: Decision
    again: Decision | None = None
    """What the mutating phase made of the object that came out, where somebody expects something of it."""
    pods: tuple[Observed, ...] = ()
    """What came of the Pods that the workload would make, where somebody expects something of them."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decision, and those on the Pods."""
        return (self.decision, *(pod.decision for pod in self.pods))


@dataclasses.dataclass(frozen=True, slots=True)
class Result:
    """What became of a case."""

    case: Case
    ending: Ending
    seconds: float = 0.0
    """How long it took, with all that had to be made ready."""
    mismatches: tuple[Mismatch, ...] = ()
    error: InputError | None = None
    """Why it could not be run, or that there was no decision in time."""
    observed: Observed | None = None

    def position(self, mismatch: Mismatch) -> Position:
        """Where the member stands that expects it."""
        return self.case.document.position(mismatch.path)


@dataclasses.dataclass(slots=True)
class Score:
    """How many cases came to what."""

    passed: int = 0
    failed: int = 0
    unreadable: int = 0
    """Cases that could not be run, and suites and cases that could not be read."""
    undecided: int = 0
    left: int = 0
    """Cases that were not run, because one before them had failed."""

    def count(self, ending: Ending) -> None:
        """Count one case."""
        name = ending.value
        setattr(self, name, getattr(self, name) + 1)

    @property
    def run(self) -> int:
        """How many cases were run."""
        return self.passed + self.failed
