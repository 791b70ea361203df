"""Shadows in the chain: they decide beside what is enforced, and nothing depends on them."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from pratique import Edits, allow, deny, mutator, validator, warn
from pratique.admission.controllers import BOTH, Controller, Phase
from pratique.admission.results import Answer, Outcome
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.errors import CallError
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from pratique.configuration.loading import load_configurations
from pratique.configuration.settings import ChainSettings
from pratique.hosting.catalogue import load_catalogue
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.engines.engine import open_local
from support.chains import decide, pod_review
from support.lint_findings import mutating as mutating_webhooks
from support.lint_findings import rule, validating, webhook
from support.mutating_policies import bound, labelled, mutating
from support.validating_policies import binding, policy
from support.webhook_servers import WebhookServer, allowed, denied, hanging, patched, serve

PODS = rule("pods")


def rollout(*targets: JSONObject, mode: str = "Shadow", name: str = "one") -> JSONObject:
    return {
        "apiVersion": "policy.pratique/v1alpha1",
        "kind": "PolicyRollout",
        "metadata": {"name": name},
        "spec": {"mode": mode, "policies": [*targets]},
    }


def named(name: str, kind: str = "AdmissionController", **part: str) -> JSONObject:
    return {"kind": kind, "name": name, **part}


def decided(
    folder: Path, controllers: Sequence[Controller], *documents: JSONObject, **options: Any
) -> Decision:
    file = folder / "configuration.yaml"
    file.write_text("\n---\n".join(map(json.dumps, documents)))
    review = options.pop("review", None) or pod_review()
    return decide(review, controllers, load_configurations([file]), **options)


def catalogued(*names: str) -> list[Controller]:
    return [controller for controller in load_catalogue() if controller.name in names]


def setting(name: str, value: str) -> Controller:
    def mutate(review: Review) -> Answer:
        edits = Edits(review.object)
        seen = edits.get(("metadata", "labels", "seen")) or ""
        edits.set(("metadata", "labels", "seen"), f"{seen}{value}")
        return edits.answer()

    return mutator(name)(mutate)


def seen(decision: Decision) -> str:
    labels: str = decision.object["metadata"]["labels"].get("seen", "")
    return labels


def shadows(decision: Decision) -> list[tuple[str, str, str]]:
    return [
        (step.name, str(step.outcome), str(step.shadow.outcome)) for step in decision.steps if step.shadow
    ]


def test_a_mutator_in_shadow_sees_what_others_did_and_they_see_nothing_of_it(tmp_path: Path) -> None:
    chain = [setting("First", "1"), setting("Second", "2"), setting("Third", "3")]
    decision = decided(tmp_path, chain, rollout(named("Second")))
    assert seen(decision) == "13"
    assert shadows(decision) == [("Second", "unchanged", "mutated")]
    (shadow,) = (step.shadow for step in decision.steps if step.shadow)
    assert shadow.patch == ({"op": "replace", "path": "/metadata/labels/seen", "value": "12"},)
    assert [step.name for step in decision.steps if step.phase is Phase.MUTATE] == [
        "First",
        "Second",
        "Third",
    ]


def test_what_denies_warns_or_fails_in_shadow_says_so_and_nothing_else(tmp_path: Path) -> None:
    def broken(_: Review) -> Answer:
        raise RuntimeError

    chain: list[Controller] = [
        validator("Denies")(lambda _: deny("no", audit_annotations={"a": "b"})),
        validator("Warns")(lambda _: warn("beware")),
        validator("Fails")(broken),
        validator("Allows")(lambda _: allow()),
    ]
    rolled_out = rollout(*(named(controller.name) for controller in chain))
    decision = decided(tmp_path, chain, rolled_out)
    assert decision.allowed
    assert decision.warnings == ()
    assert shadows(decision) == [
        ("Denies", "allowed", "denied"),
        ("Warns", "allowed", "warned"),
        ("Fails", "failedOpen", "failed"),
        ("Allows", "allowed", "allowed"),
    ]
    assert sorted(decision.audit_annotations) == [
        "denies/shadow.validate",
        "fails/shadow.validate",
        "warns/shadow.validate",
    ]
    assert decision.audit_annotations["warns/shadow.validate"].endswith("would have warned: beware")


def test_a_shadow_that_hangs_leaves_others_the_time_that_they_need(tmp_path: Path) -> None:
    async def hang(_: Review) -> Answer:
        await asyncio.sleep(600)
        return allow()

    chain = [
        mutator("Slow")(hang),
        setting("Sets", "x"),
        validator("Waits")(hang),
        validator("Denies")(lambda _: deny("no")),
    ]
    decision = decided(tmp_path, chain, rollout(named("Slow"), named("Waits")), seconds=4)
    assert not decision.allowed
    assert [status.message for status in [decision.status] if status] == [
        'pods "web" is forbidden: no',
    ]
    assert seen(decision) == "x"
    assert shadows(decision) == [("Slow", "failedOpen", "failed"), ("Waits", "failedOpen", "failed")]


class Unreachable:
    """A service that nobody reaches."""

    endpoint = "nowhere"

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        raise CallError("connection refused")

    validate = mutate


def test_a_service_that_only_a_shadow_needs_is_no_outage(tmp_path: Path) -> None:
    chain = [setting("Sets", "x"), validator("Denies")(lambda _: deny("no"))]
    unreachable: Any = Unreachable()
    decision = decided(tmp_path, chain, rollout(named("Sets"), named("Denies")), host=unreachable)
    assert decision.allowed
    assert shadows(decision) == [("Sets", "failedOpen", "failed"), ("Denies", "failedOpen", "failed")]


POLICIES = ("MutatingAdmissionPolicy", "ValidatingAdmissionPolicy")
STORE = ObjectStore(assume_namespaces=True)


def with_policies(folder: Path, *documents: JSONObject, store: ObjectStore = STORE) -> Decision:
    file = folder / "policies.yaml"
    file.write_text("\n---\n".join(map(json.dumps, documents)))

    async def run() -> Decision:
        engine = open_local(ChainSettings(config=(file,), admission_control=POLICIES), store)
        try:
            return await engine.decide(pod_review(cluster=store), BOTH, Deadline.after(120))
        finally:
            await engine.close()

    return asyncio.run(run())


def test_policies_in_shadow_change_and_deny_nothing_and_others_do(tmp_path: Path) -> None:
    documents = [
        mutating(labelled("a", "'shadow'"), name="a"),
        bound("a", name="a"),
        mutating(labelled("b", "has(object.metadata.labels.a) ? 'changed' : 'unchanged'"), name="b"),
        bound("b", name="b"),
        policy({"expression": "false", "message": "no"}),
        binding(),
        rollout(named("a", "MutatingAdmissionPolicy"), named("p", "ValidatingAdmissionPolicy")),
    ]
    decision = with_policies(tmp_path, *documents)
    assert decision.allowed
    assert decision.object["metadata"]["labels"] == {"app": "web", "b": "unchanged"}
    assert shadows(decision) == [("a", "unchanged", "mutated"), ("p", "allowed", "denied")]


def test_a_policy_that_cannot_be_evaluated_denies_nothing_in_shadow(tmp_path: Path) -> None:
    documents = [
        policy({"expression": "object.spec.nothing == 1"}),
        binding(),
        mutating(labelled("a", "string(object.spec.nothing)")),
        bound(),
        rollout(named("p", "MutatingAdmissionPolicy"), named("p", "ValidatingAdmissionPolicy")),
    ]
    decision = with_policies(tmp_path, *documents)
    assert decision.allowed
    assert shadows(decision) == [("p", "failedOpen", "failed"), ("p", "failedOpen", "failed")]
    assert not with_policies(tmp_path, *documents[:-1]).allowed


def test_a_namespace_that_is_not_there_denies_nothing_for_policies_in_shadow(tmp_path: Path) -> None:
    documents = [policy({"expression": "true"}), binding(), mutating(labelled("a", "'b'")), bound()]
    shadow = rollout(named("p", POLICIES[0]), named("p", POLICIES[1]))
    empty = ObjectStore([])
    assert not with_policies(tmp_path, *documents, store=empty).allowed
    decision = with_policies(tmp_path, *documents, shadow, store=empty)
    assert decision.allowed
    assert shadows(decision) == [("p", "failedOpen", "failed")] * 2


@pytest.fixture(name="server", scope="module")
def _server() -> Iterator[WebhookServer]:
    label = [{"op": "add", "path": "/metadata/labels/team", "value": "x"}]
    answers = {"/patch": patched(label), "/deny": denied(), "/hang": hanging(), "/allow": allowed()}
    with serve(answers) as server:
        yield server


def hook(server: WebhookServer, path: str, **fields: Any) -> JSONObject:
    bundle = base64.b64encode(server.ca_bundle).decode()
    client = {"url": f"{server.url}/{path}", "caBundle": bundle}
    return webhook(PODS, **{"clientConfig": client, "timeoutSeconds": 30, **fields})


WEBHOOKS = (
    named("changes", "MutatingWebhookConfiguration", webhook="a.example.com"),
    named("checks", "ValidatingWebhookConfiguration", webhook="a.example.com"),
)


def with_webhooks(folder: Path, *documents: JSONObject, **options: Any) -> Decision:
    chain = catalogued("MutatingAdmissionWebhook", "ValidatingAdmissionWebhook")
    return decided(folder, chain, *documents, **{"seconds": 120, **options})


def test_webhooks_in_shadow_are_called_and_have_no_effect(tmp_path: Path, server: WebhookServer) -> None:
    documents = [mutating_webhooks(hook(server, "patch")), validating(hook(server, "deny"))]
    decision = with_webhooks(tmp_path, *documents, rollout(*WEBHOOKS))
    assert decision.allowed
    assert decision.patch == ()
    assert shadows(decision) == [
        ("a.example.com", "unchanged", "mutated"),
        ("a.example.com", "allowed", "denied"),
    ]
    assert sorted(decision.audit_annotations) == [
        "mutatingadmissionwebhook/shadow.changes.a.example.com",
        "validatingadmissionwebhook/shadow.checks.a.example.com",
    ]
    enforced = with_webhooks(tmp_path, *documents, rollout(*WEBHOOKS, mode="Enforce"))
    assert not enforced.allowed
    assert enforced.patch


def test_webhooks_in_shadow_that_hang_leave_time_for_others(tmp_path: Path, server: WebhookServer) -> None:
    checks = validating(hook(server, "hang"), hook(server, "allow", name="b.example.com"))
    decision = with_webhooks(tmp_path, checks, rollout(WEBHOOKS[1]), seconds=4)
    assert decision.allowed
    assert shadows(decision) == [("a.example.com", "failedOpen", "failed")]
    assert [str(step.outcome) for step in decision.steps if step.name == "b.example.com"] == ["allowed"]


@pytest.mark.parametrize(
    ("version", "effects", "dry_runs"),
    [("v1", "None", [False]), ("v1", "NoneOnDryRun", [True]), ("v1beta1", "Some", [])],
)
def test_calls_in_shadow_have_no_side_effects(
    tmp_path: Path, server: WebhookServer, version: str, effects: str, dry_runs: list[bool]
) -> None:
    before = len(server.received)
    checks = validating(hook(server, "deny", sideEffects=effects), version=version)
    decision = with_webhooks(tmp_path, checks, rollout(WEBHOOKS[1]))
    assert decision.allowed
    sent = [json.loads(received.body) for received in server.received[before:]]
    assert [review["request"]["dryRun"] for review in sent] == dry_runs
    if not dry_runs:
        (step,) = decision.steps
        assert str(step.outcome) == "skipped"
        assert "not called: it may have side effects" in step.reason
