"""PolicyRollouts in a running stack: everything in shadow has no effect, in every process that decides."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.local_stacks import Stack, running, running_alone
from support.refusing_policies import CHAIN, REFERENCES, refusing_policies, replace_policies
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


@pytest.fixture(name="folder", scope="module")
def _folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("rollouts")


@pytest.fixture(name="stack", scope="module", params=[running, running_alone])
def _stack(request: pytest.FixtureRequest, folder: Path, others: list[JSONObject]) -> Iterator[Stack]:
    replace_policies(folder, *others, rollout(*REFERENCES))
    with request.param("--admission-control", CHAIN, "--config", str(folder / "all.yaml")) as stack:
        yield stack


def answer(stack: Stack, review: Any = REVIEW) -> Any:
    return stack.post("/admit", review)["response"]


def metrics(stack: Stack) -> str:
    connection = stack.connect()
    connection.request("GET", "/metrics")
    text = connection.getresponse().read().decode()
    connection.close()
    return text


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
    stack: Stack, folder: Path, others: list[JSONObject]
) -> None:
    replace_policies(folder, *others, rollout(*REFERENCES, mode="Canary", namespaces=[NAMESPACE]))
    assert within(120, lambda: not answer(stack)["allowed"])
    elsewhere = json.loads(json.dumps(REVIEW).replace(f'"{NAMESPACE}"', '"other"'))
    assert answer(stack, elsewhere)["allowed"]


def test_without_the_rollout_everything_is_enforced(
    stack: Stack, folder: Path, others: list[JSONObject]
) -> None:
    replace_policies(folder, *others, rollout(*REFERENCES))
    assert within(120, lambda: answer(stack)["allowed"])
    replace_policies(folder, *others)
    assert within(120, lambda: not answer(stack)["allowed"])
    assert "shadow" not in json.dumps(answer(stack))
