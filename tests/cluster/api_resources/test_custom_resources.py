"""The collections of CustomResourceDefinitions."""

from __future__ import annotations

import copy

import pytest

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.cluster.api_resources import built_in_resources

ORDERS: JSONObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "orders.shop.example.com"},
    "spec": {
        "group": "shop.example.com",
        "scope": "Namespaced",
        "names": {"plural": "orders", "singular": "order", "kind": "Order", "listKind": "OrderList"},
        "versions": [
            {"name": "v2", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}},
             "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.replicas"}}},
            {"name": "v1", "served": True, "storage": False, "subresources": {"status": {}}},
            {"name": "v1alpha1", "served": False, "storage": False},
        ],
    },
}  # fmt: skip


def order_resource(version: str) -> GroupVersionResource:
    return GroupVersionResource("shop.example.com", version, "orders")


def order_kind(version: str) -> GroupVersionKind:
    return GroupVersionKind("shop.example.com", version, "Order")


def with_member(value: JSON, *path: str | int) -> JSONObject:
    changed: JSON = copy.deepcopy(ORDERS)
    parent = changed
    for step in path[:-1]:
        parent = parent[step]
    parent[path[-1]] = value
    return dict(changed)


def v1beta1(**spec: JSON) -> JSONObject:
    base = {"group": "shop.example.com", "names": {"plural": "orders", "kind": "Order"}}
    return {**ORDERS, "apiVersion": "apiextensions.k8s.io/v1beta1", "spec": base | spec}


def test_every_served_version_becomes_a_collection() -> None:
    known = built_in_resources().with_crds([ORDERS])
    for version in ("v1", "v2"):
        type_ = known.for_kind(order_kind(version))
        assert type_ is not None
        assert type_.resource == order_resource(version)
        assert type_.namespaced


def test_an_unserved_version_takes_no_objects() -> None:
    assert built_in_resources().with_crds([ORDERS]).for_kind(order_kind("v1alpha1")) is None


def test_an_unserved_version_is_still_equivalent() -> None:
    found = built_in_resources().with_crds([ORDERS]).equivalents(order_resource("v1"))
    assert found == (order_resource("v2"), order_resource("v1"), order_resource("v1alpha1"))


def test_subresources_are_those_of_the_version() -> None:
    known = built_in_resources().with_crds([ORDERS])
    status, scale = (
        known.for_resource(order_resource("v2"), subresource) for subresource in ("status", "scale")
    )
    assert status is not None
    assert scale is not None
    assert (status.kind, scale.kind) == (order_kind("v2"), GroupVersionKind("autoscaling", "v1", "Scale"))
    assert known.for_resource(order_resource("v1"), "scale") is None
    assert known.equivalents(order_resource("v1"), "status") == (order_resource("v2"), order_resource("v1"))


def test_a_cluster_scoped_definition_makes_a_cluster_scoped_collection() -> None:
    type_ = (
        built_in_resources().with_crds([with_member("Cluster", "spec", "scope")]).for_kind(order_kind("v1"))
    )
    assert type_ is not None
    assert not type_.namespaced


def test_adding_definitions_does_not_change_the_original() -> None:
    before = built_in_resources()
    assert before.with_crds([ORDERS]) is not before
    assert before.for_kind(order_kind("v1")) is None


def test_an_empty_list_of_definitions_adds_nothing() -> None:
    assert built_in_resources().with_crds([]) is built_in_resources()


def test_v1beta1_defaults_to_one_served_namespaced_version() -> None:
    known = built_in_resources().with_crds([v1beta1(version="v1", subresources={"status": {}})])
    type_ = known.for_kind(order_kind("v1"))
    assert type_ is not None
    assert type_.namespaced
    assert known.for_resource(order_resource("v1"), "status") is not None


def test_v1beta1_with_several_versions_shares_the_subresources() -> None:
    versions = [{"name": "v2", "served": True}, {"name": "v1", "served": True}]
    known = built_in_resources().with_crds(
        [v1beta1(scope="Cluster", versions=versions, subresources={"scale": {}})]
    )
    assert known.equivalents(order_resource("v1"), "scale") == (order_resource("v2"), order_resource("v1"))


def test_a_built_in_collection_cannot_be_replaced() -> None:
    pods = with_member("apps", "spec", "group")
    pods["spec"] |= {"names": {"plural": "deployments", "kind": "Deploy"}, "scope": "Cluster"}
    pods["metadata"] = {"name": "deployments.apps"}
    type_ = (
        built_in_resources().with_crds([pods]).for_resource(GroupVersionResource("apps", "v1", "deployments"))
    )
    assert type_ is not None
    assert type_.kind.kind == "Deployment"


@pytest.mark.parametrize(
    ("definition", "text"),
    [
        (with_member("", "spec", "group"), "spec.group: Required value"),
        (with_member({"kind": "Order"}, "spec", "names"), "spec.names.plural: Required value"),
        (with_member({"plural": "orders"}, "spec", "names"), "spec.names.kind: Required value"),
        (with_member("", "spec", "scope"), "spec.scope: Required value"),
        (with_member([], "spec", "versions"), "spec.versions: Required value"),
        (with_member([{"served": True}], "spec", "versions"), "spec.versions[0].name: Required value"),
        (with_member("Global", "spec", "scope"),
         'spec.scope: Unsupported value: "Global": supported values: "Cluster", "Namespaced"'),
        (with_member({"name": "order"}, "metadata"),
         'metadata.name: Invalid value: "order": must be spec.names.plural+"."+spec.group'),
        (with_member(7, "spec", "group"), "spec.group: expected `str`, got `int`"),
        (with_member("v1", "spec", "versions"), "spec.versions: expected `array`, got `str`"),
        (with_member([], "spec"), "spec: expected `object`, got `array`"),
        (with_member(None, "metadata"), "metadata: expected `object`, got `null`"),
        (with_member("yes", "spec", "versions", 0, "served"), "expected `bool`, got `str`"),
    ],
)  # fmt: skip
def test_a_malformed_definition_is_refused_with_its_field(definition: JSONObject, text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        built_in_resources().with_crds([definition])
    assert text in str(caught.value)
