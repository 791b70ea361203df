"""Apply configurations held against the schema of their kind: the errors of their types, and what they may not set.

Source: ``sigs.k8s.io/structured-merge-diff/v6/typed``.
"""

from __future__ import annotations

from collections.abc import Iterator

from pratique.apimachinery.go_formats import go_syntax, go_text, go_type_of
from pratique.apimachinery.json_values import JSON, JSONObject, encode
from pratique.apimachinery.statuses import go_quoted
from pratique.cluster.schemas import ListType, MapType, MergeStrategy, Scalar, Structure, Type


class UnidentifiedItemError(Exception):
    """An item of a merged list cannot be identified."""


def field_element(name: str) -> str:
    """The path element of a field: ``.spec``."""
    return f".{name}"


def index_element(index: int) -> str:
    """The path element of an item in an atomic list: ``[0]``."""
    return f"[{index}]"


def item_element(kind: ListType, item: JSON) -> str:
    """The path element that identifies an item of a merged list: ``[name="a"]``, or ``[="a"]`` in a set.

    Raises:
        UnidentifiedItemError: the item has no identity.
    """
    if kind.merge is MergeStrategy.SET or not kind.keys:
        return f"[={_scalar(item)}]"
    if item is None:
        raise UnidentifiedItemError("associative list with keys may not have a null element")
    if not isinstance(item, dict):
        raise UnidentifiedItemError("associative list with keys may not have non-map elements")
    if len(kind.keys) == 1 and (key := kind.keys[0]) in item:
        return f"[{key}={_text(item[key])}]"  # the usual case
    keys = dict(_keys(kind, item))
    if not keys:
        named = " ".join(map(go_quoted, kind.keys))
        raise UnidentifiedItemError(
            f"associative list with keys has an element that omits all key fields [{named}] (and doesn't have"
            " default values for any key fields)"
        )
    return f"[{','.join(f'{name}={_text(value)}' for name, value in sorted(keys.items()))}]"


def key_texts(kind: ListType, items: list[JSON]) -> list[str] | None:
    """The strings that identify the items of a merged list, if each has its only key, or is one itself.

    None means that only :func:`item_element` can tell the items apart.
    """
    try:
        texts = [item[kind.keys[0]] for item in items] if kind.keys else items
    except (TypeError, LookupError):
        return None
    return texts if len(kind.keys) < 2 and all(type(text) is str for text in texts) else None


def _keys(kind: ListType, item: JSONObject) -> Iterator[tuple[str, JSON]]:
    defaults = kind.items.defaults if isinstance(kind.items, Structure) else {}
    for key in kind.keys:
        if key in item:
            yield key, item[key]
        elif key in defaults:
            yield key, defaults[key]


def _scalar(item: JSON) -> str:
    if isinstance(item, dict):
        raise UnidentifiedItemError("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise UnidentifiedItemError("not supported: associative list with lists as elements")
    if item is None:
        raise UnidentifiedItemError("associative list without keys has an element that's an explicit null")
    return _text(item)


def _text(value: JSON) -> str:
    return go_quoted(value) if isinstance(value, str) else encode(value).decode()


_TEXTS = frozenset({Scalar.STRING, Scalar.BYTES})
_NUMBERS = frozenset({Scalar.INTEGER, Scalar.NUMBER})


def type_errors(kind: Type, value: JSON, path: str = "") -> Iterator[str]:
    """The errors of a value against a type, each with its path; null conforms to every type."""
    if value is None or kind is Scalar.ANY:
        return
    match kind:
        case ListType():
            yield from _list_errors(kind, value, path)
        case MapType() | Structure():
            yield from _map_errors(kind, value, path)
        case Scalar():
            problem = _scalar_error(kind, value)
            if problem:
                yield _at(path, problem)


def _at(path: str, problem: str) -> str:
    return f"{path}: {problem}" if path else problem


def _map_errors(kind: MapType | Structure, value: JSON, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield _at(path, f"expected map, got &{{{go_text(value)}}}")
        return
    for name, child in value.items():
        inner = path + field_element(name)
        found = kind.values if isinstance(kind, MapType) else kind.fields.get(name)
        if found is not None:
            yield from type_errors(found, child, inner)
        elif isinstance(kind, Structure) and not kind.open:
            yield _at(inner, "field not declared in schema")


def _list_errors(kind: ListType, value: JSON, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield _at(path, f"expected list, got &{{{go_text(value)}}}")
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = index_element(index)
        if kind.merge is not MergeStrategy.ATOMIC:
            try:
                element = item_element(kind, item)
            except UnidentifiedItemError as error:
                yield _at(path, f"element {index}: {error}")
                return
            if element in seen:
                yield _at(path, f"duplicate entries for key {element}")
            seen.add(element)
        yield from type_errors(kind.items, item, path + element)


def _scalar_error(kind: Scalar, value: JSON) -> str:
    if kind in _TEXTS:
        return (
            ""
            if isinstance(value, str)
            else f"expected string, got &value.valueUnstructured{{Value:{go_syntax(value)}}}"
        )
    if kind in _NUMBERS:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return "" if is_number else f"expected numeric (int or float), got {go_type_of(value)}"
    if kind is Scalar.BOOLEAN:
        return "" if isinstance(value, bool) else f"expected boolean, got &{{{go_text(value)}}}"
    return f"expected any scalar, got &{{{go_text(value)}}}" if isinstance(value, dict | list) else ""


def atomic_paths(kind: Type | None, value: JSON, path: str = "") -> Iterator[str]:
    """The paths at which a value sets an atomic list, map or structure.

    As in the API server, the values of a map are not searched.
    """
    if isinstance(value, dict) and isinstance(kind, MapType | Structure):
        yield from _atomic_fields(kind, value, path)
    elif isinstance(value, list) and isinstance(kind, ListType):
        if kind.merge is MergeStrategy.ATOMIC:
            yield path
        for index, item in enumerate(value):
            yield from atomic_paths(kind.items, item, path + index_element(index))


def _atomic_fields(kind: MapType | Structure, value: JSONObject, path: str) -> Iterator[str]:
    if kind.atomic:
        yield path
    fields = kind.fields if isinstance(kind, Structure) else {}
    for name, child in value.items():
        if name in fields:
            yield from atomic_paths(fields[name], child, path + field_element(name))


def is_applicable(kind: Type, value: JSON) -> bool:
    """Whether a value surely has no type errors and sets nothing atomic, found in one walk without paths."""
    if value is None or kind is Scalar.ANY or (kind is Scalar.STRING and type(value) is str):
        return True
    match kind:
        case Structure():
            return isinstance(value, dict) and not kind.atomic and _fields_conform(kind, value)
        case MapType():
            return (
                isinstance(value, dict)
                and not kind.atomic
                and all(is_applicable(kind.values, child) for child in value.values())
            )
        case ListType():
            return isinstance(value, list) and _items_conform(kind, value)
        case Scalar():
            return not _scalar_error(kind, value)
    return False


def _fields_conform(kind: Structure, value: JSONObject) -> bool:
    for name, child in value.items():
        field = kind.fields.get(name)
        if (not kind.open) if field is None else not is_applicable(field, child):
            return False
    return True


def _items_conform(kind: ListType, items: list[JSON]) -> bool:
    if kind.merge is MergeStrategy.ATOMIC:
        return False
    try:
        elements = set(key_texts(kind, items) or [item_element(kind, item) for item in items])
    except UnidentifiedItemError:
        return False
    return len(elements) == len(items) and all(is_applicable(kind.items, item) for item in items)
