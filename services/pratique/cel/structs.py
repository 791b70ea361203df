"""Structs, the equality and order of CEL values, and their conversion to JSON."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import msgspec

from pratique.apimachinery.json_values import JSON
from pratique.cel import costs
from pratique.cel.activation import Frame
from pratique.cel.declarations import PATCH, PATCH_FIELDS
from pratique.cel.errors import EvaluationError, NoSuchOverloadError
from pratique.cel.values import (
    OPTIONAL_NONE,
    Duration,
    Optional,
    Timestamp,
    Uint,
    Value,
    duration_text,
    optional_of,
    timestamp_text,
    type_name,
)

if TYPE_CHECKING:
    from pratique.cel.activation import Interpretable

_EMPTY_FIELDS = {"string": "", "dyn": None}


class Struct(msgspec.Struct, frozen=True):
    """A struct, as a mutation constructs it: ``Object``, ``Object.<path>`` or ``JSONPatch``."""

    cel_type: str
    """Its type's name, such as ``Object.spec``."""
    fields: dict[str, Value]
    """The fields that the expression sets, by name."""

    def find(self, name: Value) -> Optional:
        """Select a field, if it is set; an unset field of a ``JSONPatch`` has its empty value."""
        if name in self.fields:
            return optional_of(self.fields[name])
        if self.cel_type == PATCH and name in PATCH_FIELDS:
            return optional_of(_EMPTY_FIELDS[PATCH_FIELDS[name]])
        return OPTIONAL_NONE

    def has(self, name: Value) -> bool:
        """Whether a field is set; in a ``JSONPatch``, an empty string counts as unset."""
        return name in self.fields and (self.cel_type != PATCH or self.fields[name] != "")

    @property
    def is_well_named(self) -> bool:
        """Whether each nested struct has the type name that the path of its field asks for."""
        return _is_well_named(self, self.cel_type)

    def misnamed(self) -> Iterator[str]:
        """Describe each nested struct whose type name differs from the path of the field that holds it."""
        yield from _misnamed(self, self.cel_type)


def _is_well_named(value: Value, path: str) -> bool:
    kind = type(value)
    if kind is Struct:
        return value.cel_type == path and all(
            _is_well_named(child, f"{path}.{name}")
            for name, child in value.fields.items()
            if type(child) in _CONTAINERS
        )
    if kind is dict:
        value = value.values()
    return kind not in _CONTAINERS or all(_is_well_named(child, path) for child in value)


def _misnamed(value: Value, path: str) -> Iterator[str]:
    if isinstance(value, Struct):
        if value.cel_type != path:
            yield (
                f'unexpected type name "{value.cel_type}", expected "{path}", which matches field name path from'
                " root Object type"
            )
        for name, child in value.fields.items():
            yield from _misnamed(child, f"{path}.{name}")
    elif isinstance(value, list):
        for child in value:
            yield from _misnamed(child, path)
    elif isinstance(value, dict):
        for child in value.values():
            yield from _misnamed(child, path)


_CONTAINERS = frozenset({Struct, list, dict})


def plan_struct(kind: str, entries: Sequence[tuple[str, Interpretable, bool]]) -> Interpretable:
    """Plan ``Type{field: value, ?field: optional}``; the checker has checked that the type has the fields."""

    def make(frame: Frame) -> Value:
        fields: dict[str, Value] = {}
        for name, step, optional in entries:
            value = step(frame)
            if optional:
                if not value.present:
                    continue
                value = value.value
            fields[name] = value
        frame.charge(costs.STRUCT_CREATE_BASE_COST)
        return make_struct(kind, fields)

    return make


def make_struct(kind: str, fields: dict[str, Value]) -> Struct:
    """Make a struct. Raises EvaluationError if a field of a ``JSONPatch`` has the wrong type."""
    if kind == PATCH:
        _check_texts(fields)
    return Struct(kind, fields)


def _check_texts(fields: dict[str, Value]) -> None:
    for name, value in fields.items():
        if PATCH_FIELDS[name] == "string" and type(value) is not str:
            raise EvaluationError(f"unexpected type {type_name(value)} for JSONPatchType '{name}' field")


