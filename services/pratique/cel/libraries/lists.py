"""Lists, sets and optionals: Kubernetes' list library and cel-go's extensions.

Sources: ``k8s.io/apiserver/pkg/cel/library/lists.go``, ``github.com/google/cel-go/ext/lists.go`` (version 3) and
``ext/sets.go``, ``github.com/google/cel-go/cel/library.go``. The planner handles ``or`` and ``orValue`` itself, because
they evaluate their argument only where they need it.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Iterator

from pratique.cel.activation import Frame, Implementation
from pratique.cel.declarations import EXACT_FLATTEN, Library, Overload
from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.libraries.operators import add
from pratique.cel.libraries.strings import index_of, last_index_of, require_types
from pratique.cel.structs import are_equal, compare, contains
from pratique.cel.values import (
    OPTIONAL_NONE,
    Duration,
    Optional,
    Timestamp,
    Uint,
    Value,
    optional_of,
    to_text,
)

_PLAINLY_ORDERED = frozenset({str, int, bytes, bool})
"""Types whose values Python orders as CEL does."""
_SUMMABLE_TYPES = frozenset({int, Uint, float, Duration})
_COMPARABLE_TYPES = _SUMMABLE_TYPES | _PLAINLY_ORDERED | {Timestamp}
_SUMMABLE = ("int", "uint", "double", "duration")
_COMPARABLE = (*_SUMMABLE, "bool", "timestamp", "string", "bytes")


def _require_first(items: Value, kinds: frozenset[type]) -> None:
    """Check that a value is a list: cel-go chooses the overload by the first element alone."""
    require_types((list,), items)
    if items and type(items[0]) not in kinds:
        raise NoSuchOverloadError


def _order(left: Value, right: Value) -> int:
    """Compare two elements; those that have no order are as good as equal, as in Kubernetes' own functions."""
    if type(right) not in _COMPARABLE_TYPES:
        raise EvaluationError("no such overload")
    try:
        return compare(left, right)
    except EvaluationError:
        return 0


def _is_sorted(_: Frame, items: Value) -> bool:
    _require_first(items, _COMPARABLE_TYPES)
    kinds = set(map(type, items))
    if len(kinds) == 1 and kinds <= _PLAINLY_ORDERED:
        return all(map(operator.le, items, items[1:]))
    return all(_order(left, right) <= 0 for left, right in itertools.pairwise(items))


def _sum_from(zero: Value) -> Implementation:
    def run(frame: Frame, items: Value) -> Value:
        _require_first(items, _SUMMABLE_TYPES)
        try:
            return functools.reduce(functools.partial(add, frame), items) if items else zero
        except NoSuchOverloadError:
            raise EvaluationError("no such overload") from None

    return run


def _max_or_min(name: str, better: int) -> Implementation:
    def run(_: Frame, items: Value) -> Value:
        _require_first(items, _COMPARABLE_TYPES)
        if not items:
            raise EvaluationError(f"{name} called on empty list")
        return functools.reduce(lambda best, item: item if _order(best, item) == -better else best, items)

    return run


def _index_of(frame: Frame, items: Value, value: Value, start: Value = None) -> int:
    if type(items) is str:
        require_types((str, int), value, 0 if start is None else start)
        return index_of(items, value, start or 0)
    require_types((list, type(None)), items, start)
    return next((place for place, item in enumerate(items) if are_equal(item, value, frame)), -1)


def _last_index_of(frame: Frame, items: Value, value: Value, start: Value = None) -> int:
    if type(items) is str:
        require_types((str, int), value, 0 if start is None else start)
        return last_index_of(items, value, start)
    require_types((list, type(None)), items, start)
    places = range(len(items) - 1, -1, -1)
    return next((place for place in places if are_equal(items[place], value, frame)), -1)


