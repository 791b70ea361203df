"""Merging two values of a type: what the right one says counts, what only the left one says stays.

Source: ``sigs.k8s.io/structured-merge-diff/v6/typed/merge.go``. Both are taken to be of the type; where they are not,
the right one counts as a whole.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from pratique.schemas import ListType, MapType, Merge, Scalar, Structure
from pratique.structured_merges.elements import UnidentifiedError, item_element

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pratique.json_values import JSON, JSONObject
    from pratique.schemas import Type


def merge(kind: Type, left: JSON, right: JSON) -> JSON:
    """Merge two values that are both there. Neither is changed; the result may share parts with both.

    Raises:
        UnidentifiedError: an item of a list on the left is known by nothing.
    """
    if isinstance(left, dict) and isinstance(right, dict) and (left or right):
        return _merged_fields(kind, left, right)
    if isinstance(kind, ListType) and kind.merge is not Merge.ATOMIC:
        if isinstance(left, list) and isinstance(right, list) and (left or right):
            return [_merged(kind.items, one, other) for one, other in _pairs(kind, left, right)]
        if right is None and left:
            return left
    return left if right is None and isinstance(left, dict) and left and not _is_atomic(kind) else right


def _is_atomic(kind: Type) -> bool:
    return kind.atomic if isinstance(kind, MapType | Structure) else False


def _merged_fields(kind: Type, left: JSONObject, right: JSONObject) -> JSON:
    if _is_atomic(kind):
        return right
    merged = dict(left)
    for name, value in right.items():
        merged[name] = merge(_field(kind, name), left[name], value) if name in left else value
    return merged


def _field(kind: Type, name: str) -> Type:
    match kind:
        case MapType():
            return kind.values
        case Structure():
            return kind.fields.get(name, Scalar.ANY)
        case _:
            return Scalar.ANY


_ABSENT = object()


def _merged(kind: Type, left: JSON, right: JSON) -> JSON:
    if left is _ABSENT:
        return right
    return left if right is _ABSENT else merge(kind, left, right)


def _pairs(kind: ListType, left: Sequence[JSON], right: Sequence[JSON]) -> Iterator[tuple[JSON, JSON]]:
    """Pair the items of two lists, in the order of the result: ``visitListItems``.

    Items of the right list keep their order, and those that only the left list has stay where they stood among its
    others. Of items that the left list has twice neither is merged: what the right one says takes their place.
    """
    rights, lefts = _elements(kind, right), _elements(kind, left)
    known, given = _unique(lefts, left), _unique(rights, right)
    shared = deque(element for element in rights if element in known)
    done: set[str] = set()
    at_left = at_right = 0
    while at_left < len(left) or at_right < len(right):
        element = lefts[at_left] if at_left < len(left) else None
        wanted = rights[at_right] if at_right < len(right) else None
        if element is not None and element not in given:
            yield left[at_left], _ABSENT
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
    """Tell whether an item that both lists have comes later in the right one than the next that both have."""
    return wanted is not None and bool(shared) and shared[0] != element


def _elements(kind: ListType, items: Sequence[JSON]) -> list[str]:
    return [item_element(kind, item) for item in items]


def _unique(elements: Sequence[str], items: Sequence[JSON]) -> Mapping[str, JSON]:
    """Items by their element; of one that is there twice, null."""
    found: dict[str, JSON] = {}
    for element, item in zip(elements, items, strict=True):
        found[element] = None if element in found else item
    return found


__all__ = ["UnidentifiedError", "merge"]