NUMERIC_TYPES = frozenset({int, Uint, float})
"""The numeric types, whose values compare with each other."""

_NO_ORDER = "NaN values cannot be ordered"
_ORDERED = frozenset({bool, str, bytes, Duration, Timestamp})


def equal(left: Value, right: Value, frame: Frame) -> bool:
    """Whether two values are equal; values of different types are not, except for numbers.

    Raises:
        NoSuchOverloadError: the right value has another type than the left one, and that is of Kubernetes' own: an IP
            address and the like, or a list or map in an object of a built-in kind.
    """
    kind, other = type(left), type(right)
    if kind is not other:
        return _equal_across_types(left, right, frame)
    if kind is list:
        return _equal_lists(left, right, frame)
    if kind is dict:
        return _equal_maps(left, right, frame)
    if kind is Optional:
        return left.present == right.present and equal(left.value, right.value, frame)
    if kind is Struct:
        return left.cel_type == right.cel_type and _equal_maps(left.fields, right.fields, frame)
    return bool(left == right)


class EscapedKey(str):
    """A key of a list's items that has another name in rules than in the object.

    Kubernetes looks for the name of rules in the object when it compares the list, and does not find it; when it adds
    to the list, it does.
    """

    __slots__ = ()


def _equal_lists(left: list[Value], right: list[Value], frame: Frame) -> bool:
    frame.add_work(len(left))
    if (keys := frame.list_keys(left)) is not None:
        return _equal_keyed(left, right, keys, frame)
    return len(left) == len(right) and _equal_in_turn(left, right, zip(left, right, strict=True), frame)


def _equal_keyed(left: list[Value], right: list[Value], keys: tuple[str, ...], frame: Frame) -> bool:
    """Whether a set, or a map by keys of its items, equals a list in any order."""
    if len(left) != len(right):
        return False
    read = tuple(None if isinstance(key, EscapedKey) else key for key in keys)
    items = {_item_key(item, read): item for item in left}
    seen = set()
    for other in right:
        key = _item_key(other, read)
        if key not in items or (keys and not equal(items[key], other, frame)):
            return False
        seen.add(key)
    return len(seen) == len(items)


def add_keyed(left: list[Value], right: list[Value], keys: tuple[str, ...]) -> list[Value]:
    """The union of a set, or of a map by keys of its items, and a list, whose items win."""
    merged = list(left)
    places = {_item_key(item, keys): place for place, item in enumerate(left)}
    for item in right:
        key = _item_key(item, keys)
        if key not in places:
            merged.append(item)
            if not keys:  # of what a map gets twice, it has both, as in Kubernetes
                places[key] = len(places)
        elif keys:
            merged[places[key]] = item
    return merged


def _item_key(item: Value, keys: tuple[str | None, ...]) -> tuple[Value, ...]:
    """What tells an item from others. Raises EvaluationError if it is a list or a map in a set."""
    if keys:
        fields = item if type(item) is dict else {}
        return tuple(_scalar_key(fields.get(key)) for key in keys)
    if type(item) in _COLLECTIONS:
        raise EvaluationError("listSet operations are only supported on lists of scalar values")
    return _scalar_key(item)


def _scalar_key(value: Value) -> tuple[Value, ...]:
    return (type(value), str(value) if type(value) in _COLLECTIONS else value)


def _equal_across_types(left: Value, right: Value, frame: Frame | None) -> bool:
    kind, other = type(left), type(right)
    if kind in NUMERIC_TYPES and other in NUMERIC_TYPES:
        return float(left) == float(right) if float in (kind, other) else bool(left == right)
    if right is None:
        return False
    if isinstance(getattr(kind, "cel_type", None), str):
        raise NoSuchOverloadError
    # generated code that compares with a literal has no frame, and leaves this to the plan
    if kind in _COLLECTIONS and (frame is None or frame.is_go_value(left)):
        raise NoSuchOverloadError
    return False


_COLLECTIONS = frozenset({list, dict})


