"""The manifests of examples/07-in-a-cluster, as they are and as its reader fills them in."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import yaml

from pratique.apimachinery.json_values import JSONObject

EXAMPLE = Path(__file__).parents[2] / "examples" / "07-in-a-cluster"
FILES = sorted((EXAMPLE / "stack").glob("*.yaml"))
SERVICES = ("frontdoor", "mutator", "validator")
NAMESPACE = "pratique"


def objects() -> list[JSONObject]:
    """All objects of the stack, in the order in which they are applied."""
    return [document for file in FILES for document in yaml.safe_load_all(file.read_text())]


def of_kind(kind: str) -> dict[str, Any]:
    """The objects of one kind, by their names."""
    return {each["metadata"]["name"]: each for each in objects() if each["kind"] == kind}


def pod_specs() -> dict[str, Any]:
    """What the Pods of each service are to be."""
    deployments = of_kind("Deployment")
    return {name: deployments[f"pratique-{name}"]["spec"]["template"]["spec"] for name in SERVICES}


def webhook_documents(bundle: bytes = b"") -> list[Any]:
    """The webhook configurations, with a certificate authority filled in."""
    return list(yaml.safe_load_all(webhook_text(bundle)))


def webhook_text(bundle: bytes) -> str:
    """The same as text."""
    text = (EXAMPLE / "webhooks.template.yaml").read_text()
    return text.replace("CA_BUNDLE", base64.b64encode(bundle).decode() or '""')


def webhooks() -> list[Any]:
    """The webhooks of both configurations, the mutating one first."""
    return [webhook for document in webhook_documents() for webhook in document["webhooks"]]
