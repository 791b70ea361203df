"""ExtendedResourceToleration."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.extended_resource_toleration import CONTROLLER
from pratique.pods.tolerations import Toleration
from support import vector_cases
from support.admissions import admit, pod_review, review_of
from support.expectations import check
from support.mutation_invariants import admitted_twice
from support.pods import container, pod
from support.strategies.pods import pods
from support.strategies.tolerations import lists

GPU = "example.com/gpu"
ADDED = {"key": GPU, "operator": "Exists", "effect": "NoSchedule"}


@pytest.mark.parametrize("case", vector_cases.plugin("ExtendedResourceToleration"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    check(admit(CONTROLLER, review_of(case["request"])), case["expected"])


def pod_with_requests(*tolerations: JSON, requests: JSON = None, field: str = "containers") -> JSONObject:
    requesting = container(resources={"requests": {GPU: 1} if requests is None else requests})
    spec: JSONObject = {field: [requesting], "tolerations": list(tolerations)}
    return pod(**spec)


def test_every_toleration_is_added_by_its_own_operation() -> None:
    reviewed = pod_with_requests(
        {"key": "other"}, requests={"example.com/b": 1, "example.com/a": 1, "cpu": 1}
    )
    assert admit(CONTROLLER, pod_review(reviewed)).operations == (
        {"op": "add", "path": "/spec/tolerations/1", "value": {**ADDED, "key": "example.com/a"}},
        {"op": "add", "path": "/spec/tolerations/2", "value": {**ADDED, "key": "example.com/b"}},
    )


def test_an_expiring_toleration_becomes_permanent() -> None:
    found = admit(CONTROLLER, pod_review(pod_with_requests({**ADDED, "tolerationSeconds": 5})))
    assert found.operations == ({"op": "remove", "path": "/spec/tolerations/0/tolerationSeconds"},)


@pytest.mark.parametrize("written", [ADDED, {**ADDED, "value": ""}])
def test_an_existing_toleration_stays_as_it_is(written: JSONObject) -> None:
    assert admit(CONTROLLER, pod_review(pod_with_requests(written))).operations == ()


@pytest.mark.parametrize(
    "reviewed",
    [
        pod_with_requests(field="ephemeralContainers"),
        pod_with_requests(requests={"cpu": 1, "kubernetes.io/x": 1, "requests.example.com/gpu": 1}),
        pod_with_requests(requests=["x"]),
        {"kind": "Pod", "spec": None},
    ],
)
def test_other_pods_are_ignored(reviewed: JSONObject) -> None:
    assert admit(CONTROLLER, pod_review(reviewed)).operations == ()


def test_updates_are_treated_like_creations() -> None:
    found = admit(CONTROLLER, pod_review(pod_with_requests(), operation="UPDATE", old=pod_with_requests()))
    assert found.object["spec"]["tolerations"] == [ADDED]


@pytest.mark.parametrize(("reviewed", "go_type"), [({"kind": "Service"}, "*core.Service"), (None, "<nil>")])
def test_an_object_other_than_a_pod_is_a_bad_request(reviewed: JSON, go_type: str) -> None:
    status = admit(CONTROLLER, pod_review(reviewed)).status
    assert status is not None
    assert (status.code, status.message) == (400, f"expected *core.Pod but got {go_type}")


@given(pods(), st.none() | lists(), st.sampled_from(["CREATE", "UPDATE"]))
def test_a_second_pass_changes_nothing(
    reviewed: JSONObject, present: list[Toleration] | None, operation: str
) -> None:
    if present is not None:
        written = [toleration.document for toleration in present]
        reviewed = {**reviewed, "spec": {**reviewed.get("spec", {}), "tolerations": written}}
    assert admitted_twice(CONTROLLER, pod_review(reviewed, operation=operation, old=reviewed)).allowed
