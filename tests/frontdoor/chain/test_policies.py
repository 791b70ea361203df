"""ValidatingAdmissionPolicies in the chain: their own steps, refusals and warnings, as the engine gives them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from pratique.admission.controllers import BOTH
from pratique.admission.reviews import Deadline
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import open_local
from support.chains import pod_review
from support.validating_policies import binding, policy

NAME = "ValidatingAdmissionPolicy"
STORE = ObjectStore(assume_namespaces=True)


def decided(folder: Path, *documents: JSONObject, explain: bool = True, **settings: Any) -> Decision:
    """Have a Pod reviewed by a chain of policies alone."""
    file = folder / "policies.yaml"
    file.write_text("\n---\n".join(map(json.dumps, documents)), "utf-8")
    chain = ChainSettings(config=(file,), **{"admission_control": (NAME,), **settings})

    async def run() -> Decision:
        engine = open_local(chain, STORE)
        try:
            return await engine.decide(pod_review(cluster=STORE), BOTH, Deadline.after(30), explain=explain)
        finally:
            await engine.close()

    return asyncio.run(run())


def steps(decision: Decision) -> list[tuple[str, str, str]]:
    return [(step.name, step.configuration, step.outcome) for step in decision.steps]


def test_a_policy_denies_with_its_own_message(tmp_path: Path) -> None:
    decision = decided(tmp_path, policy({"expression": "false", "message": "never"}), binding())
    assert decision.status is not None
    assert (decision.status.code, decision.status.reason) == (422, "Invalid")
    assert decision.status.message == (
        "pods \"web\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: never"
    )
    (step,) = decision.steps
    assert (step.controller, step.name, step.configuration) == (NAME, "p", "b")
    assert (step.outcome, step.reason, step.code) == ("denied", "never", 422)
    assert step.endpoint


def test_every_denial_of_every_policy_is_reported(tmp_path: Path) -> None:
    documents = [
        part
        for name in ("one", "two")
        for part in (
            policy({"expression": "false", "message": name}, name=name),
            binding(name, name=f"{name}-binding"),
        )
    ]
    decision = decided(tmp_path, *documents)
    assert decision.status is not None
    assert decision.status.details is not None
    messages = [cause.message.rpartition(": ")[2] for cause in decision.status.details.causes]
    assert messages == ["one", "two"]
    first = decided(tmp_path, *documents, first_denial_only=True)
    assert first.status is not None
    assert first.status.message == decision.status.message


def test_each_binding_is_a_separate_step(tmp_path: Path) -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    decision = decided(
        tmp_path,
        policy({"expression": "false", "message": "no"}),
        binding(name="audit", actions=("Audit",)),
        binding(name="elsewhere", matchResources={"resourceRules": [rule]}),
        binding(name="warn", actions=("Warn",)),
        policy("true", name="q"),
        binding("q", name="all"),
    )
    assert decision.allowed
    assert steps(decision) == [
        ("p", "audit", "allowed"),
        ("p", "elsewhere", "skipped"),
        ("p", "warn", "warned"),
        ("q", "all", "allowed"),
    ]
    assert decision.warnings == (
        "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'warn': no",
    )
    failures = json.loads(decision.audit_annotations["validation.policy.admission.k8s.io/validation_failure"])
    assert [failure["binding"] for failure in failures] == ["audit"]


def test_skipped_policies_are_shown_only_in_an_explanation(tmp_path: Path) -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    elsewhere = policy("false", matchConstraints={"resourceRules": [rule]})
    documents = (elsewhere, binding(), policy("true", name="q"), binding("q", name="c"))
    assert steps(decided(tmp_path, *documents, explain=False)) == [(NAME, "", "allowed")]
    assert steps(decided(tmp_path, *documents)) == [("p", "", "skipped"), ("q", "c", "allowed")]


def test_no_call_is_made_when_no_policy_can_match(tmp_path: Path) -> None:
    rule = {"apiGroups": ["apps"], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}
    elsewhere = policy("false", matchConstraints={"resourceRules": [rule]})
    (step,) = decided(tmp_path, elsewhere, binding()).steps
    assert (step.name, step.outcome, step.endpoint) == (NAME, "skipped", "")
    assert step.reason == "no policy has a rule that matches"


def test_policies_without_a_binding_do_nothing(tmp_path: Path) -> None:
    assert decided(tmp_path, policy("false")).steps == ()


def test_match_policy_equivalent_matches_another_version(tmp_path: Path) -> None:
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["pods"]}
    constraints = {"resourceRules": [rule], "matchPolicy": "Equivalent"}
    assert not decided(tmp_path, policy("false", matchConstraints=constraints), binding()).allowed


def test_policies_can_be_disabled(tmp_path: Path) -> None:
    off: dict[str, Any] = {"admission_control": None, "disable_admission_plugins": (NAME, "ServiceAccount")}
    assert decided(tmp_path, policy("false"), binding(), **off).allowed
    assert not decided(tmp_path, policy("false"), binding(), admission_control=None).allowed


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_an_expression_over_budget_is_stopped_and_the_failure_policy_decides(
    tmp_path: Path, failure_policy: str
) -> None:
    ten = "[1,2,3,4,5,6,7,8,9,0]"
    loops = f"{ten}.all(a, " * 6 + "true" + ")" * 6
    decision = decided(tmp_path, policy(loops, failurePolicy=failure_policy), binding())
    assert decision.allowed is (failure_policy == "Ignore")
    (step,) = decision.steps
    assert step.outcome == ("failed" if failure_policy == "Fail" else "failedOpen")
    assert "actual cost limit exceeded" in step.reason


def test_a_missing_namespace_denies_whatever_policies_say(tmp_path: Path) -> None:
    file = tmp_path / "policies.yaml"
    file.write_text("\n---\n".join(map(json.dumps, (policy("true"), binding()))), "utf-8")
    empty = ObjectStore()

    async def run() -> Decision:
        engine = open_local(ChainSettings(config=(file,), admission_control=(NAME,)), empty)
        try:
            return await engine.decide(pod_review(cluster=empty), BOTH, Deadline.after(30), explain=True)
        finally:
            await engine.close()

    decision = asyncio.run(run())
    assert decision.status is not None
    assert decision.status.code == 404
    assert [(step.name, step.outcome) for step in decision.steps] == [(NAME, "denied")]
