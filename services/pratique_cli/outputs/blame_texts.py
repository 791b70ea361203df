"""Blames, as lines and sentences for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING

from frontdoor.blames import blame_of
from frontdoor.blames.denials import told_fields
from frontdoor.blames.fields import ABSENT
from pratique.json_values import encode
from pratique_cli.outputs.changes import Change, is_secret, path_text
from pratique_cli.outputs.step_texts import step_name
from pratique_cli.palettes import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontdoor import blames
    from frontdoor.blames import Blame
    from frontdoor.blames.fields import Absent
    from frontdoor.causes import Cause
    from frontdoor.decisions import Decision
    from pratique.json_values import JSON
    from pratique.reviews import Review
    from pratique_cli.outputs.step_texts import StepWriter
    from pratique_cli.palettes import Palette

_INDENT = " " * 4
_DETAIL = " " * 10
_SIGNS = {"add": "+", "remove": "-", "replace": "~"}


def blame_lines(review: Review, decision: Decision, writer: StepWriter, palette: Palette) -> Iterator[str]:
    """Tell who changed what, and to whom denials go back; nothing where there is nothing to tell."""
    blame = blame_of(decision, review.object_document.data)
    secret = is_secret(review.object_document.data)
    if blame.changes:
        yield _INDENT + palette.paint("who changed it:", "bold")
    for change in blame.changes:
        yield writer.change(_told(change), secret=secret)
        yield f"{_DETAIL}  {palette.paint(_by(change, decision), 'dim')}"
    if blame.denials:
        yield _INDENT + palette.paint("what is denied:", "bold")
    for denial in blame.denials:
        sentence = f"{path_text(denial.path)} {_last(denial, decision)}"
        yield f"{_DETAIL}{palette.paint(palette.mark('✗'), 'red')} {printable(sentence)}"


def blame_sentence(cause: Cause, decision: Decision, blame: Blame) -> str:
    """Tell in a sentence who last changed what a cause of a denial speaks of; empty where nobody can tell."""
    told = told_fields(cause.field, cause.text, decision.object_document.data)
    paths = {each.path for each in told}
    parts = [
        f"{path_text(denial.path)} {_last(denial, decision)}"
        for denial in blame.denials
        if denial.step == cause.step and denial.path in paths
    ]
    return f"{'; '.join(parts)}." if parts else ""


def _last(denial: blames.BlamedDenial, decision: Decision) -> str:
    if denial.last_changed_by is None:
        return "is as it was received"
    return f"was last changed by {_step(denial.last_changed_by, decision)}"


def _by(change: blames.Change, decision: Decision) -> str:
    text = "by nobody who is known" if change.step is None else f"by {_step(change.step, decision)}"
    if change.earlier:
        text += f", after {', '.join(_step(step, decision) for step in change.earlier)}"
    return text


def _step(index: int, decision: Decision) -> str:
    step = decision.steps[index]
    return step_name(step) + (" when reinvoked" if step.round else "")


def _told(change: blames.Change) -> Change:
    before, after = _value(change.before), _value(change.after)
    return Change(_SIGNS[change.kind], path_text(change.path), before, after)


def _value(value: JSON | Absent) -> str | None:
    return None if value is ABSENT else encode(value).decode()
