"""ResourceDefaults."""

from __future__ import annotations

import pytest
from hypothesis import given

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.resource_defaults import CONTROLLER
from support import vector_cases
from support.admissions import admit, pod_review, review_of
from support.expectations import check
from support.mutation_invariants import admitted_twice
from support.pods import container, pod
from support.strategies.demands import pods


@pytest.mark.parametrize("case", vector_cases.plugin("ResourceDefaults"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    check(admit(CONTROLLER, review_of(case["request"])), case["expected"])


def pod_with_resources(*resources: JSON, field: str = "containers") -> JSONObject:
    containers = [container(resources=amounts) for amounts in resources]
    spec: JSONObject = {"containers": [], field: containers}
    return pod(**spec)


@pytest.mark.parametrize(
    ("limits", "operations"),
    [
        (None, [("", {"memory": "512Mi", "cpu": "1"})]),
        ({}, [("/memory", "512Mi"), ("/cpu", "1")]),
        ({"cpu": "0.001"}, [("/memory", "512Mi")]),
        ({"cpu": "0m", "memory": 1}, [("/cpu", "1")]),
        ({"cpu": None, "memory": "0Gi"}, [("/memory", "512Mi"), ("/cpu", "1")]),
        ({"cpu": "2", "memory": "1Gi", "x/y": "0"}, []),
    ],
)
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_limits_that_are_missing_or_zero_are_set(
    limits: JSON, operations: list[tuple[str, JSON]], operation: str
) -> None:
    reviewed = pod_with_resources({"limits": {"cpu": 1, "memory": 1}}, {"limits": limits})
    found = admit(CONTROLLER, pod_review(reviewed, operation=operation, old=reviewed))
    path = "/spec/containers/1/resources/limits"
    assert [(added["path"], added["value"]) for added in found.operations] == [
        (path + name, value) for name, value in operations
    ]


def test_requests_are_ignored() -> None:
    found = admit(CONTROLLER, pod_review(pod_with_resources({"requests": {"cpu": "3"}})))
    assert found.object["spec"]["containers"][0]["resources"] == {
        "requests": {"cpu": "3"},
        "limits": {"cpu": "1", "memory": "512Mi"},
    }


@pytest.mark.parametrize("field", ["initContainers", "ephemeralContainers"])
def test_newer_kinds_of_containers_are_ignored(field: str) -> None:
    assert admit(CONTROLLER, pod_review(pod_with_resources({}, field=field))).operations == ()


@pytest.mark.parametrize(
    ("operation", "subresource"), [("DELETE", ""), ("UPDATE", "status"), ("CREATE", "binding")]
)
def test_other_requests_are_ignored(operation: str, subresource: str) -> None:
    assert (
        admit(
            CONTROLLER, pod_review(pod_with_resources({}), operation=operation, subresource=subresource)
        ).operations
        == ()
    )


@pytest.mark.parametrize("reviewed", [{"kind": "Service"}, None, []])
def test_an_object_other_than_a_pod_is_a_bad_request(reviewed: JSON) -> None:
    status = admit(CONTROLLER, pod_review(reviewed)).status
    assert status is not None
    assert (status.code, status.reason) == (400, "BadRequest")
    assert status.message == "Resource was marked with kind Pod but was unable to be converted"


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ("x", "spec.containers[0].resources.limits: must be a mapping, not a string"),
        ({"cpu": "1K"}, "spec.containers[0].resources.limits.cpu: unable to parse quantity's suffix"),
    ],
)
def test_malformed_limits_are_a_bad_request(limits: JSON, text: str) -> None:
    status = admit(CONTROLLER, pod_review(pod_with_resources({"limits": limits}))).status
    assert status is not None
    assert (status.code, status.message) == (400, text)


def test_the_catalogue_shows_that_kubernetes_removed_it() -> None:
    assert not CONTROLLER.default
    assert CONTROLLER.removed_in == "1.0"
    assert "LimitRanger" in (CONTROLLER.replaced_by or "")


@given(pods())
def test_a_second_pass_changes_nothing(reviewed: JSONObject) -> None:
    found = admitted_twice(CONTROLLER, pod_review(reviewed))
    for limited in found.object["spec"]["containers"]:
        assert {"cpu", "memory"} <= set(limited["resources"]["limits"])
