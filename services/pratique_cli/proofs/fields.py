"""Fields: where two objects differ, down to single values, with items of lists found by their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.differences import identical
from pratique_cli.outputs.changes import path_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.json_values import JSON
    from pratique_cli.outputs.changes import Path

_IN_ORDER = "initContainers"
"""They run one after another, so that their order is part of what they do."""

_ABSENT = object()
"""Stands for what is not there; null is a value."""


def changed_values(before: JSON, after: JSON) -> dict[Path, JSON]:
    """The single values that one object has otherwise than another, by path; None for those that it has no more."""
    changed: dict[Path, JSON] = {}
    for path, old, new in _differences(before, after, ()):
        gone = dict.fromkeys(path_ for path_, _ in _values(old, path)) if old is not _ABSENT else {}
        changed |= gone
        changed |= dict(_values(new, path)) if new is not _ABSENT else {}
    return changed


def differing_fields(first: JSON, second: JSON) -> tuple[str, ...]:
    """The fields in which two objects differ, as Kubernetes writes them; whole where one has none of it."""
    return tuple(dict.fromkeys(path_text(path) for path, _, _ in _differences(first, second, ())))


def _differences(first: JSON, second: JSON, path: Path) -> Iterator[tuple[Path, JSON, JSON]]:
    """The places where two values differ, with what is in either; what one has alone is one place."""
    if first is second or (_ABSENT not in (first, second) and identical(first, second)):
        return
    named = _are_named(first) and _are_named(second)
    mine, theirs = _members(first, named=named), _members(second, named=named)
    if mine is None or theirs is None or type(first) is not type(second):
        yield path, first, second
        return
    differing = [
        found
        for step in dict.fromkeys((*mine, *theirs))
        for found in _differences(mine.get(step, _ABSENT), theirs.get(step, _ABSENT), (*path, step))
    ]
    yield from differing or [(path, first, second)]  # else they are the same items in another order


def without_order(value: JSON) -> JSON:
    """The object with lists of named items sorted by name: which sidecar stands first seldom matters to anybody."""
    if isinstance(value, dict):
        return {
            key: [without_order(each) for each in item]
            if key == _IN_ORDER and isinstance(item, list)
            else without_order(item)
            for key, item in value.items()
        }
    if not isinstance(value, list):
        return value
    items = [without_order(each) for each in value]
    return sorted(items, key=lambda item: str(item["name"])) if _are_named(value) else items


def _values(value: JSON, path: Path) -> Iterator[tuple[Path, JSON]]:
    members = _members(value, named=_are_named(value))
    if not members:
        yield path, value
        return
    for step, item in members.items():
        yield from _values(item, (*path, step))


def _members(value: JSON, *, named: bool) -> dict[str | int, JSON] | None:
    """What an object or a list holds, items by position or by name; None for single values."""
    if isinstance(value, dict):
        return dict(value)
    if not isinstance(value, list):
        return None
    return {f"name={item['name']}": item for item in value} if named else dict(enumerate(value))


def _are_named(items: JSON) -> bool:
    """Whether it is a list of which all items have different names."""
    if not isinstance(items, list):
        return False
    names = [item.get("name") if isinstance(item, dict) else None for item in items]
    return all(isinstance(name, str) for name in names) and len(set(names)) == len(names)
