"""Rules about webhooks that stand in the way of the servers of webhooks."""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, Generic, TypeVar

from pratique.lint.rules import Breach, Practice, Severity

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from pratique.lint.outage_simulation import Backend, Need
    from pratique.lint.rules import Hook, Subject

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class Ring(Generic[T]):
    """Several that wait for each other."""

    members: tuple[T, ...]
    """All of them, in the order of the graph."""
    way: tuple[T, ...]
    """A shortest way round, from the first member on: each waits for the next, the last for the first."""


def find_rings(graph: Mapping[T, Collection[T]]) -> Iterator[Ring[T]]:
    """Find the groups of two or more in which everybody waits for everybody, maybe by way of others.

    Args:
        graph: For each node, which of the nodes it waits for. A node that waits for itself makes no group.
    """
    order = {node: index for index, node in enumerate(graph)}
    groups = [sorted(group, key=order.__getitem__) for group in _groups(graph) if len(group) > 1]
    for group in sorted(groups, key=lambda group: order[group[0]]):
        yield Ring(tuple(group), _way_round(group, graph, order))


def _groups(graph: Mapping[T, Collection[T]]) -> Iterator[list[T]]:
    """Kosaraju's algorithm: whoever is reached backwards, begun with those that the forward search left last."""
    backwards: dict[T, list[T]] = {node: [] for node in graph}
    for node, others in graph.items():
        for other in others:
            backwards[other].append(node)
    seen: set[T] = set()
    left = [node for start in graph for node in _left(start, graph, seen)]
    seen = set()
    for start in reversed(left):
        if group := list(_left(start, backwards, seen)):
            yield group


def _left(start: T, graph: Mapping[T, Collection[T]], seen: set[T]) -> Iterator[T]:
    """Search depth first for what has not been seen, and yield each node when all after it have been searched."""
    if start in seen:
        return
    seen.add(start)
    way = [(start, iter(graph[start]))]
    while way:
        node, others = way[-1]
        following = next((other for other in others if other not in seen), None)
        if following is None:
            way.pop()
            yield node
        else:
            seen.add(following)
            way.append((following, iter(graph[following])))


def _way_round(group: list[T], graph: Mapping[T, Collection[T]], order: Mapping[T, int]) -> tuple[T, ...]:
    """Search from the first member breadth first, until somebody waits for it."""
    first, members = group[0], set(group)
    before: dict[T, T] = {}
    waiting = collections.deque([first])
    while True:
        last = waiting.popleft()
        if first in graph[last] and last != first:
            return _way_to(last, first, before)
        for node in sorted((each for each in graph[last] if each in members), key=order.__getitem__):
            if node != first and node not in before:
                before[node] = last
                waiting.append(node)


def _way_to(last: T, first: T, before: Mapping[T, T]) -> tuple[T, ...]:
    way = [last]
    while way[-1] != first:
        way.append(before[way[-1]])
    return tuple(reversed(way))


_FIX = (
    "Exclude the namespace of the webhook by namespaceSelector (key kubernetes.io/metadata.name, operator NotIn),"
    " and what has none by rules or matchConditions."
)
_SHOWN = 3
"""Requests that are named one by one: the first ones are those of the Pods, and enough to see what is meant."""


def _deadlocks(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        if hook.backend is not None and (needs := subject.refused_starts(hook, hook.backend)):
            yield hook.breach(
                f"refuses, while {hook.backend} is down, what that needs to start: {_listed(needs)}",
                "namespaceSelector",
            )


def _intercepts(subject: Subject) -> Iterator[Breach]:
    for hook in subject.hooks:
        if hook.backend is not None and (needs := subject.delayed_starts(hook, hook.backend)):
            text = f"once {hook.backend} is down, what that needs to start waits for its timeout: {_listed(needs)}"
            yield hook.breach(text, "namespaceSelector")


def _listed(needs: Sequence[Need]) -> str:
    named = [str(need) for need in needs[:_SHOWN]]
    return ", ".join(named) + (f", and {len(needs) - _SHOWN} more" if len(needs) > _SHOWN else "")


DEADLOCK = Practice(
    rule="deadlock",
    severity=Severity.ERROR,
    explanation="A webhook that must answer before its own server may start can never come back once it is down.",
    fix=_FIX,
    check=_deadlocks,
)
INTERCEPTS = Practice(
    rule="intercepts-own-namespace",
    severity=Severity.WARNING,
    explanation="A webhook that is asked about its own start delays or changes it.",
    fix=_FIX,
    check=_intercepts,
)


def _circles(subject: Subject) -> Iterator[Breach]:
    blockers = {one: _refusing(one, subject) for one in subject.backends}
    for ring in find_rings(blockers):
        ways = list(zip(ring.way, (*ring.way[1:], ring.way[0]), strict=True))
        steps = [_step(one, other, blockers[one][other][0], subject) for one, other in ways]
        text = f"once they are all down, none of {len(ring.members)} servers can start: {'; '.join(steps)}"
        if beside := [str(one) for one in ring.members if one not in ring.way]:
            text += f"; caught in it, too: {', '.join(beside)}"
        first, second = ways[0]
        yield blockers[first][second][0].breach(text, "namespaceSelector")


def _refusing(one: Backend, subject: Subject) -> dict[Backend, list[Hook]]:
    """The webhooks whose silence refuses the start of a server, by their own servers."""
    found: dict[Backend, list[Hook]] = {}
    for hook in subject.refusing(one):
        if hook.backend is not None:
            found.setdefault(hook.backend, []).append(hook)
    return found


def _step(one: Backend, other: Backend, hook: Hook, subject: Subject) -> str:
    return f"{one} waits for {other} ({hook}: {subject.refused_starts(hook, one)[0]})"


CIRCLES = Practice(
    rule="circular-dependency",
    severity=Severity.ERROR,
    explanation="Webhooks that must answer before each other's servers may start cannot all come back.",
    fix="Exclude the namespaces where webhooks run by namespaceSelector, or use a ValidatingAdmissionPolicy.",
    check=_circles,
)
