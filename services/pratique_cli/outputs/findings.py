"""Findings: each cause of a denial and each warning, with the step that brought it and the place that it is about."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from frontdoor.decisions import StepOutcome
from pratique.field_errors import FieldPath
from pratique.json_values import JSON, member
from pratique.positions import Position
from pratique_cli.expansion_places import field_place, template_position
from pratique_cli.outputs.told_fields import field_of, parse_field, written_field

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from frontdoor.decisions import Decision, Step
    from pratique.statuses import Status, StatusCause
    from pratique_cli.expansions import Expansion
    from pratique_cli.outputs import Reviewed

_DENYING = frozenset({StepOutcome.DENIED, StepOutcome.FAILED})
_SILENT = frozenset({StepOutcome.SKIPPED, StepOutcome.FAILED_OPEN}) | _DENYING


class Level(enum.StrEnum):
    """How grave a finding is."""

    ERROR = "error"
    """The request is denied for it."""
    WARNING = "warning"
    """The request goes on."""


@dataclasses.dataclass(frozen=True, slots=True)
class Rule:
    """Who found something: a controller, or one of its webhooks or policies with what put it to work."""

    controller: str
    """Empty where nobody is known, as for a warning that several may have given."""
    name: str = ""
    configuration: str = ""

    def __str__(self) -> str:
        return "/".join(filter(None, (self.controller, self.configuration, self.name))) or "Admission"


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One cause of a denial, or one warning."""

    level: Level
    rule: Rule
    text: str
    field: str
    """Where it is in the object, for example ``spec.containers[0]``; empty where nothing tells."""
    place: Position
    """Where it is in the file; the beginning of the document where nothing tells."""


def findings(reviewed: Reviewed) -> Iterator[Finding]:
    """Tell what was found: first what denied the request, then what warned, then the same of the Pods it makes."""
    for level, rule, field, text in _told(reviewed.decision):
        yield Finding(level, rule, text, *_locate(reviewed, field, text))
    for expansion in reviewed.expanded:
        for level, rule, field, text in _told(expansion.decision):
            yield Finding(level, rule, text, *_locate_in_template(reviewed, expansion, field, text))


def _told(decision: Decision) -> Iterator[tuple[Level, Rule, str, str]]:
    """Yield level, rule, field and text."""
    if decision.status is not None:
        for rule, field, text in _causes(decision, decision.status):
            yield Level.ERROR, rule, field, text
    for rule, text in _warnings(decision):
        yield Level.WARNING, rule, "", text


def _causes(decision: Decision, status: Status) -> Iterator[tuple[Rule, str, str]]:
    """Yield rule, field and text of each cause, then of each step that denied and is in none of them."""
    steps = [step for step in decision.steps if step.outcome in _DENYING]
    causes = status.details.causes if status.details else ()
    speaking = steps[0] if steps else None
    unheard = list(steps)
    for cause in causes:
        speaking = _speaker(cause, steps) or speaking
        unheard = [step for step in unheard if step is not speaking]
        yield _rule(speaking), cause.field, _cause_text(cause) or status.message
    for step in unheard:
        yield _rule(step), "", step.reason or status.message
    if not causes and not steps:
        yield _rule(None), "", status.message


def _speaker(cause: StatusCause, steps: Sequence[Step]) -> Step | None:
    """The step that a cause comes from: its message holds the step's reason."""
    return next((step for step in steps if step.reason and step.reason in cause.message), None)


def _cause_text(cause: StatusCause) -> str:
    return cause.message if cause.field in cause.message else f"{cause.field}: {cause.message}"


def _warnings(decision: Decision) -> Iterator[tuple[Rule, str]]:
    """Yield the warnings for the user, then what failed without harm; the user is not told of that."""
    for text in decision.warnings:
        yield _rule(_warner(text, decision.steps)), text
    for step in decision.steps:
        if step.outcome is StepOutcome.FAILED_OPEN:
            yield _rule(step), step.reason


def _warner(text: str, steps: Sequence[Step]) -> Step | None:
    """The step that a warning comes from: the one that it names, or the only one that warned.

    A warning does not say it otherwise, and a step that changed the object may have warned, too.
    """
    warned = [step for step in steps if step.outcome is StepOutcome.WARNED]
    named = [step for step in steps if step.outcome not in _SILENT and step.name in text]
    for candidates in (warned, [step for step in warned if step in named], named):
        if len(candidates) == 1:
            return candidates[0]
    return None


def _rule(step: Step | None) -> Rule:
    if step is None:
        return Rule("")
    return Rule(step.controller, "" if step.name == step.controller else step.name, step.configuration)


def _locate(reviewed: Reviewed, field: str, text: str) -> tuple[str, Position]:
    """Find field and place of a cause that names a field, or whose text tells which one it is about."""
    document = reviewed.document
    beginning = _beginning(reviewed)
    written: JSON = member(document.data, *beginning)
    # A denial speaks of the object as the steps before changed it.
    told = reviewed.decision.object_document.data or reviewed.review.object or written
    path = parse_field(field) or field_of(text, told) or ()
    written_path = written_field(path, told, written)
    if not written_path:
        return field, Position(document.line, 1)
    return field or str(FieldPath(path)), document.position((*beginning, *written_path))


def _locate_in_template(
    reviewed: Reviewed, expansion: Expansion, field: str, text: str
) -> tuple[str, Position]:
    """Find them for a Pod that a workload makes, in the workload."""
    pod = expansion.decision.object_document.data or expansion.made.document
    path = parse_field(field) or field_of(text, pod)
    if path is None:
        return field, template_position(reviewed, expansion)
    place = field_place(reviewed, expansion, path)
    return place.field, place.position


def _beginning(reviewed: Reviewed) -> tuple[str, ...]:
    """Where the reviewed object stands in its document, which may be an AdmissionReview."""
    if reviewed.document.data.get("kind") != "AdmissionReview":
        return ()
    return ("request", "oldObject" if reviewed.review.object is None else "object")
