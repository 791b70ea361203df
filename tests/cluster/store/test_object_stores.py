"""The in-memory store of a cluster's objects."""

from __future__ import annotations

import asyncio

import pytest

from pratique.apimachinery.errors import InputError, RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cluster.store import ANY_NAMESPACE, ObjectKey, ObjectStore, ReloadableCluster, create_object
from support.pods import pod_with_metadata


def thing(api_version: str, kind: str, name: str, namespace: str = "", **more: JSON) -> JSONObject:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}


def definition(plural: str, kind: str) -> JSONObject:
    spec = {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": plural, "kind": kind},
        "versions": [{"name": "v1", "served": True, "storage": True}],
    }
    name = f"{plural}.example.com"
    return thing("apiextensions.k8s.io/v1", "CustomResourceDefinition", name, spec=spec)


def names(store: ObjectStore, group: str, resource: str, namespace: str | None = None) -> list[str]:
    return [document["metadata"]["name"] for document in store.list(group, resource, namespace)]


def test_an_object_is_found_by_group_resource_namespace_and_name() -> None:
    pod = thing("v1", "Pod", "cart", "shop")
    store = ObjectStore([pod])
    assert store.get("", "pods", "cart", "shop") == pod
    assert store.get("", "pods", "cart", "other") is None
    assert store.get("", "pods", "cart") is None
    assert store.get("apps", "pods", "cart", "shop") is None


def test_a_namespaced_object_without_namespace_goes_to_default() -> None:
    store = ObjectStore([thing("v1", "ConfigMap", "c")])
    assert store.get("", "configmaps", "c", "default") == thing("v1", "ConfigMap", "c", "default")


def test_a_cluster_scoped_object_has_no_namespace() -> None:
    store = ObjectStore([thing("v1", "Node", "n", "nonsense")])
    assert store.get("", "nodes", "n") == thing("v1", "Node", "n")


def test_an_object_is_found_whatever_its_version() -> None:
    budget = thing("policy/v1beta1", "PodDisruptionBudget", "b", "shop")
    assert ObjectStore([budget]).get("policy", "poddisruptionbudgets", "b", "shop") == budget


@pytest.mark.parametrize(
    ("api_version", "kind", "group", "resource"),
    [
        ("extensions/v1beta1", "Deployment", "apps", "deployments"),
        ("extensions/v1beta1", "Ingress", "networking.k8s.io", "ingresses"),
        ("events.k8s.io/v1", "Event", "", "events"),
        ("v1", "Event", "events.k8s.io", "events"),
        ("apps/v1", "ReplicaSet", "extensions", "replicasets"),
    ],
)
def test_groups_that_share_storage_see_the_same_objects(
    api_version: str, kind: str, group: str, resource: str
) -> None:
    store = ObjectStore([thing(api_version, kind, "x", "shop")])
    assert store.get(group, resource, "x", "shop") is not None
    assert names(store, group, resource) == ["x"]
    assert store.remove(group, resource, "x", "shop")
    assert names(store, group, resource) == []


def test_a_list_is_sorted_by_namespace_and_name() -> None:
    store = ObjectStore(
        thing("v1", "Pod", name, ns) for name, ns in [("b", "y"), ("a", "z"), ("c", "x"), ("a", "y")]
    )
    found = [
        (document["metadata"]["namespace"], document["metadata"]["name"])
        for document in store.list("", "pods")
    ]
    assert found == [("x", "c"), ("y", "a"), ("y", "b"), ("z", "a")]
    assert names(store, "", "pods", "y") == ["a", "b"]


def test_a_list_reflects_later_puts_and_removals() -> None:
    store = ObjectStore([thing("v1", "Pod", "a", "x")])
    assert names(store, "", "pods", "x") == ["a"]
    store.put(thing("v1", "Pod", "b", "x"))
    assert names(store, "", "pods", "x") == names(store, "", "pods") == ["a", "b"]
    store.remove("", "pods", "a", "x")
    assert names(store, "", "pods", "x") == names(store, "", "pods") == ["b"]


def test_a_put_replaces_the_object_with_the_same_name() -> None:
    store = ObjectStore([thing("v1", "ConfigMap", "c", "x", data={"k": "1"})])
    store.put(thing("v1", "ConfigMap", "c", "x", data={"k": "2"}))
    assert [document["data"] for document in store.list("", "configmaps")] == [{"k": "2"}]


def test_a_put_returns_the_key() -> None:
    key = ObjectStore().put(thing("extensions/v1beta1", "Deployment", "d"))
    assert key == ObjectKey("apps", "deployments", "default", "d")
    assert str(key) == 'deployments.apps "default/d"'


def test_an_object_of_an_unknown_kind_needs_an_explicit_key() -> None:
    store = ObjectStore()
    store.put(thing("example.com/v1", "Order", "o", "shop"), ObjectKey("example.com", "orders", "shop", "o"))
    assert names(store, "example.com", "orders", "shop") == ["o"]


@pytest.mark.parametrize("metadata", [None, {}, {"name": "x", "namespace": "y", "labels": {}}])
def test_an_explicit_key_is_written_into_the_metadata(metadata: JSON) -> None:
    store = ObjectStore()
    store.put({"metadata": metadata}, ObjectKey("", "pods", "shop", "p"))
    found = store.get("", "pods", "p", "shop")
    assert found is not None
    assert found["metadata"] == {**(metadata or {}), "name": "p", "namespace": "shop"}


def test_removing_tells_whether_the_object_existed() -> None:
    store = ObjectStore([thing("v1", "Pod", "a", "x")])
    assert store.remove("", "pods", "a", "x")
    assert not store.remove("", "pods", "a", "x")
    assert not store.remove("", "pods", "never", "x")


