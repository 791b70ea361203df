"""PersistentVolumeClaimResize."""

from __future__ import annotations

import pytest
from hypothesis import given

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.quantities import Quantity
from pratique.cluster.store import ObjectStore
from pratique.controllers.persistent_volume_claim_resize import CONTROLLER
from support import vector_cases
from support.admissions import admit, review_of
from support.expectations import check
from support.storage_reviews import claim_review, storage_class
from support.strategies.storage import claims

NOT_BOUND = "Only bound persistent volume claims can be expanded"
NOT_EXPANDABLE = (
    "only dynamically provisioned pvc can be resized"
    " and the storageclass that provisions the pvc must support resize"
)
LEGACY = {"checkVolumePlugin": True}
CLASSES = [
    storage_class("gold", allowVolumeExpansion=True),
    storage_class("silver", allowVolumeExpansion=False),
    storage_class("bronze"),
    storage_class("tin", allowVolumeExpansion="true"),
]


@pytest.mark.parametrize("case", vector_cases.plugin("PersistentVolumeClaimResize"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    check(admit(CONTROLLER, review_of(case["request"], ObjectStore(case["cluster"]))), case["expected"])


def claim(
    storage: JSON, name: str | None = "gold", *, phase: str = "Bound", annotations: JSON = None
) -> JSONObject:
    spec = {"resources": {"requests": {"storage": storage}}, "storageClassName": name, "volumeName": "disk"}
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"annotations": annotations},
        "spec": spec,
        "status": {"phase": phase},
    }


def refusal(new: JSON, old: JSON, configuration: JSON = None, *cluster: JSONObject) -> str:
    review = claim_review(new, operation="UPDATE", old=old, cluster=[*CLASSES, *cluster])
    status = admit(CONTROLLER, review, configuration).status
    if status is None:
        return ""
    assert (status.code, status.reason) == (403, "Forbidden")
    return status.message.removeprefix('persistentvolumeclaims "data" is forbidden: ')


ANNOTATED: JSONObject = {"volume.beta.kubernetes.io/storage-class": "gold"}


@pytest.mark.parametrize(
    ("new", "old", "text"),
    [
        (claim("2Gi"), claim("1Gi"), ""),
        (claim("1024Mi", "silver"), claim("1Gi", "silver"), ""),
        (claim("1Gi", "silver"), claim("2Gi", "silver"), ""),
        (claim(None, "silver"), claim("1", "silver"), ""),
        (claim("1", "silver"), claim(None, "silver"), NOT_EXPANDABLE),
        (claim("2Gi", "silver"), claim("1Gi", "silver"), NOT_EXPANDABLE),
        (claim("2Gi", "bronze"), claim("1Gi", "bronze"), NOT_EXPANDABLE),
        (claim("2Gi", "tin"), claim("1Gi", "tin"), NOT_EXPANDABLE),
        (claim("2Gi", "gone"), claim("1Gi", "gone"), NOT_EXPANDABLE),
        (claim("2Gi", ""), claim("1Gi", ""), NOT_EXPANDABLE),
        (claim("2Gi", None), claim("1Gi", None), NOT_EXPANDABLE),
        (claim("2Gi"), claim("1Gi", "silver"), NOT_EXPANDABLE),
        (claim("2Gi"), claim("1Gi", None), NOT_EXPANDABLE),
        (claim("2Gi", "silver", annotations=ANNOTATED), claim("1Gi", None, annotations=ANNOTATED), ""),
        (claim("2Gi", phase="Pending"), claim("1Gi"), ""),
        (claim("2Gi"), claim("1Gi", phase="Pending"), NOT_BOUND),
        (claim("2Gi", "silver"), claim("1Gi", "silver", phase=""), NOT_BOUND),
        ({"kind": "Service"}, claim("1Gi"), ""),
        (claim("2Gi"), None, ""),
    ],
)
def test_a_claim_may_grow_if_its_class_allows_it(new: JSON, old: JSON, text: str) -> None:
    assert refusal(new, old) == text


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("glusterfs", ""), ("cinder", ""), ("rbd", ""), ("gcePersistentDisk", ""), ("awsElasticBlockStore", ""),
        ("hostPath", "volume plugin does not support resize"), ("csi", "volume plugin does not support resize"),
    ],
)  # fmt: skip
def test_older_releases_check_the_volume_too(source: str, text: str) -> None:
    disk = {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {source: {}},
    }
    assert refusal(claim("2Gi"), claim("1Gi"), LEGACY, disk) == text


def test_older_releases_need_the_volume() -> None:
    assert refusal(claim("2Gi"), claim("1Gi"), LEGACY) == (
        "Error updating persistent volume claim because fetching associated persistent volume failed"
    )
    assert refusal(claim("2Gi"), claim("1Gi", phase="Pending"), LEGACY) == NOT_BOUND


@pytest.mark.parametrize("volume", [{}, {"spec": None}, {"spec": {"glusterfs": None}}])
def test_a_volume_without_a_source_cannot_be_resized(volume: JSONObject) -> None:
    disk = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "disk"}, **volume}
    assert refusal(claim("2Gi"), claim("1Gi"), LEGACY, disk) == "volume plugin does not support resize"


@pytest.mark.parametrize(("operation", "subresource"), [("CREATE", ""), ("DELETE", ""), ("UPDATE", "status")])
def test_other_requests_are_ignored(operation: str, subresource: str) -> None:
    new, old = claim("2Gi", "silver"), claim("1Gi", "silver")
    review = claim_review(new, operation=operation, old=old, subresource=subresource, cluster=CLASSES)
    assert admit(CONTROLLER, review).allowed


def test_a_malformed_amount_is_a_bad_request() -> None:
    review = claim_review(claim("much"), operation="UPDATE", old=claim("1Gi"))
    status = admit(CONTROLLER, review).status
    assert status is not None
    assert (status.code, status.reason) == (400, "BadRequest")
    assert status.message.startswith(
        "spec.resources.requests.storage: quantities must match the regular expression"
    )


def test_unknown_settings_are_rejected() -> None:
    with pytest.raises(
        ConfigurationError, match='unknown field "volumePlugin"; known fields: checkVolumePlugin'
    ):
        refusal(claim("2Gi"), claim("1Gi"), {"volumePlugin": True})


@given(claims(), claims())
def test_only_growth_is_ever_denied(new: JSONObject, old: JSONObject) -> None:
    def size(of: JSONObject) -> Quantity:
        resources = of.get("spec", {}).get("resources", {})
        return Quantity.from_json(resources.get("requests", {}).get("storage"))

    text = refusal(new, old)
    assert text in {"", NOT_BOUND, NOT_EXPANDABLE}
    assert not text or size(new).compare(size(old)) > 0
