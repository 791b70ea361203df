"""Lists whose items must be unique: ``x-kubernetes-list-type: set`` and ``map``.

Source: ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator

from pratique.apimachinery.field_errors import FieldError, duplicate, invalid
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.custom_resources.structural import Structural
from pratique.registry.custom_resources.value_validation import field_path, shown


def uniqueness(schema: Structural) -> Callable[[JSON], bool] | None:
    """Compile a function that tells whether a value surely has no duplicates; None if there can be none."""
    members = {
        name: check for name, child in schema.properties.items() if (check := uniqueness(child)) is not None
    }
    values = uniqueness(schema.additional) if schema.additional is not None else None
    items = uniqueness(schema.items) if schema.items is not None else None
    has_keys = schema.list_type in ("set", "map")
    if not (members or values or items or has_keys):
        return None

    def is_unique(value: JSON) -> bool:
        if type(value) is list:
            return (not has_keys or _has_distinct_items(value, schema)) and (
                items is None or all(map(items, value))
            )
        if type(value) is not dict:
            return True
        if values is not None and not all(map(values, value.values())):
            return False
        return all(check(value[name]) for name, check in members.items() if name in value)

    return is_unique


def _has_distinct_items(items: list[JSON], schema: Structural) -> bool:
    keys = schema.map_keys
    if schema.list_type == "map":
        if len(keys) != 1 or any(type(item) is not dict for item in items):
            return next(validate_lists(items, schema), None) is None
        key = keys[0]
        items = [item.get(key) for item in items]
    try:
        return len(set(items)) == len(items)  # 1 and true count as equal, which is then found out to be wrong
    except TypeError:
        return False


def validate_lists(value: JSON, schema: Structural, path: str = "") -> Iterator[FieldError]:
    """Find duplicates in the lists of a value that are sets or maps."""
    if isinstance(value, list):
        if schema.list_type == "set":
            for index in _repeated(value):
                yield duplicate(field_path(f"{path}[{index}]"), shown(value[index]))
        elif schema.list_type == "map":
            yield from _validate_map(value, schema.map_keys, path)
        if schema.items is not None:
            for index, item in enumerate(value):
                yield from validate_lists(item, schema.items, f"{path}[{index}]")
    elif isinstance(value, dict):
        yield from _validate_members(value, schema, path)


def _validate_members(value: JSONObject, schema: Structural, path: str) -> Iterator[FieldError]:
    if schema.additional is not None:
        for name in sorted(value):
            yield from validate_lists(value[name], schema.additional, f"{path}[{name}]")
    for name, child in sorted(schema.properties.items()):
        if name in value:
            yield from validate_lists(value[name], child, f"{path}.{name}" if path else name)


def _validate_map(items: list[JSON], keys: tuple[str, ...], path: str) -> Iterator[FieldError]:
    for index, item in enumerate(items):
        if item is not None and not isinstance(item, dict):
            message = "must be an object for an array of list-type map"
            yield invalid(field_path(f"{path}[{index}]"), shown(item), message)
            return
    found = [{key: item[key] for key in keys if key in item} if item else {} for item in items]
    for index in _repeated(found):
        yield duplicate(field_path(f"{path}[{index}]"), shown(found[index]))


def _repeated(items: list[JSON]) -> list[int]:
    """The indexes at which items appear for the second time: ``validateListSet``."""
    seen: dict[Hashable, int] = {}
    repeated = []
    for index, item in enumerate(items):
        key = (type(item), shown(item) if isinstance(item, dict | list) else item)
        seen[key] = seen.get(key, 0) + 1
        if seen[key] == 2:
            repeated.append(index)
    return repeated
