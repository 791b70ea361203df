"""Who changed which field, and what is denied, for ``--blame`` and for reports."""

from __future__ import annotations

from collections.abc import Iterator

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, encode
from pratique_cli.outputs.changes import FieldChange, path_text
from pratique_cli.outputs.texts import DETAIL, INDENT, StepWriter, is_quiet, step_name
from pratique_cli.terminal import Palette, printable
from pratique_frontdoor.blame.changes import Blame, BlamedDenial, Change, blame_of, message_fields
from pratique_frontdoor.blame.fields import ABSENT, Absent
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.chain.message_fields import Cause
from pratique_frontdoor.recording.redaction import concerns_secret

_CHANGE_SIGNS = {"add": "+", "remove": "-", "replace": "~"}


def blame_lines(review: Review, decision: Decision, writer: StepWriter, palette: Palette) -> Iterator[str]:
    """List the step behind each change and each denied field; nothing if there are neither."""
    blame = blame_of(decision, review.object_document.data)
    secret = concerns_secret(review)
    changes = [change for change in blame.changes if not _goes_without_saying(change, decision)]
    if changes:
        yield INDENT + palette.paint("who changed it:", "bold")
    for change in changes:
        yield writer.change(_blamed_change(change), secret=secret)
        yield f"{DETAIL}  {palette.paint(_changed_by_text(change, decision), 'dim')}"
    if blame.denials:
        yield INDENT + palette.paint("what is denied:", "bold")
    for denial in blame.denials:
        sentence = f"{path_text(denial.path)} {_last_change_text(denial, decision)}"
        yield f"{DETAIL}{palette.paint(palette.mark('✗'), 'red')} {printable(sentence)}"


def _goes_without_saying(change: Change, decision: Decision) -> bool:
    return change.step is not None and not change.earlier and is_quiet(decision.steps[change.step])


def blame_sentence(cause: Cause, decision: Decision, blame: Blame) -> str:
    """Say which step last changed the fields of a cause; empty if unknown."""
    fields = message_fields(cause.field, cause.text, decision.object_document.data)
    paths = {field.path for field in fields}
    parts = [
        f"{path_text(denial.path)} {_last_change_text(denial, decision)}"
        for denial in blame.denials
        if denial.step == cause.step and denial.path in paths
    ]
    return f"{'; '.join(parts)}." if parts else ""


def _last_change_text(denial: BlamedDenial, decision: Decision) -> str:
    if denial.last_changed_by is None:
        return "is as it was received"
    return f"was last changed by {_step_text(denial.last_changed_by, decision)}"


def _changed_by_text(change: Change, decision: Decision) -> str:
    text = "by nobody who is known" if change.step is None else f"by {_step_text(change.step, decision)}"
    if change.earlier:
        text += f", after {', '.join(_step_text(step, decision) for step in change.earlier)}"
    return text


def _step_text(index: int, decision: Decision) -> str:
    step = decision.steps[index]
    return step_name(step) + (" when reinvoked" if step.round else "")


def _blamed_change(change: Change) -> FieldChange:
    before, after = _blamed_value_text(change.before), _blamed_value_text(change.after)
    return FieldChange(_CHANGE_SIGNS[change.kind], path_text(change.path), before, after)


def _blamed_value_text(value: JSON | Absent) -> str | None:
    return None if value is ABSENT else encode(value).decode()
