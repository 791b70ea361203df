"""Documents: a blame as the member ``blame`` of a decision document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontdoor.blames.fields import ABSENT, Absent
from pratique.pointers import pointer

if TYPE_CHECKING:
    from frontdoor.blames.blaming import Blame
    from frontdoor.blames.changes import Change
    from frontdoor.blames.denials import BlamedDenial
    from frontdoor.decisions import Decision
    from pratique.json_values import JSON, JSONObject


def blame_document(blame: Blame, decision: Decision) -> JSONObject:
    """Write a blame. A step is its index in the decision's ``steps`` with what it is called there."""
    return {
        "changes": [_change(change, decision) for change in blame.changes],
        "denials": [_denial(denial, decision) for denial in blame.denials],
    }


def _change(change: Change, decision: Decision) -> JSONObject:
    return {
        "op": change.kind.value,
        "path": pointer(change.path),
        "before": _value(change.before),
        "after": _value(change.after),
        **_step(change.step, decision),
        "earlier": [_step(step, decision) for step in change.earlier],
    }


def _denial(denial: BlamedDenial, decision: Decision) -> JSONObject:
    step, last = decision.steps[denial.step], denial.last_changed_by
    return {
        "step": denial.step,
        "controller": step.controller,
        "name": step.name,
        "path": pointer(denial.path),
        "lastChangedBy": None if last is None else _step(last, decision),
    }


def _step(index: int | None, decision: Decision) -> JSONObject:
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


def _value(value: JSON | Absent) -> JSON:
    return None if value is ABSENT else value
