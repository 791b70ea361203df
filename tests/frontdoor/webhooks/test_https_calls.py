from __future__ import annotations

import dataclasses
import sys

import msgspec
import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import ALLOWED, Denied, Patched
from pratique.apimachinery.json_values import Document
from support.services.reviews import review_of
from support.webhook_calls import NAME, Caller, webhook_at
from support.webhook_servers import WebhookServer, allowed, denied, patched, respond, serve

CALLER = Caller(review=review_of())
VALIDATING = dataclasses.replace(CALLER, phase=Phase.VALIDATE)
ADD = [{"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}]


def asked(server: WebhookServer, caller: Caller = CALLER, path: str = "/hook") -> None:
    assert caller.ask(webhook_at(server.url + path)).decision == ALLOWED


def test_a_mutating_webhook_changes_the_object() -> None:
    with serve(patched(ADD, warnings=["w"], auditAnnotations={"k": "v"})) as server:
        outcome = CALLER.ask(webhook_at(server.url))
    assert outcome.decision == Patched(tuple(ADD))
    assert (outcome.controller, outcome.warnings, outcome.audit_annotations) == (NAME, ("w",), {"k": "v"})


@pytest.mark.parametrize("caller", [CALLER, VALIDATING])
def test_a_webhook_denies(caller: Caller) -> None:
    with serve(denied("no")) as server:
        decision = caller.ask(webhook_at(server.url)).decision
    assert isinstance(decision, Denied)
    assert decision.status.message == f'admission webhook "{NAME}" denied the request: no'
    assert decision.status.code == 400


@pytest.mark.parametrize("caller", [CALLER, VALIDATING])
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_a_webhook_is_called_in_the_version_it_accepts(caller: Caller, version: str) -> None:
    with serve(allowed()) as server:
        assert caller.ask(webhook_at(server.url, versions=(version,))).decision == ALLOWED
    (received,) = server.received
    assert received.review["apiVersion"] == f"admission.k8s.io/{version}"
    assert received.review["request"]["object"] == CALLER.review.object


def test_the_request_is_the_one_kube_apiserver_sends() -> None:
    with serve(allowed()) as server:
        asked(server, path="/a/b/")
    (received,) = server.received
    assert (received.method, received.target) == ("POST", "/a/b?timeout=5s")
    assert dict(received.headers) == {
        "host": f"localhost:{server.port}",
        "accept": "application/json, */*",
        "accept-encoding": "gzip",
        "content-type": "application/json",
        "user-agent": "kube-apiserver-admission",
        "content-length": str(len(received.body)),
    }


@pytest.mark.parametrize(
    ("timeout_seconds", "deadline_seconds", "told"),
    [
        (10, 30, "10s"),
        (30, 30, "30s"),
        (None, 34, "34s"),
        (10, 2.5, "3s"),
        (None, 1.5, "2s"),
        (30, 90, "30s"),
    ],
)
def test_the_url_has_the_timeout(timeout_seconds: float | None, deadline_seconds: float, told: str) -> None:
    caller = dataclasses.replace(CALLER, timeout_seconds=timeout_seconds, deadline_seconds=deadline_seconds)
    with serve(allowed()) as server:
        asked(server, caller)
    assert server.received[0].target == f"/hook?timeout={told}"


def test_calls_share_a_connection() -> None:
    with serve(allowed()) as server:
        CALLER.ask(webhook_at(server.url), times=5)
    assert (len(server.received), server.connections) == (5, 1)
    assert len({received.review["request"]["uid"] for received in server.received}) == 5


def test_a_compressed_answer_is_decoded() -> None:
    with serve(allowed(compressed=True)) as server:
        asked(server)


@pytest.mark.parametrize("content_type", [None, "text/plain", "application/yaml"])
def test_the_content_type_of_an_answer_is_ignored(content_type: str | None) -> None:
    body = b'{"response":{"allowed":true}}'
    with serve(respond(201, body, content_type=content_type)) as server:
        assert CALLER.ask(webhook_at(server.url, versions=("v1beta1",))).decision == ALLOWED


def test_an_object_of_three_mebibytes_arrives_whole() -> None:
    raw = b'{"data":"' + b"x" * (3 << 20) + b'"}'
    caller = dataclasses.replace(
        CALLER,
        review=msgspec.structs.replace(CALLER.review, object_document=Document.from_raw(raw)),
        timeout_seconds=20,
    )
    with serve(allowed()) as server:
        asked(server, caller)
    assert raw in server.received[0].body


def test_the_endpoint_is_the_url_without_the_timeout() -> None:
    from pratique.https.clients import HttpsClients
    from pratique_frontdoor.webhooks.transports import HttpsTransport

    webhook = webhook_at("https://hooks.example.com/a/")
    assert (
        HttpsTransport(webhook, HttpsClients(), CALLER.credentials).endpoint == "https://hooks.example.com/a"
    )


def test_the_http_library_is_not_imported_before_a_webhook_is_called() -> None:
    import subprocess

    code = (
        "import sys, pratique_frontdoor.webhooks.transports, pratique.https.clients; "
        "sys.exit('aiohttp' in sys.modules or 'yaml' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
