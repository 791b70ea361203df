"""Equivalent collections."""

from __future__ import annotations

import pytest

from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource, ResourceType
from pratique.cluster.api_resources import ApiResources, built_in_resources, storage_group


def names(api_version: str, resource: str, subresource: str = "") -> list[str]:
    group, _, version = api_version.rpartition("/")
    found = built_in_resources().equivalents(GroupVersionResource(group, version, resource), subresource)
    assert all(type_.resource == resource for type_ in found)
    return [f"{type_.group}/{type_.version}" for type_ in found]


@pytest.mark.parametrize(
    ("resource", "expected"),
    [
        (("apps/v1", "deployments"), ["extensions/v1beta1", "apps/v1", "apps/v1beta2", "apps/v1beta1"]),
        (("apps/v1", "daemonsets"), ["extensions/v1beta1", "apps/v1", "apps/v1beta2"]),
        (("apps/v1", "replicasets"), ["extensions/v1beta1", "apps/v1", "apps/v1beta2"]),
        (("apps/v1", "statefulsets"), ["apps/v1", "apps/v1beta2", "apps/v1beta1"]),
        (("networking.k8s.io/v1", "ingresses"),
         ["extensions/v1beta1", "networking.k8s.io/v1", "networking.k8s.io/v1beta1"]),
        (("networking.k8s.io/v1", "networkpolicies"), ["extensions/v1beta1", "networking.k8s.io/v1"]),
        (("v1", "events"), ["/v1", "events.k8s.io/v1", "events.k8s.io/v1beta1"]),
        (("policy/v1beta1", "podsecuritypolicies"), ["extensions/v1beta1", "policy/v1beta1"]),
        (("batch/v1", "cronjobs"), ["batch/v1", "batch/v1beta1", "batch/v2alpha1"]),
        (("v1", "pods"), ["/v1"]),
    ],
)  # fmt: skip
def test_all_names_of_a_collection_come_in_the_order_of_registration(
    resource: tuple[str, str], expected: list[str]
) -> None:
    assert names(*resource) == expected


def test_only_collections_with_the_subresource_are_equivalent() -> None:
    assert names("apps/v1", "deployments", "rollback") == ["extensions/v1beta1", "apps/v1beta1"]
    assert names("apps/v1", "daemonsets", "scale") == []


def test_an_unknown_collection_has_no_equivalents() -> None:
    assert names("example.com/v1", "deployments") == []


def test_equivalence_is_mutual() -> None:
    known = built_in_resources()
    for type_ in known:
        equivalents = known.equivalents(type_.resource, type_.subresource)
        assert type_.resource in equivalents
        assert all(known.equivalents(other, type_.subresource) == equivalents for other in equivalents)


def test_equivalent_collections_are_of_one_scope() -> None:
    known = built_in_resources()
    for type_ in known:
        others = [
            known.for_resource(r, type_.subresource)
            for r in known.equivalents(type_.resource, type_.subresource)
        ]
        assert {other.namespaced for other in others if other} == {type_.namespaced}


def test_cohabitating_groups_share_one_storage_group() -> None:
    assert storage_group("extensions", "deployments") == "apps"
    assert storage_group("apps", "deployments") == "apps"
    assert storage_group("events.k8s.io", "events") == ""
    assert storage_group("example.com", "deployments") == "example.com"


def test_registration_order_is_kept() -> None:
    types = [
        ResourceType(
            resource=GroupVersionResource(group, version, "deployments"),
            kind=GroupVersionKind(group, version, "Deployment"),
            namespaced=True,
        )
        for group, version in [("apps", "v1"), ("apps", "v1beta1"), ("extensions", "v1beta1")]
    ]
    found = ApiResources(types).equivalents(GroupVersionResource("extensions", "v1beta1", "deployments"))
    assert found == tuple(type_.resource for type_ in types)