def _equal_in_turn(left: Value, right: Value, pairs: Iterable[tuple[Value, Value]], frame: Frame) -> bool:
    """Whether no pair of members differs.

    cel-go takes no notice of two members that cannot be compared. Lists in objects of built-in kinds differ then, and
    Go's structs cannot be compared with what is none.
    """
    for mine, other in pairs:
        try:
            if not equal(mine, other, frame):
                return False
        except NoSuchOverloadError:
            if not frame.is_go_value(left):
                continue
            if type(left) is dict and not frame.is_go_value(right):
                raise
            return False
    return True


def _equal_maps(left: dict[Value, Value], right: dict[Value, Value], frame: Frame) -> bool:
    frame.add_work(len(left))
    if len(left) != len(right):
        return False
    if any(key not in right for key in left):
        return False
    return _equal_in_turn(left, right, ((value, right[key]) for key, value in left.items()), frame)


def compare(left: Value, right: Value) -> int:
    """Compare two values: -1, 0 or 1. Raises EvaluationError if they have no order."""
    kind, other = type(left), type(right)
    if kind is float and math.isnan(left):
        raise EvaluationError(_NO_ORDER)
    if kind in NUMERIC_TYPES and other in NUMERIC_TYPES:
        if math.isnan(right):
            raise EvaluationError(_NO_ORDER)
        if kind is not other and float in (kind, other):
            left, right = float(left), float(right)
    elif kind is not other or kind not in _ORDERED:
        raise NoSuchOverloadError
    return int(left > right) - int(left < right)


def contains(items: list[Value], value: Value, frame: Frame) -> bool:
    """Whether a list has an element that equals ``value``."""
    if type(value) is str:  # a string equals only strings, and Python compares those as CEL does
        return value in items
    return any(are_equal(value, item, frame) for item in items)


def are_equal(left: Value, right: Value, frame: Frame) -> bool:
    """Whether two values are equal; values that cannot be compared are not."""
    try:
        return equal(left, right, frame)
    except NoSuchOverloadError:
        return False


_MAX_JSON_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader preserves: ``common/types/int.go`` ``isJSONSafe``."""


def to_json(value: Value) -> JSON:
    """Convert a value to JSON. Integers that some JSON readers would round become strings.

    Raises:
        EvaluationError: JSON cannot represent the value.
    """
    return _write(value, exact=False)


def to_object(value: Value) -> JSON:
    """Convert a value to the JSON of a Kubernetes object, with integers of any size as numbers.

    Raises:
        EvaluationError: JSON cannot represent the value.
    """
    return _write(value, exact=True)


def _write(value: Value, *, exact: bool) -> JSON:
    match value:
        case str() | None | bool():
            return value
        case Struct():
            return {name: _write(child, exact=exact) for name, child in value.fields.items()}
        case dict():
            return {_key(name): _write(child, exact=exact) for name, child in value.items()}
        case list():
            return [_write(child, exact=exact) for child in value]
        case int():
            return (
                int(value) if exact or -_MAX_JSON_INTEGER <= value <= _MAX_JSON_INTEGER else str(int(value))
            )
        case _:
            return _write_other(value, exact=exact)


def _write_other(value: Value, *, exact: bool) -> JSON:
    if isinstance(value, Optional):
        return _write(value.value, exact=exact) if value.present else None
    write = _SCALARS.get(type(value))
    if write is None:
        raise EvaluationError(f"unsupported type conversion from '{type_name(value)}' to JSON")
    return write(value)


def _number(value: float) -> JSON:
    if math.isfinite(value):
        return value
    raise EvaluationError("JSON cannot represent infinite numbers or NaN")


_SCALARS: dict[type, Callable[[Value], JSON]] = {
    float: _number,
    bytes: lambda value: base64.b64encode(value).decode(),
    Duration: duration_text,
    Timestamp: timestamp_text,
}


def _key(key: Value) -> str:
    if isinstance(key, str):
        return key
    if isinstance(key, bool):
        return "true" if key else "false"
    if isinstance(key, int | Uint):
        return str(int(key))
    raise EvaluationError(f"JSON cannot represent a key of type '{type_name(key)}'")
