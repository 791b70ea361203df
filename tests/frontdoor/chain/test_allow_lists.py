"""MutationAllowLists in the chain: what policies, webhooks and controllers may not change stays as it was."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pratique import Edits, mutator
from pratique.admission.controllers import BOTH, Controller
from pratique.admission.results import Answer
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.loading import load_configurations
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import open_local
from support.chains import decide, pod_review
from support.lint_findings import mutating as mutating_webhooks
from support.lint_findings import rule, webhook
from support.mutating_policies import applied, bound, labelled, mutating
from support.webhook_servers import WebhookServer, patched, serve

LABELS = {"app": "web"}
TOLD = 'MutationAllowList "one" {} the change of /metadata/labels/other'
DROPS, FORBIDS = TOLD.format("drops"), TOLD.format("does not allow")


def allow_list(*targets: JSONObject, action: str = "Drop") -> JSONObject:
    fields = ["/metadata/labels/team"]
    return {
        "apiVersion": "policy.pratique/v1alpha1",
        "kind": "MutationAllowList",
        "metadata": {"name": "one"},
        "spec": {"policies": [*targets], "fields": fields, "violationAction": action},
    }


def rollout(*targets: JSONObject) -> JSONObject:
    spec = {"mode": "Shadow", "policies": [*targets]}
    return {
        "apiVersion": "policy.pratique/v1alpha1",
        "kind": "PolicyRollout",
        "metadata": {"name": "r"},
        "spec": spec,
    }


def controller(name: str) -> JSONObject:
    return {"kind": "AdmissionController", "name": name}


def written(folder: Path, *documents: JSONObject) -> Path:
    file = folder / "configuration.yaml"
    file.write_text("\n---\n".join(map(json.dumps, documents)))
    return file


def decided(folder: Path, controllers: Sequence[Controller], *documents: JSONObject) -> Decision:
    configurations = load_configurations([written(folder, *documents)])
    return decide(pod_review(), controllers, configurations, seconds=120)


def labelling(name: str, **options: Any) -> Controller:
    def mutate(review: Review) -> Answer:
        edits = Edits(review.object)
        edits.set(("metadata", "labels", "team"), "a")
        edits.set(("metadata", "labels", "other"), "b")
        return edits.answer()

    return mutator(name, **options)(mutate)


def counting(name: str) -> Controller:
    def mutate(review: Review) -> Answer:
        edits = Edits(review.object)
        edits.set(("metadata", "labels", "seen"), str(len(review.object["metadata"]["labels"])))
        return edits.answer()

    return mutator(name)(mutate)


def outcomes(decision: Decision) -> list[tuple[str, str, str]]:
    return [
        (step.name, str(step.outcome), step.violation.action) for step in decision.steps if step.violation
    ]


def test_a_controller_loses_what_it_may_not_change_before_the_next_one_sees_it(tmp_path: Path) -> None:
    chain = [labelling("Labels"), counting("Counts")]
    decision = decided(tmp_path, chain, allow_list(controller("Labels")))
    assert decision.allowed
    assert decision.object["metadata"]["labels"] == {**LABELS, "team": "a", "seen": "2"}
    assert outcomes(decision) == [("Labels", "mutated", "Drop")]
    (step, _) = decision.steps
    assert step.reason == DROPS
    assert step.patch == ({"op": "add", "path": "/metadata/labels/team", "value": "a"},)
    assert decision.warnings == (f"Labels/Labels: {DROPS}",)
    assert decision.audit_annotations == {"labels/allow-list.mutate": DROPS}


def test_a_controller_that_changes_what_it_may_not_fails_by_its_failure_policy(tmp_path: Path) -> None:
    listed = allow_list(controller("Labels"), action="Fail")
    refused = decided(tmp_path, [labelling("Labels")], listed)
    assert not refused.allowed
    assert refused.message.endswith(f'admission controller "Labels" failed: {FORBIDS}')
    assert outcomes(refused) == [("Labels", "failed", "Fail")]
    opened = decided(tmp_path, [labelling("Labels", failure_policy="Ignore"), counting("Counts")], listed)
    assert opened.allowed
    assert opened.object["metadata"]["labels"] == {**LABELS, "seen": "1"}
    assert outcomes(opened) == [("Labels", "failedOpen", "Fail")]


def test_what_is_allowed_is_not_told(tmp_path: Path) -> None:
    decision = decided(tmp_path, [counting("Counts")], allow_list(controller("Labels")))
    assert outcomes(decision) == []
    assert decision.warnings == ()


def test_a_shadow_says_what_it_would_have_lost(tmp_path: Path) -> None:
    listed = allow_list(controller("Labels"), action="Fail")
    decision = decided(tmp_path, [labelling("Labels")], listed, rollout(controller("Labels")))
    assert decision.allowed
    (step,) = decision.steps
    assert step.shadow is not None
    assert str(step.shadow.outcome) == "failed"
    assert FORBIDS in step.reason


POLICY = {"kind": "MutatingAdmissionPolicy", "name": "p"}
BOTH_LABELS = applied('Object{metadata: Object.metadata{labels: {"team": "a", "other": "b"}}}')
STORE = ObjectStore(assume_namespaces=True)


def with_policies(folder: Path, *documents: JSONObject) -> Decision:
    settings = ChainSettings(
        config=(written(folder, *documents),), admission_control=("MutatingAdmissionPolicy",)
    )

    async def run() -> Decision:
        engine = open_local(settings, STORE)
        try:
            return await engine.decide(pod_review(cluster=STORE), BOTH, Deadline.after(120))
        finally:
            await engine.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("action", "failure_policy", "labels", "outcome"),
    [
        ("Drop", "Fail", {"team": "a", "seen": "no"}, "mutated"),
        ("Fail", "Ignore", {"seen": "no"}, "failedOpen"),
        ("Fail", "Fail", None, "failed"),
    ],
)
def test_a_policy_changes_what_it_may_and_the_next_one_sees_no_more(
    tmp_path: Path, action: str, failure_policy: str, labels: Any, outcome: str
) -> None:
    next_one = mutating(labelled("seen", "'other' in object.metadata.labels ? 'yes' : 'no'"), name="q")
    documents = [
        mutating(BOTH_LABELS, failurePolicy=failure_policy),
        bound(),
        next_one,
        bound("q", name="q"),
        allow_list(POLICY, action=action),
    ]
    decision = with_policies(tmp_path, *documents)
    assert decision.allowed is (labels is not None)
    assert outcomes(decision) == [("p", outcome, action)]
    if labels is None:
        assert FORBIDS in decision.message
    else:
        assert decision.object["metadata"]["labels"] == LABELS | labels


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[WebhookServer]:
    label = [{"op": "replace", "path": "/metadata/labels", "value": {**LABELS, "team": "a", "other": "b"}}]
    with serve({"/patch": patched(label)}) as server:
        yield server


@pytest.mark.parametrize(
    ("action", "failure_policy", "labels", "outcome"),
    [
        ("Drop", "Fail", {"team": "a"}, "mutated"),
        ("Fail", "Ignore", {}, "failedOpen"),
        ("Fail", "Fail", None, "failed"),
    ],
)
def test_a_webhook_changes_what_it_may(
    tmp_path: Path, server: WebhookServer, *, action: str, failure_policy: str, labels: Any, outcome: str
) -> None:
    bundle = base64.b64encode(server.ca_bundle).decode()
    client = {"url": f"{server.url}/patch", "caBundle": bundle}
    hook = webhook(rule("pods"), clientConfig=client, timeoutSeconds=30, failurePolicy=failure_policy)
    target = {"kind": "MutatingWebhookConfiguration", "name": "changes", "webhook": "a.example.com"}
    chain = [one for one in load_catalogue() if one.name == "MutatingAdmissionWebhook"]
    decision = decided(tmp_path, chain, mutating_webhooks(hook), allow_list(target, action=action))
    assert decision.allowed is (labels is not None)
    assert outcomes(decision) == [("a.example.com", outcome, action)]
    told = decision.audit_annotations["mutatingadmissionwebhook/allow-list.changes.a.example.com"]
    assert told == (DROPS if action == "Drop" else FORBIDS)
    if labels is None:
        assert decision.message.endswith(f'failed calling webhook "a.example.com": {FORBIDS}')
    else:
        assert decision.object["metadata"]["labels"] == LABELS | labels
