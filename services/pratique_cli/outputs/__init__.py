"""Outputs: one file for each format in which ``pratique review`` writes decisions."""

from __future__ import annotations

import dataclasses
from typing import Protocol

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.source_documents import SourceDocument, display_path
from pratique_cli.reviews.expansions import Expansion
from pratique_frontdoor.chain.decisions import Decision


@dataclasses.dataclass(frozen=True, slots=True)
class Reviewed:
    """One input document, and what became of it."""

    document: SourceDocument
    """What stands in the input."""
    review: Review
    """What was asked."""
    decision: Decision
    """What was decided."""
    expanded: tuple[Expansion, ...] = ()
    """For each of ``decision.expanded``, the Pod and how it came to be."""

    @property
    def place(self) -> str:
        """Where it stands, for people: file and line."""
        return f"{display_path(self.document.file)}:{self.document.line}"


@dataclasses.dataclass(frozen=True, slots=True)
class Missed:
    """One input document that nothing was decided about."""

    error: InputError
    """Why, and where it stands."""
    review: Review | None = None
    """What was asked, where there was no decision in time; None where nobody can tell what is asked."""


@dataclasses.dataclass(slots=True)
class Tally:
    """How many documents came to what."""

    admitted: int = 0
    denied: int = 0
    unreadable: int = 0
    """Could not be read as a review or a manifest."""
    undecided: int = 0
    """No decision in time."""
    warned: int = 0
    """Of those that were decided: had something to warn of."""
    pods_denied: int = 0
    """Pods that workloads would make, and that were denied."""

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

    def miss(self, missed: Missed) -> None:
        """Write that a document was not decided, where the format has a place for it: standard error tells it."""

    def finish(self, tally: Tally) -> None:
        """Write what comes after the last decision."""
