"""PolicyRollouts in a running stack: everything in shadow has no effect, in every process that decides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.local_stacks import Stack
from support.refusing_policies import CHAIN, REFERENCES, refusing_policies
from support.shared_stacks import WAYS, SharedStack, SharedStacks
from support.waiting import within

REVIEW = json.loads((Path(__file__).parents[2] / "bench" / "review.json").read_text())
NAMESPACE = REVIEW["request"]["namespace"]
WOULD_BE = [
    ("MutatingAdmissionPolicy", "unchanged", "mutated"),
    ("MutatingAdmissionWebhook", "failedOpen", "failed"),
    ("AlwaysDeny", "unchanged", "denied"),
    ("AlwaysDeny", "allowed", "denied"),
    ("ValidatingAdmissionPolicy", "allowed", "denied"),
    ("ValidatingAdmissionWebhook", "failedOpen", "failed"),
]
"""Controllers in their order, what they have done, and what they would have; AlwaysDeny is in both phases."""


def rollout(*targets: JSONObject, mode: str = "Shadow", **share: Any) -> JSONObject:
    return {
        "apiVersion": "policy.pratique/v1alpha1",
        "kind": "PolicyRollout",
        "metadata": {"name": "one"},
        "spec": {"mode": mode, "policies": [*targets], **share},
    }


@pytest.fixture(name="others", scope="module")
def _others() -> Iterator[list[JSONObject]]:
    with refusing_policies() as policies:
        yield policies


@pytest.fixture(name="shared", scope="module", params=WAYS)
def _shared(
    request: pytest.FixtureRequest, shared_stacks: SharedStacks, others: list[JSONObject]
) -> SharedStack:
    documents = (*others, rollout(*REFERENCES))
    return shared_stacks.of(
        request.param, CHAIN, *documents, until=lambda stack: bool(answer(stack)["allowed"])
    )


@pytest.fixture(name="stack")
def _stack(shared: SharedStack) -> Stack:
    return shared.stack


def answer(stack: Stack, review: Any = REVIEW) -> Any:
    return stack.post("/admit", review)["response"]


def metrics(stack: Stack) -> str:
    return stack.get("/metrics")[1]


def test_what_is_in_shadow_refuses_and_changes_nothing_and_the_audit_log_says_what_it_would_have(
    stack: Stack,
) -> None:
    response = answer(stack)
    assert response["allowed"]
    assert "patch" not in response
    assert "warnings" not in response
    told = response["auditAnnotations"]
    assert len(told) == len(WOULD_BE)
    assert all(text.startswith('in shadow by PolicyRollout "one": ') for text in told.values())


def test_each_shadow_is_a_step_with_what_it_would_have_done(stack: Stack) -> None:
    steps = [step for step in stack.post("/explain?phase=admit", REVIEW)["steps"] if "shadow" in step]
    found = [(step["controller"], step["outcome"], step["shadow"]["outcome"]) for step in steps]
    assert found == WOULD_BE
    assert {step["shadow"]["rollout"] for step in steps} == {"one"}
    assert not any(step["patch"] for step in steps)
    assert steps[0]["shadow"]["patch"][0]["path"] == "/metadata/labels/team"
    assert "/metadata/labels/team" in steps[0]["reason"]
    assert steps[4]["reason"].endswith("would have denied the request: no")


def test_metrics_count_what_would_have_been(stack: Stack) -> None:
    labels = (
        'configuration="b",controller="ValidatingAdmissionPolicy",name="p",outcome="denied",rollout="one"'
    )
    assert answer(stack)["allowed"]
    assert within(120, lambda: f"pratique_shadow_decisions_total{{{labels}}}" in metrics(stack))


def test_a_canary_is_enforced_for_its_namespaces_and_in_shadow_for_others(
    stack: Stack, shared: SharedStack, others: list[JSONObject]
) -> None:
    shared.configure(*others, rollout(*REFERENCES, mode="Canary", namespaces=[NAMESPACE]))
    assert within(120, lambda: not answer(stack)["allowed"])
    elsewhere = json.loads(json.dumps(REVIEW).replace(f'"{NAMESPACE}"', '"other"'))
    assert answer(stack, elsewhere)["allowed"]


def test_without_the_rollout_everything_is_enforced(
    stack: Stack, shared: SharedStack, others: list[JSONObject]
) -> None:
    shared.configure(*others, rollout(*REFERENCES))
    assert within(120, lambda: answer(stack)["allowed"])
    shared.configure(*others)
    assert within(120, lambda: not answer(stack)["allowed"])
    assert "shadow" not in json.dumps(answer(stack))
