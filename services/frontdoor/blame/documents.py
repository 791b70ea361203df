"""A blame, and the member ``blame`` of a decision document."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.blame.changes import BlamedDenial, Change, changes, denials
from frontdoor.blame.fields import ABSENT, Absent
from frontdoor.blame.replays import replay
from pratique.apimachinery.json_values import pointer

if TYPE_CHECKING:
    from frontdoor.chain.decisions import Decision
    from pratique.apimachinery.json_values import JSON, JSONObject


@dataclasses.dataclass(frozen=True, slots=True)
class Blame:
    """Who changed what, and what came of it."""

    changes: tuple[Change, ...] = ()
    """What differs between the object received and the object that came out, in the object's order."""
    denials: tuple[BlamedDenial, ...] = ()
    """The fields that denials speak of, in the order of the causes."""


def blame_of(decision: Decision, object_received: JSON) -> Blame:
    """Find who changed what.

    Args:
        decision: The decision with its steps; they have their patches only where the chain was to record them.
        object_received: The object as it came in, or None where there is none; it is not changed.
    """
    root = replay(decision, object_received)
    return Blame(tuple(changes(root)), tuple(denials(decision, root)))


def blame_document(blame: Blame, decision: Decision) -> JSONObject:
    """Write a blame. A step is its index in the decision's ``steps`` with what it is called there."""
    return {
        "changes": [_change_document(change, decision) for change in blame.changes],
        "denials": [_denial_document(denial, decision) for denial in blame.denials],
    }


def _change_document(change: Change, decision: Decision) -> JSONObject:
    return {
        "op": change.kind.value,
        "path": pointer(change.path),
        "before": _json_value(change.before),
        "after": _json_value(change.after),
        **_step_reference(change.step, decision),
        "earlier": [_step_reference(step, decision) for step in change.earlier],
    }


def _denial_document(denial: BlamedDenial, decision: Decision) -> JSONObject:
    step, last = decision.steps[denial.step], denial.last_changed_by
    return {
        "step": denial.step,
        "controller": step.controller,
        "name": step.name,
        "path": pointer(denial.path),
        "lastChangedBy": None if last is None else _step_reference(last, decision),
    }


def _step_reference(index: int | None, decision: Decision) -> JSONObject:
    if index is None:
        return {"step": None, "controller": "", "name": "", "configuration": "", "round": 0}
    step = decision.steps[index]
    return {
        "step": index,
        "controller": step.controller,
        "name": step.name,
        "configuration": step.configuration,
        "round": step.round,
    }


def _json_value(value: JSON | Absent) -> JSON:
    return None if value is ABSENT else value
