"""One or two changes of a manifest, of the kinds of mistakes that people and programs make."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import TypeAlias

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import kind_of
from pratique.cluster.go_types import GoField, GoKind, GoType, go_type_of_kind

Path: TypeAlias = tuple[str | int, ...]

_WORDS = (
    "x",
    "a b",
    "Bad_Name",
    "-a",
    "a" * 64,
    "a" * 260,
    "10.0.0.1",
    "10.0.0.0/33",
    "::1",
    "TCP",
    "tcp",
    "/a/../b",
    "1Gi",
    "1.5",
    "-1",
    "100%",
    "example.com/x",
    "true",
    "é",
    "a<\x01&b",
    "a\nb",
)
_NUMBERS = (0, -1, 1, 2, 5, 100, 65535, 65536, 2**31, 2**40, 1.5)
_NEAR = {"x": "{0}x", "upper": "{0}X", "space": "{0} ", "dash": "{0}-", "dot": ".{0}"}


def change(random: Random, body: JSONObject, kept: frozenset[Path]) -> tuple[str, JSONObject]:
    """A copy of a manifest with one change, and what it is; ``kept`` are places that do not change."""
    changed = copy.deepcopy(body)
    if random.random() < _ADDED:
        return _add(random, changed)
    paths = [path for path in _paths(changed) if path not in kept]
    if not paths:
        return "nothing", changed
    path = random.choice(paths)
    holder = _at(changed, path[:-1])
    value = holder[path[-1]]
    name = random.choice([name for name in _CHANGES if name not in {"near", "double"} or _fits(name, value)])
    _CHANGES[name](random, holder, path[-1])
    return f"{name} {'.'.join(map(str, path))}", changed


_ADDED = 0.4
"""How often a change adds a field that is not there, with a value of its type."""
_DEEPEST = 3
"""How many levels of fields an added value has at most."""


def _add(random: Random, body: JSONObject) -> tuple[str, JSONObject]:
    """Add a field that the kind has and the object has not, anywhere but in the metadata and the status."""
    kind = go_type_of_kind(kind_of(body))
    missing = [] if kind is None else list(_missing(kind, body))
    if not missing:
        return "nothing", body
    holder, field = random.choice(missing)
    holder[field.name] = _value(random, field.type, _DEEPEST)
    return f"add {field.name}", body


def _missing(kind: GoType, value: JSON, *, is_whole: bool = True) -> Iterator[tuple[JSONObject, GoField]]:
    """The objects in a value, each with the fields that it does not have."""
    if kind.kind is GoKind.STRUCT and isinstance(value, dict):
        for name, field in kind.fields.items():
            if is_whole and name in _NOT_ADDED:
                continue
            if name in value:
                yield from _missing(field.type, value[name], is_whole=False)
            else:
                yield value, field
    elif kind.items is not None and isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _missing(kind.items, item, is_whole=False)


_NOT_ADDED = frozenset({"apiVersion", "kind", "metadata", "status"})


def _value(random: Random, kind: GoType, depth: int) -> JSON:
    """A value of a type: often a good one, seldom an empty one."""
    match kind.kind:
        case GoKind.STRUCT if depth > 0:
            fields = [field for field in kind.fields.values() if field.name != "status"]
            some = random.sample(fields, min(len(fields), random.choice((0, 1, 1, 2, 3))))
            return {field.name: _value(random, field.type, depth - 1) for field in some}
        case GoKind.LIST if kind.items is not None and depth > 0:
            return [_value(random, kind.items, depth - 1) for _ in range(random.choice((0, 1, 1, 2)))]
        case GoKind.MAP if kind.items is not None and depth > 0:
            keys = random.sample(_KEYS, random.choice((0, 1, 1, 2)))
            return {key: _value(random, kind.items, depth - 1) for key in keys}
        case GoKind.LIST:
            return []
        case _:
            return copy.deepcopy(random.choice(_VALUES.get(kind.kind, ({},))))


_KEYS = ("a", "cpu", "memory", "example.com/x", "a b", "storage", "hugepages-2Mi")
_VALUES: Mapping[GoKind, tuple[JSON, ...]] = {
    GoKind.STRING: (*_WORDS, "a", "web", "Always", "Never", "None", "", "UDP", "http", "IPv4", "v1", "Pod"),
    GoKind.BOOL: (True, False),
    GoKind.INTEGER: (0, 1, 1, 2, 3, 80, 100, 600, -1, 65536, 2**31 - 1),
    GoKind.FLOAT: (0, 1.5),
    GoKind.BYTES: ("", "AAE=", "e30="),
    GoKind.TIME: ("2026-01-01T00:00:00Z",),
    GoKind.MICRO_TIME: ("2026-01-01T00:00:00.000000Z",),
    GoKind.QUANTITY: ("1", "100m", "1Gi", "0", "-1", "1.5"),
    GoKind.INT_OR_STRING: (0, 1, 80, "http", "50%", "101%", ""),
    GoKind.ANY: ({"a": 1}, {}, {"apiVersion": "v1", "kind": "ConfigMap"}),
}


def _fits(name: str, value: JSON) -> bool:
    if name == "double":
        return isinstance(value, list) and bool(value)
    return isinstance(value, str | int) and not isinstance(value, bool)


def _paths(value: JSON, path: Path = ()) -> Iterator[Path]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, member in items:
        yield (*path, step)
        yield from _paths(member, (*path, step))


def _at(value: JSON, path: Path) -> JSON:
    for step in path:
        value = value[step]
    return value


def _delete(_random: Random, holder: JSON, step: str | int) -> None:
    del holder[step]


def _null(_random: Random, holder: JSON, step: str | int) -> None:
    holder[step] = None


def _empty(_random: Random, holder: JSON, step: str | int) -> None:
    value = holder[step]
    holder[step] = type(value)() if isinstance(value, dict | list | str) else ""


def _type(random: Random, holder: JSON, step: str | int) -> None:
    value = holder[step]
    others: tuple[JSON, ...] = ("x", 7, 1.5, True, {"a": 1}, ["x"])
    holder[step] = copy.deepcopy(random.choice([other for other in others if type(other) is not type(value)]))


def _word(random: Random, holder: JSON, step: str | int) -> None:
    holder[step] = random.choice(_WORDS)


def _number(random: Random, holder: JSON, step: str | int) -> None:
    holder[step] = random.choice(_NUMBERS)


def _unknown(_random: Random, holder: JSON, step: str | int) -> None:
    inside = holder[step] if isinstance(holder[step], dict) else holder
    if isinstance(inside, dict):
        inside["unknownField"] = 1


def _near(random: Random, holder: JSON, step: str | int) -> None:
    value = holder[step]
    near = value + random.choice((-1, 1)) if isinstance(value, int) else None
    holder[step] = random.choice(list(_NEAR.values())).format(value) if near is None else near


def _double(_random: Random, holder: JSON, step: str | int) -> None:
    holder[step] = [*holder[step], copy.deepcopy(holder[step][0])]


_CHANGES: Mapping[str, Callable[[Random, JSON, str | int], None]] = {
    "delete": _delete,
    "null": _null,
    "empty": _empty,
    "type": _type,
    "word": _word,
    "number": _number,
    "unknown": _unknown,
    "near": _near,
    "double": _double,
}
