"""Structured merge: an apply configuration merged into an object by the schema of its kind.

The merge itself says what it changed: the operations are those that :func:`~pratique.apimachinery.diff.diff` would find
between the objects before and after, in the same order. So nothing has to search the object for them.

Source: ``sigs.k8s.io/structured-merge-diff/v6/typed``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from pratique.apimachinery.diff import MATCHING_LIMIT, diff
from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.json_values import JSON, JSONObject, escape
from pratique.cluster.apply_configurations import (
    UnidentifiedItemError,
    atomic_paths,
    is_applicable,
    item_element,
    key_texts,
    type_errors,
)
from pratique.cluster.schemas import ListType, MapType, MergeStrategy, Scalar, Structure, Type


class Merged(NamedTuple):
    """The result of a merge."""

    value: JSON
    """The merged value: the left one itself if nothing changed. It may share parts with both."""
    operations: Sequence[JSONObject] = ()
    """The JSON Patch from the left value to this one, as :func:`diff` orders it."""


def merge(kind: Type, left: JSON, right: JSON, pointer: str = "") -> Merged:
    """Merge two present values at a pointer. Neither is changed.

    Raises:
        UnidentifiedItemError: an item of a list on the left has no identity.
    """
    if right is None:
        return _merge_null(kind, left, pointer)
    if isinstance(left, dict) and isinstance(right, dict) and not _is_atomic(kind):
        return _merge_fields(kind, left, right, pointer)
    if isinstance(kind, ListType) and isinstance(left, list) and isinstance(right, list):
        return _merge_items(kind, left, right, pointer)
    return _diffed(left, right, pointer)


def _diffed(left: JSON, merged: JSON, pointer: str) -> Merged:
    operations = diff(left, merged, pointer)
    return Merged(merged, operations) if operations else Merged(left)


def _merge_null(kind: Type, left: JSON, pointer: str) -> Merged:
    """Null leaves a list or map that has items alone, unless it is atomic, and replaces everything else."""
    is_kept = isinstance(left, dict) and not _is_atomic(kind)
    if isinstance(kind, ListType):
        is_kept |= kind.merge is not MergeStrategy.ATOMIC
    return Merged(left) if left and is_kept else _diffed(left, None, pointer)


def _is_atomic(kind: Type) -> bool:
    return kind.atomic if isinstance(kind, MapType | Structure) else False


def _merge_fields(kind: Type, left: JSONObject, right: JSONObject, pointer: str) -> Merged:
    merged: JSONObject = {}
    operations: list[JSONObject] = []
    changed: dict[str, Sequence[JSONObject]] = {}
    for name, value in right.items():
        former = left.get(name, _ABSENT)
        if former is value or (type(value) is type(former) is str and value == former):
            continue  # what identifies an object or an item, first of all
        inner = f"{pointer}/{escape(name)}"
        if former is _ABSENT:
            merged[name] = value
            operations.append({"op": "add", "path": inner, "value": value})
            continue
        child = merge(_field(kind, name), former, value, inner)
        if child.operations:
            merged[name], changed[name] = child
    if not merged:
        return Merged(left)
    # A diff takes members in the order in which the object has them.
    for name in left if len(changed) > 1 else changed:
        operations += changed.get(name, ())
    return Merged(left | merged, operations)


def _field(kind: Type, name: str) -> Type:
    match kind:
        case Structure():
            return kind.fields.get(name, Scalar.ANY)
        case MapType():
            return kind.values
        case _:
            return Scalar.ANY


_Items: TypeAlias = "tuple[list[JSON], list[str]]"
"""The items of a list, and what identifies each."""
_Pairs: TypeAlias = "Iterable[tuple[JSON, JSON]]"
"""Corresponding items of two lists; ``_ABSENT`` in place of one that only the other list has."""


def _merge_items(kind: ListType, left: list[JSON], right: list[JSON], pointer: str) -> Merged:
    if kind.merge is MergeStrategy.ATOMIC:
        return _diffed(left, right, pointer)
    lefts, rights = key_texts(kind, left), key_texts(kind, right)
    if lefts is None or rights is None:
        lefts, rights = ([item_element(kind, item) for item in items] for items in (left, right))
    if not _are_in_order(lefts, rights):
        merged, _ = _merge_pairs(kind, _pairs((left, lefts), (right, rights)), pointer)
        return _diffed(left, merged, pointer)
    merged, operations = _merge_pairs(kind, _ordered_pairs((left, lefts), (right, rights)), pointer)
    if not operations:
        return Merged(left)
    if not _pairs_as_diff(kind, left, merged, operations):
        return _diffed(left, merged, pointer)
    return Merged(merged, operations)


def _are_in_order(lefts: list[str], rights: list[str]) -> bool:
    """Whether there are no duplicates, and what both lists hold is in the same order in both."""
    known, given = set(lefts), set(rights)
    if len(known) < len(lefts) or len(given) < len(rights):
        return False
    return lefts == rights or [key for key in lefts if key in given] == [
        key for key in rights if key in known
    ]


def _merge_pairs(kind: ListType, pairs: _Pairs, pointer: str) -> tuple[list[JSON], list[JSONObject]]:
    """Merge items. Gives the new list, and the operations if all items from the left list are still in their order."""
    merged: list[JSON] = []
    added: list[JSONObject] = []
    changes: list[JSONObject] = []
    for left, right in pairs:
        if right is _ABSENT:
            merged.append(left)
            continue
        place = f"{pointer}/{len(merged)}"
        if left is _ABSENT:
            merged.append(right)
            added.append({"op": "add", "path": place, "value": right})
        else:
            child = merge(kind.items, left, right, place)
            merged.append(child.value)
            changes += child.operations
    # A diff adds items before it looks into others.
    return merged, added + changes


def _pairs_as_diff(
    kind: ListType, left: list[JSON], merged: list[JSON], operations: Sequence[JSONObject]
) -> bool:
    """Whether a diff surely pairs the items as the merge did.

    It knows them by their names, if all have different ones, or else by all that they hold. If there are very many, it
    pairs them by their places.
    """
    if len(merged) == len(left):
        return kind.keys == _BY_NAME or list(map(_name, left)) == list(map(_name, merged))
    are_known = len(operations) == len(merged) - len(left)  # nothing changed besides what is new
    if not are_known and kind.keys == _BY_NAME:
        are_known = all(type(_name(item)) is str for item in merged)
    return are_known and len(left) * len(merged) <= MATCHING_LIMIT


_BY_NAME = ("name",)


def _name(item: JSON) -> JSON:
    return item.get("name") if isinstance(item, dict) else None


_ABSENT = object()


def _ordered_pairs(left: _Items, right: _Items) -> Iterator[tuple[JSON, JSON]]:
    """Pair the items of two lists that have what they both hold in the same order: :func:`_pairs` in that case."""
    items, places, done = right[0], {key: place for place, key in enumerate(right[1])}, 0
    for item, key in zip(*left, strict=True):
        place = places.get(key)
        if place is None:
            yield item, _ABSENT
            continue
        yield from ((_ABSENT, new) for new in items[done:place])
        yield item, items[place]
        done = place + 1
    yield from ((_ABSENT, new) for new in items[done:])


def _pairs(left: _Items, right: _Items) -> Iterator[tuple[JSON, JSON]]:
    """Pair the items of two lists, in the order of the result: ``visitListItems``.

    Items of the right list keep their order, and items that only the left list has keep their place among its others.
    A duplicate item of the left list is not merged: the item of the right list replaces it.
    """
    (left_items, lefts), (_, rights) = left, right
    known, given = _unique(left), _unique(right)
    shared = deque(element for element in rights if element in known)
    done: set[str] = set()
    at_left = at_right = 0
    while at_left < len(lefts) or at_right < len(rights):
        element = lefts[at_left] if at_left < len(lefts) else None
        wanted = rights[at_right] if at_right < len(rights) else None
        if element is not None and element not in given:
            yield left_items[at_left], _ABSENT
            at_left += 1
        elif element is not None and element != wanted and _is_behind(element, wanted, shared):
            at_left += 1
        else:
            at_left += element is not None and (element == wanted or element in done)
            if wanted is None:
                continue
            yield known.get(wanted, _ABSENT), given[wanted]
            done.add(wanted)
            at_right += 1
            if shared and (element == wanted or shared[0] == wanted):
                shared.popleft()


def _is_behind(element: str, wanted: str | None, shared: deque[str]) -> bool:
    """Tell whether an item of both lists comes later in the right list than the next shared item."""
    return wanted is not None and bool(shared) and shared[0] != element


def _unique(items: _Items) -> Mapping[str, JSON]:
    """Items by path element; None for a duplicate."""
    found: dict[str, JSON] = {}
    for item, element in zip(*items, strict=True):
        found[element] = None if element in found else item
    return found


class ApplyError(PratiqueError):
    """An apply configuration cannot be applied. The message is the API server's."""


def structured_apply(kind: Structure, stored: JSONObject, part: JSONObject) -> Merged:
    """Apply ``part``, an apply configuration, to an object. Neither is changed.

    Raises:
        ApplyError: ``part`` does not conform to the schema, or sets an atomic field.
    """
    typed = {"apiVersion": stored.get("apiVersion"), "kind": stored.get("kind")}
    part = part | {name: value for name, value in typed.items() if value is not None}
    if not is_applicable(kind, part):
        _check(kind, part)
    try:
        return merge(kind, stored, part)
    except UnidentifiedItemError as error:
        raise ApplyError(f"failed to merge patch: {error}") from None


def _check(kind: Structure, part: JSONObject) -> None:
    """Raise ApplyError if an apply configuration does not conform to the schema, or sets an atomic field."""
    if found := list(type_errors(kind, part)):
        raise ApplyError(f"failed to convert patch object to typed object: {_join_errors(found)}")
    if paths := list(atomic_paths(kind, part)):
        listed = ", ".join(paths)
        raise ApplyError(
            f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {listed}"
        )


def _join_errors(found: Sequence[str]) -> str:
    return found[0] if len(found) == 1 else "\n  ".join(["errors:", *found])
