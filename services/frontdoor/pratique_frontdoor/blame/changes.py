"""Blame: the differences between the received and the final object, the steps behind them, and the fields of denials.

``blame_document`` writes it as the member ``blame`` of a decision document.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeAlias

import msgspec

from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.diff import identical, pair_items
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import JSON, JSONObject, member, pointer
from pratique_frontdoor.blame.fields import ABSENT, NOBODY, Absent, Steps, TrackedField, merge_steps, replay
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.chain.message_fields import ItemPlaces, causes, fields_of, parse_field

Path: TypeAlias = "tuple[str | int, ...]"
"""The path of a value: members by name, items by index."""


class ChangeKind(enum.StrEnum):
    """What happened to a value, in the terms of JSON Patch."""

    ADD = "add"
    REMOVE = "remove"
    REPLACE = "replace"


class Change(msgspec.Struct, frozen=True):
    """One difference. Changes do not overlap: parts that another step set are separate changes."""

    kind: ChangeKind
    path: Path
    """The path in the final object; for a removed value, in the received object."""
    before: JSON | Absent
    """The received value."""
    after: JSON | Absent
    """The final value."""
    step: int | None
    """The index of the step that set it last; None if it is unknown."""
    earlier: Steps = ()
    """The steps that set it before, in order."""


def changes(root: TrackedField) -> list[Change]:
    """Return the differences between the received object and the current one.

    Applying the removals from last to first, and then the others in order, turns the received object into the final
    one: items are inserted at their final index.
    """
    return list(_compare((), root, root))


def _compare(path: Path, was: TrackedField, now: TrackedField, place: Path | None = None) -> Iterator[Change]:
    """Compare a field as received, at ``place``, with the current one, at ``path``."""
    place = path if place is None else place
    if isinstance(was.received, dict) and now.is_object:
        if now.is_open or not identical(was.received, now.raw):
            yield from _compare_members(path, was, now, place)
        return
    value = now.value
    if identical(was.received, value):
        return
    if isinstance(was.received, list) and isinstance(value, list):
        yield from _compare_items(path, was, now, place)
    else:
        first, *others = _pieces(path, _current_view(now))
        steps = merge_steps(was.steps, first.steps)
        yield _change(ChangeKind.REPLACE, path, was.received, first.value, steps)
        yield from (_change(ChangeKind.ADD, piece.path, ABSENT, piece.value, piece.steps) for piece in others)


def _compare_members(path: Path, was: TrackedField, now: TrackedField, place: Path) -> Iterator[Change]:
    received, there = _received_members(was), _members(now)
    for name, child in received.items():
        if name not in there:
            yield from _removed((*place, name), child)
    for name, child in there.items():
        if name in received:
            yield from _compare((*path, name), received[name], child, (*place, name))
        else:
            yield from _added((*path, name), child)


def _compare_items(path: Path, was: TrackedField, now: TrackedField, place: Path) -> Iterator[Change]:
    received, there = _received_items(was), _items(now)
    paired = {new: old for old, new in _paired_items(received, there)}
    staying = set(paired.values())
    for index, child in enumerate(received):
        if index not in staying:
            child.remember(child.displaced)
            yield from _removed((*place, index), child)
    for index, child in enumerate(there):
        if index in paired:
            yield from _compare((*path, index), received[paired[index]], child, (*place, paired[index]))
        else:
            child.remember(child.displaced)
            yield from _added((*path, index), child)


def _paired_items(
    received: Sequence[TrackedField], there: Sequence[TrackedField]
) -> Iterator[tuple[int, int]]:
    """Pair the items that were never removed, and between them those that look alike."""
    places = {id(field): place for place, field in enumerate(received)}
    anchors = [
        (places[id(field)], index)
        for index, field in enumerate(there)
        if field.is_steady and id(field) in places
    ]
    old_at = new_at = 0
    for old, new in [*anchors, (len(received), len(there))]:
        before = [field.received for field in received[old_at:old]]
        after = [field.value for field in there[new_at:new]]
        for i, j in pair_items(before, after):
            if _look_alike(before[i], after[j]):
                yield old_at + i, new_at + j
        if old < len(received):
            yield old, new
        old_at, new_at = old + 1, new + 1


def _look_alike(received: JSON, there: JSON) -> bool:
    name = member(received, "name")
    return (name is not None and name == member(there, "name")) or identical(received, there)


def _removed(place: Path, was: TrackedField) -> Iterator[Change]:
    for piece in _pieces(place, _received_view(was)):
        yield _change(ChangeKind.REMOVE, piece.path, piece.value, ABSENT, piece.steps)


def _added(path: Path, now: TrackedField) -> Iterator[Change]:
    for piece in _pieces(path, _current_view(now)):
        yield _change(ChangeKind.ADD, piece.path, ABSENT, piece.value, piece.steps)


def _change(
    kind: ChangeKind, path: Path, before: JSON | Absent, after: JSON | Absent, steps: Steps
) -> Change:
    *earlier, last = steps or (NOBODY,)
    return Change(kind, path, before, after, None if last == NOBODY else last, tuple(earlier))


class _View(msgspec.Struct, frozen=True):
    """A field as received, or as it is now."""

    value: JSON
    steps: Steps
    members: dict[str, TrackedField] | None
    items: Sequence[TrackedField] | None
    is_former: bool

    def children(self) -> Iterator[tuple[str | int, _View]]:
        """Yield its members or items, if it is open."""
        named: Iterable[tuple[str | int, TrackedField]] = (self.members or {}).items()
        for key, child in (*named, *enumerate(self.items or ())):
            yield key, _received_view(child) if self.is_former else _current_view(child)


def _received_view(field: TrackedField) -> _View:
    members, items = field.received_members or None, field.received_items or None
    return _View(field.received, field.steps, members, items, is_former=True)


def _current_view(field: TrackedField) -> _View:
    return _View(field.value, field.steps, field.members, field.items, is_former=False)


class _Piece(msgspec.Struct, frozen=True):
    """A value without the parts that another step set last."""

    path: Path
    value: JSON
    steps: Steps


def _pieces(path: Path, view: _View) -> list[_Piece]:
    """Split a value by the steps that set its parts last; a container comes before its parts."""
    if view.members is None and view.items is None:
        return [_Piece(path, view.value, view.steps)]
    kept: list[tuple[str | int, JSON]] = []
    histories, others = [view.steps], []
    for key, child in view.children():
        first, *rest = _pieces((*path, key), child)
        if first.steps[-1:] == view.steps[-1:]:
            kept.append((key, first.value))
            histories.append(first.steps)
        else:
            others.append(first)
        others += rest
    value = [item for _, item in kept] if view.members is None else dict(kept)
    return [_Piece(path, value, merge_steps(*histories)), *others]


def _received_members(field: TrackedField) -> dict[str, TrackedField]:
    field.open()
    return field.received_members or {}


def _received_items(field: TrackedField) -> tuple[TrackedField, ...]:
    field.open()
    return field.received_items


def _members(field: TrackedField) -> dict[str, TrackedField]:
    field.open()
    return field.members or {}


def _items(field: TrackedField) -> list[TrackedField]:
    field.open()
    return field.items or []


class BlamedDenial(msgspec.Struct, frozen=True):
    """One field that a denial names."""

    step: int
    """The index of the denying step."""
    path: Path
    """The path of the field in the denied object."""
    last_changed_by: int | None
    """The index of the last earlier step that changed the field; None if it is as received."""


class _NamedField(msgspec.Struct, frozen=True):
    """A field, and whether the message names it directly."""

    path: Path
    is_named: bool
    """False if the message only names an item without the field that is wrong."""


def denials(decision: Decision, root: TrackedField) -> Iterator[BlamedDenial]:
    """Yield the fields that denials name. Denials whose messages name no field yield none."""
    if decision.status is None:
        return
    seen, places = set(), ItemPlaces()
    for cause in causes(decision, decision.status):
        if cause.step is None or decision.steps[cause.step].outcome is not OutcomeStatus.DENIED:
            continue
        for named in message_fields(cause.field, cause.text, decision.object_document.data, places):
            if (cause.step, named.path) not in seen and _can_be_blamed(root, named):
                seen.add((cause.step, named.path))
                yield BlamedDenial(cause.step, named.path, _last_change(root, named, cause.step))


def message_fields(
    field: str, text: str, denied: JSON, places: ItemPlaces | None = None
) -> list[_NamedField]:
    """Find the fields that a cause of a denial names: its field, or else those of its message.

    ``places`` are known from other causes.
    """
    path = parse_field(field)
    if path is not None:
        return [_NamedField(path, is_named=True)]
    paths = dict.fromkeys(fields_of(text, denied, places))
    return [_NamedField(path, isinstance(path[-1], str) or str(FieldPath(path)) in text) for path in paths]


def _can_be_blamed(root: TrackedField, named: _NamedField) -> bool:
    """Return whether the field exists and, for an item known only by name, whether it is clear which change counts."""
    if _field_at(root, named.path[:1]) is None:
        return False
    field = _field_at(root, named.path)
    return named.is_named or (field is not None and bool(field.steps or not field.all_steps()))


def _last_change(root: TrackedField, named: _NamedField, before: int) -> int | None:
    """Find the last step before another that changed a field or anything in it."""
    steps: Steps = ()
    field = _field_at(root, named.path)
    if field is not None:
        steps = field.all_steps() if named.is_named else field.steps
    return max((step for step in steps if 0 <= step < before), default=None)


def _field_at(field: TrackedField, path: Path) -> TrackedField | None:
    """Return the field of a path, present or removed; None if there was never one."""
    for key in path:
        field.open()
        found: TrackedField | None = None
        if isinstance(key, str):
            found = (field.members or {}).get(key) or (field.removed_members or {}).get(key)
        elif key < len(field.items or ()):
            found = (field.items or [])[key]
        if found is None:
            return None
        field = found
    return field


class Blame(msgspec.Struct, frozen=True):
    """Which steps changed which fields, and which of them denials name."""

    changes: tuple[Change, ...] = ()
    """Differences between the received and the final object, in the object's order."""
    denials: tuple[BlamedDenial, ...] = ()
    """The fields that denials name, in the order of the causes."""


def blame_of(decision: Decision, object_received: JSON) -> Blame:
    """Find which steps changed which fields.

    Args:
        decision: The decision with its steps; they have patches only if the chain recorded them.
        object_received: The received object, or None without one; it is not modified.
    """
    root = replay(decision, object_received)
    return Blame(tuple(changes(root)), tuple(denials(decision, root)))


def blame_document(blame: Blame, decision: Decision) -> JSONObject:
    """Return the JSON of a blame. A step is its index in the decision's ``steps`` with its names there."""
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