def test_a_put_does_not_change_the_document() -> None:
    namespace = thing("v1", "Namespace", "shop")
    config = thing("v1", "ConfigMap", "c")
    ObjectStore([namespace, config])
    assert namespace == thing("v1", "Namespace", "shop")
    assert config == thing("v1", "ConfigMap", "c")


def test_a_namespace_is_stored_labelled_with_its_name_and_active() -> None:
    store = ObjectStore([thing("v1", "Namespace", "shop")])
    found = store.get("", "namespaces", "shop")
    assert found is not None
    assert found["metadata"]["labels"] == {"kubernetes.io/metadata.name": "shop"}
    assert found["status"] == {"phase": "Active"}


def test_a_namespace_keeps_its_own_labels_and_phase() -> None:
    namespace = thing("v1", "Namespace", "shop", status={"phase": "Terminating"})
    namespace["metadata"]["labels"] = {"team": "web", "kubernetes.io/metadata.name": "wrong"}
    found = ObjectStore([namespace]).get("", "namespaces", "shop")
    assert found is not None
    assert found["metadata"]["labels"] == {"team": "web", "kubernetes.io/metadata.name": "shop"}
    assert found["status"] == {"phase": "Terminating"}


def test_a_kind_is_known_while_its_definition_is_stored() -> None:
    store = ObjectStore([definition("orders", "Order")])
    kind = GroupVersionKind("example.com", "v1", "Order")
    store.put(thing("example.com/v1", "Order", "o", "shop"))
    assert names(store, "example.com", "orders", "shop") == ["o"]
    assert store.resources.for_kind(kind) is not None
    store.remove("apiextensions.k8s.io", "customresourcedefinitions", "orders.example.com")
    assert store.resources.for_kind(kind) is None


@pytest.mark.parametrize(
    ("document", "text"),
    [
        (thing("example.com/v1", "Order", "o"), "add its CustomResourceDefinition: by --crds"),
        (thing("apps/v1", "Deploymnt", "d"), 'did you mean kind "Deployment"'),
        (thing("v1", "Pod", ""), "metadata.name: Required value"),
        (pod_with_metadata(generateName="p-"), "metadata.name: Required value"),
        ({"apiVersion": "v1", "kind": "Pod"}, "metadata: Required value"),
        ({"apiVersion": "v1", "kind": "Pod", "metadata": []}, "metadata: must be a mapping, not a list"),
        (pod_with_metadata(name=7), "metadata.name: must be a string, not a number: write it in quotes"),
        (pod_with_metadata(name="p", namespace=True), "metadata.namespace: must be a string, not a boolean"),
        ({"kind": "Pod", "metadata": {"name": "p"}}, "apiVersion not set"),
        ({**definition("orders", "Order"), "spec": {}}, "spec.group: Required value"),
    ],
)  # fmt: skip
def test_an_invalid_object_is_refused_and_not_stored(document: JSONObject, text: str) -> None:
    store = ObjectStore()
    with pytest.raises(InputError) as caught:
        store.put(document)
    assert text in str(caught.value)
    assert not store.list("", "pods")
    assert not store.list("apiextensions.k8s.io", "customresourcedefinitions")


def test_create_stores_a_new_object_and_leaves_an_existing_one() -> None:
    first = thing("v1", "ConfigMap", "c", "shop", data={"a": "1"})
    store = ObjectStore()
    assert asyncio.run(store.create(first))
    assert not asyncio.run(store.create({**first, "data": {"a": "2"}}))
    assert store.get("", "configmaps", "c", "shop") == first


def test_a_new_namespace_is_created_with_its_default_service_account() -> None:
    store = ObjectStore()
    assert asyncio.run(create_object(ReloadableCluster(store), thing("v1", "Namespace", "shop")))
    assert names(store, "", "namespaces") == ["shop"]
    assert names(store, "", "serviceaccounts", "shop") == ["default"]


def test_an_assumed_object_cannot_be_created() -> None:
    store = ObjectStore(assume_namespaces=True)
    assert not asyncio.run(create_object(store, thing("v1", "Namespace", "shop")))


def test_a_namespace_with_an_invalid_name_cannot_be_created() -> None:
    with pytest.raises(RefusalError) as refused:
        asyncio.run(create_object(ObjectStore(), thing("v1", "Namespace", "a.b")))
    status = refused.value.status
    assert (status.code, status.reason) == (422, "Invalid")
    assert status.message == (
        'Namespace "a.b" is invalid: metadata.name: Invalid value: "a.b": must not contain dots'
    )
    assert status.details is not None
    (cause,) = status.details.causes
    assert (cause.reason, cause.field) == ("FieldValueInvalid", "metadata.name")


def test_a_read_only_cluster_refuses_writes() -> None:
    with pytest.raises(RefusalError, match="the cluster that it belongs to cannot be written to"):
        asyncio.run(create_object(ANY_NAMESPACE, thing("v1", "Namespace", "shop")))


def test_a_copy_is_independent_of_its_original() -> None:
    store = ObjectStore([thing("v1", "Pod", "cart", "shop"), definition("orders", "Order")])
    copied = store.copy()
    copied.put(thing("example.com/v1", "Order", "first", "shop"))
    copied.remove("", "pods", "cart", "shop")
    assert names(store, "", "pods") == ["cart"]
    assert (names(store, "example.com", "orders"), names(copied, "example.com", "orders")) == ([], ["first"])


def test_a_copy_assumes_the_same_namespaces() -> None:
    store = ObjectStore(assume_namespaces=True)
    store.remove("", "namespaces", "gone")
    copied = store.copy()
    copied.remove("", "namespaces", "shop")
    assert copied.get("", "namespaces", "gone") is None
    assert store.get("", "namespaces", "shop") is not None
    assert copied.get("", "namespaces", "shop") is None
