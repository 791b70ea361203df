"""Validate PolicyExceptions: each must say what it exempts from, whom or what, why, and until when."""

from __future__ import annotations

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    forbidden,
    invalid,
    not_supported,
    required,
    too_many_characters,
)
from pratique.apimachinery.selectors import validate_selector
from pratique.configuration.policy_exceptions import (
    ExemptKind,
    ExemptPolicy,
    PolicyExceptionDocument,
    PolicyExceptionSpec,
    Subject,
    parse_end,
)
from pratique.configuration.policy_validation import validate_named_rule
from pratique.configuration.webhook_validation import validate_metadata

_MAXIMUM_REASON = 1024  # characters: the reason is in audit annotations and steps
_DISPATCHERS = {
    "MutatingAdmissionPolicy": ExemptKind.MUTATING_POLICY,
    "MutatingAdmissionWebhook": ExemptKind.MUTATING_WEBHOOK,
    "ValidatingAdmissionPolicy": ExemptKind.VALIDATING_POLICY,
    "ValidatingAdmissionWebhook": ExemptKind.VALIDATING_WEBHOOK,
}
"""The controllers that run all policies or webhooks, and the kind to name instead."""
_SUBJECT_KINDS = ("Group", "ServiceAccount", "User")
_NOBODY_IN_PARTICULAR = (
    "at least one of namespaces, namespaceSelector, objectSelector and subjects must say what is exempted"
)
_EMPTY_SELECTOR = "must not be empty: an empty selector selects everything; leave it out"


def validate_policy_exception(document: PolicyExceptionDocument) -> list[FieldError]:
    """Validate an exception."""
    spec, path = document.spec, ROOT / "spec"
    errors = validate_metadata(document.metadata, ROOT / "metadata")
    if not spec.reason.strip():
        errors.append(required(path / "reason"))
    elif len(spec.reason) > _MAXIMUM_REASON:
        errors.append(too_many_characters(path / "reason", _MAXIMUM_REASON))
    errors += _validate_end(spec.until, path / "until")
    if not spec.policies:
        errors.append(required(path / "policies"))
    for index, policy in enumerate(spec.policies):
        errors += _validate_policy(policy, path / "policies" / index)
    return errors + _validate_scope(spec, path)


def _validate_end(text: str, path: FieldPath) -> list[FieldError]:
    if not text:
        return [required(path)]
    try:
        parse_end(text)
    except (ValueError, OverflowError) as error:
        return [invalid(path, text, str(error))]
    return []


def _validate_policy(policy: ExemptPolicy, path: FieldPath) -> list[FieldError]:
    if policy.kind not in list(ExemptKind):
        return [not_supported(path / "kind", policy.kind, ExemptKind)]
    kind = ExemptKind(policy.kind)
    errors = [] if policy.name else [required(path / "name")]
    if kind is ExemptKind.CONTROLLER and policy.name in _DISPATCHERS:
        instead = f"exempts from all it runs; name them one by one, by kind {_DISPATCHERS[policy.name]}"
        errors.append(invalid(path / "name", policy.name, instead))
    if kind.is_webhook and not policy.webhook:
        errors.append(required(path / "webhook", "name the webhook of the configuration"))
    if policy.webhook and not kind.is_webhook:
        errors.append(forbidden(path / "webhook", "only webhook configurations have webhooks"))
    if policy.binding and not kind.is_policy:
        errors.append(forbidden(path / "binding", "only policies have bindings"))
    return errors


def _validate_scope(spec: PolicyExceptionSpec, path: FieldPath) -> list[FieldError]:
    """Validate the parts that say which requests are exempted."""
    selectors = (("namespaceSelector", spec.namespace_selector), ("objectSelector", spec.object_selector))
    errors: list[FieldError] = []
    if not (spec.namespaces or spec.subjects or any(selector is not None for _, selector in selectors)):
        errors.append(required(path, _NOBODY_IN_PARTICULAR))
    for index, namespace in enumerate(spec.namespaces):
        place = path / "namespaces" / index
        errors += [invalid(place, namespace, message) for message in names.check_dns1123_label(namespace)]
    for field, selector in selectors:
        if selector is not None and selector.is_empty:
            errors.append(invalid(path / field, {}, _EMPTY_SELECTOR))
        errors += validate_selector(selector, path / field)
    for index, subject in enumerate(spec.subjects):
        errors += _validate_subject(subject, path / "subjects" / index)
    for index, rule in enumerate(spec.resource_rules):
        errors += validate_named_rule(rule, path / "resourceRules" / index)
    return errors


def _validate_subject(subject: Subject, path: FieldPath) -> list[FieldError]:
    if subject.kind not in _SUBJECT_KINDS:
        return [not_supported(path / "kind", subject.kind, _SUBJECT_KINDS)]
    errors = [] if subject.name else [required(path / "name")]
    if subject.kind == "ServiceAccount":
        return errors if subject.namespace else [*errors, required(path / "namespace")]
    if subject.namespace:
        errors.append(forbidden(path / "namespace", f"a {subject.kind} has no namespace"))
    return errors
