"""Policies in a running stack: real services, real files that change."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.local_stacks import Stack
from support.mutating_policies import bound, labelled, mutating
from support.shared_stacks import CHANGING_CHAIN, WAYS, SharedStack, SharedStacks
from support.validating_policies import binding, policy
from support.waiting import within

REVIEW = json.loads((Path(__file__).parents[2] / "bench" / "review.json").read_text())


def message(text: str) -> JSONObject:
    return policy({"expression": "object.metadata.labels.team != 'none'", "message": text})


@pytest.fixture(name="shared", scope="module", params=WAYS)
def _shared(request: pytest.FixtureRequest, shared_stacks: SharedStacks) -> SharedStack:
    documents = (mutating(labelled("team", "'none'")), bound(), message("one"), binding())
    return shared_stacks.of(
        request.param, CHANGING_CHAIN, *documents, until=lambda stack: refusal(stack).endswith("one")
    )


@pytest.fixture(name="stack")
def _stack(shared: SharedStack) -> Stack:
    return shared.stack


def answer(stack: Stack, path: str = "/admit") -> Any:
    return stack.post(path, REVIEW)["response"]


def refusal(stack: Stack) -> str:
    """The message of the denial; empty where there is none."""
    return str(answer(stack).get("status", {}).get("message", ""))


def test_services_apply_mutating_and_validating_policies(stack: Stack) -> None:
    assert refusal(stack).endswith("denied request: one")
    changed = json.loads(base64.b64decode(answer(stack, "/mutate")["patch"]))
    labels = [item["value"] for item in changed if item["path"].startswith("/metadata/labels")]
    assert labels in (["none"], [{"team": "none"}])


def test_each_policy_is_a_step_with_the_endpoint_of_its_service(stack: Stack) -> None:
    decision = stack.post("/explain?phase=admit", REVIEW)
    policies = [step for step in decision["steps"] if step["name"] == "p"]
    steps = [(step["name"], step["configuration"], step["outcome"]) for step in policies]
    assert steps == [("p", "b", "mutated"), ("p", "b", "skipped"), ("p", "b", "denied")]
    assert all(step["endpoint"] for step in policies if step["outcome"] != "skipped")


def test_changed_policy_files_take_effect_in_every_service(stack: Stack, shared: SharedStack) -> None:
    shared.configure(mutating(labelled("team", "'some'")), bound(), message("two"), binding())
    assert within(120, lambda: bool(answer(stack)["allowed"]))
    shared.configure(mutating(labelled("team", "'none'")), bound(), message("two"), binding())
    assert within(120, lambda: refusal(stack).endswith("two"))


def test_policies_that_do_not_compile_leave_the_last_good_ones(stack: Stack, shared: SharedStack) -> None:
    shared.configure(message("three"), binding(), mutating(labelled("team", "'none'")), bound())
    assert within(120, lambda: refusal(stack).endswith("three"))
    shared.configure(policy("object.metadata.("), binding())
    # Nothing tells when a change has been refused; one that is taken up later shows that the first was passed over.
    assert refusal(stack).endswith("three")
    shared.configure(mutating(labelled("team", "'none'")), bound(), message("four"), binding())
    assert within(120, lambda: refusal(stack).endswith("four"))
