"""Mutations of JSON: what is changed stays JSON, so that what reads it gets beyond the first bracket."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable, Iterator
from typing import Any

from pratique.apimachinery.json_values import JSON

STRANGE: list[JSON] = [
    *(None, True, False, 0, -1, 1, 0.5, 1e308, 2**31, 2**63 - 1, -(2**63)),
    *("", "a", "0", "-1", "1Gi", "*", "\0", "\n", "é", "\ud7ff", "../..", "a/b", "A" * 300, "true", "null"),
    *([], {}, [None], [[]], [{}], {"": None}, {"a": {}}, {"name": 1}, ["a", "a"]),
]
WORDS = [
    "name",
    "namespace",
    "metadata",
    "spec",
    "labels",
    "annotations",
    "containers",
    "kind",
    "operation",
    "status",
]


def mutated(data: bytes, largest: int, seed: int, mutate: Callable[[bytes, int], bytes]) -> bytes:
    """Change one to four places of a JSON text, or else, as often as not, any bytes by ``mutate``."""
    chance = random.Random(seed)
    if chance.random() < 0.3:
        return mutate(data, largest)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return mutate(data, largest)
    for _ in range(chance.randint(1, 4)):
        document = _changed(document, chance)
    written = json.dumps(document).encode()
    return written if len(written) <= largest else data[:largest]


def _changed(document: JSON, chance: random.Random) -> JSON:
    places = list(_places(document))
    if not places:
        return chance.choice(STRANGE)
    container, key = chance.choice(places)
    match chance.randrange(5):
        case 0:
            container[key] = copy.deepcopy(chance.choice(STRANGE))
        case 1:
            other, there = chance.choice(places)
            container[key] = copy.deepcopy(other[there])
        case 2 if isinstance(container, dict):
            container[chance.choice(WORDS)] = container.pop(key)
        case 2:
            container.append(copy.deepcopy(container[key]))
        case 3:
            del container[key]
        case _:
            container[key] = [container[key]] if chance.random() < 0.5 else {"name": container[key]}
    return document


def _places(value: JSON) -> Iterator[tuple[Any, Any]]:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
    for key in keys:
        yield value, key
        yield from _places(value[key])
