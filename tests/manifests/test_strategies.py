"""The status of manifests."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.requests import Operation
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.store import ObjectStore
from pratique.manifests.requests import review_of_manifest

SUCCEEDED = {"phase": "Succeeded"}


def manifest(api_version: str, kind: str, **more: JSON) -> JSONObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": "a"}, **more}


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("v1", "Pod"), ("apps/v1", "Deployment"), ("extensions/v1beta1", "Ingress"), ("batch/v1", "Job")],
)
def test_a_create_drops_the_status(api_version: str, kind: str) -> None:
    review = review_of_manifest(manifest(api_version, kind, spec={}, status=SUCCEEDED), built_in_resources())
    assert "status" not in review.object
    assert review.object["spec"] == {}


@pytest.mark.parametrize(
    ("api_version", "kind"),
    [("v1", "Node"), ("v1", "ConfigMap"), ("v1", "PodTemplate")],
)
def test_a_create_keeps_the_status_of_kinds_without_a_status_subresource(api_version: str, kind: str) -> None:
    review = review_of_manifest(manifest(api_version, kind, status=SUCCEEDED), built_in_resources())
    assert review.object["status"] == SUCCEEDED


def test_a_new_namespace_is_always_active() -> None:
    review = review_of_manifest(
        manifest("v1", "Namespace", status={"phase": "Terminating"}), built_in_resources()
    )
    assert review.object["status"] == {"phase": "Active"}


@pytest.mark.parametrize(("old", "expected"), [({"phase": "Running"}, {"phase": "Running"}), (None, None)])
def test_an_update_keeps_the_stored_status(old: JSON, expected: JSON) -> None:
    stored = manifest("v1", "Pod", **({"status": old} if old else {}))
    review = review_of_manifest(
        manifest("v1", "Pod", status=SUCCEEDED), built_in_resources(), operation=Operation.UPDATE, old=stored
    )
    assert review.object.get("status") == expected


def test_an_update_of_the_status_subresource_sets_the_status() -> None:
    review = review_of_manifest(
        manifest("v1", "Pod", status=SUCCEEDED),
        built_in_resources(),
        operation=Operation.UPDATE,
        subresource="status",
        old=manifest("v1", "Pod"),
    )
    assert (review.object["status"], review.subresource) == (SUCCEEDED, "status")


@pytest.mark.parametrize(("subresources", "kept"), [({"status": {}}, False), ({}, True)])
def test_a_custom_resource_has_a_status_subresource_if_defined(
    subresources: JSONObject, *, kept: bool
) -> None:
    version = {"name": "v1", "served": True, "storage": True, "subresources": subresources}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "ships.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "ships", "kind": "Ship"},
            "versions": [version],
        },
    }
    resources = ObjectStore([definition]).resources
    review = review_of_manifest(manifest("example.com/v1", "Ship", status=SUCCEEDED), resources)
    assert ("status" in review.object) is kept
