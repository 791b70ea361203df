"""One of everything that can refuse or change a request."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from pratique.apimachinery.json_values import JSONObject
from support.lint_findings import mutating as mutating_webhooks
from support.lint_findings import rule, validating, webhook
from support.mutating_policies import bound, labelled, mutating
from support.validating_policies import binding, policy
from support.webhook_servers import closed_port

CHAIN = (
    "MutatingAdmissionPolicy,MutatingAdmissionWebhook,AlwaysDeny,"
    "ValidatingAdmissionPolicy,ValidatingAdmissionWebhook"
)
"""The controllers that run them, for ``--admission-control``."""
REFERENCES = (
    {"kind": "MutatingAdmissionPolicy", "name": "p"},
    {"kind": "MutatingWebhookConfiguration", "name": "changes", "webhook": "a.example.com"},
    {"kind": "AdmissionController", "name": "AlwaysDeny"},
    {"kind": "ValidatingAdmissionPolicy", "name": "p", "binding": "b"},
    {"kind": "ValidatingWebhookConfiguration", "name": "checks", "webhook": "a.example.com"},
)
"""All of them, as Pratique's own kinds name policies."""


@contextlib.contextmanager
def refusing_policies() -> Iterator[list[JSONObject]]:
    """What denies or changes a Pod: policies, and webhooks that nobody serves."""
    with closed_port() as port:
        hook = webhook(rule("pods"), clientConfig={"url": f"https://127.0.0.1:{port}"})
        denying = policy({"expression": "false", "message": "no"})
        changing = [mutating(labelled("team", "'none'")), bound()]
        yield [*changing, mutating_webhooks(hook), denying, binding(), validating(hook)]
