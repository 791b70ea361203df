"""Pods that are there when a namespace becomes stricter."""

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

BASELINE = LevelVersion(PodSecurityLevel.BASELINE)
SANDBOXED = ExemptNames(runtime_classes=frozenset({"sandbox"}))
VIOLATE = 'existing pods in namespace "shop" violate the new PodSecurity enforce level "baseline:latest"'


def pod(name: str, controller: str = "", runtime_class: str | None = None, **spec: JSON) -> JSONObject:
    owners = [{"uid": "other"}, {"uid": controller, "controller": True}] if controller else []
    return {
        "metadata": {"name": name, "ownerReferences": owners},
        "spec": {"runtimeClassName": runtime_class, "hostNetwork": True, **spec},
    }


def good(name: str) -> JSONObject:
    return pod(name, hostNetwork=False)


def warnings(pods: Iterable[JSONObject], limits: PodEvaluationLimits = DEFAULT_LIMITS) -> list[str]:
    return list(asyncio.run(evaluate_pods_in_namespace(list(pods), SANDBOXED, BASELINE, "shop", limits)))


def test_as_many_are_looked_at_as_in_kubernetes() -> None:
    assert (DEFAULT_LIMITS.pods, DEFAULT_LIMITS.seconds) == (3000, 1.0)


def test_nothing_is_said_where_nothing_is_wrong() -> None:
    assert warnings([]) == warnings([good("a"), good("b")]) == []


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["a"], "a: host namespaces"),
        (["b", "a"], "a (and 1 other pod): host namespaces"),
        (["b", "c", "a"], "a (and 2 other pods): host namespaces"),
    ],
)
def test_pods_that_do_the_same_wrong_are_told_as_one(names: list[str], told: str) -> None:
    assert warnings(map(pod, names)) == [VIOLATE, told]


def test_what_is_wrong_is_told_in_the_order_of_names() -> None:
    pods = [
        pod("d", hostNetwork=False, hostPID=True),
        pod("c"),
        pod("b", volumes=[{"hostPath": {}}]),
        good("a"),
    ]
    assert warnings(pods) == [
        VIOLATE,
        "b: host namespaces, hostPath volumes",
        "c (and 1 other pod): host namespaces",
    ]


def test_exempt_pods_are_not_looked_at() -> None:
    assert warnings([pod("a", runtime_class="sandbox"), pod("b", runtime_class="other")]) == [
        VIOLATE,
        "b: host namespaces",
    ]


def test_a_pod_that_cannot_be_read_is_none_that_may_stay() -> None:
    assert warnings([pod("a", hostNetwork="yes")]) == [VIOLATE, "a: unknown forbidden reason"]


def test_only_so_many_are_looked_at() -> None:
    assert warnings([pod(f"pod{number}") for number in range(1, 6)], PodEvaluationLimits(pods=4)) == [
        "new PodSecurity enforce level only checked against the first 4 of 5 existing pods",
        VIOLATE,
        "pod1 (and 3 other pods): host namespaces",
    ]


def test_only_so_long_they_are_looked_at() -> None:
    # Each look takes half a second and a bit, so that the second is over at the end of the second one.
    ticks = itertools.count(0.0, 0.55)
    assert warnings([pod(name) for name in "abcd"], PodEvaluationLimits(clock=lambda: next(ticks))) == [
        "new PodSecurity enforce level only checked against the first 2 of 4 existing pods",
        VIOLATE,
        "a (and 1 other pod): host namespaces",
    ]


def test_that_not_all_were_looked_at_is_told_even_where_nothing_is_wrong() -> None:
    assert warnings([good("a"), good("b")], PodEvaluationLimits(pods=1)) == [
        "new PodSecurity enforce level only checked against the first 1 of 2 existing pods"
    ]


def test_one_replica_of_each_comes_before_the_others() -> None:
    exempt = [pod(f"exempt{number}", runtime_class="sandbox") for number in range(4)]
    replicas = [
        pod(f"{owner}-{number}", owner, hostPID=True) for owner in ("one", "two") for number in range(4)
    ]
    alone = [pod(f"unique{number}") for number in range(4)]
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


def test_others_get_their_turn_meanwhile() -> None:
    async def counted() -> int:
        looking = asyncio.ensure_future(
            evaluate_pods_in_namespace(
                [pod(str(number)) for number in range(500)], ExemptNames(), BASELINE, "shop"
            )
        )
        turns = 0
        while not looking.done():
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert asyncio.run(counted()) >= 10
