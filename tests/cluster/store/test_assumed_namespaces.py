"""Assumed namespaces."""

from __future__ import annotations

import pytest

from pratique.cluster.store import ANY_NAMESPACE, Cluster, ObjectStore, ReloadableCluster


def assuming() -> ObjectStore:
    return ObjectStore(assume_namespaces=True)


@pytest.mark.parametrize("cluster", [ANY_NAMESPACE, assuming(), ReloadableCluster(ANY_NAMESPACE)])
def test_every_namespace_is_active_and_has_no_label_but_its_name(cluster: Cluster) -> None:
    assert cluster.get("", "namespaces", "anything") == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "anything", "labels": {"kubernetes.io/metadata.name": "anything"}},
        "status": {"phase": "Active"},
    }


@pytest.mark.parametrize("cluster", [ANY_NAMESPACE, assuming(), ReloadableCluster(ANY_NAMESPACE)])
def test_every_namespace_has_its_default_service_account(cluster: Cluster) -> None:
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "shop"},
    }
    assert cluster.get("", "serviceaccounts", "default", "shop") == account
    assert list(cluster.list("", "serviceaccounts", "shop")) == [account]


@pytest.mark.parametrize("cluster", [ANY_NAMESPACE, assuming(), ReloadableCluster(ANY_NAMESPACE)])
@pytest.mark.parametrize(
    ("group", "resource", "name", "namespace"),
    [
        ("", "serviceaccounts", "other", "shop"),
        ("", "serviceaccounts", "default", ""),
        ("", "namespaces", "", ""),
        ("", "pods", "default", "shop"),
        ("example.com", "namespaces", "shop", ""),
        ("storage.k8s.io", "storageclasses", "default", ""),
    ],
)
def test_an_assuming_store_holds_nothing_but_namespaces_and_service_accounts(
    cluster: Cluster, group: str, resource: str, name: str, namespace: str
) -> None:
    assert cluster.get(group, resource, name, namespace) is None


@pytest.mark.parametrize("resource", ["namespaces", "serviceaccounts", "pods", "limitranges"])
@pytest.mark.parametrize("cluster", [ANY_NAMESPACE, assuming()])
def test_a_list_across_namespaces_leaves_out_assumed_objects(cluster: Cluster, resource: str) -> None:
    assert list(cluster.list("", resource)) == []


def test_a_store_assumes_nothing_by_default() -> None:
    store = ObjectStore()
    assert store.get("", "namespaces", "default") is None
    assert store.get("", "serviceaccounts", "default", "default") is None
    assert list(store.list("", "serviceaccounts", "default")) == []


def test_a_stored_namespace_replaces_the_assumed_one() -> None:
    store = assuming()
    store.put(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "web"}}}
    )
    found = store.get("", "namespaces", "shop")
    assert found is not None
    assert found["metadata"]["labels"]["team"] == "web"
    assert len(store.list("", "namespaces")) == 1


def test_a_stored_service_account_replaces_the_assumed_one() -> None:
    store = assuming()
    store.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}, "secrets": []})
    store.put({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a"}})
    found = store.list("", "serviceaccounts", "default")
    assert [document["metadata"]["name"] for document in found] == ["a", "default"]
    assert "secrets" in found[1]


def test_a_removed_namespace_is_gone_until_it_is_put_again() -> None:
    store = assuming()
    assert store.remove("", "namespaces", "shop")
    assert store.get("", "namespaces", "shop") is None
    assert not store.remove("", "namespaces", "shop")
    store.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
    assert store.get("", "namespaces", "shop") is not None


def test_a_removed_service_account_is_gone() -> None:
    store = assuming()
    assert store.remove("", "serviceaccounts", "default", "shop")
    assert store.get("", "serviceaccounts", "default", "shop") is None
    assert list(store.list("", "serviceaccounts", "shop")) == []
    assert store.get("", "serviceaccounts", "default", "other") is not None
