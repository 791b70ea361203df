"""Objects with very many errors or warnings, and lists whose items are compared with each other."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from pratique.apimachinery.field_errors import MAX_ERROR_CHARACTERS, MAX_ERRORS
from pratique.apimachinery.json_values import JSONObject
from pratique_frontdoor.chain.decisions import Decision
from support.manifest_decisions import decide_manifest


def pod(**spec: Any) -> JSONObject:
    containers = [{"name": "a", "image": "a"}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {"containers": containers, **spec},
    }


def container(**fields: Any) -> JSONObject:
    return pod(containers=[{"name": "a", "image": "a", **fields}])


def causes(decision: Decision) -> list[str]:
    assert decision.status is not None
    assert decision.status.details is not None
    return [cause.message for cause in decision.status.details.causes]


def bad_ports(count: int) -> JSONObject:
    return container(ports=[{"containerPort": 70000}] * count)


def test_an_object_may_have_as_many_errors_as_can_be_told() -> None:
    assert len(causes(decide_manifest(bad_ports(MAX_ERRORS // 4)))) == MAX_ERRORS // 4


def claims_of(count: int) -> JSONObject:
    claims = [{"name": f"claim-{number}", "resourceClaimName": "a"} for number in range(count)]
    used = [{"name": f"missing-{number}"} for number in range(count)]
    manifest = container(resources={"claims": used})
    manifest["spec"]["resourceClaims"] = claims
    return manifest


@pytest.mark.parametrize(
    "manifest",
    [bad_ports(MAX_ERRORS + 1), claims_of(1500)],
    ids=["many errors", "errors that each list all that there is"],
)
def test_more_errors_are_one(manifest: JSONObject) -> None:
    decision = decide_manifest(manifest)
    assert decision.status is not None
    assert decision.status.code == 422
    limits = f"more than {MAX_ERRORS} errors, or than {MAX_ERROR_CHARACTERS} characters of errors"
    assert decision.message == f'Pod "web" is invalid: {limits}'
    assert len(causes(decision)) <= 1


def test_errors_that_repeat_a_long_value_are_one() -> None:
    key = "x/" * 1_000_000
    labels = {f"{key}{number}": "" for number in range(5)}
    manifest = {**pod(), "metadata": {"name": "web", "namespace": "default", "labels": labels}}
    assert "characters of errors" in decide_manifest(manifest).message


def test_equal_ports_are_warned_of_until_nobody_reads_it() -> None:
    decision = decide_manifest(container(ports=[{"containerPort": 80}] * 3000))
    assert decision.allowed
    assert sum(map(len, decision.warnings)) < 5000
    assert "duplicate port definition" in decision.warnings[0]


def steps_of(manifest: JSONObject) -> int:
    """How many lines of Python it takes to decide about a manifest."""
    count = 0

    def trace(_frame: FrameType, _event: str, _argument: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        decide_manifest(manifest)
    finally:
        sys.settrace(before)
    return count


def with_gates(count: int) -> JSONObject:
    return pod(schedulingGates=[{"name": f"a{number}"} for number in range(count)])


def with_claims(count: int) -> JSONObject:
    names = [f"a{number}" for number in range(count)]
    manifest = container(resources={"claims": [{"name": name} for name in names]})
    manifest["spec"]["resourceClaims"] = [{"name": name, "resourceClaimName": name} for name in names]
    return manifest


@pytest.mark.parametrize("manifest_of", [with_gates, with_claims])
def test_items_of_a_list_are_not_compared_with_each_other(manifest_of: Callable[[int], JSONObject]) -> None:
    decide_manifest(manifest_of(1))  # what is done once for all objects
    few, many = steps_of(manifest_of(200)), steps_of(manifest_of(800))
    assert many < 5 * few
