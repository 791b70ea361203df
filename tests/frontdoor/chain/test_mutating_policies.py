"""MutatingAdmissionPolicies in the chain: their steps, what follows them, and the second round."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.admission.controllers import BOTH, Phase
from pratique.admission.reviews import Deadline
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.settings import ChainSettings
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import open_local
from support.chains import pod_review
from support.mutating_policies import bound, labelled, mutating, patched
from support.webhook_servers import WebhookServer, serve
from support.webhook_servers import patched as patching

NAME = "MutatingAdmissionPolicy"
WEBHOOKS = "MutatingAdmissionWebhook"
STORE = ObjectStore(assume_namespaces=True)
ANNOTATIONS = [{"op": "add", "path": "/metadata/annotations", "value": {"by": "webhook"}}]


def decided(
    folder: Path, *documents: JSONObject, controllers: tuple[str, ...] = (NAME,), explain: bool = True
) -> Decision:
    """Have a Pod reviewed by a chain of these controllers."""
    file = folder / "policies.yaml"
    file.write_text("\n---\n".join(map(json.dumps, documents)), "utf-8")
    chain = ChainSettings(config=(file,), admission_control=controllers)

    async def run() -> Decision:
        engine = open_local(chain, STORE)
        try:
            return await engine.decide(pod_review(cluster=STORE), BOTH, Deadline.after(30), explain=explain)
        finally:
            await engine.close()

    return asyncio.run(run())


def rounds(decision: Decision, controller: str = NAME) -> list[tuple[str, int, str]]:
    return [
        (step.name, step.round, str(step.outcome))
        for step in decision.steps
        if (step.controller, step.phase) == (controller, Phase.MUTATE)
    ]


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[WebhookServer]:
    with serve({"/annotate": patching(ANNOTATIONS), "/nothing": patching([])}) as server:
        yield server


def webhook(server: WebhookServer, path: str, **spec: Any) -> JSONObject:
    rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["pods"]}
    bundle = base64.b64encode(server.ca_bundle).decode()
    hook = {
        "name": "pods.tests.example.com",
        "clientConfig": {"url": f"{server.url}/{path}", "caBundle": bundle},
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        **spec,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "tests"},
        "webhooks": [hook],
    }


def test_a_step_shows_what_its_policy_changed(tmp_path: Path) -> None:
    decision = decided(tmp_path, mutating(labelled("team", "'a'")), bound())
    operation = {"op": "add", "path": "/metadata/labels/team", "value": "a"}
    assert decision.patch == (operation,)
    first = decision.steps[0]
    assert (first.controller, first.name, first.configuration) == (NAME, "p", "b")
    assert (first.outcome, first.patch) == ("mutated", (operation,))


def test_each_policy_sees_the_changes_before_it(tmp_path: Path) -> None:
    decision = decided(
        tmp_path,
        mutating(labelled("first", "'1'"), name="a"),
        bound("a", name="a"),
        mutating(labelled("second", "object.metadata.labels.first + '2'"), name="b"),
        bound("b", name="b"),
    )
    assert decision.object_document.data["metadata"]["labels"] == {"app": "web", "first": "1", "second": "12"}


def test_a_denial_has_all_causes_and_ends_the_phase(tmp_path: Path) -> None:
    failing = patched('[JSONPatch{op: "remove", path: "/spec/missing"}]')
    decision = decided(
        tmp_path,
        mutating(failing, failurePolicy="Fail"),
        bound(),
        bound(name="c"),
        controllers=(NAME, "AlwaysDeny"),
    )
    assert decision.status is not None
    assert decision.status.code == 403
    assert decision.status.message.startswith(
        "policy 'p' with binding 'b' denied request: JSON Patch: error in remove"
    )
    assert decision.status.details is not None
    assert len(decision.status.details.causes) == 2
    assert [(step.configuration, step.outcome) for step in decision.steps] == [
        ("b", "failed"),
        ("c", "failed"),
    ]


def test_a_failing_policy_is_skipped_under_ignore(tmp_path: Path) -> None:
    failing = patched('[JSONPatch{op: "remove", path: "/spec/missing"}]')
    decision = decided(tmp_path, mutating(failing, failurePolicy="Ignore"), bound())
    assert decision.allowed
    assert rounds(decision) == [("p", 0, "failedOpen")]


def test_a_policy_with_if_needed_runs_again_after_a_later_change(tmp_path: Path) -> None:
    early = mutating(
        labelled("seen", "string(has(object.metadata.labels.late))"), name="a", reinvocationPolicy="IfNeeded"
    )
    late = mutating(labelled("late", "'x'"), name="b")
    decision = decided(tmp_path, early, bound("a", name="a"), late, bound("b", name="b"))
    assert decision.object_document.data["metadata"]["labels"]["seen"] == "true"
    assert rounds(decision) == [
        ("a", 0, "mutated"),
        ("b", 0, "mutated"),
        ("a", 1, "mutated"),
        ("b", 1, "skipped"),
    ]


def test_no_call_is_made_for_a_second_round_without_effect(tmp_path: Path) -> None:
    documents = (mutating(labelled("n", "'1'")), bound())
    plain, explained = (decided(tmp_path, *documents, explain=explain) for explain in (False, True))
    assert rounds(plain) == [("p", 0, "mutated")]
    assert rounds(explained) == [("p", 0, "mutated"), ("p", 1, "skipped")]
    assert plain.patch == explained.patch


@pytest.mark.parametrize(
    "spec",
    [
        {"matchConditions": [{"name": "c", "expression": "int(object.metadata.?labels.n.orValue('1')) > 0"}]},
        {"paramKind": {"apiVersion": "rules.example.com/v1", "kind": "Rule"}, "matchConstraints": "labelled"},
    ],
    ids=["by a condition", "by a selector"],
)
@pytest.mark.parametrize("explain", [False, True])
def test_a_policy_can_deny_in_the_second_round(
    tmp_path: Path, spec: dict[str, Any], *, explain: bool
) -> None:
    changing, early = mutating(labelled("n", "'x'"), name="b"), mutating(labelled("m", "'1'"), name="a")
    if "matchConstraints" in spec:
        constraints = early["spec"]["matchConstraints"] | {"objectSelector": {"matchLabels": {"n": "x"}}}
        spec = spec | {"matchConstraints": constraints}
    early["spec"] |= spec
    decision = decided(tmp_path, early, bound("a", name="a"), changing, bound("b", name="b"), explain=explain)
    assert not decision.allowed
    assert ("a", 1, "failed") in rounds(decision)


def test_a_change_by_a_webhook_reinvokes_policies(tmp_path: Path, server: WebhookServer) -> None:
    policy = mutating(
        labelled("annotated", "string(has(object.metadata.annotations))"), reinvocationPolicy="IfNeeded"
    )
    hook = webhook(server, "annotate")
    decision = decided(tmp_path, policy, bound(), hook, controllers=(NAME, WEBHOOKS))
    assert decision.object_document.data["metadata"]["labels"]["annotated"] == "true"
    assert rounds(decision) == [("p", 0, "mutated"), ("p", 1, "mutated")]


def test_a_change_by_a_policy_reinvokes_webhooks_with_if_needed(
    tmp_path: Path, server: WebhookServer
) -> None:
    policy = mutating(
        labelled("n", "string(object.metadata.?annotations.hasValue())"), reinvocationPolicy="IfNeeded"
    )
    hook = webhook(server, "nothing", reinvocationPolicy="IfNeeded")
    settled = decided(tmp_path, mutating(labelled("n", "'1'")), bound(), hook, controllers=(NAME, WEBHOOKS))
    assert rounds(settled, WEBHOOKS) == [
        ("pods.tests.example.com", 0, "unchanged"),
        ("pods.tests.example.com", 1, "skipped"),
    ]
    hook = webhook(server, "annotate", reinvocationPolicy="IfNeeded")
    changing = decided(tmp_path, policy, bound(), hook, controllers=(NAME, WEBHOOKS))
    assert rounds(changing) == [("p", 0, "mutated"), ("p", 1, "mutated")]
    assert rounds(changing, WEBHOOKS)[1] == ("pods.tests.example.com", 1, "unchanged")


def test_built_in_controllers_run_again_after_a_policy(tmp_path: Path) -> None:
    image = patched(
        '[JSONPatch{op: "add", path: "/spec/containers/-", value: Object.spec.containers{name: "s", image: "s:1"}}]'
    )
    conditions = [{"name": "once", "expression": "object.spec.containers.size() < 2"}]
    decision = decided(
        tmp_path,
        mutating(image, matchConditions=conditions),
        bound(),
        controllers=("AlwaysPullImages", NAME),
    )
    pulled = [
        container["imagePullPolicy"] for container in decision.object_document.data["spec"]["containers"]
    ]
    assert pulled == ["Always", "Always"]
    assert rounds(decision, "AlwaysPullImages") == [
        ("AlwaysPullImages", 0, "mutated"),
        ("AlwaysPullImages", 1, "mutated"),
    ]


def test_validating_policies_see_what_mutating_ones_changed(tmp_path: Path) -> None:
    validating = [
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": "v"},
            "spec": {
                "matchConstraints": mutating()["spec"]["matchConstraints"],
                "validations": [{"expression": "object.metadata.labels.team == 'a'"}],
            },
        },
        {
            "apiVersion": "admissionregistration.k8s.io/v1",
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": "vb"},
            "spec": {"policyName": "v", "validationActions": ["Deny"]},
        },
    ]
    chain = (NAME, "ValidatingAdmissionPolicy")
    assert decided(
        tmp_path, mutating(labelled("team", "'a'")), bound(), *validating, controllers=chain
    ).allowed
    assert not decided(
        tmp_path, mutating(labelled("team", "'b'")), bound(), *validating, controllers=chain
    ).allowed
