"""Conformity: whether a value is of a schema's type.

Source: ``sigs.k8s.io/structured-merge-diff/v6/typed/validate.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.go_values import go_syntax, go_text, go_type_of
from pratique.schemas import ListType, MapType, Merge, Scalar, Structure
from pratique.structured_merges.elements import (
    UnidentifiedError,
    field_element,
    index_element,
    item_element,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.json_values import JSON, JSONObject
    from pratique.schemas import Type

_TEXTS = frozenset({Scalar.STRING, Scalar.BYTES})
_NUMBERS = frozenset({Scalar.INTEGER, Scalar.NUMBER})


def faults(kind: Type, value: JSON, path: str = "") -> Iterator[str]:
    """Say all that keeps a value from being of a type, each with the path to it; null is of every type."""
    if value is None or kind is Scalar.ANY:
        return
    match kind:
        case ListType():
            yield from _list_faults(kind, value, path)
        case MapType() | Structure():
            yield from _map_faults(kind, value, path)
        case Scalar():
            problem = _scalar_fault(kind, value)
            if problem:
                yield _at(path, problem)


def _at(path: str, problem: str) -> str:
    return f"{path}: {problem}" if path else problem


def _map_faults(kind: MapType | Structure, value: JSON, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield _at(path, f"expected map, got &{{{go_text(value)}}}")
        return
    for name, child in value.items():
        inner = path + field_element(name)
        found = kind.values if isinstance(kind, MapType) else kind.fields.get(name)
        if found is not None:
            yield from faults(found, child, inner)
        elif isinstance(kind, Structure) and not kind.open:
            yield _at(inner, "field not declared in schema")


def _list_faults(kind: ListType, value: JSON, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield _at(path, f"expected list, got &{{{go_text(value)}}}")
        return
    seen: set[str] = set()
    for index, item in enumerate(value):
        element = index_element(index)
        if kind.merge is not Merge.ATOMIC:
            try:
                element = item_element(kind, item)
            except UnidentifiedError as error:
                yield _at(path, f"element {index}: {error}")
                return
            if element in seen:
                yield _at(path, f"duplicate entries for key {element}")
            seen.add(element)
        yield from faults(kind.items, item, path + element)


def _scalar_fault(kind: Scalar, value: JSON) -> str:
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


def atomics(kind: Type | None, value: JSON, path: str = "") -> Iterator[str]:
    """Find what a value sets as a whole that is never merged: the paths to it.

    As in the API server, what is under the fields of a map is not looked at.
    """
    if isinstance(value, dict) and isinstance(kind, MapType | Structure):
        yield from _atomic_fields(kind, value, path)
    elif isinstance(value, list) and isinstance(kind, ListType):
        if kind.merge is Merge.ATOMIC:
            yield path
        for index, item in enumerate(value):
            yield from atomics(kind.items, item, path + index_element(index))


def _atomic_fields(kind: MapType | Structure, value: JSONObject, path: str) -> Iterator[str]:
    if kind.atomic:
        yield path
    fields = kind.fields if isinstance(kind, Structure) else {}
    for name, child in value.items():
        if name in fields:
            yield from atomics(fields[name], child, path + field_element(name))
