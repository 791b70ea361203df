"""Defaults of webhook configurations, by API version."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.selectors import EVERYTHING, LabelSelector
from pratique.configuration.admissionregistration import (
    Webhook,
    apply_webhook_defaults,
    decode_webhook_configuration,
)


def default(webhook: JSON, version: str = "v1", kind: str = "MutatingWebhookConfiguration") -> Webhook:
    api_version = f"admissionregistration.k8s.io/{version}"
    written = decode_webhook_configuration({"apiVersion": api_version, "kind": kind, "webhooks": [webhook]})
    return apply_webhook_defaults(written).webhooks[0]


V1 = {"failure_policy": "Fail", "match_policy": "Equivalent", "timeout_seconds": 10}
V1BETA1 = {
    "failure_policy": "Ignore",
    "match_policy": "Exact",
    "timeout_seconds": 30,
    "side_effects": "Unknown",
    "admission_review_versions": ("v1beta1",),
}


@pytest.mark.parametrize(("version", "defaults"), [("v1", V1), ("v1beta1", V1BETA1)])
def test_each_version_has_its_own_defaults(version: str, defaults: JSONObject) -> None:
    expected = Webhook(
        namespace_selector=EVERYTHING, object_selector=EVERYTHING, reinvocation_policy="Never", **defaults
    )
    assert default({}, version) == expected


def test_only_mutating_webhooks_are_reinvoked() -> None:
    assert default({}, kind="ValidatingWebhookConfiguration").reinvocation_policy is None


def test_a_given_value_is_not_defaulted() -> None:
    webhook = default(
        {
            "failurePolicy": "Ignore",
            "timeoutSeconds": 0,
            "objectSelector": {"matchLabels": {"a": "b"}},
            "reinvocationPolicy": "IfNeeded",
            "rules": [{"scope": "Cluster"}, {}],
            "clientConfig": {"service": {"port": 8443}},
        }
    )
    assert webhook.failure_policy == "Ignore"
    assert webhook.timeout_seconds == 0
    assert webhook.object_selector == LabelSelector({"a": "b"})
    assert webhook.reinvocation_policy == "IfNeeded"
    assert [rule.scope for rule in webhook.rules] == ["Cluster", "*"]
    assert webhook.client_config.service is not None
    assert webhook.client_config.service.port == 8443


def test_absent_fields_are_none_before_defaulting() -> None:
    data = {"apiVersion": "admissionregistration.k8s.io/v1", "webhooks": [{"rules": [{}]}]}
    (webhook,) = decode_webhook_configuration(data).webhooks
    assert webhook.failure_policy is None
    assert webhook.namespace_selector is None
    assert webhook.rules[0].scope is None
    assert webhook.client_config.url is None
