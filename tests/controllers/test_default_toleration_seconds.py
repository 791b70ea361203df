"""DefaultTolerationSeconds."""

from __future__ import annotations

import pytest
from hypothesis import given

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.default_toleration_seconds import CONTROLLER, NOT_READY, UNREACHABLE
from support import vector_cases
from support.admissions import admit, pod_review, review_of
from support.expectations import check
from support.pods import pod
from support.strategies.pods import pods

OURS = "default-not-ready-toleration-seconds"
THEIRS = "default-unreachable-toleration-seconds"


@pytest.mark.parametrize("case", vector_cases.plugin("DefaultTolerationSeconds"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    check(admit(CONTROLLER, review_of(case["request"]), case["config"] or None), case["expected"])


def added(key: str, seconds: int = 300) -> JSONObject:
    return {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


def pod_with_tolerations(*tolerations: JSONObject) -> JSONObject:
    return pod(tolerations=list(tolerations))


@pytest.mark.parametrize("spec", [{}, {"tolerations": None}, {"tolerations": []}])
def test_a_pod_without_tolerations_gets_both(spec: JSONObject) -> None:
    found = admit(CONTROLLER, pod_review({"kind": "Pod", "spec": spec}))
    assert found.object["spec"]["tolerations"] == [added(NOT_READY), added(UNREACHABLE)]


def test_both_tolerations_are_added_in_one_operation() -> None:
    assert admit(CONTROLLER, pod_review({"kind": "Pod"})).operations == (
        {"op": "add", "path": "/spec", "value": {"tolerations": [added(NOT_READY), added(UNREACHABLE)]}},
    )


@pytest.mark.parametrize(
    ("toleration", "missing"),
    [
        ({"key": NOT_READY, "effect": "NoExecute"}, [UNREACHABLE]),
        ({"key": NOT_READY}, [UNREACHABLE]),
        ({"key": NOT_READY, "effect": ""}, [UNREACHABLE]),
        ({"key": NOT_READY, "effect": "NoSchedule"}, [NOT_READY, UNREACHABLE]),
        ({"key": NOT_READY, "operator": "Equal", "value": "x"}, [UNREACHABLE]),
        ({"key": UNREACHABLE, "tolerationSeconds": 0}, [NOT_READY]),
        ({"operator": "Exists"}, []),
        ({"operator": "Exists", "effect": "NoSchedule"}, [NOT_READY, UNREACHABLE]),
        ({"key": "dedicated"}, [NOT_READY, UNREACHABLE]),
    ],
)
def test_a_toleration_that_the_pod_has_is_not_added(toleration: JSONObject, missing: list[str]) -> None:
    found = admit(CONTROLLER, pod_review(pod_with_tolerations(toleration)))
    assert found.object["spec"]["tolerations"] == [toleration, *map(added, missing)]


def test_updates_are_treated_like_creations() -> None:
    found = admit(
        CONTROLLER, pod_review(pod_with_tolerations(), operation="UPDATE", old=pod_with_tolerations())
    )
    assert len(found.object["spec"]["tolerations"]) == 2


@pytest.mark.parametrize(
    ("configuration", "seconds"),
    [({OURS: 10, THEIRS: 20}, [10, 20]), ({OURS: 0}, [0, 300]), ({}, [300, 300]), (None, [300, 300])],
)
def test_the_seconds_can_be_set(configuration: JSON, seconds: list[int]) -> None:
    found = admit(CONTROLLER, pod_review(pod_with_tolerations()), configuration)
    assert [toleration["tolerationSeconds"] for toleration in found.object["spec"]["tolerations"]] == seconds


def test_the_seconds_must_be_integers() -> None:
    with pytest.raises(ConfigurationError) as fault:
        admit(CONTROLLER, pod_review(pod_with_tolerations()), {OURS: "300"})
    assert str(fault.value) == (
        'couldn\'t init admission plugin "DefaultTolerationSeconds": strict decoding error:'
        f' {OURS}: Invalid value: "string": {OURS} in body must be of type integer: "string"'
    )


@pytest.mark.parametrize(
    ("reviewed", "go_type"), [({"kind": "Service"}, "*core.Service"), (None, "<nil>"), ([], "<nil>")]
)
def test_an_object_other_than_a_pod_is_a_bad_request(reviewed: JSON, go_type: str) -> None:
    status = admit(CONTROLLER, pod_review(reviewed)).status
    assert status is not None
    assert (status.code, status.reason) == (400, "BadRequest")
    assert status.message == f"expected *api.Pod but got {go_type}"


@pytest.mark.parametrize("tolerations", ["x", {"a": 1}, 5])
def test_tolerations_that_are_not_a_list_are_a_bad_request(tolerations: JSON) -> None:
    status = admit(CONTROLLER, pod_review({"kind": "Pod", "spec": {"tolerations": tolerations}})).status
    assert status is not None
    assert status.code == 400
    assert status.message.startswith("spec.tolerations: must be a list, not ")


@given(pods())
def test_a_second_pass_changes_nothing(reviewed: JSON) -> None:
    once = admit(CONTROLLER, pod_review(reviewed))
    assert once.allowed
    assert admit(CONTROLLER, pod_review(once.object)).operations == ()
