"""What the API server says of the rules of a webhook or policy.

Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go``, with its blind spots: a
wildcard that stands after what it includes is not always noticed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.field_errors import (
    FieldError,
    FieldPath,
    GoLiteral,
    go_strings,
    invalid,
    not_supported,
    required,
)
from pratique.rules import OPERATIONS, SCOPES

if TYPE_CHECKING:
    from pratique.rules import Rule


def validate_rule(rule: Rule, path: FieldPath) -> list[FieldError]:
    """Check one rule."""
    errors = _validate_operations(rule.operations, path / "operations")
    errors += _validate_wildcard(rule.api_groups, path / "apiGroups", "API groups")
    errors += _validate_wildcard(rule.api_versions, path / "apiVersions", "API versions")
    for index, version in enumerate(rule.api_versions):
        if not version:
            errors.append(required(path / "apiVersions" / index))
    errors += _validate_resources(rule.resources, path / "resources")
    if rule.scope is not None and rule.scope not in SCOPES:
        errors.append(not_supported(path / "scope", rule.scope, SCOPES))
    return errors


def _validate_operations(operations: tuple[str, ...], path: FieldPath) -> list[FieldError]:
    errors = [] if operations else [required(path)]
    if len(operations) > 1 and "*" in operations:
        shown = GoLiteral(go_strings("admissionregistration.OperationType", operations))
        errors.append(invalid(path, shown, "if '*' is present, must not specify other operations"))
    for index, operation in enumerate(operations):
        if operation not in OPERATIONS:
            errors.append(not_supported(path / index, operation, OPERATIONS))
    return errors


def _validate_wildcard(values: tuple[str, ...], path: FieldPath, what: str) -> list[FieldError]:
    if not values:
        return [required(path)]
    if len(values) > 1 and "*" in values:
        return [invalid(path, values, f"if '*' is present, must not specify other {what}")]
    return []


def _validate_resources(resources: tuple[str, ...], path: FieldPath) -> list[FieldError]:
    errors = [] if resources else [required(path)]
    with_every_subresource: set[str] = set()
    with_every_resource: set[str] = set()
    for index, written in enumerate(resources):
        resource, slash, subresource = written.partition("/")
        if not written:
            errors.append(required(path / index))
        if not slash:
            continue
        if resource in with_every_subresource:
            errors.append(_included(path / index, written, f"{resource}/*"))
        if subresource in with_every_resource:
            errors.append(_included(path / index, written, f"*/{subresource}"))
        if subresource == "*":
            with_every_subresource.add(resource)
        if resource == "*":
            with_every_resource.add(subresource)
    return errors + _validate_resource_wildcards(resources, path)


def _validate_resource_wildcards(resources: tuple[str, ...], path: FieldPath) -> list[FieldError]:
    errors = []
    if len(resources) > 1 and "*/*" in resources:
        errors.append(invalid(path, resources, "if '*/*' is present, must not specify other resources"))
    main = [resource for resource in resources if resource and "/" not in resource]
    if "*" in main and main[-1] != "*":  # as the API server, which remembers only the last one
        detail = "if '*' is present, must not specify other resources without subresources"
        errors.append(invalid(path, resources, detail))
    return errors


def _included(path: FieldPath, written: str, wildcard: str) -> FieldError:
    return invalid(path, written, f"if '{wildcard}' is present, must not specify {written}")
