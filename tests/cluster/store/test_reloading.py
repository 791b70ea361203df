"""Replacing the content of a reloadable cluster."""

from __future__ import annotations

from pratique.cluster.store import ObjectStore, ReloadableCluster


def store_of(*names: str) -> ObjectStore:
    return ObjectStore({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in names)


def test_a_swap_replaces_the_whole_content() -> None:
    cluster = ReloadableCluster(store_of("a", "b"))
    cluster.swap(store_of("b", "c"))
    assert cluster.get("", "nodes", "a") is None
    assert [node["metadata"]["name"] for node in cluster.list("", "nodes")] == ["b", "c"]


def test_a_snapshot_taken_before_a_swap_is_unchanged() -> None:
    cluster = ReloadableCluster(store_of("a"))
    before = cluster.current
    cluster.swap(store_of("b"))
    assert before.get("", "nodes", "a") is not None
    assert cluster.current.get("", "nodes", "a") is None
