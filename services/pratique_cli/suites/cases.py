"""Cases: what is asked of a chain, what it is to decide, and what became of it."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Review
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import Step
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.source_documents import Position, SourceDocument
from pratique.configuration.settings import ChainSettings
from pratique_cli.reviews.requests import CREATED, RequestShape
from pratique_frontdoor.chain.decisions import Decision


@dataclasses.dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern in the syntax of RE2, searched for."""

    text: str
    compiled: Any = dataclasses.field(repr=False, compare=False)

    def found_in(self, text: str) -> bool:
        """Tell whether some part of ``text`` matches."""
        return self.compiled.search(text) is not None


@dataclasses.dataclass(frozen=True, slots=True)
class ExpectedStep:
    """A step that has to be there."""

    members: Mapping[str, JSON]
    """By their names in the decision document, what they have to be."""
    reason: Pattern | None = None
    """What has to be found in its reason."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Expectation:
    """What is to come of a review. None of any member means that it does not matter."""

    path: tuple[Step, ...]
    """Where it stands in the suite's document."""
    allowed: bool | None = None
    code: int | None = None
    reason: str | None = None
    message: Pattern | None = None
    warnings: tuple[Pattern, ...] | None = None
    """Each has to be found in one warning; where there are none of them, there may be no warning."""
    audit_annotations: Mapping[str, str] | None = None
    object: JSON = None
    """The object afterwards, all of it."""
    contains: JSON = None
    """A part of the object afterwards."""
    patch: tuple[JSON, ...] | None = None
    unchanged: bool | None = None
    steps: tuple[ExpectedStep, ...] | None = None
    """Each has to be there, in that order; others may stand between."""
    expanded: tuple[Expectation, ...] | None = None
    """One for each Pod that the workload would make."""
    fixed_point: bool | None = None
    """Whether the mutating phase leaves alone what it has made."""


@dataclasses.dataclass(frozen=True, slots=True)
class ClusterSource:
    """What controllers look up."""

    paths: tuple[Path, ...] = ()
    objects: tuple[SourceDocument, ...] = ()
    """Objects written in the suite itself."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of a suite."""

    suite: str
    name: str
    document: SourceDocument
    """The suite's."""
    path: tuple[Step, ...]
    """Where the case stands in it."""
    asked: SourceDocument
    """The manifest or AdmissionReview."""
    shape: RequestShape = CREATED
    """What a manifest asks for; what it says is stored before is in ``old``."""
    old: SourceDocument | None = None
    phases: frozenset[Phase]
    settings: ChainSettings
    cluster: ClusterSource | None
    """None means that nobody says what there is."""
    expect: Expectation

    @property
    def full_name(self) -> str:
        """What ``--run`` looks at."""
        return f"{self.suite}/{self.name}"

    @property
    def line(self) -> int:
        """The line of the suite's file on which the case begins."""
        return self.document.position(self.path).line

    def fault(self, problem: str) -> InputError:
        """Make the error that the case cannot be run."""
        return self.document.fault(self.path, problem)


class CaseStatus(enum.StrEnum):
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
class ExpectationMismatch:
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
class ObservedDecision:
    """What came of a review, with all that an expectation may ask for."""

    review: Review
    decision: Decision
    again: Decision | None = None
    """What the mutating phase made of the object that came out, where somebody expects something of it."""
    pods: tuple[ObservedDecision, ...] = ()
    """What came of the Pods that the workload would make, where somebody expects something of them."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decision, and those on the Pods."""
        return (self.decision, *(pod.decision for pod in self.pods))


@dataclasses.dataclass(frozen=True, slots=True)
class CaseResult:
    """What became of a case."""

    case: Case
    ending: CaseStatus
    seconds: float = 0.0
    """How long it took, with all that had to be made ready."""
    mismatches: tuple[ExpectationMismatch, ...] = ()
    error: InputError | None = None
    """Why it could not be run, or that there was no decision in time."""
    observed: ObservedDecision | None = None

    def position(self, mismatch: ExpectationMismatch) -> Position:
        """Where the member stands that expects it."""
        return self.case.document.position(mismatch.path)


@dataclasses.dataclass(slots=True)
class SuiteCounts:
    """How many cases came to what."""

    passed: int = 0
    failed: int = 0
    unreadable: int = 0
    """Cases that could not be run, and suites and cases that could not be read."""
    undecided: int = 0
    left: int = 0
    """Cases that were not run, because one before them had failed."""

    def count(self, ending: CaseStatus) -> None:
        """Count one case."""
        name = ending.value
        setattr(self, name, getattr(self, name) + 1)

    @property
    def run(self) -> int:
        """How many cases were run."""
        return self.passed + self.failed
