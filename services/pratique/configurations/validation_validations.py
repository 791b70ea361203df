"""What the API server says of the validations and audit annotations of a policy.

Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go`` ``validateValidation`` and
``validateAuditAnnotation``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from pratique import names
from pratique.field_errors import FieldError, FieldPath, duplicate, invalid, not_supported, required

if TYPE_CHECKING:
    from pratique.configurations.policies import AuditAnnotation, ValidatingDocument, Validation
    from pratique.configurations.policy_expressions import PolicyExpressions

_REASONS = ("Forbidden", "Invalid", "RequestEntityTooLarge")
_MAXIMUM_ANNOTATIONS = 20
_MAXIMUM_LENGTH = 5 * 1024  # bytes of the expression of an annotation
_NOTHING = "validations or auditAnnotations must contain at least one item"


def validate_validations(
    document: ValidatingDocument, path: FieldPath, expressions: PolicyExpressions
) -> list[FieldError]:
    """Check what a policy validates and annotates: there must be something."""
    spec = document.spec
    if not spec.validations and not spec.audit_annotations:
        return [required(path / "validations", _NOTHING), required(path / "auditAnnotations", _NOTHING)]
    errors = []
    for index, validation in enumerate(spec.validations):
        errors += _validate_validation(validation, path / "validations" / index, expressions)
    return errors + _validate_annotations(document, path / "auditAnnotations", expressions)


def _validate_validation(
    validation: Validation, path: FieldPath, expressions: PolicyExpressions
) -> list[FieldError]:
    errors = []
    expression, place = validation.expression, path / "expression"
    if not expression.strip():
        errors.append(required(place, "expression is not specified"))
    else:
        errors += [invalid(place, expression, text) for text in expressions.check_validation(expression)]
    errors += _validate_message_expression(
        validation.message_expression, path / "messageExpression", expressions
    )
    errors += _validate_message(validation.message, path / "message")
    if validation.reason is not None and validation.reason not in _REASONS:
        errors.append(not_supported(path / "reason", validation.reason, _REASONS))
    return errors


def _validate_message_expression(
    expression: str, path: FieldPath, expressions: PolicyExpressions
) -> list[FieldError]:
    if not expression:
        return []
    if not expression.strip():
        return [invalid(path, expression, "must be non-empty if specified")]
    return [invalid(path, expression, text) for text in expressions.check_message(expression)]


def _validate_message(message: str, path: FieldPath) -> list[FieldError]:
    trimmed = message.strip()
    if message and not trimmed:
        return [invalid(path, message, "must be non-empty if specified")]
    if "\n" in trimmed or "\r" in trimmed:
        return [invalid(path, message, "must not contain line breaks")]
    return []


def _validate_annotations(
    document: ValidatingDocument, path: FieldPath, expressions: PolicyExpressions
) -> list[FieldError]:
    annotations, errors = document.spec.audit_annotations, []
    if len(annotations) > _MAXIMUM_ANNOTATIONS:
        detail = f"must not have more than {_MAXIMUM_ANNOTATIONS} auditAnnotations"
        errors.append(invalid(path, msgspec.to_builtins(annotations), detail))
    seen: set[str] = set()
    for index, annotation in enumerate(annotations):
        place = path / index
        errors += _validate_key(document.metadata.name, annotation.key, place / "key")
        errors += _validate_value(annotation, place / "valueExpression", expressions)
        if annotation.key in seen:
            errors.append(duplicate(place / "key", annotation.key))
        seen.add(annotation.key)
    return errors


def _validate_key(policy: str, key: str, path: FieldPath) -> list[FieldError]:
    if not policy:
        return [invalid(path, key, "requires metadata.name be non-empty")]
    name = f"{policy}/{key}"
    return [invalid(path, name, message) for message in names.check_qualified_name(name)]


def _validate_value(
    annotation: AuditAnnotation, path: FieldPath, expressions: PolicyExpressions
) -> list[FieldError]:
    trimmed = annotation.value_expression.strip()
    if not trimmed:
        return [required(path, "valueExpression is not specified")]
    if len(trimmed.encode()) > _MAXIMUM_LENGTH:
        return [required(path, f"must not exceed {_MAXIMUM_LENGTH} bytes in length")]
    messages = expressions.check_annotation(trimmed)
    return [invalid(path, annotation.value_expression, message) for message in messages]
