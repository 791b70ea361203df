"""Webhooks that fail in every way that a network and a program have, over real connections."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import Callable, Iterator

import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Deadline
from pratique.apimachinery.json_values import JSONObject
from pratique.configuration.admissionregistration import WebhookConfiguration, WebhookConfigurationKind
from pratique_frontdoor.chain import webhooks
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.chain.webhooks import WebhookResult, call_webhook, configured_webhooks
from support.chains import decide, pod_review, webhook_controllers
from support.scripted_webhooks import Act, Script
from support.webhook_dispatch import as_written
from support.webhook_servers import (
    Authority,
    Behaviour,
    allowed,
    answered,
    authority,
    closed_port,
    hanging,
    hanging_body,
    patched,
    raw,
    redirected,
    reset,
    respond,
    reviewed,
    serve,
)

STRANGER = Authority()
UNFIT: list[JSONObject] = [{"op": "remove", "path": "/nothing"}]
NESTING: list[JSONObject] = [
    {"op": "add", "path": "/metadata" + "/a" * depth, "value": {}} for depth in range(1, 2_000)
]
WRONG: dict[str, tuple[Behaviour, int]] = {
    "hangs": (hanging(), 503),
    "hangs within its answer": (hanging_body(), 503),
    "breaks the connection off": (reset(), 503),
    "says goodbye at once": (raw(), 503),
    "speaks another protocol": (raw(b"220 mail.example.com ESMTP\r\n"), 503),
    "answers 500": (respond(500, b"broken"), 500),
    "answers 404": (respond(404), 404),
    "answers 200 and nothing": (respond(200), 503),
    "answers with no JSON": (respond(200, b"<html>hello</html>"), 503),
    "answers with half of a JSON": (respond(200, b'{"response":'), 503),
    "answers with other JSON": (respond(200, b"[1, 2, 3]"), 503),
    "answers with a review that answers nothing": (answered(lambda request: request.review), 503),
    "answers for somebody else": (reviewed(uid="another", allowed=True), 503),
    "answers in another version": (
        answered(lambda request: {**request.review, "apiVersion": "admission.k8s.io/v9", "response": {}}),
        503,
    ),
    "sends the caller round in circles": (redirected("/asked"), 503),
}
"""Behaviours, and the codes as which they are counted."""


def configuration(kind: str, url: str, policy: str, ca_bundle: bytes, seconds: int) -> JSONObject:
    everything = {"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}
    webhook = {
        "name": "asked.example.com",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca_bundle).decode()},
        "rules": [everything],
        "failurePolicy": policy,
        "namespaceSelector": {},
        "objectSelector": {},
        "sideEffects": "None",
        "timeoutSeconds": seconds,
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "tests"},
        "webhooks": [webhook],
    }


def run(kind: str, url: str, policy: str, ca_bundle: bytes | None = None, seconds: int = 30) -> Decision:
    document = configuration(kind, url, policy, ca_bundle or authority().pem, seconds)
    return decide(pod_review(), webhook_controllers(), as_written([document]))


def check(decision: Decision, policy: str, code: int) -> None:
    (step,) = decision.steps
    assert step.code == code
    assert decision.allowed is (policy == "Ignore")
    assert step.outcome is (OutcomeStatus.FAILED_OPEN if policy == "Ignore" else OutcomeStatus.FAILED)
    if decision.status is not None:
        assert (decision.status.code, decision.status.reason) == (500, "InternalError")
        assert decision.status.message.startswith(
            'Internal error occurred: failed calling webhook "asked.example.com": '
        )


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
@pytest.mark.parametrize("wrong", WRONG)
def test_the_failure_policy_applies_to_every_failure(wrong: str, kind: str, policy: str) -> None:
    behaviour, code = WRONG[wrong]
    seconds = 1 if wrong.startswith("hangs") else 30
    with serve(behaviour) as server:
        check(run(kind, f"{server.url}/asked", policy, seconds=seconds), policy, code)


@contextlib.contextmanager
def _refusing() -> Iterator[tuple[str, bytes]]:
    with closed_port() as port:
        yield f"https://127.0.0.1:{port}/", authority().pem


@contextlib.contextmanager
def _untrusted() -> Iterator[tuple[str, bytes]]:
    with serve(allowed()) as server:
        yield server.url, STRANGER.pem


@contextlib.contextmanager
def _misnamed() -> Iterator[tuple[str, bytes]]:
    with serve(allowed(), certificate=authority().issue("elsewhere.example.com")) as server:
        yield server.url, authority().pem


@contextlib.contextmanager
def _without_tls() -> Iterator[tuple[str, bytes]]:
    with serve(allowed(), plain=True) as server:
        yield server.url, authority().pem


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
@pytest.mark.parametrize("place", [_refusing, _untrusted, _misnamed, _without_tls])
def test_the_failure_policy_applies_to_failed_connections(
    place: Callable[[], contextlib.AbstractContextManager[tuple[str, bytes]]], kind: str, policy: str
) -> None:
    with place() as (url, ca_bundle):
        check(run(kind, url, policy, ca_bundle), policy, 503)


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_an_invalid_ca_bundle_fails_the_call(policy: str) -> None:
    check(run("Validating", "https://localhost/", policy, b"none"), policy, 500)


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("operations", [UNFIT, NESTING], ids=["unfit", "nesting"])
def test_a_patch_that_cannot_be_applied_denies_whatever_the_policy(
    operations: list[JSONObject], policy: str
) -> None:
    with serve(patched(operations)) as server:
        decision = run("Mutating", f"{server.url}/asked", policy)
    assert decision.status is not None
    assert decision.status.code == 500
    assert (decision.steps[0].outcome, decision.steps[0].code) == (OutcomeStatus.FAILED, 0)


def test_a_status_instead_of_a_review_gives_the_code() -> None:
    body = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "busy", "code": 429}
    with serve(respond(500, json.dumps(body).encode(), content_type="application/json")) as server:
        decision = run("Validating", f"{server.url}/asked", "Fail")
    check(decision, "Fail", 429)
    assert decision.status is not None
    assert decision.status.message.endswith("failed to call webhook: busy")


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_review_that_took_all_its_time_twice_fails_at_once_the_third_time(
    monkeypatch: pytest.MonkeyPatch, policy: str
) -> None:
    monkeypatch.setattr(webhooks, "LEAST_SECONDS", 0)
    script = Script("slow.example.com", Act.TIME_OUT, failure_policy=policy)
    configured = WebhookConfiguration(WebhookConfigurationKind.VALIDATING, "tests", (script.webhook,))
    [hook] = configured_webhooks([configured], Phase.VALIDATE, lambda *_: script)

    async def called(uid: str) -> WebhookResult:
        return await call_webhook(hook, pod_review(uid=uid), Phase.VALIDATE, Deadline.after(30))

    results = [asyncio.run(called(uid)) for uid in "abc"]
    assert script.calls == 2
    assert {(result.reason, result.failed_open) for result in results} == {
        (
            'failed calling webhook "slow.example.com": failed to call webhook: context deadline exceeded',
            policy == "Ignore",
        )
    }
