"""What Pods use of quotas, and what they must specify."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.quota.pod_evaluator import (
    PODS,
    is_ended,
    missing_requirements,
    pod_quota_usage,
)
from support.resource_quotas import counted_pod, requesting, review, texts

ALL = (
    "cpu",
    "requests.memory",
    "limits.cpu",
    "pods",
    "requests.ephemeral-storage",
    "requests.example.com/gpu",
)


@pytest.mark.parametrize(
    ("requests", "limits", "used"),
    [
        ({}, {}, {}),
        ({"cpu": "1"}, {"cpu": "2"}, {"cpu": "1", "requests.cpu": "1", "limits.cpu": "2"}),
        ({"memory": "1Gi"}, {}, {"memory": "1Gi", "requests.memory": "1Gi"}),
        (
            {"ephemeral-storage": "1Gi"},
            {"ephemeral-storage": "2Gi"},
            {
                "ephemeral-storage": "1Gi",
                "requests.ephemeral-storage": "1Gi",
                "limits.ephemeral-storage": "2Gi",
            },
        ),
        ({"hugepages-2Mi": "4Mi"}, {}, {"hugepages-2Mi": "4Mi", "requests.hugepages-2Mi": "4Mi"}),
        ({"example.com/gpu": "2"}, {"example.com/gpu": "2"}, {"requests.example.com/gpu": "2"}),
        (
            {"deviceclass.resource.kubernetes.io/gpu": "1"},
            {},
            {"requests.deviceclass.resource.kubernetes.io/gpu": "1"},
        ),
        ({"kubernetes.io/batteries": "1", "storage": "1Gi"}, {}, {}),
    ],
)
def test_a_pod_uses_its_requests_and_limits(requests: JSON, limits: JSON, used: dict[str, str]) -> None:
    found = pod_quota_usage(counted_pod(requesting(limits=limits, **requests)))
    assert texts(found) == {"count/pods": "1", "pods": "1", **used}
    assert all(map(PODS.matches_resource, found))


@pytest.mark.parametrize("name", ["services", "secrets", "requests.storage", "requests.batteries", "cpus"])
def test_pods_do_not_use_other_resources(name: str) -> None:
    assert not PODS.matches_resource(name)


def deleted(when: JSON, grace: JSON) -> JSONObject:
    return {"metadata": {"deletionTimestamp": when, "deletionGracePeriodSeconds": grace}}


@pytest.mark.parametrize(
    ("written", "over"),
    [
        ({"status": {"phase": "Succeeded"}}, True),
        ({"status": {"phase": "Failed"}}, True),
        ({"status": {"phase": "Running"}}, False),
        (deleted("2020-01-01T00:00:00Z", 30), True),
        (deleted("2020-01-01T00:00:00Z", None), False),
        (deleted("9020-01-01T00:00:00Z", 30), False),
        (deleted("some day", 30), False),
        (deleted("2020-01-01", 30), False),
        (deleted("9999-12-31T00:00:00Z", 10**9), False),
    ],
)
def test_a_pod_that_has_ended_uses_only_its_object_count(written: JSONObject, *, over: bool) -> None:
    ended = {**counted_pod(requesting(cpu="1")), **written}
    assert is_ended(ended) is over
    assert (texts(pod_quota_usage(ended)) == {"count/pods": "1"}) is over


@pytest.mark.parametrize(
    ("written", "text"),
    [
        (counted_pod(requesting(cpu="1", memory="1Gi", limits={"cpu": "1"})), ""),
        (
            counted_pod(requesting("b"), requesting("a", cpu="1")),
            "cpu for: b; limits.cpu for: a,b; requests.memory for: a,b",
        ),
        (
            counted_pod(requesting("a", memory="1"), requesting("a")),
            "cpu for: a; limits.cpu for: a; requests.memory for: a",
        ),
        (
            counted_pod(initContainers=[requesting("i", cpu="1", limits={"cpu": "1"})]),
            "requests.memory for: i",
        ),
        (counted_pod(requesting("b"), resources={"requests": {"memory": "1Gi"}}), ""),
        (
            counted_pod(requesting("b", cpu="1", memory="1"), resources={"limits": {"storage": "1"}}),
            "limits.cpu for: b",
        ),
        (counted_pod(), ""),
    ],
)
def test_containers_must_specify_cpu_and_memory_if_a_quota_names_them(written: JSONObject, text: str) -> None:
    assert missing_requirements(ALL, written) == (f"must specify {text}" if text else "")
    assert not missing_requirements(["pods", "ephemeral-storage"], written)


def with_deadline(seconds: JSON) -> JSONObject:
    return counted_pod(activeDeadlineSeconds=seconds)


@pytest.mark.parametrize(
    ("new", "old", "subresource", "charged"),
    [
        (counted_pod(), None, "", True),
        (counted_pod(), None, "binding", False),
        (counted_pod(), counted_pod(), "", False),
        (with_deadline(5), counted_pod(), "", True),
        (with_deadline(5), with_deadline(9), "", False),
        ({"kind": "Service"}, counted_pod(), "", False),
        (counted_pod(), counted_pod(), "resize", True),
        (counted_pod(), None, "resize", False),
        (counted_pod(), counted_pod(), "status", False),
        (counted_pod(), counted_pod(), "ephemeralcontainers", False),
    ],
)
def test_pods_are_charged_on_creation_resize_and_change_of_scope(
    new: JSON, old: JSON, subresource: str, *, charged: bool
) -> None:
    assert PODS.handles(review(new, old=old, subresource=subresource)) is charged
