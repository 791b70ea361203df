"""Validate PolicyExceptions: each must say what it exempts from, whom or what, why, and until when."""

from __future__ import annotations

from collections.abc import Sequence

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
from pratique.apimachinery.selectors import LabelSelector, validate_selector
from pratique.configuration.policy_exceptions import (
    PolicyExceptionDocument,
    PolicyExceptionSpec,
    Subject,
    parse_end,
)
from pratique.configuration.policy_references import validate_policy_references
from pratique.configuration.policy_validation import validate_named_rule
from pratique.configuration.webhook_validation import validate_metadata

_MAXIMUM_REASON = 1024  # characters: the reason is in audit annotations and steps
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
    errors += validate_policy_references(spec.policies, path / "policies", concerns="exempts from")
    return errors + _validate_scope(spec, path)


def _validate_end(text: str, path: FieldPath) -> list[FieldError]:
    if not text:
        return [required(path)]
    try:
        parse_end(text)
    except (ValueError, OverflowError) as error:
        return [invalid(path, text, str(error))]
    return []


def _validate_scope(spec: PolicyExceptionSpec, path: FieldPath) -> list[FieldError]:
    """Validate the parts that say which requests are exempted."""
    selectors = (("namespaceSelector", spec.namespace_selector), ("objectSelector", spec.object_selector))
    errors: list[FieldError] = []
    if not (spec.namespaces or spec.subjects or any(selector is not None for _, selector in selectors)):
        errors.append(required(path, _NOBODY_IN_PARTICULAR))
    errors += validate_namespaces(spec.namespaces, path / "namespaces")
    for field, selector in selectors:
        errors += validate_narrow_selector(selector, path / field)
    for index, subject in enumerate(spec.subjects):
        errors += _validate_subject(subject, path / "subjects" / index)
    for index, rule in enumerate(spec.resource_rules):
        errors += validate_named_rule(rule, path / "resourceRules" / index)
    return errors


def validate_namespaces(namespaces: Sequence[str], path: FieldPath) -> list[FieldError]:
    """Validate names of namespaces."""
    return [
        invalid(path / index, namespace, message)
        for index, namespace in enumerate(namespaces)
        for message in names.check_dns1123_label(namespace)
    ]


def validate_narrow_selector(selector: LabelSelector | None, path: FieldPath) -> list[FieldError]:
    """Validate a selector that must not select everything."""
    empty = selector is not None and selector.is_empty
    errors = [invalid(path, {}, _EMPTY_SELECTOR)] if empty else []
    return errors + validate_selector(selector, path)


def _validate_subject(subject: Subject, path: FieldPath) -> list[FieldError]:
    if subject.kind not in _SUBJECT_KINDS:
        return [not_supported(path / "kind", subject.kind, _SUBJECT_KINDS)]
    errors = [] if subject.name else [required(path / "name")]
    if subject.kind == "ServiceAccount":
        return errors if subject.namespace else [*errors, required(path / "namespace")]
    if subject.namespace:
        errors.append(forbidden(path / "namespace", f"a {subject.kind} has no namespace"))
    return errors
