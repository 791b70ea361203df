"""Edits: what a step does to fields. Only what it really changes remembers it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.blames.fields import Field, in_order
from pratique.differences import identical, pairs
from pratique.json_values import JSON, member

if TYPE_CHECKING:
    from collections.abc import Sequence


def write(field: Field, value: JSON, step: int) -> None:
    """Give a field another value: what is the same in both is left alone."""
    now = field.value
    if identical(now, value):
        return
    field.open()
    if field.members is not None and isinstance(value, dict):
        for name in [name for name in field.members if name not in value]:
            remove_member(field, name, step)
        for name, each in value.items():
            write_member(field, name, each, step)
    elif field.items is not None and isinstance(value, list):
        _write_items(field, now, value, step)
    else:
        _empty(field, step)
        field.touch(step)
        _fill(field, value, step)


def write_member(field: Field, name: str, value: JSON, step: int) -> None:
    """Add a member to an open object, or write the one that is there."""
    members = _members(field)
    if name in members:
        write(members[name], value, step)
    elif name in field.gone_members:
        members[name] = field.gone_members.pop(name)
        _bring_back(members[name], value, step)
    else:
        members[name] = Field(value, (step,))


def remove_member(field: Field, name: str, step: int) -> None:
    """Take a member out of an open object."""
    child = _members(field).pop(name)
    _take_out(child, step)
    field.gone_members[name] = child


def insert_item(field: Field, index: int, value: JSON, step: int) -> None:
    """Insert an item into an open array; one that was taken out before may be known again."""
    place = _known_again(field.gone_items, value)
    if place is None:
        child = Field(value, (step,), is_steady=False)
    else:
        child = field.gone_items.pop(place)
        _bring_back(child, value, step)
        child.is_steady, child.displaced = False, in_order(child.displaced, (step,))
    _items(field).insert(index, child)


def remove_item(field: Field, index: int, step: int) -> None:
    """Take an item out of an open array."""
    child = _items(field).pop(index)
    child.last = child.value
    _take_out(child, step)
    field.gone_items.append(child)


def histories(field: Field) -> Field:
    """Copy a field with what it remembers, for :func:`inherit`."""
    copied = Field(field.raw, field.steps)
    if field.members is not None:
        copied.members = {name: histories(child) for name, child in field.members.items()}
    if field.items is not None:
        copied.items = [histories(child) for child in field.items]
    return copied


def inherit(field: Field, source: Field) -> None:
    """Remember what another field of the same value remembers, part by part."""
    if not source.is_open:
        field.remember(source.steps)
        return
    field.open()
    field.steps = in_order(field.steps, source.steps)
    for name, child in (source.members or {}).items():
        inherit(_members(field)[name], child)
    for mine, theirs in zip(field.items or (), source.items or (), strict=True):
        inherit(mine, theirs)


def _write_items(field: Field, now: Sequence[JSON], value: Sequence[JSON], step: int) -> None:
    paired = dict(pairs(now, value))
    for index in reversed(range(len(now))):
        if index not in paired:
            remove_item(field, index, step)
    staying = set(paired.values())
    for index, each in enumerate(value):
        if index in staying:
            write(_items(field)[index], each, step)
        else:
            insert_item(field, index, each, step)


def _take_out(field: Field, step: int) -> None:
    """Take out a field, and what is in it, which is then gone from it."""
    field.kept = dataclasses.replace(
        field,
        members=None if field.members is None else dict(field.members),
        items=None if field.items is None else list(field.items),
        gone_members=dict(field.gone_members),
        gone_items=list(field.gone_items),
    )
    _empty(field, step)
    field.touch(step)
    field.is_steady = False


def _empty(field: Field, step: int) -> None:
    """Take out of a field what is in it."""
    for name in list(field.members or ()):
        remove_member(field, name, step)
    for index in reversed(range(len(field.items or ()))):
        remove_item(field, index, step)


def _bring_back(field: Field, value: JSON, step: int) -> None:
    """Put in again what was taken out. What one step takes out and brings back was never away."""
    if field.kept is not None and field.steps[-1] == step:
        _restore(field)
        write(field, value, step)
        return
    field.kept = None
    _bury(field)
    field.touch(step)
    _fill(field, value, step)


def _restore(field: Field) -> None:
    """Make a field what it was before the step that took it out."""
    if field.kept is None:
        return
    kept = field.kept
    for attribute in dataclasses.fields(Field):
        setattr(field, attribute.name, getattr(kept, attribute.name))
    field.kept = None
    for child in field.children():
        _restore(child)


def _bury(field: Field) -> None:
    """Count what is in a field that was taken out unopened among what is gone from it."""
    field.open()
    field.gone_members |= field.members or {}
    for child in field.items or ():
        child.last, child.is_steady = child.value, False
        field.gone_items.append(child)


def _fill(field: Field, value: JSON, step: int) -> None:
    """Give an empty field a value."""
    field.raw, field.members, field.items = None, None, None
    if isinstance(value, dict) and field.gone_members:
        field.members = {}
        for name, each in value.items():
            write_member(field, name, each, step)
    elif isinstance(value, list) and field.gone_items:
        field.items = []
        for index, each in enumerate(value):
            insert_item(field, index, each, step)
    else:
        field.raw = value


def _known_again(gone: Sequence[Field], value: JSON) -> int | None:
    """The place of what an inserted item was before: the last of the same value, else of the same name."""
    name = member(value, "name")
    latest = list(reversed(list(enumerate(gone))))
    same = (place for place, field in latest if identical(field.last, value))
    named = (place for place, field in latest if name is not None and member(field.last, "name") == name)
    return next(same, next(named, None))


def _members(field: Field) -> dict[str, Field]:
    field.open()
    if field.members is None:
        raise TypeError("not an object")
    return field.members


def _items(field: Field) -> list[Field]:
    field.open()
    if field.items is None:
        raise TypeError("not an array")
    return field.items
