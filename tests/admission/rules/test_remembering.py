"""Rule sets remember what they said of requests: never of another request, and not without end."""

from __future__ import annotations

import msgspec
import pytest

from pratique.admission.reviews import Review
from pratique.admission.rules import compile_rules, rule
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation

PODS = Review(
    uid="u",
    operation=Operation.CREATE,
    kind=GroupVersionKind("", "v1", "Pod"),
    resource=GroupVersionResource("", "v1", "pods"),
    name="web",
    namespace="shop",
)
RULES = (rule("pods", operations=("CREATE",), versions=("v1",), scope="Namespaced"),)


@pytest.mark.parametrize(
    "other",
    [
        msgspec.structs.replace(PODS, operation=Operation.DELETE),
        msgspec.structs.replace(PODS, resource=GroupVersionResource("apps", "v1", "pods")),
        msgspec.structs.replace(PODS, resource=GroupVersionResource("", "v2", "pods")),
        msgspec.structs.replace(PODS, resource=GroupVersionResource("", "v1", "services")),
        msgspec.structs.replace(PODS, subresource="status"),
        msgspec.structs.replace(PODS, namespace=""),
    ],
    ids=["operation", "group", "version", "resource", "subresource", "scope"],
)
def test_requests_that_rules_can_distinguish_are_cached_separately(other: Review) -> None:
    rules = compile_rules(RULES)
    for _ in range(2):
        assert rules.matches(PODS)
        assert not rules.matches(other)
        assert rules.mismatch(other) == compile_rules(RULES).mismatch(other)


def test_requests_that_rules_cannot_distinguish_share_one_cache_entry() -> None:
    rules = compile_rules(RULES)
    for name in ("a", "b"):
        assert rules.matches(msgspec.structs.replace(PODS, uid=name, name=name, namespace=name))
    assert rules.remembered == 1


def test_the_cache_stays_small_however_many_resources_are_requested() -> None:
    rules = compile_rules(RULES)
    for number in range(1_000):
        resource = GroupVersionResource("", "v1", f"things{number}")
        assert rules.mismatch(msgspec.structs.replace(PODS, resource=resource)).endswith(resource.resource)
        assert rules.remembered == number % 200 + 1


@pytest.mark.parametrize(("letters", "remembered"), [(198, 1), (199, 0)])
def test_a_request_with_names_of_200_characters_is_cached(letters: int, remembered: int) -> None:
    rules = compile_rules(RULES)
    resource = GroupVersionResource("", "v1", "x" * letters)
    assert rules.mismatch(msgspec.structs.replace(PODS, resource=resource))
    assert rules.remembered == remembered


@pytest.mark.parametrize("field", ["group", "version", "resource"])
def test_a_request_with_longer_names_is_not_cached(field: str) -> None:
    rules = compile_rules(RULES)
    resource = GroupVersionResource(**{"version": "v1", "resource": "pods", field: "x" * 10_000})
    assert rules.mismatch(msgspec.structs.replace(PODS, resource=resource))
    assert rules.remembered == 0
