"""Rules about deadlocks: webhooks that must answer before a webhook's own server can start."""

from __future__ import annotations

import collections
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from pratique.lint.outage_simulation import BackendService, StartupRequest
from pratique.lint.rules import ConfiguredWebhook, LintContext, LintRule, Severity, Violation

T = TypeVar("T")


class DependencyCycle(msgspec.Struct, Generic[T], frozen=True):
    """A group of nodes that wait for each other."""

    members: tuple[T, ...]
    """All nodes of the group, in the order of the graph."""
    way: tuple[T, ...]
    """A shortest cycle that starts at the first member: each node waits for the next, the last for the first."""


def find_cycles(graph: Mapping[T, Collection[T]]) -> Iterator[DependencyCycle[T]]:
    """Find the strongly connected components of two or more nodes.

    Args:
        graph: For each node, the nodes that it waits for. A node that waits only for itself makes no group.
    """
    order = {node: index for index, node in enumerate(graph)}
    groups = [
        sorted(group, key=order.__getitem__) for group in _connected_components(graph) if len(group) > 1
    ]
    for group in sorted(groups, key=lambda group: order[group[0]]):
        yield DependencyCycle(tuple(group), _shortest_cycle(group, graph, order))


def _connected_components(graph: Mapping[T, Collection[T]]) -> Iterator[list[T]]:
    """Kosaraju's algorithm: search the reversed graph, starting with the nodes that the first search left last."""
    backwards: dict[T, list[T]] = {node: [] for node in graph}
    for node, others in graph.items():
        for other in others:
            backwards[other].append(node)
    seen: set[T] = set()
    postorder = [node for start in graph for node in _postorder(start, graph, seen)]
    seen = set()
    for start in reversed(postorder):
        if group := list(_postorder(start, backwards, seen)):
            yield group


def _postorder(start: T, graph: Mapping[T, Collection[T]], seen: set[T]) -> Iterator[T]:
    """Search depth first, without recursion, and yield each unseen node after all its successors."""
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
    """Search breadth first from the first member, until a node waits for it."""
    first, members = group[0], set(group)
    before: dict[T, T] = {}
    waiting = collections.deque([first])
    while True:
        last = waiting.popleft()
        if first in graph[last] and last != first:
            return _path_from_first(last, first, before)
        for node in sorted(
            (neighbour for neighbour in graph[last] if neighbour in members), key=order.__getitem__
        ):
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
    " and cluster-scoped resources by rules or matchConditions."
)
_MAX_LISTED = 3
"""How many requests a message lists: the first ones are those for the Pods, which is enough to understand it."""


def _find_deadlocks(context: LintContext) -> Iterator[Violation]:
    for hook in context.hooks:
        if hook.backend is not None and (requests := context.denied_starts(hook, hook.backend)):
            yield hook.violation(
                f"denies, while {hook.backend} is down, requests that it needs to start: {_request_list(requests)}",
                "namespaceSelector",
            )


def _find_self_interceptions(context: LintContext) -> Iterator[Violation]:
    for hook in context.hooks:
        if hook.backend is not None and (requests := context.delayed_starts(hook, hook.backend)):
            needed = _request_list(requests)
            text = (
                f"once {hook.backend} is down, requests that it needs to start wait for its timeout: {needed}"
            )
            yield hook.violation(text, "namespaceSelector")


def _request_list(requests: Sequence[StartupRequest]) -> str:
    named = [str(request) for request in requests[:_MAX_LISTED]]
    return ", ".join(named) + (
        f", and {len(requests) - _MAX_LISTED} more" if len(requests) > _MAX_LISTED else ""
    )


DEADLOCK = LintRule(
    name="deadlock",
    severity=Severity.ERROR,
    explanation="A webhook that must answer before its own server may start can never come back once it is down.",
    fix=_FIX,
    check=_find_deadlocks,
)
INTERCEPTS = LintRule(
    name="intercepts-own-namespace",
    severity=Severity.WARNING,
    explanation="A webhook that is called for its own start delays or changes it.",
    fix=_FIX,
    check=_find_self_interceptions,
)


def _find_circular_dependencies(context: LintContext) -> Iterator[Violation]:
    blockers = {backend: _blocking_webhooks(backend, context) for backend in context.backends}
    for cycle in find_cycles(blockers):
        ways = list(zip(cycle.way, (*cycle.way[1:], cycle.way[0]), strict=True))
        steps = [_wait_text(backend, other, blockers[backend][other][0], context) for backend, other in ways]
        text = f"once all are down, none of {len(cycle.members)} servers can start: {'; '.join(steps)}"
        if beside := [str(backend) for backend in cycle.members if backend not in cycle.way]:
            text += f"; also affected: {', '.join(beside)}"
        first, second = ways[0]
        yield blockers[first][second][0].violation(text, "namespaceSelector")


def _blocking_webhooks(
    backend: BackendService, context: LintContext
) -> dict[BackendService, list[ConfiguredWebhook]]:
    """Group the webhooks whose outage blocks the start of a server by their own servers."""
    found: dict[BackendService, list[ConfiguredWebhook]] = {}
    for hook in context.refusing(backend):
        if hook.backend is not None:
            found.setdefault(hook.backend, []).append(hook)
    return found


def _wait_text(
    backend: BackendService, other: BackendService, hook: ConfiguredWebhook, context: LintContext
) -> str:
    return f"{backend} waits for {other} ({hook}: {context.denied_starts(hook, backend)[0]})"


CIRCLES = LintRule(
    name="circular-dependency",
    severity=Severity.ERROR,
    explanation="Webhooks that must answer before each other's servers may start cannot all come back.",
    fix="Exclude the namespaces where webhooks run by namespaceSelector, or use a ValidatingAdmissionPolicy.",
    check=_find_circular_dependencies,
)
