"""What the API server fills in where a webhook configuration says nothing.

Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/{v1,v1beta1}/defaults.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from pratique.configurations.webhooks import (
    ClientConfig,
    ConfigurationDocument,
    ConfigurationKind,
    Webhook,
)
from pratique.selectors import EVERYTHING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.json_values import JSON

_SELECTORS: Mapping[str, JSON] = {"namespace_selector": EVERYTHING, "object_selector": EVERYTHING}
_DEFAULTS: Mapping[str, Mapping[str, JSON]] = {
    "v1": {
        "failure_policy": "Fail",
        "match_policy": "Equivalent",
        "timeout_seconds": 10,
        **_SELECTORS,
    },
    "v1beta1": {
        "failure_policy": "Ignore",
        "match_policy": "Exact",
        "timeout_seconds": 30,
        "side_effects": "Unknown",
        "admission_review_versions": ("v1beta1",),
        **_SELECTORS,
    },
}
_SCOPE = "*"
_PORT = 443


def apply_defaults(document: ConfigurationDocument) -> ConfigurationDocument:
    """Fill in the defaults of the version of the API in which the configuration is written."""
    defaults = dict(_DEFAULTS[document.version])
    if document.kind == ConfigurationKind.MUTATING.value:
        defaults["reinvocation_policy"] = "Never"
    webhooks = tuple(_default_webhook(webhook, defaults) for webhook in document.webhooks)
    return replace(document, webhooks=webhooks)


def _default_webhook(webhook: Webhook, defaults: Mapping[str, JSON]) -> Webhook:
    # An empty list counts as absent, which is only ever the case for the list of versions.
    missing = {name: value for name, value in defaults.items() if getattr(webhook, name) in (None, ())}
    rules = tuple(rule if rule.scope is not None else replace(rule, scope=_SCOPE) for rule in webhook.rules)
    client_config = _default_client_config(webhook.client_config)
    return replace(webhook, rules=rules, client_config=client_config, **missing)


def _default_client_config(client_config: ClientConfig) -> ClientConfig:
    service = client_config.service
    if service is None or service.port is not None:
        return client_config
    return replace(client_config, service=replace(service, port=_PORT))
