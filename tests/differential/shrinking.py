"""The smallest pair that still differs: parts are left out one by one, as long as the answers part in the same way."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

from pratique.apimachinery.json_values import JSON

_KEPT = frozenset(
    {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name"), ("metadata", "namespace")}
)
"""What says which object it is."""

Path = tuple[str | int, ...]


def shrink(value: JSON, still_differs: Callable[[JSON], bool], tries: int = 200) -> JSON:
    """Leave out members and items of a value, the largest first, while it still differs.

    ``tries`` bounds how often it may ask.
    """
    smallest, left = value, tries
    progress = True
    while progress and left > 0:
        progress = False
        for path in list(_parts(smallest)):
            if left <= 0:
                break
            candidate = _without(smallest, path)
            if candidate is None:
                continue  # a part of something that has gone meanwhile
            left -= 1
            if still_differs(candidate):
                smallest, progress = candidate, True
    return smallest


def _parts(value: JSON, path: Path = ()) -> Iterator[Path]:
    """The places of all parts, outer ones before what is in them, and the last item of a list first."""
    if isinstance(value, dict):
        for name in value:
            if (*path, name) not in _KEPT:
                yield (*path, name)
        for name, member in value.items():
            yield from _parts(member, (*path, name))
    elif isinstance(value, list):
        for index in reversed(range(len(value))):
            yield (*path, index)
            yield from _parts(value[index], (*path, index))


def _without(value: JSON, path: Path) -> JSON | None:
    """A copy without a part; None where there is no such part any more."""
    shorter = copy.deepcopy(value)
    holder: JSON = shorter
    for step in path[:-1]:
        holder = _member(holder, step)
        if holder is None:
            return None
    last = path[-1]
    if isinstance(holder, dict) and last in holder:
        del holder[str(last)]
    elif isinstance(holder, list) and isinstance(last, int) and last < len(holder):
        del holder[last]
    else:
        return None
    return shorter


def _member(holder: JSON, step: str | int) -> JSON:
    if isinstance(holder, dict):
        return holder.get(str(step))
    if isinstance(holder, list) and isinstance(step, int) and step < len(holder):
        return holder[step]
    return None
