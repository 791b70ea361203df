"""Structured merge: an apply configuration merged into an object by the schema of its kind.

Source: ``sigs.k8s.io/structured-merge-diff/v6/typed``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence

from pratique.apimachinery.errors import PratiqueError
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


def _conforms(kind: Type, value: JSON) -> bool:
    """Whether a value surely has no type errors and sets nothing atomic, found in one walk without paths."""
    if value is None or kind is Scalar.ANY:
        return True
    match kind:
        case Structure():
            return isinstance(value, dict) and not kind.atomic and _fields_conform(kind, value)
        case MapType():
            return (
                isinstance(value, dict)
                and not kind.atomic
                and all(_conforms(kind.values, child) for child in value.values())
            )
        case ListType():
            return isinstance(value, list) and _items_conform(kind, value)
        case Scalar():
            return not _scalar_error(kind, value)
    return False


def _fields_conform(kind: Structure, value: JSONObject) -> bool:
    for name, child in value.items():
        field = kind.fields.get(name)
        if (not kind.open) if field is None else not _conforms(field, child):
            return False
    return True


def _items_conform(kind: ListType, items: list[JSON]) -> bool:
    if kind.merge is MergeStrategy.ATOMIC:
        return False
    try:
        elements = set(_elements(kind, items))
    except UnidentifiedItemError:
        return False
    return len(elements) == len(items) and all(_conforms(kind.items, item) for item in items)


def merge(kind: Type, left: JSON, right: JSON) -> JSON:
    """Merge two present values. Neither is changed; the result may share parts with both.

    Raises:
        UnidentifiedItemError: an item of a list on the left has no identity.
    """
    if isinstance(left, dict) and isinstance(right, dict) and (left or right):
        return _merged_fields(kind, left, right)
    if isinstance(kind, ListType) and kind.merge is not MergeStrategy.ATOMIC:
        if isinstance(left, list) and isinstance(right, list) and (left or right):
            return [
                _merged(kind.items, left_item, right_item)
                for left_item, right_item in _pairs(kind, left, right)
            ]
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

    Items of the right list keep their order, and items that only the left list has keep their place among its others.
    A duplicate item of the left list is not merged: the item of the right list replaces it.
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
    """Tell whether an item of both lists comes later in the right list than the next shared item."""
    return wanted is not None and bool(shared) and shared[0] != element


def _elements(kind: ListType, items: Sequence[JSON]) -> list[str]:
    return [item_element(kind, item) for item in items]


def _unique(elements: Sequence[str], items: Sequence[JSON]) -> Mapping[str, JSON]:
    """Items by path element; None for a duplicate."""
    found: dict[str, JSON] = {}
    for element, item in zip(elements, items, strict=True):
        found[element] = None if element in found else item
    return found


class ApplyError(PratiqueError):
    """An apply configuration cannot be applied. The message is the API server's."""


def structured_apply(kind: Structure, stored: JSONObject, part: JSONObject) -> JSONObject:
    """Apply ``part``, an apply configuration, to an object. Neither is changed.

    Raises:
        ApplyError: ``part`` does not conform to the schema, or sets an atomic field.
    """
    typed = {"apiVersion": stored.get("apiVersion"), "kind": stored.get("kind")}
    part = part | {name: value for name, value in typed.items() if value is not None}
    if not _conforms(kind, part):
        _check(kind, part)
    try:
        merged: JSONObject = merge(kind, stored, part)
    except UnidentifiedItemError as error:
        raise ApplyError(f"failed to merge patch: {error}") from None
    return merged


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
