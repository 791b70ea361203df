"""PolicyExceptions in a running stack: every kind of what can be exempted from, in every process that decides."""

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
STEPS = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "AlwaysDeny",
    "AlwaysDeny",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
]
"""In their order; AlwaysDeny is in both phases."""


def exception(*targets: JSONObject, until: str = "2999-01-01T00:00:00Z") -> JSONObject:
    spec = {"reason": "tests", "until": until, "policies": [*targets], "namespaces": [NAMESPACE]}
    return {
        "apiVersion": "policy.pratique/v1alpha1",
        "kind": "PolicyException",
        "metadata": {"name": "one"},
        "spec": spec,
    }


@pytest.fixture(name="others", scope="module")
def _others() -> Iterator[list[JSONObject]]:
    with refusing_policies() as policies:
        yield policies


@pytest.fixture(name="shared", scope="module", params=WAYS)
def _shared(
    request: pytest.FixtureRequest, shared_stacks: SharedStacks, others: list[JSONObject]
) -> SharedStack:
    documents = (*others, exception(*REFERENCES))
    return shared_stacks.of(
        request.param, CHAIN, *documents, until=lambda stack: bool(answer(stack)["allowed"])
    )


@pytest.fixture(name="stack")
def _stack(shared: SharedStack) -> Stack:
    return shared.stack


def answer(stack: Stack) -> Any:
    return stack.post("/admit", REVIEW)["response"]


def test_an_exempted_request_is_admitted_unchanged_and_the_audit_log_says_why(stack: Stack) -> None:
    response = answer(stack)
    assert response["allowed"]
    assert "patch" not in response
    told = response["auditAnnotations"]
    assert len(told) == len(STEPS)
    assert set(told.values()) == {'exempted by PolicyException "one" until 2999-01-01T00:00:00Z: tests'}


def test_each_exemption_is_a_skipped_step_with_the_reason(stack: Stack) -> None:
    decision = stack.post("/explain?phase=admit", REVIEW)
    skipped = [step for step in decision["steps"] if step["reason"].startswith("exempted by")]
    assert [step["controller"] for step in skipped if step["round"] == 0] == STEPS
    assert {step["outcome"] for step in skipped} == {"skipped"}


def test_requests_of_other_namespaces_are_not_exempted(stack: Stack) -> None:
    changed = json.loads(json.dumps(REVIEW).replace(f'"{NAMESPACE}"', '"other"'))
    response = stack.post("/admit", changed)["response"]
    assert not response["allowed"]
    assert "exempted" not in json.dumps(response)


def test_only_what_an_exception_names_is_exempted_from(
    stack: Stack, shared: SharedStack, others: list[JSONObject]
) -> None:
    shared.configure(*others, exception(*REFERENCES[:-1]))
    assert within(120, lambda: not answer(stack)["allowed"])
    response = answer(stack)
    assert 'failed calling webhook "a.example.com"' in response["status"]["message"]
    assert json.dumps(response).count("exempted by") == len(STEPS) - 1


def test_an_ended_exception_has_no_effect(
    stack: Stack, shared: SharedStack, others: list[JSONObject]
) -> None:
    shared.configure(*others, exception(*REFERENCES, until="2001-01-01T00:00:00Z"))
    assert within(120, lambda: not answer(stack)["allowed"])