def _slice(_: Frame, items: Value, start: Value, end: Value) -> list[Value]:
    require_types((list, int, int), items, start, end)
    if start < 0 or end < 0:
        raise EvaluationError(f"cannot slice({start}, {end}), negative indexes not supported")
    if start > end:
        raise EvaluationError(
            f"cannot slice({start}, {end}), start index must be less than or equal to end index"
        )
    if end > len(items):
        raise EvaluationError(f"cannot slice({start}, {end}), list is length {len(items)}")
    return list(items[start:end])


def _flatten(frame: Frame, items: Value, depth: Value = 1) -> list[Value]:
    require_types((list, int), items, depth)
    if depth < 0:
        raise EvaluationError("level must be non-negative")
    flat = list(_flattened(items, depth))
    frame.add_work(len(flat))
    return flat


def _flattened(items: list[Value], depth: int) -> Iterator[Value]:
    for item in items:
        if type(item) is list and depth > 0:
            yield from _flattened(item, depth - 1)
        else:
            yield item


def _range(_: Frame, length: Value) -> list[Value]:
    require_types((int,), length)
    if length < 0:
        raise EvaluationError(f"lists.range: size must be non-negative, got {length}")
    return list(range(length))


def _reverse(_: Frame, items: Value) -> list[Value]:
    require_types((list,), items)
    return list(items[::-1])


def _distinct(frame: Frame, items: Value) -> list[Value]:
    require_types((list,), items)
    found: list[Value] = []
    for item in items:
        frame.add_work(len(found))
        if not contains(found, item, frame):
            found.append(item)
    return found


def _sort(_: Frame, items: Value) -> list[Value]:
    require_types((list,), items)
    return _sorted_by(items, items)


def _sort_by(_: Frame, items: Value, keys: Value) -> list[Value]:
    require_types((list, list), items, keys)
    return _sorted_by(items, keys)


def _sorted_by(items: list[Value], keys: list[Value]) -> list[Value]:
    if any(type(key) is not type(keys[0]) for key in keys):
        raise EvaluationError("list elements must have the same type")
    pairs: list[tuple[Value, Value]] = list(zip(keys, items, strict=True))
    try:
        pairs.sort(key=functools.cmp_to_key(_compare_keys))
    except NoSuchOverloadError:
        raise EvaluationError("list elements must be comparable") from None
    return [item for _, item in pairs]


def _compare_keys(left: tuple[Value, Value], right: tuple[Value, Value]) -> int:
    return compare(left[0], right[0])


def _first(_: Frame, items: Value) -> Optional:
    require_types((list,), items)
    return optional_of(items[0]) if items else OPTIONAL_NONE


def _last(_: Frame, items: Value) -> Optional:
    require_types((list,), items)
    return optional_of(items[-1]) if items else OPTIONAL_NONE


def _aggregate_overloads() -> tuple[Overload, ...]:
    return (
        *(
            Overload(f"list_{kind}_is_sorted_bool", f"list<{kind}>.isSorted()", "bool")
            for kind in _COMPARABLE
        ),
        *(Overload(f"list_{kind}_sum_{kind}", f"list<{kind}>.sum()", kind) for kind in _SUMMABLE),
        *(Overload(f"list_{kind}_max_{kind}", f"list<{kind}>.max()", kind) for kind in _COMPARABLE),
        *(Overload(f"list_{kind}_min_{kind}", f"list<{kind}>.min()", kind) for kind in _COMPARABLE),
    )


_FLATTENING = (
    Overload("list_flatten", "list<list<~T>>.flatten()", "list<~T>"),
    Overload("list_flatten_int", "list<dyn>.flatten(int)", "list<dyn>"),
)
EXACT_FLATTEN_OVERLOADS = tuple(
    Overload(
        f"exact_{overload.identifier}", overload.signature.replace("flatten", EXACT_FLATTEN), overload.result
    )
    for overload in _FLATTENING
)
"""The signatures of ``flatten`` under another name, for a checker with one of its own."""
EXTENSION_OVERLOADS = (
    Overload("list_slice", "list<~T>.slice(int,int)", "list<~T>"),
    *_FLATTENING,
    Overload("list_range", "lists.range(int)", "list<int>"),
    Overload("list_reverse", "list<~T>.reverse()", "list<~T>"),
    Overload("list_distinct", "list<~T>.distinct()", "list<~T>"),
    *(Overload(f"list_{kind}_sort", f"list<{kind}>.sort()", f"list<{kind}>") for kind in _COMPARABLE),
)
"""The signatures of cel-go's extension, for a checker without its own, whose ``flatten`` takes lists of anything."""

