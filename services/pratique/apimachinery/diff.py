"""The JSON Patch between two documents, and equality as Kubernetes defines it."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TypeAlias

import msgspec

from pratique.apimachinery.json_values import JSON, JSONObject, escape, unescape

_MISSING = object()

_DifferingValues: TypeAlias = "tuple[str, JSON, JSON]"
"""A pointer, and the two differing values at it."""

_DifferingRun: TypeAlias = "tuple[int, int, int, int]"
"""Items ``old[a:b]`` that ``new[c:d]`` replace, as ``(a, b, c, d)``."""

_encoder = msgspec.json.Encoder(order="deterministic")

MATCHING_LIMIT = 500 * 500
"""Above this product of their lengths, items of two arrays are paired by position: matching takes time proportional to
the product, some tens of milliseconds for 500 items each."""


def diff(before: JSON, after: JSON, pointer: str = "") -> list[JSONObject]:
    """Compute the JSON Patch that turns ``before`` into ``after``.

    It consists of ``add``, ``remove`` and ``replace`` operations in a deterministic order, and leaves equal values
    alone: an item inserted into an array, or appended to it, is one ``add``. ``true`` differs from ``1``, and ``1``
    from ``1.0``. Objects in an array are matched by ``name`` where all names are different. The operations share
    their values with ``after``. A ``pointer`` tells where in a document the two values are.
    """
    # A stack instead of recursion, so a deep document cannot exhaust Python's stack.
    operations: list[JSONObject] = []
    pending: list[_DifferingValues] = [(pointer, before, after)] if before is not after else []
    while pending:
        pointer, old, new = pending.pop()
        if isinstance(old, dict) and isinstance(new, dict):
            deeper = _diff_objects(pointer, old, new, operations)
        elif isinstance(old, list) and isinstance(new, list):
            deeper = _diff_arrays(pointer, old, new, operations)
        else:
            if not identical(old, new):
                operations.append({"op": "replace", "path": pointer, "value": new})
            continue
        if deeper:
            deeper.reverse()
            pending += deeper
    return operations


def diff_through(
    before: JSONObject, between: JSONObject, patch: Sequence[JSONObject], after: JSONObject
) -> list[JSONObject]:
    """What :func:`diff` computes of ``before`` and ``after``, from the patch between the first and another document.

    Args:
        before: The first document.
        between: A document on the way to the last one, most of which that has shares with it.
        patch: What :func:`diff` computes of ``before`` and ``between``.
        after: The last document.
    """
    operations: list[JSONObject] = []
    for pointer, old, new in _diff_objects("", before, after, operations):
        if new is between.get(unescape(pointer[1:]), _MISSING):
            inside = f"{pointer}/"
            operations += [
                operation
                for operation in patch
                if operation["path"].startswith(inside) or operation["path"] == pointer
            ]
        else:
            operations += diff(old, new, pointer)
    return operations


def identical(first: JSON, second: JSON) -> bool:
    """Tell whether two JSON values are equal, numbers by value and type, members in any order."""
    if first is second:
        return True
    kind = type(first)
    if kind is not type(second) or first != second:
        return False
    if kind is not dict and kind is not list:
        return True
    # Python says True == 1 == 1.0; the encoded texts tell them apart.
    return _encoder.encode(first) == _encoder.encode(second)


def _may_differ(first: JSON, second: JSON) -> bool:
    """Tell whether two values, which are not the same one, have to be looked into.

    Objects and arrays that are not the same one nearly always differ, because who changes a document shares the rest of
    it: comparing them first would compare every part once for each level that it is deep.
    """
    kind = type(first)
    if (kind is dict or kind is list) and kind is type(second):
        return True
    return not identical(first, second)


def pair_items(old: Sequence[JSON], new: Sequence[JSON]) -> Iterator[tuple[int, int]]:
    """Pair the corresponding items of two arrays, as rising indexes into both.

    Items correspond if they are equal, have the same name, or changed in place and do not both have names.
    """
    old_at, shift = 0, len(new) - len(old)
    for a, b, c, d in _differing_runs(list(old), list(new)):
        yield from ((place, place + c - a) for place in range(old_at, a))
        for i, j in zip(range(a, b), range(c, d), strict=False):
            if _item_name(old[i]) == _item_name(new[j]):
                yield i, j
        old_at = b
    yield from ((place, place + shift) for place in range(old_at, len(old)))


def _diff_objects(
    pointer: str, old: JSONObject, new: JSONObject, operations: list[JSONObject]
) -> list[_DifferingValues]:
    deeper: list[_DifferingValues] = []
    kept, start = len(old), f"{pointer}/"
    for name, value in old.items():
        other = new.get(name, _MISSING)
        if other is value:
            continue
        if other is _MISSING:
            operations.append({"op": "remove", "path": start + escape(name)})
            kept -= 1
        elif _may_differ(value, other):
            deeper.append((start + escape(name), value, other))
    if kept < len(new):
        operations += [
            {"op": "add", "path": start + (name if name.isalnum() else escape(name)), "value": value}
            for name, value in new.items()
            if name not in old
        ]
    return deeper


def _diff_arrays(
    pointer: str, old: list[JSON], new: list[JSON], operations: list[JSONObject]
) -> list[_DifferingValues]:
    """Append the insertions and removals; return the items that stay but change, at their final indexes."""
    deeper: list[_DifferingValues] = []
    old_at = 0
    for a, b, c, d in _differing_runs(old, new):
        deeper += _differing_items(pointer, old, new, range(old_at, a), c - a)
        paired = min(b - a, d - c)
        deeper += _differing_items(pointer, old, new, range(a, a + paired), c - a)
        # At this point the patched array is new[:c + paired] + old[a + paired:].
        operations += [
            {"op": "remove", "path": f"{pointer}/{index}"}
            for index in range(c + b - a - 1, c + paired - 1, -1)
        ]
        operations += [
            {"op": "add", "path": f"{pointer}/{index}", "value": new[index]} for index in range(c + paired, d)
        ]
        old_at = b
    deeper += _differing_items(pointer, old, new, range(old_at, len(old)), len(new) - len(old))
    return deeper


def _differing_items(
    pointer: str, old: list[JSON], new: list[JSON], places: range, shift: int
) -> Iterator[_DifferingValues]:
    """The items at ``places`` that differ from those ``shift`` further on in the other array."""
    for place in places:
        item, other = old[place], new[place + shift]
        if item is not other and _may_differ(item, other):
            yield f"{pointer}/{place + shift}", item, other


def _differing_runs(old: list[JSON], new: list[JSON]) -> list[_DifferingRun]:
    """The runs in which two arrays differ, between the items they have in common."""
    if len(old) == len(new) and (_have_same_names(old, new) or _is_same_item(old, new)):
        return []  # as most arrays: items that changed in place
    # Common heads and tails are cheap to find, and most changes leave little in between.
    shorter = min(len(old), len(new))
    start = 0
    while start < shorter and identical(old[start], new[start]):
        start += 1
    end = 0
    while end < shorter - start and identical(old[-1 - end], new[-1 - end]):
        end += 1
    a, b, c, d = start, len(old) - end, start, len(new) - end
    if a == b and c == d:
        return []
    if a == b or c == d or (b - a) * (d - c) > MATCHING_LIMIT:
        return [(a, b, c, d)]
    old_keys, new_keys = _item_keys(old[a:b], new[c:d])
    if old_keys == new_keys[: b - a]:
        # Items that changed in place, and others after them: a matcher would take long to find that out.
        return [(b, b, c + b - a, d)] if d - c > b - a else []
    # autojunk would ignore frequent items and make longer patches.
    matcher = SequenceMatcher(None, old_keys, new_keys, autojunk=False)
    return [(a + i, a + j, c + k, c + m) for tag, i, j, k, m in matcher.get_opcodes() if tag != "equal"]


def _item_keys(old: list[JSON], new: list[JSON]) -> tuple[list[Hashable], list[Hashable]]:
    """The keys that match items of two arrays: names where all are different, else encoded contents."""
    by_name = _item_names(old), _item_names(new)
    if by_name[0] and by_name[1]:
        return by_name
    return [_encoder.encode(item) for item in old], [_encoder.encode(item) for item in new]


def _item_names(items: list[JSON]) -> list[Hashable]:
    names = [_item_name(item) for item in items]
    distinct = {name for name in names if isinstance(name, str)}
    return list(names) if len(distinct) == len(names) else []


def _have_same_names(old: list[JSON], new: list[JSON]) -> bool:
    """Tell whether all items are objects with names, the same in both arrays and none of them twice."""
    found = set()
    for item, other in zip(old, new, strict=True):
        if type(item) is not dict or type(other) is not dict:
            return False
        name = item.get("name")
        if type(name) is not str or name in found or other.get("name") != name:
            return False
        found.add(name)
    return True


def _is_same_item(old: list[JSON], new: list[JSON]) -> bool:
    """Tell whether both arrays have one item, which may have changed in place."""
    return len(old) == 1 and _item_name(old[0]) == _item_name(new[0])


def _item_name(item: JSON) -> JSON:
    return item.get("name") if isinstance(item, dict) else None


_Run: TypeAlias = "tuple[int, int, int]"
"""Items that are the same in two sequences: where they begin in both, and how many they are."""

_GAP_LIMIT = 100 * 100
"""As :data:`MATCHING_LIMIT`, between two items that correspond: a long sequence has many such gaps."""


Opcode: TypeAlias = "tuple[str, int, int, int, int]"
"""``equal``, ``replace``, ``delete`` or ``insert``, and which items of the old and the new sequence, as in difflib."""


def opcodes(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[Opcode]:
    """What turns one sequence into another one, in linear time.

    Short sequences are matched as ``difflib`` does. Long ones are matched between the items that both have once, as in
    a patience diff.
    """
    found: list[Opcode] = []
    a = c = 0
    for i, j, size in [*_common_runs(old, new), (len(old), len(new), 0)]:
        start = i, j
        if a < i or c < j:
            found.append(("replace" if a < i and c < j else "delete" if a < i else "insert", a, i, c, j))
        elif found and size:
            _, *before = found.pop()  # the run that ends where this one begins
            start = before[0], before[2]
        a, c = i + size, j + size
        if size:
            found.append(("equal", start[0], a, start[1], c))
    return found


def _common_runs(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[_Run]:
    runs: list[_Run] = []
    a, b, c, d = _trimmed(old, new, (0, len(old), 0, len(new)), runs)
    if (b - a) * (d - c) <= MATCHING_LIMIT:
        _match(old, new, (a, b, c, d), runs)
    else:
        for i, j in [*((a + i, c + j) for i, j in _anchors(old[a:b], new[c:d])), (b, d)]:
            gap = _trimmed(old, new, (a, i, c, j), runs)
            a, c = i, j
            if (gap[1] - gap[0]) * (gap[3] - gap[2]) <= _GAP_LIMIT:
                _match(old, new, gap, runs)
    return sorted(runs)


def _trimmed(
    old: Sequence[Hashable], new: Sequence[Hashable], span: _DifferingRun, runs: list[_Run]
) -> _DifferingRun:
    """Add the common head and tail of a span to the runs, and return what is between."""
    a, b, c, d = span
    shorter = min(b - a, d - c)
    head = next((step for step in range(shorter) if old[a + step] != new[c + step]), shorter)
    rest = shorter - head
    tail = next((step for step in range(rest) if old[b - 1 - step] != new[d - 1 - step]), rest)
    runs += [run for run in ((a, c, head), (b - tail, d - tail, tail)) if run[2]]
    return a + head, b - tail, c + head, d - tail


def _match(old: Sequence[Hashable], new: Sequence[Hashable], span: _DifferingRun, runs: list[_Run]) -> None:
    a, b, c, d = span
    matcher = SequenceMatcher(None, old[a:b], new[c:d], autojunk=False)
    runs += [(a + i, c + j, size) for i, j, size in matcher.get_matching_blocks() if size]


def _anchors(old: Sequence[Hashable], new: Sequence[Hashable]) -> list[tuple[int, int]]:
    """The longest rising series of items that both sequences have once, as indexes into both."""
    once_in_old = {item for item, count in Counter(old).items() if count == 1}
    places = {item: place for place, item in enumerate(new) if item in once_in_old}
    repeated = {item for item, count in Counter(new).items() if count > 1}
    pairs = [(i, places[item]) for i, item in enumerate(old) if item in places and item not in repeated]
    ends: list[int] = []  # the least end of a rising series of each length
    last: list[int] = []  # the pair that each of them ends with
    before: list[int] = []  # the pair before each pair
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(ends, j)
        ends[length : length + 1] = [j]
        last[length : length + 1] = [index]
        before.append(last[length - 1] if length else -1)
    series, index = [], last[-1] if last else -1
    while index >= 0:
        series.append(pairs[index])
        index = before[index]
    return series[::-1]


def semantically_equal(first: JSON, second: JSON) -> bool:
    """Tell whether two values are equal under ``equality.Semantic.DeepEqual``.

    Null, the empty string, and empty objects and arrays count as absent members.
    """
    return identical(_without_empty(first), _without_empty(second))


def differing_pointers(first: JSON, second: JSON) -> list[str]:
    """The JSON Pointers at which two values are semantically unequal; they reveal no contents."""
    return [operation["path"] for operation in diff(_without_empty(first), _without_empty(second))]


def _without_empty(value: JSON) -> JSON:
    if isinstance(value, dict):
        cleaned = {name: _without_empty(child) for name, child in value.items()}
        return {name: child for name, child in cleaned.items() if not _is_empty(child)} or None
    if isinstance(value, list):
        return [_without_empty(item) for item in value] or None
    return None if value == "" else value


def _is_empty(value: JSON) -> bool:
    return value is None or value == ""
