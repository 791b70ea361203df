"""What kube-apiserver says to answers of webhooks of another kind or version, as other tests expect it of us."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import Iterator

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.answer_types import ADMISSION, CONVERSION, UID, VERSIONS, ReviewType, typed_answers
from support.api_clients import Client, Reply
from support.api_servers import ApiServer
from support.waiting import within
from support.webhook_servers import Received, WebhookServer, respond, serve

ADMISSION_API = "/apis/admissionregistration.k8s.io/v1"
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps?dryRun=All"
KINDS = ("mutating", "validating")
RULE = {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}


class Answers:
    """Answers every review with the same text."""

    def __init__(self) -> None:
        self.body = b""

    async def __call__(self, received: Received, writer: asyncio.StreamWriter) -> None:
        uid = received.review["request"]["uid"].encode()
        await respond(200, self.body.replace(UID.encode(), uid))(received, writer)


def client_config(server: WebhookServer) -> JSONObject:
    return {"url": server.url, "caBundle": base64.b64encode(server.ca_bundle).decode()}


def configuration(kind: str, version: str, server: WebhookServer) -> JSONObject:
    """A webhook for ConfigMaps with labels that say so."""
    webhook = {
        "name": "a.example.com",
        "clientConfig": client_config(server),
        "rules": [RULE],
        "objectSelector": {"matchLabels": {"kind": kind, "version": version}},
        "admissionReviewVersions": [version],
        "sideEffects": "None",
    }
    return {"metadata": {"name": f"answers-{version}"}, "webhooks": [webhook]}


def definition(version: str, server: WebhookServer) -> JSONObject:
    schema = {"openAPIV3Schema": {"type": "object"}}
    webhook = {"clientConfig": client_config(server), "conversionReviewVersions": [version]}
    return {
        "metadata": {"name": f"answers.{version}.example.com"},
        "spec": {
            "group": f"{version}.example.com",
            "scope": "Cluster",
            "names": {"plural": "answers", "kind": "Answer"},
            "conversion": {"strategy": "Webhook", "webhook": webhook},
            "versions": [
                {"name": name, "served": True, "storage": name == "v2", "schema": schema}
                for name in ("v1", "v2")
            ],
        },
    }


class Asking:
    """One request for each answer."""

    def __init__(self, client: Client, answers: Answers) -> None:
        self._client = client
        self._answers = answers

    def is_ready(self) -> bool:
        """Tell whether the API server knows all webhooks, whose answers fail."""
        asked = [self.convert(version, b"{}") for version in VERSIONS]
        asked += [self.admit(kind, version, b"{}") for kind in KINDS for version in VERSIONS]
        return all(reply.code == 500 for reply in asked)

    def admit(self, kind: str, version: str, body: bytes) -> Reply:
        self._answers.body = body
        metadata = {"name": "reviewed", "labels": {"kind": kind, "version": version}}
        return self._client.ask("POST", CONFIG_MAPS, {"metadata": metadata})

    def convert(self, version: str, body: bytes) -> Reply:
        self._answers.body = body
        group = f"{version}.example.com"
        reviewed = {"apiVersion": f"{group}/v1", "kind": "Answer", "metadata": {"name": "reviewed"}}
        return self._client.ask("POST", f"/apis/{group}/v1/answers?dryRun=All", reviewed)


@pytest.fixture(name="asking", scope="module")
def _asking(api_server: ApiServer) -> Iterator[Asking]:
    answers = Answers()
    with serve(answers) as server, contextlib.closing(api_server.client()) as client:
        registered = {
            f"{ADMISSION_API}/{kind}webhookconfigurations/answers-{version}": configuration(
                kind, version, server
            )
            for kind in KINDS
            for version in VERSIONS
        } | {
            f"{DEFINITIONS}/answers.{version}.example.com": definition(version, server)
            for version in VERSIONS
        }
        for path, registration in registered.items():
            client.must("POST", path.rpartition("/")[0], registration)
        asking = Asking(client, answers)
        assert within(60, asking.is_ready)
        yield asking
        for path in registered:
            client.must("DELETE", path)


def errors(review: ReviewType) -> list[tuple[str, bytes, str]]:
    return [(answer.version, answer.body, answer.error) for answer in typed_answers(review)]


@pytest.mark.parametrize("kind", KINDS)
def test_answers_to_admission_reviews(asking: Asking, kind: str) -> None:
    failing = 'Internal error occurred: failed calling webhook "a.example.com": '
    for version, body, error in errors(ADMISSION):
        reply = asking.admit(kind, version, body)
        message = reply.body.get("message", "")
        if error:
            assert message == f"{failing}failed to call webhook: {error}", body
        else:
            assert reply.code == 201 or message.startswith(f"{failing}received invalid webhook response:")


def test_answers_to_conversion_reviews(asking: Asking) -> None:
    for version, body, error in errors(CONVERSION):
        message = asking.convert(version, body).body["message"]
        subject = f"conversion webhook for {version}.example.com/v1, Kind=Answer"
        if error:
            assert message == f"{subject} failed: {error}", body
        else:
            assert "returned 0 objects" in message or "failed: expected webhook response of" in message
