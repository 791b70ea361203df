"""One or two changes of a manifest, of the kinds of mistakes that people and programs make."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import TypeAlias

from pratique.apimachinery.json_values import JSON, JSONObject

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
)
_NUMBERS = (0, -1, 1, 2, 5, 100, 65535, 65536, 2**31, 2**40, 1.5)
_NEAR = {"x": "{0}x", "upper": "{0}X", "space": "{0} ", "dash": "{0}-", "dot": ".{0}"}


def change(random: Random, body: JSONObject, kept: frozenset[Path]) -> tuple[str, JSONObject]:
    """A copy of a manifest with one change, and what it is; ``kept`` are places that do not change."""
    changed = copy.deepcopy(body)
    paths = [path for path in _paths(changed) if path not in kept]
    if not paths:
        return "nothing", changed
    path = random.choice(paths)
    holder = _at(changed, path[:-1])
    value = holder[path[-1]]
    name = random.choice([name for name in _CHANGES if name not in {"near", "double"} or _fits(name, value)])
    _CHANGES[name](random, holder, path[-1])
    return f"{name} {'.'.join(map(str, path))}", changed


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
