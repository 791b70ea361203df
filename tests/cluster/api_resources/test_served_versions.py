"""Which versions of a collection one API server serves side by side."""

from __future__ import annotations

import pytest

from pratique.apimachinery.kinds import (
    GroupVersionKind,
    GroupVersionResource,
    ResourceType,
    parse_api_version,
)
from pratique.cluster.api_resources import ApiResources, built_in_resources
from pratique.cluster.served_versions import served_beside


def beside(api_version: str, resource: str, subresource: str = "") -> list[str]:
    at = GroupVersionResource(*parse_api_version(api_version), resource)
    found = served_beside(built_in_resources(), at, subresource)
    assert all(collection.resource == resource for collection in found)
    return [GroupVersionKind(collection.group, collection.version).api_version for collection in found]


@pytest.mark.parametrize(
    ("api_version", "resource", "expected"),
    [
        ("apps/v1", "deployments", []),
        ("networking.k8s.io/v1", "ingresses", []),
        ("batch/v1", "cronjobs", []),
        ("v1", "pods", []),
        ("v1", "events", ["events.k8s.io/v1"]),
        ("autoscaling/v2", "horizontalpodautoscalers", ["autoscaling/v1"]),
    ],
)
def test_a_current_version_comes_from_the_current_release(
    api_version: str, resource: str, expected: list[str]
) -> None:
    assert beside(api_version, resource) == expected


@pytest.mark.parametrize(
    ("api_version", "resource", "expected"),
    [
        ("apps/v1beta1", "deployments", ["extensions/v1beta1", "apps/v1", "apps/v1beta2"]),
        ("extensions/v1beta1", "deployments", ["apps/v1", "apps/v1beta2", "apps/v1beta1"]),
        ("extensions/v1beta1", "ingresses", ["networking.k8s.io/v1", "networking.k8s.io/v1beta1"]),
        ("autoscaling/v2beta2", "horizontalpodautoscalers", ["autoscaling/v2", "autoscaling/v1"]),
        ("batch/v1beta1", "cronjobs", ["batch/v1"]),
    ],
)
def test_a_request_in_a_removed_version_comes_from_the_last_release_that_had_it(
    api_version: str, resource: str, expected: list[str]
) -> None:
    assert beside(api_version, resource) == expected


@pytest.mark.parametrize(
    ("api_version", "resource", "expected"),
    [
        ("batch/v2alpha1", "cronjobs", ["batch/v1beta1"]),
        ("storage.k8s.io/v1alpha1", "csistoragecapacities", ["storage.k8s.io/v1beta1"]),
        ("flowcontrol.apiserver.k8s.io/v1beta1", "flowschemas", ["flowcontrol.apiserver.k8s.io/v1beta2"]),
        ("resource.k8s.io/v1alpha2", "resourceclaims", []),
        ("scheduling.k8s.io/v1alpha1", "workloads", []),
    ],
)
def test_later_versions_are_not_served_by_an_earlier_release(
    api_version: str, resource: str, expected: list[str]
) -> None:
    assert beside(api_version, resource) == expected


def test_a_subresource_is_served_where_it_is_registered() -> None:
    assert beside("apps/v1beta1", "deployments", "rollback") == ["extensions/v1beta1"]
    assert beside("extensions/v1beta1", "deployments", "scale") == ["apps/v1", "apps/v1beta2", "apps/v1beta1"]


def test_an_unknown_version_counts_as_current() -> None:
    assert beside("apps/v3", "deployments") == ["apps/v1"]


def test_an_unknown_collection_is_served_under_no_other_name() -> None:
    assert beside("example.com/v1", "orders") == []


def test_all_versions_of_a_custom_resource_are_served_together() -> None:
    types = [
        ResourceType(
            resource=GroupVersionResource("example.com", version, "orders"),
            kind=GroupVersionKind("example.com", version, "Order"),
            namespaced=True,
            served=served,
        )
        for version, served in (("v2", True), ("v1", True), ("v1alpha1", False))
    ]
    found = served_beside(ApiResources(types), types[1].resource)
    assert [collection.version for collection in found] == ["v2", "v1alpha1"]
