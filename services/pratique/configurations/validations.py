"""What the API server says of a webhook configuration.

Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go``.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique import names
from pratique.configurations.client_config_validations import validate_client_config
from pratique.configurations.match_condition_validations import ExpressionCheck, validate_match_conditions
from pratique.configurations.metadata_validations import validate_metadata
from pratique.configurations.rule_validations import validate_rule
from pratique.field_errors import ROOT, FieldError, FieldPath, duplicate, invalid, not_supported, required
from pratique.selector_validations import validate_selector

if TYPE_CHECKING:
    from pratique.configurations.webhooks import ConfigurationDocument, Webhook

REVIEW_VERSIONS = ("v1", "v1beta1")
"""The versions of AdmissionReview that are spoken."""
HARMLESS = ("None", "NoneOnDryRun")
"""The ``sideEffects`` that v1 allows."""

_SIDE_EFFECTS = ("None", "NoneOnDryRun", "Some", "Unknown")
_CHOICES = (
    ("failure_policy", "failurePolicy", ("Fail", "Ignore")),
    ("match_policy", "matchPolicy", ("Equivalent", "Exact")),
)
_REINVOCATION_POLICIES = ("IfNeeded", "Never")
_MAXIMUM_TIMEOUT_SECONDS = 30


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Strictness:
    """What is enforced. The API server forgives an update what it let pass before."""

    require_no_side_effects: bool = True
    """``sideEffects`` must be one of :data:`HARMLESS`."""
    require_known_review_version: bool = True
    """One of :data:`REVIEW_VERSIONS` must be among ``admissionReviewVersions``."""
    require_unique_names: bool = True
    """No two webhooks of a configuration may have one name."""
    allow_invalid_selector_values: bool = False
    """Selectors may ask for values that no label can have."""
    ignore_match_conditions: bool = False
    """``matchConditions`` are not looked at."""
    check_expression: ExpressionCheck | None = None
    """Compiles the expressions of ``matchConditions``; None leaves them unread."""


def strictness_of(version: str, check_expression: ExpressionCheck | None = None) -> Strictness:
    """What is enforced when a configuration in a version of the API is created."""
    strict = version != "v1beta1"
    return Strictness(
        require_no_side_effects=strict, require_unique_names=strict, check_expression=check_expression
    )


def validate_configuration(document: ConfigurationDocument, strictness: Strictness) -> list[FieldError]:
    """Check a configuration, with or without its defaults filled in; the errors come in Kubernetes' order."""
    errors = validate_metadata(document.metadata, ROOT / "metadata")
    seen: set[str] = set()
    for index, webhook in enumerate(document.webhooks):
        path = ROOT / "webhooks" / index
        errors += _validate_webhook(webhook, path, strictness)
        errors += _validate_review_versions(
            webhook.admission_review_versions, path / "admissionReviewVersions", strictness
        )
        if strictness.require_unique_names and webhook.name in seen:
            errors.append(duplicate(path / "name", webhook.name))
        if webhook.name:
            seen.add(webhook.name)
    return errors


def _validate_webhook(webhook: Webhook, path: FieldPath, strictness: Strictness) -> list[FieldError]:
    errors = _validate_full_name(webhook.name, path / "name")
    for index, rule in enumerate(webhook.rules):
        errors += validate_rule(rule, path / "rules" / index)
    for attribute, field, supported in _CHOICES:
        errors += _validate_choice(getattr(webhook, attribute), path / field, supported)
    errors += _validate_side_effects(webhook.side_effects, path / "sideEffects", strictness)
    errors += _validate_timeout(webhook.timeout_seconds, path / "timeoutSeconds")
    lenient = strictness.allow_invalid_selector_values
    namespaces, objects = webhook.namespace_selector, webhook.object_selector
    errors += validate_selector(namespaces, path / "namespaceSelector", allow_invalid_values=lenient)
    errors += validate_selector(objects, path / "objectSelector", allow_invalid_values=lenient)
    reinvocation = path / "reinvocationPolicy"
    errors += _validate_choice(webhook.reinvocation_policy, reinvocation, _REINVOCATION_POLICIES)
    errors += validate_client_config(webhook.client_config, path / "clientConfig")
    if not strictness.ignore_match_conditions:
        conditions = path / "matchConditions"
        errors += validate_match_conditions(webhook.match_conditions, conditions, strictness.check_expression)
    return errors


def _validate_full_name(name: str, path: FieldPath) -> list[FieldError]:
    if not name:
        return [required(path)]
    if messages := names.check_dns1123_subdomain(name):
        return [invalid(path, name, ",".join(messages))]
    if name.count(".") < 2:
        detail = "should be a domain with at least three segments separated by dots"
        return [invalid(path, name, detail)]
    return []


def _validate_choice(value: str | None, path: FieldPath, supported: tuple[str, ...]) -> list[FieldError]:
    return [] if value is None or value in supported else [not_supported(path, value, supported)]


def _validate_side_effects(value: str | None, path: FieldPath, strictness: Strictness) -> list[FieldError]:
    allowed = HARMLESS if strictness.require_no_side_effects else _SIDE_EFFECTS
    if value is None:
        return [required(path, f"must specify one of {', '.join(allowed)}")]
    return _validate_choice(value, path, allowed)


def _validate_timeout(seconds: int | None, path: FieldPath) -> list[FieldError]:
    if seconds is None or 1 <= seconds <= _MAXIMUM_TIMEOUT_SECONDS:
        return []
    detail = f"the timeout value must be between 1 and {_MAXIMUM_TIMEOUT_SECONDS} seconds"
    return [invalid(path, seconds, detail)]


def _validate_review_versions(
    versions: tuple[str, ...], path: FieldPath, strictness: Strictness
) -> list[FieldError]:
    if not versions:
        return [required(path, f"must specify one of {', '.join(REVIEW_VERSIONS)}")]
    errors = []
    for index, version in enumerate(versions):
        if version in versions[:index]:
            errors.append(invalid(path / index, version, "duplicate version"))
            continue
        messages = names.check_dns1035_label(version)
        errors += [invalid(path / index, version, message) for message in messages]
    known = not set(versions).isdisjoint(REVIEW_VERSIONS)
    if strictness.require_known_review_version and not known:
        errors.append(invalid(path, versions, f"must include at least one of {', '.join(REVIEW_VERSIONS)}"))
    return errors
