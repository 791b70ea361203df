"""Denials: which fields each of them speaks of, and which step had changed those last."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.causes import causes
from frontdoor.decisions import StepOutcome
from frontdoor.told_fields import fields_of, parse_field
from pratique.field_errors import FieldPath

if TYPE_CHECKING:
    from collections.abc import Iterator

    from frontdoor.blames.changes import Path
    from frontdoor.blames.fields import Field, Steps
    from frontdoor.decisions import Decision
    from pratique.json_values import JSON


@dataclasses.dataclass(frozen=True, slots=True)
class BlamedDenial:
    """One field that a denial speaks of."""

    step: int
    """The index of the step that denied."""
    path: Path
    """Where the field is in the object that was denied."""
    last_changed_by: int | None
    """The index of the step before it that changed the field last; None where it is as it was received."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Told:
    """A field, and whether it is named itself."""

    path: Path
    is_named: bool
    """False where only its item's name is, of which something is wrong: nobody can tell what."""


def denials(decision: Decision, root: Field) -> Iterator[BlamedDenial]:
    """Tell the fields that denials speak of. Where the words of one do not tell any, nothing is said of it."""
    if decision.status is None:
        return
    seen = set()
    for cause in causes(decision, decision.status):
        if cause.step is None or decision.steps[cause.step].outcome is not StepOutcome.DENIED:
            continue
        for told in told_fields(cause.field, cause.text, decision.object_document.data):
            if (cause.step, told.path) not in seen and _can_be_blamed(root, told):
                seen.add((cause.step, told.path))
                yield BlamedDenial(cause.step, told.path, _last_change(root, told, cause.step))


def told_fields(field: str, text: str, denied: JSON) -> list[_Told]:
    """Find the fields that a cause of a denial speaks of: the one that it names, else those that its text does."""
    path = parse_field(field)
    if path is not None:
        return [_Told(path, is_named=True)]
    found = dict.fromkeys(fields_of(text, denied))
    return [_Told(each, isinstance(each[-1], str) or str(FieldPath(each)) in text) for each in found]


def _can_be_blamed(root: Field, told: _Told) -> bool:
    """Tell whether there is such a field, and of an item that is only known by name, which change would count."""
    if _at(root, told.path[:1]) is None:
        return False
    field = _at(root, told.path)
    return told.is_named or (field is not None and bool(field.steps or not field.all_steps()))


def _last_change(root: Field, told: _Told, before: int) -> int | None:
    """Find the step before another one that changed a field last, or anything in it."""
    steps: Steps = ()
    field = _at(root, told.path)
    if field is not None:
        steps = field.all_steps() if told.is_named else field.steps
    return max((step for step in steps if 0 <= step < before), default=None)


def _at(field: Field, path: Path) -> Field | None:
    """The field of a path, be it there or gone; None where there was never one."""
    for key in path:
        field.open()
        found: Field | None = None
        if isinstance(key, str):
            found = (field.members or {}).get(key) or field.gone_members.get(key)
        elif key < len(field.items or ()):
            found = (field.items or [])[key]
        if found is None:
            return None
        field = found
    return field
