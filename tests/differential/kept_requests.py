"""Requests that led somewhere new, and further changes of them: the next level of a check is often one change away."""

from __future__ import annotations

import copy
import dataclasses
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import CodeType

from differential.drawn_changes import change
from differential.objects import KEPT_PLACES
from differential.pairs import Request
from pratique.apimachinery.json_values import JSON, JSONObject

_WORD = re.compile(r"[A-Za-z0-9=$_(][A-Za-z0-9 ./:=$()_-]{0,79}")


class KeptRequests:
    """Requests, and the values that each of their fields has in any of them.

    Args:
        room: the folder of the code whose constants are likely values.
    """

    def __init__(self, room: Path) -> None:
        self._words = sorted(set(_constants(room)))
        self._requests: list[tuple[Request, JSONObject | None]] = []
        self._values: dict[str, list[JSON]] = {}

    def add(self, request: Request, old: JSONObject | None) -> None:
        """Add a request, with the stored object if it changes one."""
        self._requests.append((request, old))
        for body in (request.body, old):
            for name, value in _members(body):
                self._values.setdefault(name, []).append(value)

    def draw_change(self, random: Random) -> tuple[Request, JSONObject | None]:
        """One of the requests with one to three more changes."""
        newest = self._requests[-_NEWEST:] if random.random() < 0.5 else self._requests
        request, old = random.choice(newest)
        body = copy.deepcopy(request.body)
        for _ in range(random.choice((1, 1, 2, 3))):
            kind = random.random()
            if kind < _BORROWED:
                self._borrow(random, body)
            elif kind < _BORROWED + _WORDS:
                self._put_word(random, body)
            else:
                _, body = change(random, body, KEPT_PLACES)
        _restore(body, request.body)
        return dataclasses.replace(request, body=body), old

    def _borrow(self, random: Random, body: JSONObject) -> None:
        """Give a field the value of its namesake in another request, or a holder one more of the known fields."""
        places = [place for place in _holders(body) if place is not body]
        if not places:
            return
        holder = random.choice(places)
        names = [name for name in holder if name in self._values] if random.random() < 0.5 else None
        name = random.choice(names or list(self._values))
        holder[name] = copy.deepcopy(random.choice(self._values.get(name, [None])))

    def _put_word(self, random: Random, body: JSONObject) -> None:
        """Put a constant of the code in the place of a text, or of a key of a map of texts."""
        places = [
            (holder, name)
            for holder in _holders(body)
            for name, value in holder.items()
            if isinstance(value, str) and not (holder is body or name in _IDENTITY)
        ]
        if not places:
            return
        holder, name = random.choice(places)
        word = random.choice(self._words)
        if random.random() < _AS_KEY:
            holder[word] = holder[name]
        else:
            holder[name] = word


_NEWEST = 100
"""Of how many that were added last every second request is a change, because they led furthest."""
_BORROWED = 0.35
_WORDS = 0.3
_AS_KEY = 0.15
"""How often a change is one of these."""
_IDENTITY = frozenset({"namespace", "uid", "resourceVersion", "name"})


def _restore(body: JSONObject, before: JSONObject) -> None:
    """Give a body back what its request names, too."""
    body.update((name, before[name]) for name in ("apiVersion", "kind") if name in before)
    metadata, was = body.get("metadata"), before.get("metadata")
    if isinstance(was, dict) and isinstance(metadata, dict):
        for name in _IDENTITY:
            metadata.pop(name, None)
            metadata.update({name: was[name]} if name in was else {})
    elif "metadata" in before:
        body["metadata"] = copy.deepcopy(was)


def _members(body: JSON) -> Iterator[tuple[str, JSON]]:
    for holder in _holders(body):
        yield from holder.items()


def _holders(value: JSON) -> Iterator[JSONObject]:
    """All objects in a value, itself first."""
    if isinstance(value, dict):
        yield value
    for member in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _holders(member)


def _constants(room: Path) -> Iterator[str]:
    """The words among the constants of all code in a folder."""
    for file in room.rglob("*.py"):
        yield from _words_of(compile(file.read_text("utf-8"), str(file), "exec", optimize=2))


@functools.singledispatch
def _words_of(constant: object) -> Iterator[str]:
    """The words in a constant."""
    yield from ()


@_words_of.register
def _(constant: str) -> Iterator[str]:
    if _WORD.fullmatch(constant):
        yield constant


@_words_of.register(tuple)
@_words_of.register(frozenset)
def _(constant: tuple[object, ...] | frozenset[object]) -> Iterator[str]:
    for item in constant:
        yield from _words_of(item)


@_words_of.register
def _(constant: CodeType) -> Iterator[str]:
    yield from _words_of(constant.co_consts)
