"""DefaultStorageClass."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers.default_storage_class import CONTROLLER, DEFAULT_CLASS_ANNOTATIONS
from support import vector_cases
from support.admissions import admit, review_of
from support.expectations import check
from support.mutation_invariants import admitted_twice
from support.storage_reviews import claim_review, storage_class
from support.strategies.storage import claims

LEGACY = {"refuseSeveralDefaults": True}


@pytest.mark.parametrize("case", vector_cases.plugin("DefaultStorageClass"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    configuration = LEGACY if "legacy" in (case.get("era") or "") else None
    review = review_of(case["request"], ObjectStore(case["cluster"]))
    check(admit(CONTROLLER, review, configuration), case["expected"])


def marked(
    name: str, created: str | None = None, mark: str = DEFAULT_CLASS_ANNOTATIONS[0], value: str = "true"
) -> JSONObject:
    return storage_class(name, annotations={mark: value}, creationTimestamp=created)


CLAIM = {"kind": "PersistentVolumeClaim", "metadata": {"name": "data"}, "spec": {"accessModes": []}}
DEFAULT = [marked("fast"), storage_class("slow")]


def test_a_claim_without_a_class_gets_the_default() -> None:
    assert admit(CONTROLLER, claim_review(CLAIM, cluster=DEFAULT)).operations == (
        {"op": "add", "path": "/spec/storageClassName", "value": "fast"},
    )


@pytest.mark.parametrize(
    "claim",
    [
        {"spec": {"storageClassName": ""}},
        {"spec": {"storageClassName": "slow"}},
        {"metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": ""}}},
        {"kind": "Service", "spec": {}},
        None,
        [],
    ],
)
def test_a_claim_that_names_a_class_keeps_it(claim: JSON) -> None:
    found = admit(CONTROLLER, claim_review(claim, cluster=DEFAULT))
    assert (found.allowed, found.operations) == (True, ())


@pytest.mark.parametrize("claim", [{"spec": {"storageClassName": None}}, {"spec": None}, {}])
def test_a_null_class_gets_the_default(claim: JSONObject) -> None:
    found = admit(CONTROLLER, claim_review(claim, cluster=DEFAULT))
    assert found.object["spec"] == {"storageClassName": "fast"}


@pytest.mark.parametrize(
    ("cluster", "chosen"),
    [
        ([], None),
        ([storage_class("slow")], None),
        (
            [marked("a", value="True"), marked("b", value="false"), marked("c", mark="example.com/default")],
            None,
        ),
        ([marked("a", mark=DEFAULT_CLASS_ANNOTATIONS[1])], "a"),
        ([marked("a", "2020-01-01T00:00:00Z"), marked("b", "2021-01-01T00:00:00Z")], "b"),
        ([marked("a", "2021-01-01T00:00:00Z"), marked("b", "2020-01-01T00:00:00Z")], "a"),
        ([marked("b", "2021-01-01T00:00:00Z"), marked("a", "2021-01-01T00:00:00Z")], "a"),
        ([marked("a", "2021-01-01T01:00:00+02:00"), marked("b", "2021-01-01T00:00:00Z")], "b"),
        ([marked("a"), marked("b", "1971-01-01T00:00:00Z")], "b"),
        ([marked("b", "x"), marked("a", None)], "a"),
    ],
)
def test_the_newest_default_class_wins(cluster: list[JSONObject], chosen: str | None) -> None:
    found = admit(CONTROLLER, claim_review(CLAIM, cluster=cluster))
    assert found.allowed
    assert found.object["spec"].get("storageClassName") == chosen


def test_older_releases_deny_several_defaults() -> None:
    status = admit(CONTROLLER, claim_review(CLAIM, cluster=[marked("a"), marked("b")]), LEGACY).status
    assert status is not None
    assert (status.code, status.reason) == (403, "Forbidden")
    assert status.message == (
        'persistentvolumeclaims "data" is forbidden: Internal error occurred: 2 default StorageClasses were found'
    )


@pytest.mark.parametrize("claim", [CLAIM, {"spec": {"storageClassName": "slow"}}])
def test_older_releases_use_a_single_default(claim: JSONObject) -> None:
    assert admit(CONTROLLER, claim_review(claim, cluster=DEFAULT), LEGACY).allowed


@pytest.mark.parametrize(("operation", "subresource"), [("UPDATE", ""), ("DELETE", ""), ("CREATE", "status")])
def test_other_requests_are_ignored(operation: str, subresource: str) -> None:
    review = claim_review(CLAIM, operation=operation, old=CLAIM, subresource=subresource, cluster=DEFAULT)
    assert admit(CONTROLLER, review).operations == ()


def test_a_malformed_claim_is_a_bad_request() -> None:
    status = admit(CONTROLLER, claim_review({"spec": []}, cluster=DEFAULT)).status
    assert status is not None
    assert (status.code, status.message) == (400, "spec: must be a mapping, not a list")


def test_a_setting_of_the_wrong_type_is_rejected() -> None:
    with pytest.raises(ConfigurationError, match="refuseSeveralDefaults in body must be of type boolean"):
        admit(CONTROLLER, claim_review(CLAIM), {"refuseSeveralDefaults": "yes"})


@given(
    claims(),
    st.lists(st.sampled_from([marked("a"), marked("b", "2021-01-01T00:00:00Z"), storage_class("c")])),
)
def test_a_second_pass_changes_nothing(claim: JSONObject, cluster: list[JSONObject]) -> None:
    admitted_twice(CONTROLLER, claim_review(claim, cluster=cluster))
