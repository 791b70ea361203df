"""Existing Pods when a namespace becomes stricter."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.pod_security.configuration import ExemptNames
from pratique.controllers.pod_security.namespaces import (
    DEFAULT_LIMITS,
    PodEvaluationLimits,
    evaluate_pods_in_namespace,
)
from pratique.controllers.pod_security.standards import LevelVersion, PodSecurityLevel
from support.pods import pod

BASELINE = LevelVersion(PodSecurityLevel.BASELINE)
SANDBOXED = ExemptNames(runtime_classes=frozenset({"sandbox"}))
VIOLATE = 'existing pods in namespace "shop" violate the new PodSecurity enforce level "baseline:latest"'


def host_network_pod(
    name: str, controller: str = "", runtime_class: str | None = None, **spec: JSON
) -> JSONObject:
    owners = [{"uid": "other"}, {"uid": controller, "controller": True}] if controller else []
    written: JSONObject = {"containers": [], "runtimeClassName": runtime_class, "hostNetwork": True, **spec}
    return pod(name=name, metadata={"ownerReferences": owners}, **written)


def good(name: str) -> JSONObject:
    return host_network_pod(name, hostNetwork=False)


def warnings(pods: Iterable[JSONObject], limits: PodEvaluationLimits = DEFAULT_LIMITS) -> list[str]:
    return list(asyncio.run(evaluate_pods_in_namespace(list(pods), SANDBOXED, BASELINE, "shop", limits)))


def test_the_limits_are_those_of_kubernetes() -> None:
    assert (DEFAULT_LIMITS.pods, DEFAULT_LIMITS.seconds) == (3000, 1.0)


def test_without_violations_there_are_no_warnings() -> None:
    assert warnings([]) == warnings([good("a"), good("b")]) == []


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["a"], "a: host namespaces"),
        (["b", "a"], "a (and 1 other pod): host namespaces"),
        (["b", "c", "a"], "a (and 2 other pods): host namespaces"),
    ],
)
def test_pods_with_the_same_violations_share_a_warning(names: list[str], expected: str) -> None:
    assert warnings(map(host_network_pod, names)) == [VIOLATE, expected]


def test_warnings_are_sorted_by_name() -> None:
    pods = [
        host_network_pod("d", hostNetwork=False, hostPID=True),
        host_network_pod("c"),
        host_network_pod("b", volumes=[{"hostPath": {}}]),
        good("a"),
    ]
    assert warnings(pods) == [
        VIOLATE,
        "b: host namespaces, hostPath volumes",
        "c (and 1 other pod): host namespaces",
    ]


def test_exempt_pods_are_not_evaluated() -> None:
    assert warnings(
        [host_network_pod("a", runtime_class="sandbox"), host_network_pod("b", runtime_class="other")]
    ) == [
        VIOLATE,
        "b: host namespaces",
    ]


def test_an_unreadable_pod_counts_as_a_violation() -> None:
    assert warnings([host_network_pod("a", hostNetwork="yes")]) == [VIOLATE, "a: unknown forbidden reason"]


def test_the_number_of_evaluated_pods_is_limited() -> None:
    assert warnings(
        [host_network_pod(f"pod{number}") for number in range(1, 6)], PodEvaluationLimits(pods=4)
    ) == [
        "new PodSecurity enforce level only checked against the first 4 of 5 existing pods",
        VIOLATE,
        "pod1 (and 3 other pods): host namespaces",
    ]


def test_the_evaluation_time_is_limited() -> None:
    # Every evaluation takes slightly over half a second, so time is up after the second one.
    ticks = itertools.count(0.0, 0.55)
    assert warnings(
        [host_network_pod(name) for name in "abcd"], PodEvaluationLimits(clock=lambda: next(ticks))
    ) == [
        "new PodSecurity enforce level only checked against the first 2 of 4 existing pods",
        VIOLATE,
        "a (and 1 other pod): host namespaces",
    ]


def test_an_incomplete_evaluation_is_reported_even_without_violations() -> None:
    assert warnings([good("a"), good("b")], PodEvaluationLimits(pods=1)) == [
        "new PodSecurity enforce level only checked against the first 1 of 2 existing pods"
    ]


def test_one_replica_per_controller_comes_first() -> None:
    exempt = [host_network_pod(f"exempt{number}", runtime_class="sandbox") for number in range(4)]
    replicas = [
        host_network_pod(f"{owner}-{number}", owner, hostPID=True)
        for owner in ("one", "two")
        for number in range(4)
    ]
    alone = [host_network_pod(f"unique{number}") for number in range(4)]
    assert warnings([*exempt, *replicas, *alone], PodEvaluationLimits(pods=4)) == [
        "new PodSecurity enforce level only checked against the first 4 of 12 existing pods",
        VIOLATE,
        "one-0 (and 3 other pods): host namespaces",
    ]
    assert warnings(
        [*replicas, *(good(f"good{number}") for number in range(2))], PodEvaluationLimits(pods=4)
    ) == [
        "new PodSecurity enforce level only checked against the first 4 of 10 existing pods",
        VIOLATE,
        "one-0 (and 1 other pod): host namespaces",
    ]


def test_other_tasks_run_during_the_evaluation() -> None:
    async def counted() -> int:
        looking = asyncio.ensure_future(
            evaluate_pods_in_namespace(
                [host_network_pod(str(number)) for number in range(500)], ExemptNames(), BASELINE, "shop"
            )
        )
        turns = 0
        while not looking.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(counted()) >= 10
