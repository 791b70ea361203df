"""An object as a tree in which each field remembers the steps that changed it, and the steps replayed on that tree."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.diff import identical, pair_items
from pratique.apimachinery.json_values import JSON, JSONObject, member, sorted_text, unescape
from pratique.apimachinery.patches import PatchError, apply_patch
from pratique_frontdoor.chain.decisions import OBJECT_VALIDATION, Decision, Step

Steps: TypeAlias = tuple[int, ...]
"""Indexes of steps in order, without duplicates."""

NOBODY: Final = -1
"""Stands for an unknown step."""


class Absent(enum.Enum):
    """The type of a missing value, which is not null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""A missing value."""


class TrackedField(msgspec.Struct, eq=False):
    """A member of an object, an item of an array, or the root.

    A member that is removed and added again is the same field, and so is an item that is recognized.
    """

    raw: JSON
    """The value of a field that is not opened."""
    steps: Steps = ()
    """The steps that changed the value of a scalar, or the presence of a container."""
    received: JSON | Absent = ABSENT
    """The value in the received object."""
    members: dict[str, TrackedField] | None = None
    """The members of an opened object."""
    items: list[TrackedField] | None = None
    """The items of an opened array."""
    received_members: dict[str, TrackedField] | None = None
    """The members of the received object, if it is or was opened."""
    received_items: tuple[TrackedField, ...] = ()
    """The items of the received array."""
    removed_members: dict[str, TrackedField] | None = None
    """The members that were removed; None if there are none, as for most of the fields of a large object."""
    removed_items: _RemovedItems | None = None
    """The items that were removed; None if none ever was."""
    last: JSON = None
    """The last value of a removed item."""
    is_steady: bool = True
    """Whether it was never removed: such items of an array keep their order."""
    displaced: Steps = ()
    """The steps that removed an item and inserted it again, perhaps elsewhere, without any other change."""
    kept: TrackedField | None = None
    """The field before the step that removed it; None unless it is removed."""

    @property
    def value(self) -> JSON:
        """The current value; do not modify it in place."""
        if self.members is not None:
            return {name: child.value for name, child in self.members.items()}
        if self.items is not None:
            return [child.value for child in self.items]
        return self.raw

    @property
    def is_object(self) -> bool:
        """Whether its value is an object."""
        return self.members is not None or (self.items is None and isinstance(self.raw, dict))

    @property
    def is_open(self) -> bool:
        """Whether its members or items are fields."""
        return self.members is not None or self.items is not None

    def open(self) -> None:
        """Turn its members or items into fields; do nothing for a scalar, or if it is open already."""
        if self.is_open or not isinstance(self.raw, dict | list):
            return
        has_come = self.raw is self.received
        if isinstance(self.raw, dict):
            self.members = {name: self._child(value, received=has_come) for name, value in self.raw.items()}
            self.received_members = dict(self.members) if has_come else self.received_members
        else:
            self.items = [self._child(value, received=has_come) for value in self.raw]
            self.received_items = tuple(self.items) if has_come else self.received_items
        self.raw = None

    def _child(self, value: JSON, *, received: bool) -> TrackedField:
        # Children of a removed field are not removed themselves: no step removed them from it.
        return TrackedField(value, self.steps, value if received else ABSENT)

    def touch(self, step: int) -> None:
        """Remember a step."""
        if not self.steps or self.steps[-1] != step:
            self.steps = (*self.steps, step)

    def remember(self, steps: Iterable[int]) -> None:
        """Remember earlier steps, in this field and everything in it."""
        self.steps = merge_steps(self.steps, steps)
        for child in self.children():
            child.remember(steps)

    def children(self) -> Iterator[TrackedField]:
        """Yield its current members or items, if it is open."""
        yield from (self.members or {}).values()
        yield from self.items or ()

    def all_steps(self) -> Steps:
        """Return the steps of the field and of everything that is or was in it."""
        gone = (*(self.removed_members or {}).values(), *(self.removed_items or ()))
        return merge_steps(self.steps, *(child.all_steps() for child in (*self.children(), *gone)))


def merge_steps(*histories: Iterable[int]) -> Steps:
    """Merge several histories. An unknown step comes last: it is found at the end."""
    found = {step for history in histories for step in history}
    return tuple(sorted(found, key=lambda step: (step == NOBODY, step)))


def tracked_root(value: JSON) -> TrackedField:
    """Return the root of a received object."""
    return TrackedField(value, received=value)


def write(field: TrackedField, value: JSON, step: int) -> None:
    """Write a value to a field; parts that stay the same are left alone."""
    if not field.is_open and identical(field.raw, value):
        return
    field.open()
    if field.members is not None and isinstance(value, dict):
        for name in [name for name in field.members if name not in value]:
            remove_member(field, name, step)
        for name, member_value in value.items():
            write_member(field, name, member_value, step)
    elif field.items is not None and isinstance(value, list):
        _write_items(field, value, step)
    else:
        _remove_children(field, step)
        field.touch(step)
        _set_value(field, value, step)


def write_member(field: TrackedField, name: str, value: JSON, step: int) -> None:
    """Add a member to an open object, or write an existing one."""
    members = _members(field)
    if name in members:
        write(members[name], value, step)
    elif field.removed_members is not None and name in field.removed_members:
        members[name] = field.removed_members.pop(name)
        _reinsert(members[name], value, step)
    else:
        members[name] = TrackedField(value, (step,))


def remove_member(field: TrackedField, name: str, step: int) -> None:
    """Remove a member from an open object."""
    child = _members(field).pop(name)
    _detach(child, step)
    field.removed_members = field.removed_members or {}
    field.removed_members[name] = child


def insert_item(field: TrackedField, index: int, value: JSON, step: int) -> None:
    """Insert an item into an open array; an item that was removed before may be recognized."""
    removed = None if field.removed_items is None else field.removed_items.take(value)
    if removed is None:
        child = TrackedField(value, (step,), is_steady=False)
    else:
        child = removed
        _reinsert(child, value, step)
        child.is_steady, child.displaced = False, merge_steps(child.displaced, (step,))
    _items(field).insert(index, child)


def remove_item(field: TrackedField, index: int, step: int) -> None:
    """Remove an item from an open array."""
    child = _items(field).pop(index)
    child.last = child.value
    _detach(child, step)
    _add_removed_item(field, child)


def histories(field: TrackedField) -> TrackedField:
    """Copy a field with its history, for :func:`inherit_history`."""
    copied = TrackedField(field.raw, field.steps)
    if field.members is not None:
        copied.members = {name: histories(child) for name, child in field.members.items()}
    if field.items is not None:
        copied.items = [histories(child) for child in field.items]
    return copied


def inherit_history(field: TrackedField, source: TrackedField) -> None:
    """Add the history of another field of the same value, part by part."""
    if not source.is_open:
        field.remember(source.steps)
        return
    field.open()
    field.steps = merge_steps(field.steps, source.steps)
    for name, child in (source.members or {}).items():
        inherit_history(_members(field)[name], child)
    for mine, theirs in zip(field.items or (), source.items or (), strict=True):
        inherit_history(mine, theirs)


def _write_items(field: TrackedField, value: Sequence[JSON], step: int) -> None:
    now: list[JSON] = field.value
    if identical(now, value):
        return
    paired = dict(pair_items(now, value))
    for index in reversed(range(len(now))):
        if index not in paired:
            remove_item(field, index, step)
    staying = set(paired.values())
    for index, item in enumerate(value):
        if index in staying:
            write(_items(field)[index], item, step)
        else:
            insert_item(field, index, item, step)


def _detach(field: TrackedField, step: int) -> None:
    """Mark a field as removed, with everything in it."""
    field.kept = msgspec.structs.replace(
        field,
        members=None if field.members is None else dict(field.members),
        items=None if field.items is None else list(field.items),
        removed_members=None if field.removed_members is None else dict(field.removed_members),
        removed_items=None if field.removed_items is None else _RemovedItems(field.removed_items),
    )
    _remove_children(field, step)
    field.touch(step)
    field.is_steady = False


def _remove_children(field: TrackedField, step: int) -> None:
    """Remove all members and items of a field."""
    for name in list(field.members or ()):
        remove_member(field, name, step)
    for index in reversed(range(len(field.items or ()))):
        remove_item(field, index, step)


def _reinsert(field: TrackedField, value: JSON, step: int) -> None:
    """Insert a removed field again. What one step removes and inserts again was never removed."""
    if field.kept is not None and field.steps[-1] == step:
        _restore_field(field)
        write(field, value, step)
        return
    field.kept = None
    _mark_children_removed(field)
    field.touch(step)
    _set_value(field, value, step)


def _restore_field(field: TrackedField) -> None:
    """Restore a field to its state before the step that removed it."""
    if field.kept is None:
        return
    kept = field.kept
    for name in TrackedField.__struct_fields__:
        setattr(field, name, getattr(kept, name))
    field.kept = None
    for child in field.children():
        _restore_field(child)


def _mark_children_removed(field: TrackedField) -> None:
    """Mark the members and items of a field that was removed unopened as removed from it."""
    field.open()
    field.removed_members = {**(field.removed_members or {}), **(field.members or {})} or None
    for child in field.items or ():
        child.last, child.is_steady = child.value, False
        _add_removed_item(field, child)


def _set_value(field: TrackedField, value: JSON, step: int) -> None:
    """Give an empty field a value."""
    field.raw, field.members, field.items = None, None, None
    if isinstance(value, dict) and field.removed_members:
        field.members = {}
        for name, member_value in value.items():
            write_member(field, name, member_value, step)
    elif isinstance(value, list) and field.removed_items:
        field.items = []
        for index, item in enumerate(value):
            insert_item(field, index, item, step)
    else:
        field.raw = value


def _add_removed_item(field: TrackedField, child: TrackedField) -> None:
    field.removed_items = field.removed_items or _RemovedItems()
    field.removed_items.append(child)


class _RemovedItems:
    """The items that were removed from an array, oldest first.

    They are found by their values and names: looking at each of them for each inserted item would take hours for the
    most that an object can have.
    """

    def __init__(self, fields: Iterable[TrackedField] = ()) -> None:
        self._fields: dict[int, TrackedField] = dict(enumerate(fields))
        self._next = len(self._fields)
        # The places of the items in ``_fields``, oldest first; those of items that were taken are left in them.
        self._by_value: dict[Hashable, list[int]] = {}
        self._by_name: dict[Hashable, list[int]] = {}
        self._indexed = 0

    def __iter__(self) -> Iterator[TrackedField]:
        return iter(self._fields.values())

    def __len__(self) -> int:
        return len(self._fields)

    def append(self, field: TrackedField) -> None:
        """Add an item, which has its last value."""
        self._fields[self._next] = field
        self._next += 1

    def take(self, value: JSON) -> TrackedField | None:
        """Take the item that matches a value away: the last of equal value, else of equal name; None without any."""
        if not self._fields:
            return None
        self._index()
        place = self._latest(self._by_value.get(_identity(value)))
        if place is None and (name := member(value, "name")) is not None:
            place = self._latest(self._by_name.get(_name_key(name)))
        return None if place is None else self._fields.pop(place)

    def _index(self) -> None:
        for place in range(self._indexed, self._next):
            field = self._fields.get(place)
            if field is not None:
                self._by_value.setdefault(_identity(field.last), []).append(place)
                if (name := member(field.last, "name")) is not None:
                    self._by_name.setdefault(_name_key(name), []).append(place)
        self._indexed = self._next

    def _latest(self, places: list[int] | None) -> int | None:
        while places:
            place = places.pop()
            if place in self._fields:
                return place
        return None


def _identity(value: JSON) -> Hashable:
    """Something hashable that two values have in common if and only if they are identical."""
    return sorted_text(value) if isinstance(value, dict | list) else (type(value), value)


def _name_key(name: JSON) -> Hashable:
    return sorted_text(name) if isinstance(name, dict | list) else name


def _members(field: TrackedField) -> dict[str, TrackedField]:
    field.open()
    if field.members is None:
        raise TypeError("not an object")
    return field.members


def _items(field: TrackedField) -> list[TrackedField]:
    field.open()
    if field.items is None:
        raise TypeError("not an array")
    return field.items


_REFUSALS = frozenset({OutcomeStatus.DENIED, OutcomeStatus.FAILED})
_WEBHOOKS = "MutatingAdmissionWebhook"
_TYPE_FIELDS = ("apiVersion", "kind")


def replay(decision: Decision, object_received: JSON) -> TrackedField:
    """Apply the steps of a decision to the received object again.

    Differences to the decision's object that remain have no known step: a mutating policy that sees the object in
    another version reports its patch in that version.
    """
    replaying = _Replay(object_received)
    for index in _applied_steps(decision):
        replaying.run(index, decision.steps[index])
    write(replaying.root, decision.object_document.data, NOBODY)
    return replaying.root


def _applied_steps(decision: Decision) -> Iterator[int]:
    """Yield the indexes of steps whose patches reached the object.

    Patches of validating controllers are applied only if nothing denied the request, and patches of the policies of a
    controller are discarded if one of them fails.
    """
    steps = decision.steps
    failed = {
        _controller_run(step) for step in steps if step.outcome in _REFUSALS and step.controller != _WEBHOOKS
    }
    for index, step in enumerate(steps):
        applied = step.phase is Phase.MUTATE or step.controller == OBJECT_VALIDATION
        counts = decision.allowed or (applied and _controller_run(step) not in failed)
        if step.patch and counts:
            yield index


def _controller_run(step: Step) -> tuple[str, int, Phase]:
    return step.controller, step.round, step.phase


class _Replay:
    """An object on its way through the steps."""

    def __init__(self, object_received: JSON) -> None:
        self.root = tracked_root(object_received)
        self._value = object_received

    def run(self, index: int, step: Step) -> None:
        """Apply the patch of one step; do nothing if it does not apply."""
        try:
            after = apply_patch(self._value, step.patch)
        except PatchError:
            return
        if step.controller == _WEBHOOKS:
            after = _restore_type(after, self._value)
        for operation in step.patch:
            _apply_operation(self.root, operation, index)
        write(self.root, after, index)
        self._value = after


def _restore_type(after: JSON, before: JSON) -> JSON:
    """Restore the type if a webhook omitted it, as ``pratique_frontdoor.chain.webhook_controllers`` does."""
    if not isinstance(after, dict) or not isinstance(before, dict):
        return after
    return after | {name: before[name] for name in _TYPE_FIELDS if name in before}


def _apply_operation(root: TrackedField, operation: JSONObject, step: int) -> None:
    """Apply one operation, which is known to apply."""
    match operation["op"]:
        case "add":
            _add(root, operation["path"], operation.get("value"), step)
        case "replace":
            _replace(root, operation["path"], operation.get("value"), step)
        case "remove":
            _remove(root, operation["path"], step)
        case "copy":
            _add(root, operation["path"], _find(root, operation["from"]).value, step)
        case "move":
            _move(root, operation["from"], operation["path"], step)
        case _:
            """A test changes nothing."""


def _move(root: TrackedField, source: str, target: str, step: int) -> None:
    field = _find(root, source)
    value, remembered = field.value, histories(field)
    _remove(root, source, step)
    inherit_history(_add(root, target, value, step), remembered)


def _add(root: TrackedField, path: str, value: JSON, step: int) -> TrackedField:
    container, key = _place(root, path)
    if container.items is not None:
        index = _insertion_index(key, len(container.items))
        insert_item(container, index, value, step)
        return container.items[index]
    write_member(container, key, value, step)
    return _child(container, key)


def _replace(root: TrackedField, path: str, value: JSON, step: int) -> None:
    if path == "":
        write(root, value, step)
        return
    container, key = _place(root, path)
    if container.items is not None:
        write(_child(container, key), value, step)
    else:
        write_member(container, key, value, step)


def _remove(root: TrackedField, path: str, step: int) -> None:
    container, key = _place(root, path)
    if container.items is not None:
        remove_item(container, _index(key, len(container.items)), step)
    else:
        remove_member(container, key, step)


def _find(root: TrackedField, path: str) -> TrackedField:
    return _walk(root, path.split("/")[1:])


def _place(root: TrackedField, path: str) -> tuple[TrackedField, str]:
    """Return the opened container of a JSON pointer's target, and the key of the target in it."""
    _, *steps = path.split("/")
    container = _walk(root, steps[:-1])
    container.open()
    return container, unescape(steps[-1])


def _walk(field: TrackedField, steps: Sequence[str]) -> TrackedField:
    for step in map(unescape, steps):
        field.open()
        field = _child(field, step)
    return field


def _child(container: TrackedField, key: str) -> TrackedField:
    if container.items is not None:
        return container.items[_index(key, len(container.items))]
    return (container.members or {})[key]


def _index(key: str, length: int) -> int:
    """Convert an index as ``pratique.apimachinery.patches`` does: negative ones count from the end."""
    return int(key) % length


def _insertion_index(key: str, length: int) -> int:
    return length if key == "-" else int(key) % (length + 1)
