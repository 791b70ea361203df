"""Unknown versions of a known kind: a webhook or policy for the kind is never skipped silently."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import ObjectStore
from pratique.configuration.loading import load_configurations
from support.chains import decide, webhook_controllers
from support.webhook_servers import denied, serve

VERSIONS = ["v2", "v1alpha1", "v9", "v1 ", "V1", "", "v1beta3"]
"""Of apps there are ``v1`` and two betas."""


def review_of(version: str) -> Review:
    document = {"apiVersion": f"apps/{version}", "kind": "Deployment", "metadata": {"name": "web"}}
    return Review(
        uid="1",
        operation=Operation.CREATE,
        kind=GroupVersionKind("apps", version, "Deployment"),
        resource=GroupVersionResource("apps", version, "deployments"),
        name="web",
        namespace="shop",
        object_document=Document.from_data(document),
        cluster=ObjectStore(assume_namespaces=True),
    )


def configured(folder: Path, kind: str, client: dict[str, Any], **fields: Any) -> Path:
    rule = {"operations": ["*"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
    hook = {
        "name": "a.tests.example.com",
        "clientConfig": client,
        "rules": [rule],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        **fields,
    }
    document = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "tests"},
        "webhooks": [hook],
    }
    file = folder / "webhooks.json"
    file.write_text(json.dumps(document))
    return file


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_unknown_versions_are_denied_or_sent_to_the_webhook(
    tmp_path: Path, kind: str, failure_policy: str
) -> None:
    with serve(denied("no")) as server:
        client = {"url": f"{server.url}/a", "caBundle": base64.b64encode(server.ca_bundle).decode()}
        configurations = load_configurations(
            [configured(tmp_path, kind, client, failurePolicy=failure_policy, matchPolicy="Equivalent")]
        )
        for version in VERSIONS:
            decision = decide(review_of(version), webhook_controllers(), configurations, explain=True)
            assert not decision.allowed, version
            assert decision.steps[-1].outcome in {OutcomeStatus.DENIED, OutcomeStatus.FAILED}
