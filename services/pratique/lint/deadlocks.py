"""Rules about webhooks that stand in the way of the servers of webhooks."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

from pratique.lint.outage_simulation import BackendService, StartupRequest
from pratique.lint.rules import ConfiguredWebhook, LintContext, LintRule, Severity, Violation

T = TypeVar("T")


@dataclasses.dataclass(frozen=True, slots=True)
class DependencyCycle(Generic[T]):
    """Several that wait for each other."""

    members: tuple[T, ...]
    """All of them, in the order of the graph."""
    way: tuple[T, ...]
    """A shortest way round, from the first member on: each waits for the next, the last for the first."""


def find_cycles(graph: Mapping[T, Collection[T]]) -> Iterator[DependencyCycle[T]]:
    """Find the groups of two or more in which everybody waits for everybody, maybe by way of others.

    Args:
        graph: For each node, which of the nodes it waits for. A node that waits for itself makes no group.
    """
    order = {node: index for index, node in enumerate(graph)}
    groups = [
        sorted(group, key=order.__getitem__) for group in _connected_components(graph) if len(group) > 1
    ]
    for group in sorted(groups, key=lambda group: order[group[0]]):
        yield DependencyCycle(tuple(group), _shortest_cycle(group, graph, order))


def _connected_components(graph: Mapping[T, Collection[T]]) -> Iterator[list[T]]:
    """Kosaraju's algorithm: whoever is reached backwards, begun with those that the forward search left last."""
    backwards: dict[T, list[T]] = {node: [] for node in graph}
    for node, others in graph.items():
        for other in others:
            backwards[other].append(node)
    seen: set[T] = set()
    left = [node for start in graph for node in _postorder(start, graph, seen)]
    seen = set()
    for start in reversed(left):
        if group := list(_postorder(start, backwards, seen)):
            yield group


def _postorder(start: T, graph: Mapping[T, Collection[T]], seen: set[T]) -> Iterator[T]:
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


def _shortest_cycle(
    group: list[T], graph: Mapping[T, Collection[T]], order: Mapping[T, int]
) -> tuple[T, ...]:
    """Search from the first member breadth first, until somebody waits for it."""
    first, members = group[0], set(group)
    before: dict[T, T] = {}
    waiting = collections.deque([first])
    while True:
        last = waiting.popleft()
        if first in graph[last] and last != first:
            return _path_from_first(last, first, before)
        for node in sorted((each for each in graph[last] if each in members), key=order.__getitem__):
            if node != first and node not in before:
                before[node] = last
                waiting.append(node)


def _path_from_first(last: T, first: T, before: Mapping[T, T]) -> tuple[T, ...]:
    way = [last]
    while way[-1] != first:
        way.append(before[way[-1]])
    return tuple(reversed(way))


_FIX = (
    "Exclude the namespace of the webhook by namespaceSelector (key kubernetes.io/metadata.name, operator NotIn),"
    " and what has none by rules or matchConditions."
)
_MAX_LISTED = 3
"""Requests that are named one by one: the first ones are those of the Pods, and enough to see what is meant."""


def _find_deadlocks(context: LintContext) -> Iterator[Violation]:
    for hook in context.hooks:
        if hook.backend is not None and (requests := context.refused_starts(hook, hook.backend)):
            yield hook.violation(
                f"refuses, while {hook.backend} is down, what that needs to start: {_request_list(requests)}",
                "namespaceSelector",
            )


def _find_self_interceptions(context: LintContext) -> Iterator[Violation]:
    for hook in context.hooks:
        if hook.backend is not None and (requests := context.delayed_starts(hook, hook.backend)):
            text = f"once {hook.backend} is down, what that needs to start waits for its timeout: {_request_list(requests)}"
            yield hook.violation(text, "namespaceSelector")


def _request_list(requests: Sequence[StartupRequest]) -> str:
    named = [str(request) for request in requests[:_MAX_LISTED]]
    return ", ".join(named) + (
        f", and {len(requests) - _MAX_LISTED} more" if len(requests) > _MAX_LISTED else ""
    )


DEADLOCK = LintRule(
    rule="deadlock",
    severity=Severity.ERROR,
    explanation="A webhook that must answer before its own server may start can never come back once it is down.",
    fix=_FIX,
    check=_find_deadlocks,
)
INTERCEPTS = LintRule(
    rule="intercepts-own-namespace",
    severity=Severity.WARNING,
    explanation="A webhook that is asked about its own start delays or changes it.",
    fix=_FIX,
    check=_find_self_interceptions,
)


def _find_circular_dependencies(context: LintContext) -> Iterator[Violation]:
    blockers = {one: _blocking_webhooks(one, context) for one in context.backends}
    for ring in find_cycles(blockers):
        ways = list(zip(ring.way, (*ring.way[1:], ring.way[0]), strict=True))
        steps = [_wait_text(one, other, blockers[one][other][0], context) for one, other in ways]
        text = f"once they are all down, none of {len(ring.members)} servers can start: {'; '.join(steps)}"
        if beside := [str(one) for one in ring.members if one not in ring.way]:
            text += f"; caught in it, too: {', '.join(beside)}"
        first, second = ways[0]
        yield blockers[first][second][0].violation(text, "namespaceSelector")


def _blocking_webhooks(
    one: BackendService, context: LintContext
) -> dict[BackendService, list[ConfiguredWebhook]]:
    """The webhooks whose silence refuses the start of a server, by their own servers."""
    found: dict[BackendService, list[ConfiguredWebhook]] = {}
    for hook in context.refusing(one):
        if hook.backend is not None:
            found.setdefault(hook.backend, []).append(hook)
    return found


def _wait_text(
    one: BackendService, other: BackendService, hook: ConfiguredWebhook, context: LintContext
) -> str:
    return f"{one} waits for {other} ({hook}: {context.refused_starts(hook, one)[0]})"


CIRCLES = LintRule(
    rule="circular-dependency",
    severity=Severity.ERROR,
    explanation="Webhooks that must answer before each other's servers may start cannot all come back.",
    fix="Exclude the namespaces where webhooks run by namespaceSelector, or use a ValidatingAdmissionPolicy.",
    check=_find_circular_dependencies,
)
