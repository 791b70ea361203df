"""StorageObjectInUseProtection."""

from __future__ import annotations

import pytest
from hypothesis import given

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.storage_object_in_use_protection import CONTROLLER
from support import vector_cases
from support.admissions import admit, review_of
from support.expectations import check
from support.mutation_invariants import admitted_twice
from support.storage_reviews import claim_review, volume_review
from support.strategies.storage import claims, volumes


@pytest.mark.parametrize("case", vector_cases.plugin("StorageObjectInUseProtection"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    check(admit(CONTROLLER, review_of(case["request"]), case["config"] or None), case["expected"])


def attributes_review(document: JSON = None, group: str = "storage.k8s.io", subresource: str = "") -> Review:
    return review_of(
        {
            "operation": "CREATE",
            "kind": {"group": group, "version": "v1", "kind": "VolumeAttributesClass"},
            "resource": {"group": group, "version": "v1", "resource": "volumeattributesclasses"},
            "subResource": subresource,
            "object": document or {"metadata": {"name": "fast"}},
        }
    )


@pytest.mark.parametrize(
    ("review", "finalizer"),
    [
        (claim_review({"metadata": {"name": "data"}}), "kubernetes.io/pvc-protection"),
        (volume_review({"metadata": {"name": "disk"}}), "kubernetes.io/pv-protection"),
        (attributes_review(), "kubernetes.io/vac-protection"),
    ],
)
def test_each_kind_gets_its_finalizer(review: Review, finalizer: str) -> None:
    assert admit(CONTROLLER, review).operations == (
        {"op": "add", "path": "/metadata/finalizers", "value": [finalizer]},
    )


@pytest.mark.parametrize(
    ("finalizers", "operations"),
    [
        (["kubernetes.io/pvc-protection"], []),
        (["x/y", "kubernetes.io/pvc-protection", "z/z"], []),
        (["kubernetes.io/pv-protection"], [("add", "/metadata/finalizers/1")]),
        ([], [("add", "/metadata/finalizers/0")]),
        (None, [("replace", "/metadata/finalizers")]),
    ],
)
def test_the_finalizer_is_appended_to_existing_ones(
    finalizers: JSON, operations: list[tuple[str, str]]
) -> None:
    found = admit(CONTROLLER, claim_review({"metadata": {"finalizers": finalizers}}))
    assert [(operation["op"], operation["path"]) for operation in found.operations] == operations


@pytest.mark.parametrize(
    "review",
    [
        claim_review({"metadata": {}}, operation="UPDATE", old={}),
        claim_review({"metadata": {}}, subresource="status"),
        volume_review({"metadata": {}}, operation="UPDATE"),
        volume_review({"kind": "Service"}),
        volume_review(None),
        attributes_review(group="example.com"),
        attributes_review(subresource="status"),
    ],
)
def test_everything_else_is_ignored(review: Review) -> None:
    found = admit(CONTROLLER, review)
    assert (found.allowed, found.operations) == (True, ())


@pytest.mark.parametrize(
    ("gate", "changed"),
    [("StorageObjectInUseProtection", [False, False, True]), ("VolumeAttributesClass", [True, True, False])],
)
def test_feature_gates_turn_it_off(gate: str, changed: list[bool]) -> None:
    reviews = [claim_review({"metadata": {}}), volume_review({"metadata": {}}), attributes_review()]
    configuration = {"featureGates": {gate: False}}
    assert [bool(admit(CONTROLLER, review, configuration).operations) for review in reviews] == changed


def test_unknown_feature_gates_are_rejected() -> None:
    with pytest.raises(ConfigurationError, match=r'unknown field "featureGates\.PVCProtection"'):
        admit(CONTROLLER, volume_review({}), {"featureGates": {"PVCProtection": True}})


@pytest.mark.parametrize("finalizers", ["x", 5, {"a": 1}])
def test_finalizers_that_are_not_a_list_are_a_bad_request(finalizers: JSON) -> None:
    status = admit(CONTROLLER, volume_review({"metadata": {"finalizers": finalizers}})).status
    assert status is not None
    assert status.code == 400
    assert status.message.startswith("metadata.finalizers: must be a list, not ")


@given(claims(), volumes())
def test_a_second_pass_changes_nothing(claim: JSONObject, volume: JSONObject) -> None:
    found = admitted_twice(CONTROLLER, claim_review(claim))
    assert "kubernetes.io/pvc-protection" in found.object["metadata"]["finalizers"]
    found = admitted_twice(CONTROLLER, volume_review(volume))
    assert "kubernetes.io/pv-protection" in found.object["metadata"]["finalizers"]