LISTS = Library(
    overloads=(
        *_aggregate_overloads(),
        Overload("list_a_index_of_int", "list<~A>.indexOf(~A)", "int"),
        Overload("string_index_of_string", "string.indexOf(string)", "int"),
        Overload("string_index_of_string_int", "string.indexOf(string,int)", "int"),
        Overload("list_a_last_index_of_int", "list<~A>.lastIndexOf(~A)", "int"),
        Overload("string_last_index_of_string", "string.lastIndexOf(string)", "int"),
        Overload("string_last_index_of_string_int", "string.lastIndexOf(string,int)", "int"),
    ),
    functions={
        "isSorted": _is_sorted,
        "sum": _sum_from(0),
        "list_uint_sum_uint": _sum_from(Uint(0)),
        "list_double_sum_double": _sum_from(0.0),
        "list_duration_sum_duration": _sum_from(Duration(0)),
        "max": _max_or_min("max", 1),
        "min": _max_or_min("min", -1),
        "indexOf": _index_of,
        "lastIndexOf": _last_index_of,
        "slice": _slice,
        "flatten": _flatten,
        "lists.range": _range,
        "reverse": _reverse,
        "distinct": _distinct,
        "sort": _sort,
        "@sortByAssociatedKeys": _sort_by,
        "first": _first,
        "last": _last,
    },
)


def _sets_contains(frame: Frame, items: Value, part: Value) -> bool:
    require_types((list, list), items, part)
    return all(contains(items, item, frame) for item in part)


def _sets_equivalent(frame: Frame, left: Value, right: Value) -> bool:
    return _sets_contains(frame, left, right) and _sets_contains(frame, right, left)


def _sets_intersects(frame: Frame, left: Value, right: Value) -> bool:
    require_types((list, list), left, right)
    return any(contains(right, item, frame) for item in left)


SETS = Library(
    functions={
        "sets.contains": _sets_contains,
        "sets.equivalent": _sets_equivalent,
        "sets.intersects": _sets_intersects,
    }
)


def _optional_of(_: Frame, value: Value) -> Optional:
    return optional_of(value)


def _optional_of_non_zero(_: Frame, value: Value) -> Optional:
    """Give none for an empty string, list or map, zero, false and null."""
    return OPTIONAL_NONE if value is None or value in (0, "", b"", [], {}) else optional_of(value)


def _optional_none(_: Frame) -> Optional:
    return OPTIONAL_NONE


def _optional_value(_: Frame, optional: Value) -> Value:
    require_types((Optional,), optional)
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _has_value(_: Frame, optional: Value) -> bool:
    require_types((Optional,), optional)
    return bool(optional.present)


def _unwrap_optionals(_: Frame, items: Value) -> list[Value]:
    require_types((list,), items)
    for item in items:
        if type(item) is not Optional:
            raise EvaluationError(f"value {to_text(item)} is not optional")
    return [item.value for item in items if item.present]


OPTIONALS = Library(
    overloads=(
        Overload("optional_unwrap", "optional.unwrap(list<optional_type<~T>>)", "list<~T>"),
        Overload("optional_unwrapOpt", "list<optional_type<~T>>.unwrapOpt()", "list<~T>"),
    ),
    functions={
        "optional.of": _optional_of,
        "optional.ofNonZeroValue": _optional_of_non_zero,
        "optional.none": _optional_none,
        "value": _optional_value,
        "hasValue": _has_value,
        "optional.unwrap": _unwrap_optionals,
        "unwrapOpt": _unwrap_optionals,
    },
)
