"""The output formats of ``pratique review``, one module for each group of formats, and what they write."""

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
    """An input document with its review and its decision."""

    document: SourceDocument
    """The input document."""
    review: Review
    """What was asked."""
    decision: Decision
    """What was decided."""
    expanded: tuple[Expansion, ...] = ()
    """The reviewed Pods of a workload, in the order of ``decision.expanded``."""

    @property
    def place(self) -> str:
        """The location of the document, for people: file and line."""
        return f"{display_path(self.document.file)}:{self.document.line}"


@dataclasses.dataclass(frozen=True, slots=True)
class Missed:
    """An input document without a decision: unreadable, or not decided in time."""

    error: InputError
    """The reason, with its location."""
    review: Review | None = None
    """The review that was not decided in time; None if the document is unreadable."""


@dataclasses.dataclass(slots=True)
class Tally:
    """The counts of a review run."""

    admitted: int = 0
    denied: int = 0
    unreadable: int = 0
    """Documents that are neither a review nor a manifest."""
    undecided: int = 0
    """Documents that were not decided in time."""
    warned: int = 0
    """Decided documents with warnings."""
    pods_denied: int = 0
    """Denied Pods of workloads."""

    def count(self, *, allowed: bool) -> None:
        """Count one decision."""
        if allowed:
            self.admitted += 1
        else:
            self.denied += 1


class Output(Protocol):
    """Writes decisions one by one, as soon as they are made."""

    def write(self, reviewed: Reviewed) -> None:
        """Write one decision, and flush it."""

    def miss(self, missed: Missed) -> None:
        """Write that a document has no decision, if the format has a place for that; standard error reports it, too."""

    def finish(self, tally: Tally) -> None:
        """Write the end of the output."""
