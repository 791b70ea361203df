"""Reductions: the small object that still shows what was found.

Given objects and made-up ones are reduced alike: members and items are left out as long as what was found is found
again. What a kind's schema requires stays, so that the object can still be applied.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.schemas import ListType, MapType, Structure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from pratique.json_values import JSON, JSONObject
    from pratique.schemas import Type
    from pratique_cli.outputs.changes import Path

TRIALS = 400
"""How many smaller objects are tried: a Pod of a hundred members is reduced in two rounds of a hundred or so."""

_KEPT = frozenset(
    {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace"), ("spec",)}
)
"""What says which object it is. A namespace is kept: controllers look it up."""


@dataclasses.dataclass(slots=True)
class Reduction:
    """Makes one object smaller."""

    shows: Callable[[JSONObject], Awaitable[bool]]
    """Tells whether an object still shows what was found."""
    schema: Structure | None
    """Of the object's kind; None where it has none."""
    trials: int = TRIALS
    """How many objects may still be tried."""

    async def reduce(self, document: JSONObject) -> JSONObject:
        """Leave out what can be left out, until nothing can."""
        while True:
            smaller = await self._round(document)
            if smaller is document:
                return document
            document = smaller

    async def _round(self, document: JSONObject) -> JSONObject:
        for path in list(_paths(document, self.schema)):
            # What stood further down is gone where its parent went; positions are taken from the end.
            if member(document, *path[:-1]) is None or not _holds(document, path):
                continue
            if self.trials <= 0:
                return document
            self.trials -= 1
            without = _without(document, path)
            if await self.shows(without):
                document = without
        return document


def _paths(value: JSON, type_: Type | None, path: Path = ()) -> Iterator[Path]:
    """What may be left out, the large before the small, and the last item of a list before the first."""
    steps: list[str | int] = []
    if isinstance(value, dict):
        steps = list(value)
    elif isinstance(value, list):
        steps = list(reversed(range(len(value))))
    for step in steps:
        if (*path, step) not in _KEPT and not _is_required(value, type_, step):
            yield (*path, step)
    for step in steps:
        yield from _paths(value[step], _type_of(type_, step), (*path, step))


def _is_required(value: JSON, type_: Type | None, step: str | int) -> bool:
    if isinstance(type_, Structure):
        return step in type_.required
    # ``containers`` may not be empty; other lists may, and then go as a whole.
    return isinstance(value, list) and len(value) == 1


def _type_of(type_: Type | None, step: str | int) -> Type | None:
    if isinstance(type_, Structure):
        return type_.fields.get(str(step))
    if isinstance(type_, ListType):
        return type_.items
    return type_.values if isinstance(type_, MapType) else None


def _holds(document: JSONObject, path: Path) -> bool:
    parent = member(document, *path[:-1])
    step = path[-1]
    if isinstance(parent, list):
        return isinstance(step, int) and step < len(parent) and len(parent) > 1
    return isinstance(parent, dict) and step in parent


def _without(value: JSON, path: Path) -> JSON:
    step, *rest = path
    if isinstance(value, list):
        at = int(step)
        kept = [_without(value[at], tuple(rest))] if rest else []
        return [*value[:at], *kept, *value[at + 1 :]]
    if not rest:
        return {key: item for key, item in value.items() if key != step}
    return {key: _without(item, tuple(rest)) if key == step else item for key, item in value.items()}
