"""Which requests a PolicyRollout leaves in shadow, and what policies in shadow decide."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.decoding import decode_strictly
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.cluster.store import ObjectStore
from pratique.configuration.policy_rollouts import PolicyRollout, PolicyRolloutSpec
from pratique.policies.rollouts import Rollout, Rollouts, namespace_place
from support.chains import POD, pod_review

POLICY = {"kind": "ValidatingAdmissionPolicy", "name": "p"}
TEAM_A = {
    "apiVersion": "v1",
    "kind": "Namespace",
    "metadata": {"name": "shop", "labels": {"team": "a"}},
}
NAMES = [f"team-{number}" for number in range(1000)]


def rollout(mode: str, **share: Any) -> PolicyRollout:
    return PolicyRollout(
        "one", decode_strictly({"mode": mode, "policies": [POLICY], **share}, PolicyRolloutSpec)
    )


def in_shadow(review: Review, mode: str = "Canary", **share: Any) -> bool:
    return Rollout.compile(rollout(mode, **share)).in_shadow(review)


@pytest.mark.parametrize(
    ("share", "shadow"),
    [
        ({"namespaces": ["shop"]}, False),
        ({"namespaces": ["other"]}, True),
        ({"namespaceSelector": {"matchLabels": {"team": "a"}}}, False),
        ({"namespaceSelector": {"matchLabels": {"team": "b"}}}, True),
        ({"percent": 100}, False),
        ({"percent": 100, "namespaces": ["other"]}, True),
        ({"percent": namespace_place("shop"), "namespaces": ["shop"]}, True),
        ({"percent": namespace_place("shop") + 1, "namespaces": ["shop"]}, False),
    ],
)
def test_a_canary_is_enforced_where_every_part_of_its_share_matches(share: Any, *, shadow: bool) -> None:
    assert in_shadow(pod_review(cluster=ObjectStore([TEAM_A])), **share) is shadow


def test_mode_shadow_is_enforced_nowhere_and_mode_enforce_is_no_rollout() -> None:
    assert in_shadow(pod_review(), "Shadow")
    assert not Rollouts([rollout("Enforce")])


@pytest.mark.parametrize("percent", [1, 10, 50, 99])
def test_a_share_of_namespaces_is_about_as_large_as_it_says(percent: int) -> None:
    canaries = sum(namespace_place(name) < percent for name in NAMES)
    assert abs(canaries - 10 * percent) < 50


def test_the_places_of_namespaces_never_change() -> None:
    """Another place would move every canary at the next release, and apart where releases meet."""
    assert [namespace_place(name) for name in ("default", "shop", "kube-system")] == [49, 25, 69]


def test_what_is_in_no_namespace_stays_in_shadow_until_everything_is_enforced() -> None:
    cluster_scoped = pod_review(namespace="")
    namespace = msgspec.structs.replace(
        pod_review(TEAM_A, cluster=ObjectStore([TEAM_A])),
        kind=GroupVersionKind("", "v1", "Namespace"),
        resource=GroupVersionResource("", "v1", "namespaces"),
        name="shop",
    )
    assert in_shadow(cluster_scoped, percent=100)
    assert in_shadow(namespace, percent=100)
    assert in_shadow(namespace, namespaceSelector={"matchLabels": {"team": "a"}})


def test_a_namespace_that_is_not_there_matches_no_selector() -> None:
    selector = {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}
    assert in_shadow(pod_review(POD, cluster=ObjectStore([])), namespaceSelector=selector)


@pytest.mark.parametrize(
    ("named", "binding", "found"),
    [({}, "a", True), ({}, "", True), ({"binding": "a"}, "a", True), ({"binding": "a"}, "b", False)],
)
def test_a_policy_is_rolled_out_by_all_bindings_or_by_one(named: Any, binding: str, *, found: bool) -> None:
    document = rollout("Shadow", policies=[{**POLICY, **named}])
    kind = document.spec.policies[0].kind
    assert (Rollouts([document]).of_policy(kind, "p", binding) is not None) is found  # type: ignore[arg-type]  # a StrEnum
