"""Cases: their requests and expectations, and the results of running them."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

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
    """A regular expression in RE2 syntax."""

    text: str
    compiled: Any = dataclasses.field(repr=False, compare=False)

    def found_in(self, text: str) -> bool:
        """Whether some part of ``text`` matches."""
        return self.compiled.search(text) is not None


class ExpectedStep(msgspec.Struct, frozen=True):
    """An expected step of a decision."""

    members: Mapping[str, JSON]
    """The expected members, by their names in the decision document."""
    reason: Pattern | None = None
    """A pattern that its reason must match."""


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """The expected result of a review. A member that is None is not compared."""

    path: tuple[Step, ...]
    """Its path in the suite's document."""
    allowed: bool | None = None
    code: int | None = None
    reason: str | None = None
    message: Pattern | None = None
    warnings: tuple[Pattern, ...] | None = None
    """Patterns that must each match a warning; an empty list allows no warnings."""
    audit_annotations: Mapping[str, str] | None = None
    object: JSON = None
    """The complete object after the chain."""
    contains: JSON = None
    """A part of the object after the chain."""
    patch: tuple[JSON, ...] | None = None
    unchanged: bool | None = None
    steps: tuple[ExpectedStep, ...] | None = None
    """Steps that must occur in this order; others may occur between them."""
    expanded: tuple[Expectation, ...] | None = None
    """One expectation for each Pod of the workload."""
    fixed_point: bool | None = None
    """Whether a second mutating phase changes nothing."""


class ClusterSource(msgspec.Struct, frozen=True):
    """The objects that controllers look up."""

    paths: tuple[Path, ...] = ()
    objects: tuple[SourceDocument, ...] = ()
    """Objects in the suite itself."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """A case of a suite."""

    suite: str
    name: str
    document: SourceDocument
    """The document of the suite."""
    path: tuple[Step, ...]
    """The path of the case in that document."""
    submitted: SourceDocument
    """The manifest or AdmissionReview."""
    shape: RequestShape = CREATED
    """The request of a manifest, without its old object, which is ``old``."""
    old: SourceDocument | None = None
    phases: frozenset[Phase]
    settings: ChainSettings
    cluster: ClusterSource | None
    """None if the cluster is not described."""
    expect: Expectation

    @property
    def full_name(self) -> str:
        """The name that ``--run`` matches."""
        return f"{self.suite}/{self.name}"

    @property
    def line(self) -> int:
        """The line on which the case begins."""
        return self.document.position(self.path).line

    def fault(self, problem: str) -> InputError:
        """Make an error at the location of the case."""
        return self.document.fault(self.path, problem)


class CaseStatus(enum.StrEnum):
    """The status of a case that ran."""

    PASSED = "passed"
    """Everything is as expected."""
    FAILED = "failed"
    """Something is not as expected."""
    UNREADABLE = "unreadable"
    """It could not run, because something that it names cannot be used."""
    UNDECIDED = "undecided"
    """There was no decision in time."""


class ExpectationMismatch(msgspec.Struct, frozen=True):
    """A difference between an expectation and the decision."""

    path: tuple[Step, ...]
    """The path of the expectation in the suite's document."""
    expected: str
    """The expected value, in a few words."""
    got: str
    """The actual value."""
    difference: tuple[str, ...] = ()
    """Diff lines, which begin with ``-`` (expected), ``+`` (actual), a blank (both) or ``@@`` (lines left out)."""

    @property
    def text(self) -> str:
        """The mismatch in one line, without the diff."""
        return f"expected {self.expected}, got {self.got}"


class ObservedDecision(msgspec.Struct, frozen=True):
    """A decision, with everything that an expectation may compare."""

    review: Review
    decision: Decision
    repeated: Decision | None = None
    """The decision of a second mutating phase on the resulting object, if the case expects something about it."""
    pods: tuple[ObservedDecision, ...] = ()
    """The decisions on the Pods of the workload, if the case expects something about them."""

    @property
    def decisions(self) -> tuple[Decision, ...]:
        """The decision, and those on the Pods."""
        return (self.decision, *(pod.decision for pod in self.pods))


class CaseResult(msgspec.Struct, frozen=True):
    """The result of a case."""

    case: Case
    status: CaseStatus
    seconds: float = 0.0
    """The run time in seconds, including the set-up."""
    mismatches: tuple[ExpectationMismatch, ...] = ()
    error: InputError | None = None
    """Why it could not run, or was not decided in time."""
    observed: ObservedDecision | None = None

    def position(self, mismatch: ExpectationMismatch) -> Position:
        """The position of the expectation."""
        return self.case.document.position(mismatch.path)


class SuiteCounts(msgspec.Struct):
    """The counts of a test run."""

    passed: int = 0
    failed: int = 0
    unreadable: int = 0
    """Cases that could not run, and suites and cases that could not be read."""
    undecided: int = 0
    not_run: int = 0
    """Cases that did not run, because an earlier one had failed."""

    def count(self, status: CaseStatus) -> None:
        """Count one case."""
        name = status.value
        setattr(self, name, getattr(self, name) + 1)

    @property
    def run(self) -> int:
        """The number of cases that ran."""
        return self.passed + self.failed
