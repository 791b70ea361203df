"""Dependency rings: who waits for each other, whatever the way round: the strongly connected parts of a graph."""

from __future__ import annotations

import collections
import dataclasses
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

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
