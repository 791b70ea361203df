"""Lists and maps of objects: where the types of Kubernetes have them, and objects in which one of them is large.

What items look like is taken from objects that a real API server took: ``tests/data/stored_objects``.
"""

from __future__ import annotations

import functools
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from pratique.apimachinery.json_values import JSON, JSONObject, encode
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cluster.go_types import GoField, GoKind, GoType, go_type_of_kind

CROWDED = "crowded"
STYLES = ("distinct", CROWDED, "sparse", "alike", "same")
"""Items that differ in each of their texts and numbers; the same beside as much in the lists and maps around them;
items that have nothing but what tells them apart; that differ in one text alone; that do not differ."""

_LEAST_BYTES = 8
"""What an item counts as at least: a body may hold no more than 600,000 values."""
_FOLDER = Path(__file__).parents[1] / "data" / "stored_objects"
_CONTAINERS = frozenset({GoKind.LIST, GoKind.MAP})
_VALUES: Mapping[GoKind, JSON] = {
    GoKind.BOOL: True,
    GoKind.FLOAT: 1.5,
    GoKind.BYTES: "YQ==",
    GoKind.TIME: "2026-11-28T10:00:00Z",
    GoKind.MICRO_TIME: "2026-11-28T10:00:00.000000Z",
    GoKind.QUANTITY: "1",
    GoKind.INT_OR_STRING: 1,
    GoKind.SCHEMA: {"type": "string"},
    GoKind.ANY: {},
}
_WORDS = {
    "fieldPath": "metadata.name",
    "apiGroup": "rbac.authorization.k8s.io",
    "expression": "true",
    "namespace": "shop",
    "strategy": "Webhook",
    "rule": "true",
    "valueExpression": "'a'",
    "type": "object",
}
"""What fields of these names have where no stored object has one."""
_IDENTIFYING = (
    "name",
    "key",
    "uid",
    "ip",
    "hostname",
    "path",
    "mountPath",
    "devicePath",
    "value",
    "type",
    "image",
)
_UNFILLED = frozenset({"managedFields"})
"""What an API server writes, and users do not."""
_RESOURCES = frozenset(
    {"limits", "requests", "capacity", "allocatable", "hard", "used", "overhead", "podFixed"}
)


class Filling(NamedTuple):
    """What fills a list or map."""

    style: str
    size: int
    number: int


class Place(NamedTuple):
    """A list or a map of a kind."""

    kind: GroupVersionKind
    path: tuple[str, ...]
    """The names of the fields that lead to it; of lists on the way, their first item."""
    struct: str
    """The type whose field it is."""

    @property
    def field(self) -> str:
        return f"{self.struct}.{self.path[-1]}"

    def __str__(self) -> str:
        return f"{self.kind.api_version} {self.kind.kind} {'.'.join(self.path)}"


def places(kind: GroupVersionKind) -> list[Place]:
    """Each list and map of a kind once, at the shortest path to it."""
    root = go_type_of_kind(kind)
    seen: set[tuple[str, str]] = set()
    found: list[Place] = []
    waiting: list[tuple[tuple[str, ...], GoType]] = [] if root is None else [((), root)]
    for path, type_ in waiting:
        for name, field in type_.fields.items():
            if name in _UNFILLED or (type_.full_name, name) in seen:
                continue
            seen.add((type_.full_name, name))
            inner = field.type
            if inner.kind in _CONTAINERS:
                found.append(Place(kind, (*path, name), type_.full_name))
                inner = inner.items or inner
            inner = inner.items if inner.kind is GoKind.SCHEMA and inner.items is not None else inner
            if inner.kind is GoKind.STRUCT:
                waiting.append(((*path, name), inner))
    return found


def filled(place: Place, style: str, size: int, number: int = 0) -> JSONObject:
    """A valid enough object of about ``size`` bytes, nearly all in one list or map; its items count from ``number``."""
    root = go_type_of_kind(place.kind)
    assert root is not None
    named: JSONObject = {"apiVersion": place.kind.api_version, "kind": place.kind.kind}
    document = {**named, **_base(place.kind), **named}
    document["metadata"] = {"name": "web", **(document.get("metadata") or {})}
    return _with_large(document, root, place.path, Filling(style, size, number))


