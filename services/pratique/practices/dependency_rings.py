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
    reached = {node: _reached(node, graph) for node in graph}
    told: set[T] = set()
    for node in graph:
        group = tuple(other for other in graph if other in reached[node] and node in reached[other])
        if len(group) > 1 and node not in told:
            told |= set(group)
            yield Ring(group, _way_round(group, graph))


def _reached(start: T, graph: Mapping[T, Collection[T]]) -> set[T]:
    """All that a node waits for, directly or by way of others."""
    reached: set[T] = set()
    waiting = [start]
    while waiting:
        new = set(graph[waiting.pop()]) - reached
        reached |= new
        waiting += new
    return reached


def _way_round(group: tuple[T, ...], graph: Mapping[T, Collection[T]]) -> tuple[T, ...]:
    """Search from the first member breadth first, until somebody waits for it."""
    first = group[0]
    ways: collections.deque[tuple[T, ...]] = collections.deque([(first,)])
    seen = {first}
    while True:
        way = ways.popleft()
        for node in (each for each in group if each in graph[way[-1]]):
            if node == first and len(way) > 1:
                return way
            if node not in seen:
                seen.add(node)
                ways.append((*way, node))
