"""Requests and limits of containers and Pods."""

from __future__ import annotations

import pytest

from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.field_errors import ROOT
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.pods.resource_requirements import container_requirements, pod_requirements, read_resource_list


def asking(cpu: str, *, stays: bool = False) -> JSONObject:
    resources = {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}
    return {"name": "c", "resources": resources, **({"restartPolicy": "Always"} if stays else {})}


def cpu_of(pod: JSONObject) -> str:
    whole = pod_requirements(
        pod, container_requirements(pod, "containers"), container_requirements(pod, "initContainers")
    )
    assert {name: str(amount) for name, amount in whole.requests.items()} == {
        name: str(amount) for name, amount in whole.limits.items()
    }
    return str(whole.requests["cpu"])


@pytest.mark.parametrize(
    ("init_containers", "containers", "whole"),
    [
        ([], [asking("1")], "1"),
        ([], [asking("1"), asking("500m")], "1500m"),
        ([asking("1")], [asking("1"), asking("1")], "2"),
        ([asking("3")], [asking("1"), asking("1")], "3"),
        ([asking("3"), asking("4")], [asking("1")], "4"),
        ([asking("1", stays=True)], [asking("1")], "2"),
        ([asking("1", stays=True), asking("3")], [asking("1")], "4"),
        ([asking("3"), asking("1", stays=True)], [asking("1")], "3"),
        ([asking("1", stays=True), asking("2", stays=True), asking("3")], [asking("1")], "6"),
        ([asking("5")], [], "5"),
    ],
)
def test_a_pod_requests_the_larger_of_containers_and_init_containers(
    init_containers: list[JSONObject], containers: list[JSONObject], whole: str
) -> None:
    assert cpu_of({"spec": {"initContainers": init_containers, "containers": containers}}) == whole


def test_pod_level_cpu_and_memory_take_precedence() -> None:
    own = {"cpu": "5", "memory": "1Gi", "hugepages-2Mi": "2Mi"}
    resources = {"requests": own, "limits": own}
    pod = {"spec": {"containers": [asking("1")], "resources": resources}}
    whole = pod_requirements(pod, container_requirements(pod, "containers"), ())
    assert {name: str(amount) for name, amount in whole.requests.items()} == {"cpu": "5", "memory": "1Gi"}
    assert whole.limits == whole.requests


def test_amounts_finer_than_a_thousandth_are_rounded_up() -> None:
    assert str(read_resource_list({"cpu": "100u"}, ROOT)["cpu"]) == "1m"


@pytest.mark.parametrize(
    ("containers", "count"), [(None, 0), ("x", 0), ([None, "x", {}], 1), ([{"resources": None}], 1)]
)
def test_an_item_that_is_no_container_requests_nothing(containers: JSON, count: int) -> None:
    found = container_requirements({"spec": {"containers": containers}}, "containers")
    assert len(found) == count
    assert all(
        not container.requirements.requests and not container.requirements.limits and not container.name
        for container in found
    )


@pytest.mark.parametrize(
    ("limits", "text"),
    [
        ({"cpu": "1K"}, "spec.containers[0].resources.limits.cpu: unable to parse quantity's suffix"),
        (["cpu"], "spec.containers[0].resources.limits: must be a mapping, not a list"),
    ],
)
def test_an_invalid_quantity_is_a_bad_request(limits: JSON, text: str) -> None:
    with pytest.raises(RefusalError) as refusal:
        container_requirements({"spec": {"containers": [{"resources": {"limits": limits}}]}}, "containers")
    assert (refusal.value.status.code, refusal.value.status.message) == (400, text)