def _with_large(value: Any, type_: GoType, path: tuple[str, ...], filling: Filling) -> JSONObject:
    """A copy of an object with something large at ``path``."""
    name, *rest = path
    field = type_.fields[name]
    if not rest and filling.style == CROWDED:
        others = [
            one for one in type_.fields.values() if one.type.kind in _CONTAINERS and one.name not in _UNFILLED
        ]
        half = Filling("distinct", filling.size // 2, filling.number)
        share = half._replace(size=half.size // len(others))
        return {
            **value,
            **{one.name: _large(type_, one, share) for one in others},
            name: _large(type_, field, half),
        }
    if not rest:
        return {**value, name: _large(type_, field, filling)}
    inner, present = field.type, value.get(name)
    if inner.kind is GoKind.LIST and inner.items is not None:
        items = present if isinstance(present, list) and present else [_example(type_, field)[0]]
        return {**value, name: [_inside(items[0], inner.items, rest, filling), *items[1:]]}
    if inner.kind is GoKind.MAP and inner.items is not None:
        members = present if isinstance(present, dict) and present else {"a": _example(type_, field)[0]}
        first = next(iter(members))
        return {**value, name: {**members, first: _inside(members[first], inner.items, rest, filling)}}
    return {**value, name: _inside(present, inner, rest, filling)}


def _inside(value: Any, type_: GoType, rest: list[str], filling: Filling) -> JSONObject:
    inner = type_.items if type_.kind is GoKind.SCHEMA and type_.items is not None else type_
    return _with_large(value if isinstance(value, dict) else _made(inner, 1), inner, tuple(rest), filling)


def _large(type_: GoType, field: GoField, filling: Filling) -> JSON:
    items = field.type.items
    assert items is not None
    examples, used = _example(type_, field), 0
    made: list[JSON] = []
    while used < filling.size:
        item = varied(examples[len(made) % len(examples)], items, filling.number + len(made), filling.style)
        made.append(item)
        used += max(len(encode(item)), _LEAST_BYTES) + (12 if field.type.kind is GoKind.MAP else 1)
    if field.type.kind is GoKind.LIST:
        return made
    prefix = "example.com/r" if field.name in _RESOURCES else "k"
    return {f"{prefix}{index}": item for index, item in enumerate(made, filling.number)}


def varied(example: JSON, type_: GoType | None, index: int, style: str) -> JSON:
    """An item like another one, the ``index``-th of its list."""
    if style == "same":
        return example
    if not isinstance(example, dict | list):
        return _scalar(example, None, index)
    if not isinstance(example, dict):
        return _all_varied(example, type_, index)
    told_apart = next((name for name in (*_IDENTIFYING, *example) if isinstance(example.get(name), str)), "")
    if style == "sparse":
        return {told_apart: _text(example[told_apart], index)} if told_apart else {}
    if style == "alike":
        return example | {told_apart: _text(example[told_apart], index)} if told_apart else example
    return _all_varied(example, type_, index)


def _all_varied(example: JSON, type_: GoType | None, index: int) -> JSON:
    if isinstance(example, list):
        return [_all_varied(item, None if type_ is None else type_.items, index) for item in example]
    if not isinstance(example, dict):
        return _scalar(example, type_, index)
    fields = type_.fields if type_ is not None and type_.kind is GoKind.STRUCT else {}
    return {
        f"{name}{index}" if "/" in name else name: _all_varied(
            value, fields[name].type if name in fields else None, index
        )
        for name, value in example.items()
    }


def _scalar(value: JSON, type_: GoType | None, index: int) -> JSON:
    """Another value of the same type: enumerations have types of their own, and stay."""
    is_free = type_ is None or type_.name in {"string", "int32", "int64", "types.UID"}
    if isinstance(value, str) and is_free:
        return _text(value, index)
    if isinstance(value, int) and not isinstance(value, bool) and is_free:
        return value + index % 30_000
    return value


def _text(value: str, index: int) -> str:
    if value.count(".") == 3 and value.replace(".", "").isdigit():
        return f"10.{index // 62_500 % 250}.{index // 250 % 250}.{index % 250 + 1}"
    return f"{value}{index}" if value[-1:].isalnum() else f"{value}a{index}"


@functools.cache
def _stored() -> tuple[JSONObject, ...]:
    rows = [
        json.loads(line)
        for name in ("objects", "drawn")
        for line in (_FOLDER / f"{name}.jsonl").read_text().splitlines()
    ]
    taken = [row for row in rows if row.get("code", row.get("expected", {}).get("code", 0)) < 300]
    return tuple(row.get("object") or row["body"] for row in taken)


_AMOUNTS = {"cpu": "1", "example.com/r": "1"}
_CONTAINER = {"name": "c", "image": "web:1", "resources": {"requests": _AMOUNTS, "limits": _AMOUNTS}}
_POD: JSONObject = {
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {
        "runtimeClassName": "kata",
        "serviceAccountName": "default",
        "priorityClassName": "low",
        "containers": [_CONTAINER],
    },
}
"""One that controllers look up much for."""


@functools.cache
def _base(kind: GroupVersionKind) -> JSONObject:
    """The smallest object of a kind that a real API server took; without one, one that is made up."""
    if kind.kind == "Pod" and not kind.group:
        return _POD
    found = [
        one for one in _stored() if (one.get("apiVersion"), one.get("kind")) == (kind.api_version, kind.kind)
    ]
    root = go_type_of_kind(kind)
    made = {} if root is None else _made(root, 3)
    smallest = min(found, key=lambda one: len(encode(one)), default=made)
    metadata = {
        key: value for key, value in (smallest.get("metadata") or {}).items() if key in {"name", "namespace"}
    }
    return {**{key: value for key, value in smallest.items() if key != "status"}, "metadata": metadata}


@functools.cache
def _seen() -> dict[tuple[str, str], list[JSON]]:
    """What fields of types had in stored objects; of lists and maps, their items. Without a field: what types had."""
    found: dict[tuple[str, str], list[JSON]] = defaultdict(list)
    for document in _stored():
        group, _, version = document.get("apiVersion", "").rpartition("/")
        type_ = go_type_of_kind(GroupVersionKind(group, version, document.get("kind", "")))
        if type_ is not None:
            for struct, name, value in _walk(document, type_):
                found[struct, name].append(value)
    return found


def _walk(value: Any, type_: GoType) -> Iterator[tuple[str, str, JSON]]:
    for name, field in type_.fields.items():
        written = value.get(name) if isinstance(value, dict) else None
        if written is None:
            continue
        inner = field.type
        parts = [written]
        if inner.kind in _CONTAINERS:
            parts = list(written.values()) if isinstance(written, dict) else list(written)
            inner = inner.items or inner
        for part in parts:
            yield type_.full_name, name, part
            yield "", inner.name, part
            if inner.kind is GoKind.STRUCT:
                yield from _walk(part, inner)


@functools.cache
def _example(type_: GoType, field: GoField) -> list[JSON]:
    """What a field, or the items of one, looked like: the fullest, and the same with all scalars that it may have."""
    if (type_.struct_name, field.name) == ("PodSpec", "containers"):
        return [_CONTAINER]
    seen = sorted(_seen().get((type_.full_name, field.name), ()), key=lambda one: -len(encode(one)))
    inner = (field.type.items if field.type.kind in _CONTAINERS else None) or field.type
    if not seen:
        return [_made(inner, 2, field.name)]
    if inner.kind is not GoKind.STRUCT:
        return seen[:1]
    scalars = {
        one.name: _made(one.type, 0, one.name)
        for one in inner.fields.values()
        if one.type.kind in {GoKind.STRING, GoKind.INTEGER}
    }
    examples = [seen[0], {**scalars, **seen[0]}]
    return [one for one in examples if _all_varied(one, inner, 0) != _all_varied(one, inner, 1)] or examples


def _made(type_: GoType, depth: int, name: str = "") -> Any:
    """A value of a type that nobody stored, ``depth`` levels deep."""
    match type_.kind:
        case GoKind.STRING:
            words = () if type_.name == "string" else _seen().get(("", type_.name), ())
            return words[0] if words else _WORDS.get(name, "a")
        case GoKind.INTEGER:
            return 1
        case GoKind.LIST:
            return [_made(type_.items, depth - 1, name)] if type_.items is not None and depth > 0 else []
        case GoKind.MAP:
            return {"a": _made(type_.items, depth - 1, name)} if type_.items is not None and depth > 0 else {}
        case GoKind.STRUCT:
            return {
                field.name: _example(type_, field)[0]
                if field.type.kind not in _CONTAINERS and depth == 1
                else _made(field.type, depth - 1, field.name)
                for field in type_.fields.values()
                if depth > 0 and (field.type.kind is not GoKind.STRUCT or not field.type.is_pointer)
            }
        case _:
            return _VALUES[type_.kind]
