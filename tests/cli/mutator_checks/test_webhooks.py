"""Webhooks are mutators like others, and are really called."""

from __future__ import annotations

import base64
import itertools
import json
from pathlib import Path

from pratique.apimachinery.json_values import JSONObject
from support import webhook_servers
from support.mutator_checks import POD, WEBHOOKS, found, prove

APPEND = [{"op": "add", "path": "/spec/containers/-", "value": {"name": "side", "image": "side:1"}}]
LABEL = [{"op": "add", "path": "/metadata/labels", "value": {"team": "a"}}]


def configuration(url: str, ca_bundle: bytes, **fields: object) -> JSONObject:
    """A webhook for every Pod that is created."""
    webhook = {
        "name": "hook.example.com",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca_bundle).decode()},
        "rules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
        ],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "hooks"},
        "webhooks": [webhook | fields],
    }


def test_an_idempotent_webhook_passes(tmp_path: Path) -> None:
    with webhook_servers.serve(webhook_servers.patched(LABEL)) as server:
        config = configuration(server.url, server.ca_bundle)
        report = prove(tmp_path, config, controllers=WEBHOOKS, examples=5)
    assert found(report) == []
    assert list(report.acted.values()) == [report.tried]
    assert report.generated == {"v1/Pod": 5}


def test_a_webhook_that_appends_without_looking_is_found(tmp_path: Path) -> None:
    with webhook_servers.serve(webhook_servers.patched(APPEND)) as server:
        report = prove(tmp_path, configuration(server.url, server.ca_bundle), controllers=WEBHOOKS)
    assert found(report) == [("notIdempotent", "hook.example.com")]


def test_a_nondeterministic_webhook_is_found(tmp_path: Path) -> None:
    numbers = itertools.count()

    def answer(received: webhook_servers.Received) -> JSONObject:
        label = [{"op": "add", "path": "/metadata/labels/n", "value": str(next(numbers))}]
        patch = base64.b64encode(json.dumps(label).encode()).decode()
        response = {"uid": received.review["request"]["uid"], "allowed": True}
        return {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "response": response | {"patchType": "JSONPatch", "patch": patch},
        }

    with webhook_servers.serve(webhook_servers.answered(answer)) as server:
        report = prove(tmp_path, configuration(server.url, server.ca_bundle), controllers=WEBHOOKS)
    assert ("notDeterministic", "hook.example.com") in found(report)


def test_webhooks_are_called_with_dry_run(tmp_path: Path) -> None:
    with webhook_servers.serve(webhook_servers.patched(LABEL)) as server:
        config = configuration(server.url, server.ca_bundle)
        prove(tmp_path, config, controllers=WEBHOOKS)
        assert {item.review["request"]["dryRun"] for item in server.received} == {True}


def test_an_unreachable_webhook_proves_nothing(tmp_path: Path) -> None:
    with webhook_servers.closed_port() as port:
        config = configuration(f"https://127.0.0.1:{port}/", webhook_servers.authority().pem)
        report = prove(tmp_path, config, controllers=WEBHOOKS, given=[POD], examples=5)
    assert report.error.partition("hook.example.com")[0].endswith('failed calling webhook "')
    assert not report.holds
    assert report.tried == 0


def test_an_unreachable_webhook_that_may_fail_proves_nothing(tmp_path: Path) -> None:
    with webhook_servers.closed_port() as port:
        config = configuration(
            f"https://127.0.0.1:{port}/", webhook_servers.authority().pem, failurePolicy="Ignore"
        )
        report = prove(tmp_path, config, controllers=WEBHOOKS)
    assert report.error.partition("hook.example.com")[0].endswith('failed calling webhook "')


def test_values_written_by_a_webhook_join_the_vocabulary(tmp_path: Path) -> None:
    with webhook_servers.serve(webhook_servers.patched(LABEL)) as server:
        config = configuration(server.url, server.ca_bundle)
        prove(tmp_path, config, controllers=WEBHOOKS, given=(), examples=300)
        sent = [entry.review["request"]["object"] for entry in server.received]
    labelled = [item for item in sent if "team" in item["metadata"].get("labels", {})]
    assert any(element["spec"] != {"containers": [{"name": "a"}]} for element in labelled)
