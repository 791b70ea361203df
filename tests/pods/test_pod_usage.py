"""The resource usage of Pods."""

from __future__ import annotations

import pytest

from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.pods.pod_usage import pod_usage
from support.resource_quotas import counted_pod, requesting, texts


def status(name: str = "c", allocated: JSON = None, in_force: JSON = None) -> JSONObject:
    written: JSONObject = {"name": name}
    if allocated is not None:
        written["allocatedResources"] = allocated
    if in_force is not None:
        written["resources"] = in_force
    return written


def resized(asked: str, *statuses: JSONObject, reason: str = "Deferred") -> JSONObject:
    condition = {"type": "PodResizePending", "reason": reason}
    return {
        **counted_pod(requesting(cpu=asked, limits={"cpu": asked})),
        "status": {"containerStatuses": list(statuses), "conditions": [{"type": "Ready"}, condition]},
    }


def test_a_pod_uses_what_its_containers_request() -> None:
    found = pod_usage(counted_pod(requesting(cpu="1", limits={"cpu": "2"}), requesting("d", cpu="500m")))
    assert texts(found.requests) == {"cpu": "1500m"}
    assert texts(found.limits) == {"cpu": "2"}


def test_overhead_is_added_to_requests_and_existing_limits() -> None:
    overhead = {"cpu": "250m", "memory": "64Mi", "example.com/gpu": "1"}
    found = pod_usage(counted_pod(requesting(cpu="1", limits={"cpu": "2", "memory": "0"}), overhead=overhead))
    assert texts(found.requests) == {"cpu": "1250m", "memory": "64Mi", "example.com/gpu": "1"}
    assert texts(found.limits) == {"cpu": "2250m", "memory": "0"}


def test_pod_level_resources_come_first_including_huge_pages() -> None:
    own = {"cpu": "5", "hugepages-2Mi": "4Mi", "example.com/gpu": "7"}
    found = pod_usage(
        counted_pod(requesting(cpu="1", memory="1Gi"), resources={"requests": own, "limits": own})
    )
    assert texts(found.requests) == {"cpu": "5", "memory": "1Gi", "hugepages-2Mi": "4Mi"}
    assert texts(found.limits) == {"cpu": "5", "hugepages-2Mi": "4Mi"}


@pytest.mark.parametrize(
    ("asked", "given", "reason", "requests"),
    [
        ("2", status(allocated={"cpu": "1"}), "Deferred", "2"),
        ("1", status(allocated={"cpu": "2"}), "Deferred", "2"),
        ("1", status(in_force={"requests": {"cpu": "3"}}), "Deferred", "3"),
        ("1", status(allocated={"cpu": "2"}, in_force={"requests": {"cpu": "3"}}), "Deferred", "3"),
        ("9", status(allocated={"cpu": "2"}, in_force={"requests": {"cpu": "1"}}), "Infeasible", "2"),
        ("9", status(allocated={"cpu": "2"}), "Infeasible", "2"),
        ("4", status("other", allocated={"cpu": "9"}), "Deferred", "4"),
    ],
)
def test_allocated_resources_count_where_larger(
    asked: str, given: JSONObject, reason: str, requests: str
) -> None:
    assert texts(pod_usage(resized(asked, given, reason=reason)).requests) == {"cpu": requests}


def test_actual_limits_count_where_larger() -> None:
    given = status(in_force={"limits": {"cpu": "3"}})
    assert texts(pod_usage(resized("1", given)).limits) == {"cpu": "3"}
    assert texts(pod_usage(resized("4", given)).limits) == {"cpu": "4"}
    assert texts(pod_usage(resized("4", given, reason="Infeasible")).limits) == {"cpu": "3"}
    assert texts(pod_usage(resized("4", status(), reason="Infeasible")).limits) == {}


def test_init_containers_have_statuses_of_their_own() -> None:
    written = counted_pod(
        requesting(cpu="1"), initContainers=[{**requesting("i", cpu="1"), "restartPolicy": "Always"}]
    )
    given = {"initContainerStatuses": [status("i", allocated={"cpu": "3"})]}
    assert texts(pod_usage({**written, "status": given}).requests) == {"cpu": "4"}


def test_an_invalid_quantity_is_named() -> None:
    with pytest.raises(RefusalError) as caught:
        pod_usage(resized("1", status(allocated={"cpu": "much"})))
    assert caught.value.status.code == 400
    assert caught.value.status.message.startswith("status.containerStatuses[0].allocatedResources.cpu: ")
