"""What the API server says of the binding of a policy.

Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import names
from pratique.configurations.match_resources_validations import (
    validate_match_resources,
    validate_mutable_operations,
    validate_param_ref,
)
from pratique.configurations.metadata_validations import validate_metadata
from pratique.configurations.policies import MutatingBindingDocument, ValidatingBindingDocument
from pratique.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    GoLiteral,
    duplicate,
    go_strings,
    invalid,
    not_supported,
    required,
)

if TYPE_CHECKING:
    from pratique.configurations.policies import BindingDocument

_ACTIONS = ("Audit", "Deny", "Warn")
_TOLD_TWICE = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response "
    "and headers serves no purpose)"
)


def validate_binding(document: BindingDocument) -> list[FieldError]:
    """Check a binding whose defaults are filled in; the errors come in Kubernetes' order."""
    spec, path = document.spec, ROOT / "spec"
    errors = validate_metadata(document.metadata, ROOT / "metadata")
    errors += _validate_policy_name(spec.policy_name, path / "policyName")
    if spec.param_ref is not None:
        errors += validate_param_ref(spec.param_ref, path / "paramRef")
    if spec.match_resources is not None:
        errors += validate_match_resources(spec.match_resources, path / "matchResources")
        if isinstance(document, MutatingBindingDocument):
            errors += validate_mutable_operations(spec.match_resources, path / "matchResources")
    if isinstance(document, ValidatingBindingDocument):
        errors += _validate_actions(document.spec.validation_actions, path / "validationActions")
    return errors


def _validate_policy_name(name: str, path: FieldPath) -> list[FieldError]:
    if not name:
        return [required(path)]
    return [invalid(path, name, message) for message in names.check_dns1123_subdomain(name)]


def _validate_actions(actions: tuple[str, ...], path: FieldPath) -> list[FieldError]:
    errors = []
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.append(not_supported(path / index, action, _ACTIONS))
        if action in actions[:index]:
            errors.append(duplicate(path / index, action))
    if "Deny" in actions and "Warn" in actions:
        shown = GoLiteral(go_strings("admissionregistration.ValidationAction", actions))
        errors.append(invalid(path, shown, _TOLD_TWICE))
    if not actions:
        errors.append(required(path, "at least one validation action is required"))
    return errors
