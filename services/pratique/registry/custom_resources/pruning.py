"""Unknown fields, nulls and defaults of custom resources.

Objects are never changed in place: what changes nothing returns the same object. A compiled predicate finds out first
whether there is anything to do at all, which there seldom is.

Sources, below ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema``: ``pruning/algorithm.go``,
``defaulting/{algorithm,prunenulls}.go`` and ``options.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.custom_resources.structural import META_FIELDS, Structural

_CONTAINERS = frozenset({dict, list})


class UnknownFields:
    """The paths of the fields that were pruned: ``UnknownFieldPathOptions``."""

    def __init__(self) -> None:
        self.paths: list[str] = []

    def add(self, path: str, name: str) -> None:
        """Record a field of the object at a path."""
        self.paths.append(_member(path, name))


def _member(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def prune(
    value: JSON, schema: Structural | None, unknown: UnknownFields, path: str = "", *, is_root: bool = False
) -> JSON:
    """A value without the fields that its schema does not know; ``is_root`` says that it is a whole object."""
    if schema is not None and schema.preserves_unknown:
        return _prune_known(value, schema, unknown, path, is_root=is_root)
    if isinstance(value, dict):
        return _prune_members(value, schema, unknown, path, is_root=is_root)
    if isinstance(value, list):
        items = None if schema is None else schema.items
        return _changed_list(
            value, [prune(item, items, unknown, f"{path}[{index}]") for index, item in enumerate(value)]
        )
    return value


def _prune_members(
    value: JSONObject, schema: Structural | None, unknown: UnknownFields, path: str, *, is_root: bool
) -> JSONObject:
    kept: JSONObject = {}
    is_object = schema is not None and (schema.is_embedded or is_root)
    for name, member in value.items():
        if is_object and name in META_FIELDS:
            kept[name] = member
        elif schema is not None and (name in schema.properties or schema.is_open_map):
            kept[name] = prune(member, schema.child(name), unknown, _member(path, name))
        elif name not in META_FIELDS or path or schema is None:
            unknown.add(path, name)
    return _changed_object(value, kept)


def _prune_known(
    value: JSON, schema: Structural, unknown: UnknownFields, path: str, *, is_root: bool = False
) -> JSON:
    """A value whose unknown fields are kept, with its known ones pruned: ``skipPrune``."""
    if isinstance(value, dict):
        is_object = schema.is_embedded or is_root
        kept = {
            name: member
            if (is_object and name in META_FIELDS) or not (name in schema.properties or schema.is_open_map)
            else prune(member, schema.child(name), unknown, _member(path, name))
            for name, member in value.items()
        }
        return _changed_object(value, kept)
    if isinstance(value, list) and schema.items is not None:
        items = schema.items
        pruned = [_prune_known(item, items, unknown, f"{path}[{index}]") for index, item in enumerate(value)]
        return _changed_list(value, pruned)
    return value


def without_nulls(value: JSON, schema: Structural | None) -> JSON:
    """A value without nulls that are neither allowed nor replaced by a default."""
    if isinstance(value, dict):
        kept: JSONObject = {}
        for name, member in value.items():
            child = None if schema is None else schema.child(name)
            if member is not None or child is None or child.nullable or child.default is not None:
                kept[name] = without_nulls(member, child)
        return _changed_object(value, kept)
    if isinstance(value, list):
        items = None if schema is None else schema.items
        return _changed_list(value, [without_nulls(item, items) for item in value])
    return value


MAXIMUM_DEFAULTS = 1_000_000
"""How many values defaults may add to an object. A definition and an object of 3 MiB can make 100 million. 1,000,000:
each takes at least 2 bytes as JSON, and etcd stores 1.5 MiB in one object, so that no API server holds more."""


class TooManyDefaultsError(ValueError):
    """The defaults of a schema would add more values than :data:`MAXIMUM_DEFAULTS` to an object."""


def with_defaults(value: JSON, schema: Structural | None) -> JSON:
    """A value with the defaults of its schema.

    Raises:
        TooManyDefaultsError: these are too many.
    """
    return _Defaulting().fill(value, schema)


class _Defaulting:
    """Fills in defaults, and counts them."""

    def __init__(self) -> None:
        self._left = MAXIMUM_DEFAULTS

    def fill(self, value: JSON, schema: Structural | None) -> JSON:
        if schema is None:
            return value
        if isinstance(value, dict):
            return self._fill_members(value, schema)
        if isinstance(value, list) and schema.items is not None:
            items = schema.items
            return _changed_list(value, [self._fill_item(item, items) for item in value])
        return value

    def _fill_members(self, value: JSONObject, schema: Structural) -> JSONObject:
        filled = dict(value)
        for name, child in schema.properties.items():
            if child.default is not None and (
                name not in value or (value[name] is None and not child.nullable)
            ):
                filled[name] = self._copy(child.default)
        for name, member in filled.items():
            child_schema = schema.properties.get(name)
            if child_schema is not None:
                filled[name] = self.fill(member, child_schema)
            elif schema.additional is not None:
                filled[name] = self._fill_item(member, schema.additional)
        return _changed_object(value, filled)

    def _fill_item(self, value: JSON, schema: Structural) -> JSON:
        if value is None and not schema.nullable:
            value = self._copy(schema.default)
        return self.fill(value, schema)

    def _copy(self, default: JSON) -> JSON:
        """A copy of a default, whose values are counted first."""
        self._left -= 1
        if self._left < 0:
            raise TooManyDefaultsError
        if isinstance(default, dict):
            return {name: self._copy(member) for name, member in default.items()}
        return [self._copy(item) for item in default] if isinstance(default, list) else default


def _changed_object(before: JSONObject, after: JSONObject) -> JSONObject:
    if len(before) != len(after):
        return after
    return (
        before if all(name in before and before[name] is member for name, member in after.items()) else after
    )


def _changed_list(before: list[JSON], after: list[JSON]) -> list[JSON]:
    return before if all(old is new for old, new in zip(before, after, strict=True)) else after


Predicate: TypeAlias = Callable[[JSON], bool]


def completeness(schema: Structural, *, is_root: bool = False) -> Predicate:
    """Compile a function that tells whether a value surely has no unknown field, no null and no missing default."""
    has_members = schema.type == "object" or bool(schema.properties) or schema.is_open_map
    if not has_members and schema.items is None:
        return _is_scalar
    members = _complete_members(schema, is_root=is_root)
    items = completeness(schema.items) if schema.items is not None else _is_scalar

    def is_complete(value: JSON) -> bool:
        kind = type(value)
        if kind is dict:
            return members(value)
        return kind is not list or all(map(items, value))

    def is_complete_item(value: JSON) -> bool:
        return value is not None and is_complete(value)

    return is_complete_item


def _is_scalar(value: JSON) -> bool:
    return value is not None and type(value) not in _CONTAINERS


def _is_anything(_: JSON) -> bool:
    return True


def _complete_members(schema: Structural, *, is_root: bool) -> Predicate:
    known = {name: completeness(child) for name, child in schema.properties.items()}
    if is_root or schema.is_embedded:
        known |= dict.fromkeys(META_FIELDS, _is_anything)
    other: Predicate | None = completeness(schema.additional) if schema.additional is not None else None
    if other is None and schema.is_open_map:
        other = _is_scalar
    elif other is None and schema.preserves_unknown:
        other = _is_anything
    defaulted = frozenset(name for name, child in schema.properties.items() if child.default is not None)
    find = known.get

    def is_complete(value: JSONObject) -> bool:
        for name, member in value.items():
            check = find(name, other)
            if check is None or not check(member):
                return False
        return defaulted <= value.keys()

    return is_complete
