"""Findings: each cause of a denial and each warning, with its step and its location."""

from __future__ import annotations

import enum
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import quote

import msgspec

from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.source_documents import STDIN, Position
from pratique_cli.outputs import ReviewedDocument
from pratique_cli.outputs.blame_texts import blame_sentence
from pratique_cli.reviews.expansions import Expansion, field_place, template_position
from pratique_frontdoor.blame.changes import blame_of
from pratique_frontdoor.chain.decisions import Decision, Step
from pratique_frontdoor.chain.message_fields import (
    REFUSING,
    Cause,
    causes,
    field_of,
    original_field,
    parse_field,
)


def relative_path(file: str) -> str | None:
    """The path of a file relative to the current folder, or absolute if the file is outside it.

    None for standard input.
    """
    if file in {"", STDIN}:
        return None
    here, path = Path.cwd(), Path(os.path.abspath(file))  # noqa: PTH100 - links keep their names in a repository
    return (path.relative_to(here) if path.is_relative_to(here) else path).as_posix()


def relative_uri(path: str) -> str:
    """Turn the result of :func:`relative_path` into a URI, with ``file://`` if it is absolute."""
    uri = quote(os.fsencode(path), safe="/")
    return f"file://{uri}" if path.startswith("/") else uri


def encodable(text: str) -> str:
    """Escape lone surrogates, which file names may contain and UTF-8 cannot encode."""
    return text.encode("utf-8", "backslashreplace").decode()


_NEVER_WARNING = frozenset({StepOutcome.SKIPPED, StepOutcome.FAILED_OPEN}) | REFUSING


class FindingLevel(enum.StrEnum):
    """The level of a finding."""

    ERROR = "error"
    """The request is denied because of it."""
    WARNING = "warning"
    """The request is not affected."""


class StepOrigin(msgspec.Struct, frozen=True):
    """The origin of a finding: a controller, and possibly its webhook or policy with its configuration or binding."""

    controller: str
    """Empty if unknown, as for a warning that several steps may have given."""
    name: str = ""
    configuration: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.controller, self.configuration, self.name))) or "Admission"


class ReviewFinding(msgspec.Struct, frozen=True):
    """A cause of a denial, or a warning."""

    level: FindingLevel
    origin: StepOrigin
    text: str
    field: str
    """The field of the object, such as ``spec.containers[0]``; empty if unknown."""
    place: Position
    """The position in the file; the start of the document if the field is unknown."""
    remark: str = ""
    """The last step that changed the field, as a sentence; empty without ``blame``, or if unknown."""

    @property
    def message(self) -> str:
        """The text, followed by the remark."""
        return f"{self.text.rstrip('.')}. {self.remark}" if self.remark else self.text


def findings(reviewed: ReviewedDocument, *, blame: bool = False) -> Iterator[ReviewFinding]:
    """Yield the causes of a denial, then the warnings, then the same for the Pods of a workload.

    ``blame`` adds to each cause the last step that changed its field.
    """
    remarks = _BlameRemarks(reviewed.review, reviewed.decision) if blame else None
    for level, origin, cause in _graded_causes(reviewed.decision):
        remark = remarks.of(cause) if remarks else ""
        yield ReviewFinding(level, origin, cause.text, *_locate(reviewed, cause.field, cause.text), remark)
    for expansion in reviewed.expanded:
        remarks = _BlameRemarks(expansion.review, expansion.decision) if blame else None
        for level, origin, cause in _graded_causes(expansion.decision):
            place = _locate_in_template(reviewed, expansion, cause.field, cause.text)
            yield ReviewFinding(level, origin, cause.text, *place, remarks.of(cause) if remarks else "")


class _BlameRemarks:
    """Finds the last steps that changed the fields of a denial."""

    def __init__(self, review: Review, decision: Decision) -> None:
        self._decision = decision
        self._blame = blame_of(decision, review.object_document.data)

    def of(self, cause: Cause) -> str:
        return blame_sentence(cause, self._decision, self._blame)


def _graded_causes(decision: Decision) -> Iterator[tuple[FindingLevel, StepOrigin, Cause]]:
    if decision.status is not None:
        for cause in causes(decision, decision.status):
            yield (
                FindingLevel.ERROR,
                _step_origin(None if cause.step is None else decision.steps[cause.step]),
                cause,
            )
    for origin, text in _warning_texts(decision):
        yield FindingLevel.WARNING, origin, Cause(None, "", text)


def _warning_texts(decision: Decision) -> Iterator[tuple[StepOrigin, str]]:
    """Yield the warnings for the user, then the failures that were ignored, which the user does not see."""
    for text in decision.warnings:
        yield _step_origin(_warning_step(text, decision.steps)), text
    for step in decision.steps:
        if step.outcome is StepOutcome.FAILED_OPEN:
            yield _step_origin(step), step.reason


def _warning_step(text: str, steps: Sequence[Step]) -> Step | None:
    """The step that a warning comes from: the one that it names, or the only one that warned.

    A decision does not record the step of a warning, and a step that changed the object may also have warned.
    """
    warned = [step for step in steps if step.outcome is StepOutcome.WARNED]
    named = [step for step in steps if step.outcome not in _NEVER_WARNING and step.name in text]
    for candidates in (warned, [step for step in warned if step in named], named):
        if len(candidates) == 1:
            return candidates[0]
    return None


def _step_origin(step: Step | None) -> StepOrigin:
    if step is None:
        return StepOrigin("")
    return StepOrigin(step.controller, "" if step.name == step.controller else step.name, step.configuration)


def _locate(reviewed: ReviewedDocument, field: str, text: str) -> tuple[str, Position]:
    """Find field and position of a cause, by the field that it names or by its text."""
    document = reviewed.document
    beginning = _object_path(reviewed)
    written: JSON = member(document.data, *beginning)
    # A denial refers to the object as changed by the steps before it.
    admitted = reviewed.decision.object_document.data or reviewed.review.object or written
    path = parse_field(field) or field_of(text, admitted) or ()
    written_path = original_field(path, admitted, written)
    if not written_path:
        return field, Position(document.line, 1)
    return field or str(FieldPath(path)), document.position((*beginning, *written_path))


def _locate_in_template(
    reviewed: ReviewedDocument, expansion: Expansion, field: str, text: str
) -> tuple[str, Position]:
    """Find field and position in the workload, for a cause about its Pod."""
    pod = expansion.decision.object_document.data or expansion.workload_pod.document
    path = parse_field(field) or field_of(text, pod)
    if path is None:
        return field, template_position(reviewed, expansion)
    place = field_place(reviewed, expansion, path)
    return place.field, place.position


def _object_path(reviewed: ReviewedDocument) -> tuple[str, ...]:
    """The path of the reviewed object in its document, which may be an AdmissionReview."""
    if reviewed.document.data.get("kind") != "AdmissionReview":
        return ()
    return ("request", "oldObject" if reviewed.review.object is None else "object")
