"""BestEffort Pods."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.pods.resource_requirements import is_best_effort
from support.pods import container, pod


def pod_with_resources(resources: JSON = None, /, field: str = "containers", **others: JSON) -> JSON:
    spec: JSONObject = {field: [container("a"), container("b", resources=resources)], **others}
    return pod(**spec)


@pytest.mark.parametrize(
    "resources",
    [
        None,
        {},
        {"requests": {"example.com/gpu": "1", "ephemeral-storage": "1Gi"}},
        {"requests": {"cpu": "0"}, "limits": {"memory": "0"}},
        {"requests": {"cpu": "much"}},
        {"requests": {"cpu": True}, "limits": "x"},
    ],
)
def test_a_pod_without_cpu_and_memory_is_best_effort(resources: JSON) -> None:
    assert is_best_effort(pod_with_resources(resources))


@pytest.mark.parametrize(
    "resources", [{"requests": {"cpu": "1m"}}, {"limits": {"memory": "1"}}, {"requests": {"memory": 5}}]
)
@pytest.mark.parametrize("field", ["containers", "initContainers"])
def test_a_pod_with_cpu_or_memory_is_not_best_effort(resources: JSON, field: str) -> None:
    assert not is_best_effort(pod_with_resources(resources, field))


def test_ephemeral_containers_never_count() -> None:
    assert is_best_effort(pod_with_resources({"requests": {"cpu": "1"}}, "ephemeralContainers"))


def test_pod_level_resources_count_before_those_of_containers() -> None:
    assert is_best_effort(pod_with_resources({"requests": {"cpu": "1"}}, resources={"requests": {}}))
    assert not is_best_effort(pod_with_resources(resources={"limits": {"cpu": "1"}}))


def test_the_qos_class_of_the_status_counts_first() -> None:
    assert is_best_effort(
        {**pod_with_resources({"requests": {"cpu": "1"}}), "status": {"qosClass": "BestEffort"}}
    )
    assert not is_best_effort({**pod_with_resources(), "status": {"qosClass": "Burstable"}})


@pytest.mark.parametrize("document", [None, {}, {"spec": None}, {"spec": {"containers": "x"}}])
def test_malformed_resources_request_nothing(document: JSON) -> None:
    assert is_best_effort(document)
