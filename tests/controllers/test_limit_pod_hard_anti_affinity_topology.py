"""LimitPodHardAntiAffinityTopology."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.limit_pod_hard_anti_affinity_topology import CONTROLLER, HOSTNAME
from support import vector_cases
from support.admissions import admit, pod_review, review_of
from support.expectations import check
from support.pods import pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    "case", vector_cases.plugin("LimitPodHardAntiAffinityTopology"), ids=vector_cases.source
)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    check(admit(CONTROLLER, review_of(case["request"])), case["expected"])


def pod_with_affinity(*keys: str, kind: str = "podAntiAffinity", when: str = REQUIRED) -> JSONObject:
    return pod(affinity={kind: {when: [{"topologyKey": key} for key in keys]}})


@pytest.mark.parametrize(
    "reviewed",
    [
        pod_with_affinity(),
        pod_with_affinity(HOSTNAME),
        pod_with_affinity(HOSTNAME, HOSTNAME),
        pod_with_affinity("zone", when=PREFERRED),
        pod_with_affinity("zone", kind="podAffinity"),
        {"kind": "Pod"},
        {"kind": "Pod", "spec": {"affinity": None}},
        {"kind": "Pod", "spec": {"affinity": {"podAntiAffinity": {REQUIRED: "x"}}}},
    ],
)
def test_anti_affinity_on_the_node_is_allowed(reviewed: JSON) -> None:
    assert admit(CONTROLLER, pod_review(reviewed)).allowed


@pytest.mark.parametrize("keys", [["zone"], [HOSTNAME, "zone", "region"], [""]])
def test_the_first_other_topology_is_denied(keys: list[str]) -> None:
    status = admit(CONTROLLER, pod_review(pod_with_affinity(*keys))).status
    assert status is not None
    assert (status.code, status.reason) == (403, "Forbidden")
    bad = next(key for key in keys if key != HOSTNAME)
    assert status.message == (
        'pods "web" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey'
        f" {bad} but only key kubernetes.io/hostname is allowed"
    )


def test_the_denial_of_a_pod_with_a_generate_name_has_no_name() -> None:
    reviewed = {**pod_with_affinity("zone"), "metadata": {"generateName": "web-"}}
    status = admit(CONTROLLER, pod_review(reviewed, name="")).status
    assert status is not None
    assert status.message.startswith("pods is forbidden: affinity.")


@pytest.mark.parametrize("reviewed", [{"kind": "Service"}, None])
def test_an_object_other_than_a_pod_is_a_bad_request(reviewed: JSON) -> None:
    status = admit(CONTROLLER, pod_review(reviewed)).status
    assert status is not None
    assert (status.code, status.message) == (
        400,
        "Resource was marked with kind Pod but was unable to be converted",
    )
