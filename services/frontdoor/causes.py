"""Causes: what a denial names, each with the step that it comes from."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.decisions import StepOutcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from frontdoor.decisions import Decision
    from pratique.statuses import Status, StatusCause

DENYING = frozenset({StepOutcome.DENIED, StepOutcome.FAILED})
"""How steps end that refuse a request."""


@dataclasses.dataclass(frozen=True, slots=True)
class Cause:
    """One cause of a denial."""

    step: int | None
    """The index of the step that it comes from; None where no step refused anything."""
    field: str
    """The field that it names, such as ``spec.containers[0]``; empty where it names none."""
    text: str
    """What it says."""


def causes(decision: Decision, status: Status) -> Iterator[Cause]:
    """Tell each cause of a denial, then each step that denied and is in none of them."""
    steps = [index for index, step in enumerate(decision.steps) if step.outcome in DENYING]
    told = status.details.causes if status.details else ()
    speaking = steps[0] if steps else None
    unheard = list(steps)
    for cause in told:
        found = _speaker(cause, decision, steps)
        speaking = speaking if found is None else found
        unheard = [step for step in unheard if step != speaking]
        yield Cause(speaking, cause.field, _text(cause) or status.message)
    for step in unheard:
        yield Cause(step, "", decision.steps[step].reason or status.message)
    if not told and not steps:
        yield Cause(None, "", status.message)


def _speaker(cause: StatusCause, decision: Decision, steps: Iterable[int]) -> int | None:
    """The step that a cause comes from: its message holds the step's reason."""
    reasons = ((step, decision.steps[step].reason) for step in steps)
    return next((step for step, reason in reasons if reason and reason in cause.message), None)


def _text(cause: StatusCause) -> str:
    return cause.message if cause.field in cause.message else f"{cause.field}: {cause.message}"
