from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from pratique.lint.deadlocks import DependencyCycle, find_cycles

NODES = st.integers(0, 6)
GRAPHS = st.dictionaries(NODES, st.sets(NODES)).map(
    lambda graph: {node: {other for other in others if other in graph} for node, others in graph.items()}
)


def test_separate_cycles_are_found_with_their_paths() -> None:
    graph = {"a": ["b"], "b": ["c"], "c": ["a", "d"], "d": ["e"], "e": ["d", "f"], "f": ["f"]}
    assert list(find_cycles(graph)) == [
        DependencyCycle(("a", "b", "c"), ("a", "b", "c")),
        DependencyCycle(("d", "e"), ("d", "e")),
    ]


def test_the_path_of_a_cycle_is_a_shortest_one() -> None:
    graph = {"a": ["b", "c"], "b": ["c"], "c": ["a"]}
    assert list(find_cycles(graph)) == [DependencyCycle(("a", "b", "c"), ("a", "c"))]


def test_a_long_chain_is_searched_without_recursion() -> None:
    length = 2000
    graph = {node: [(node + 1) % length] for node in range(length)}
    (ring,) = find_cycles(graph)
    assert ring.way == tuple(range(length))


@given(GRAPHS)
def test_a_cycle_holds_exactly_the_nodes_that_wait_for_each_other(graph: dict[int, set[int]]) -> None:
    rings = list(find_cycles(graph))
    ring_of = {node: number for number, ring in enumerate(rings) for node in ring.members}
    assert len(ring_of) == sum(len(ring.members) for ring in rings)
    for item, other in itertools.permutations(graph, 2):
        mutual = leads(item, other, graph) and leads(other, item, graph)
        assert mutual == (item in ring_of and ring_of.get(item) == ring_of.get(other))


@given(GRAPHS)
def test_the_path_of_a_cycle_follows_edges_of_the_graph(graph: dict[int, set[int]]) -> None:
    for ring in find_cycles(graph):
        assert len(set(ring.way)) == len(ring.way) > 1
        assert set(ring.way) <= set(ring.members)
        assert all(after in graph[before] for before, after in itertools.pairwise((*ring.way, ring.way[0])))


def leads(start: int, end: int, graph: dict[int, set[int]]) -> bool:
    """Whether one node waits for another, directly or through others."""
    reached = graph[start]
    for _ in graph:
        reached = reached | {after for node in reached for after in graph[node]}
    return end in reached
