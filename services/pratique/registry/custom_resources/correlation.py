"""Values of an update beside the stored ones, so that errors of unchanged values can be dropped.

Sources: ``k8s.io/apiserver/pkg/cel/common/{equality,maplist}.go``. Numbers of different types differ, as in Go.
"""

from __future__ import annotations

from typing import Final

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.custom_resources.structural import Structural

_SCALARS = frozenset({bool, int, float, str})


def deep_equal(left: JSON, right: JSON) -> bool:
    """Whether two JSON values are equal and have the same types, as ``reflect.DeepEqual`` has it."""
    kind = type(left)
    if kind is not type(right):
        return False
    if kind is dict:
        return len(left) == len(right) and all(
            name in right and deep_equal(value, right[name]) for name, value in left.items()
        )
    if kind is list:
        return len(left) == len(right) and all(map(deep_equal, left, right))
    return bool(left == right)


def _map_key(item: JSON, keys: tuple[str, ...]) -> tuple[tuple[type, JSON], ...] | None:
    """The key of an item of a map list; None if it has none: ``CompositeKeyFor``."""
    if not isinstance(item, dict):
        return None
    values = [item.get(key) for key in keys]
    if any(type(value) not in _SCALARS for value in values):
        return None
    return tuple((type(value), value) for value in values)


class MapList:
    """The items of a list of type ``map`` by their keys; the first of several with the same key."""

    def __init__(self, schema: Structural, items: JSON) -> None:
        self._keys = schema.map_keys
        self._items: dict[tuple[tuple[type, JSON], ...], JSONObject] = {}
        if schema.type == "array" and schema.list_type == "map" and self._keys and isinstance(items, list):
            for item in items:
                key = _map_key(item, self._keys)
                if key is not None:
                    self._items.setdefault(key, item)

    def find(self, item: JSON) -> JSONObject | None:
        """The item that has the key of another one."""
        key = _map_key(item, self._keys) if self._items else None
        return None if key is None else self._items.get(key)


_UNKNOWN: Final = object()


class Correlation:
    """A value of an update beside the stored value that it replaces."""

    __slots__ = ("_children", "_map_list", "_unchanged", "old", "schema", "value")

    def __init__(self, value: JSON, old: JSON, schema: Structural) -> None:
        self.value = value
        self.old = old
        self.schema = schema
        self._unchanged: bool | None = None
        self._map_list: MapList | None = None
        self._children: dict[str | int, Correlation] = {}

    def key(self, name: str) -> Correlation | None:
        """The member of an object; None if the schema or either object does not have it."""
        found = self._children.get(name)
        if found is not None:
            return found
        if not isinstance(self.old, dict) or not isinstance(self.value, dict):
            return None
        schema = self.schema.child(name)
        if schema is None or name not in self.old or name not in self.value:
            return None
        found = self._children[name] = Correlation(self.value[name], self.old[name], schema)
        return found

    def index(self, index: int) -> Correlation | None:
        """The item of a list; None if it has no counterpart, as in all lists that are no maps."""
        found = self._children.get(index)
        if found is not None:
            return found
        if not isinstance(self.old, list) or not isinstance(self.value, list) or len(self.value) <= index:
            return None
        if self.schema.list_type != "map" or self.schema.items is None:
            return None
        if self._map_list is None:
            self._map_list = MapList(self.schema, self.old)
        old = self._map_list.find(self.value[index])
        if old is None:
            return None
        found = self._children[index] = Correlation(self.value[index], old, self.schema.items)
        return found

    @property
    def is_unchanged(self) -> bool:
        """Whether the value equals the stored one: ``CachedDeepEqual``."""
        if self._unchanged is None:
            self._unchanged = self._compare()
        return self._unchanged

    def _compare(self) -> bool:
        value, old = self.value, self.old
        if type(value) is list and type(old) is list:
            return len(value) == len(old) and self._equal_items()
        if type(value) is dict and type(old) is dict:
            return len(value) == len(old) and all(
                child is not None and child.is_unchanged for child in map(self.key, value)
            )
        return deep_equal(value, old)

    def _equal_items(self) -> bool:
        for index in range(len(self.value)):
            child = self.index(index)
            if child is None:
                # Without a key to correlate by, the list is compared as a whole.
                return self._map_list is None and deep_equal(self.old, self.value)
            if not child.is_unchanged:
                return False
        return True
