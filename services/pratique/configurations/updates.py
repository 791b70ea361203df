"""What the API server forgives when a webhook configuration is updated: what it let pass before.

Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.configurations.validations import HARMLESS, REVIEW_VERSIONS, Strictness, strictness_of
from pratique.field_errors import ROOT
from pratique.selector_validations import validate_selector

if TYPE_CHECKING:
    from pratique.configurations.match_condition_validations import ExpressionCheck
    from pratique.configurations.webhooks import ConfigurationDocument, Webhook


def strictness_of_update(
    new: ConfigurationDocument,
    old: ConfigurationDocument,
    check_expression: ExpressionCheck | None = None,
) -> Strictness:
    """What is enforced when ``new`` takes the place of ``old``."""
    created = strictness_of(new.version, check_expression)
    names = [webhook.name for webhook in old.webhooks]
    harmless = all(webhook.side_effects in HARMLESS for webhook in old.webhooks)
    return dataclasses.replace(
        created,
        require_no_side_effects=created.require_no_side_effects and harmless,
        require_known_review_version=all(_has_known_version(webhook) for webhook in old.webhooks),
        require_unique_names=created.require_unique_names and len(set(names)) == len(names),
        allow_invalid_selector_values=any(_has_invalid_selector(webhook) for webhook in old.webhooks),
        ignore_match_conditions=_conditions(new) == _conditions(old),
    )


def _conditions(document: ConfigurationDocument) -> list[object]:
    return [webhook.match_conditions for webhook in document.webhooks]


def _has_known_version(webhook: Webhook) -> bool:
    versions = webhook.admission_review_versions
    return not versions or not set(versions).isdisjoint(REVIEW_VERSIONS)


def _has_invalid_selector(webhook: Webhook) -> bool:
    selectors = (webhook.namespace_selector, webhook.object_selector)
    return any(validate_selector(selector, ROOT) for selector in selectors)
