"""What the API server says of a policy.

Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go`` (Kubernetes 1.35 and later).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.configurations.match_condition_validations import validate_match_conditions
from pratique.configurations.match_resources_validations import (
    validate_match_resources,
    validate_mutable_operations,
    validate_param_kind,
)
from pratique.configurations.metadata_validations import validate_metadata
from pratique.configurations.mutation_validations import validate_mutations
from pratique.configurations.policies import MutatingDocument, ValidatingDocument
from pratique.configurations.validation_validations import validate_validations
from pratique.configurations.variable_validations import validate_variables
from pratique.field_errors import ROOT, FieldError, FieldPath, not_supported, required

if TYPE_CHECKING:
    from pratique.configurations.policies import PolicyDocument, PolicySpec
    from pratique.configurations.policy_expressions import PolicyExpressions

_FAILURE_POLICIES = ("Fail", "Ignore")
_REINVOCATION_POLICIES = ("Never", "IfNeeded")


def validate_policy(document: PolicyDocument, expressions: PolicyExpressions) -> list[FieldError]:
    """Check a policy whose defaults are filled in; the errors come in Kubernetes' order.

    Args:
        document: The policy.
        expressions: Compiles its expressions.
    """
    path = ROOT / "spec"
    errors = validate_metadata(document.metadata, ROOT / "metadata")
    errors += _validate_scope(document.spec, path, mutates=isinstance(document, MutatingDocument))
    conditions, place = document.spec.match_conditions, path / "matchConditions"
    errors += validate_match_conditions(conditions, place, expressions.check_match_condition)
    errors += validate_variables(document.spec.variables, path / "variables", expressions)
    match document:
        case ValidatingDocument():
            errors += validate_validations(document, path, expressions)
        case MutatingDocument():
            errors += validate_mutations(document.spec.mutations, path / "mutations", expressions)
            errors += _validate_reinvocation(document.spec.reinvocation_policy, path / "reinvocationPolicy")
    return errors


def _validate_scope(spec: PolicySpec, path: FieldPath, *, mutates: bool) -> list[FieldError]:
    """Check what happens on failure, which parameters there are, and which requests are meant."""
    errors = []
    if spec.failure_policy is None:
        errors.append(required(path / "failurePolicy"))
    elif spec.failure_policy not in _FAILURE_POLICIES:
        errors.append(not_supported(path / "failurePolicy", spec.failure_policy, _FAILURE_POLICIES))
    if spec.param_kind is not None:
        errors += validate_param_kind(spec.param_kind, path / "paramKind")
    place = path / "matchConstraints"
    if spec.match_constraints is None:
        return [*errors, required(place)]
    errors += validate_match_resources(spec.match_constraints, place)
    if not spec.match_constraints.resource_rules:
        errors.append(required(place / "resourceRules"))
    return errors + (validate_mutable_operations(spec.match_constraints, place) if mutates else [])


def _validate_reinvocation(policy: str, path: FieldPath) -> list[FieldError]:
    if not policy:
        return [required(path)]
    if policy not in _REINVOCATION_POLICIES:
        return [not_supported(path, policy, _REINVOCATION_POLICIES)]
    return []
