"""Validate policies and their bindings, in the API server's words.

Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go``.
"""

from __future__ import annotations

from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    covered,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.apimachinery.selectors import LabelSelector, validate_selector
from pratique.configuration.admissionregistration import (
    MatchResources,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    NamedRuleWithOperations,
    ParamKind,
    ParamRef,
    PolicyBindingDocument,
    PolicyDocument,
    PolicySpec,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
)
from pratique.configuration.expression_validation import (
    PolicyExpressionChecker,
    validate_match_conditions,
    validate_mutations,
    validate_validations,
    validate_variables,
)
from pratique.configuration.webhook_validation import validate_metadata, validate_rule

MUTABLE_OPERATIONS = ("*", "CONNECT", "CREATE", "UPDATE")
"""The operations whose objects a MutatingAdmissionPolicy can change."""

_MATCH_POLICIES = ("Equivalent", "Exact")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_EXCLUSIVE = "name and selector are mutually exclusive"


def validate_match_resources(resources: MatchResources, path: FieldPath) -> list[FieldError]:
    """Validate ``matchConstraints`` of a policy or ``matchResources`` of a binding."""
    errors = []
    if resources.match_policy is None:
        errors.append(required(path / "matchPolicy"))
    elif resources.match_policy not in _MATCH_POLICIES:
        errors.append(not_supported(path / "matchPolicy", resources.match_policy, _MATCH_POLICIES))
    errors += _validate_selector(resources.namespace_selector, path / "namespaceSelector")
    errors += _validate_selector(resources.object_selector, path / "objectSelector")
    for field, rules in (
        ("resourceRules", resources.resource_rules),
        ("excludeResourceRules", resources.exclude_resource_rules),
    ):
        for index, rule in enumerate(rules):
            errors += validate_named_rule(rule, path / field / index)
    return errors


def validate_mutable_operations(resources: MatchResources, path: FieldPath) -> list[FieldError]:
    """Validate that rules name only mutable operations; as in the API server, the error's path has no index."""
    return [
        not_supported(path / "resourceRules" / "operations", operation, MUTABLE_OPERATIONS)
        for rule in resources.resource_rules
        for operation in rule.operations
        if operation not in MUTABLE_OPERATIONS
    ]


def _validate_selector(selector: LabelSelector | None, path: FieldPath) -> list[FieldError]:
    return [required(path)] if selector is None else validate_selector(selector, path)


def validate_named_rule(rule: NamedRuleWithOperations, path: FieldPath) -> list[FieldError]:
    """Validate a rule that may name objects."""
    errors = []
    known: set[str] = set()
    for index, name in enumerate(rule.resource_names):
        place = path / "resourceNames" / index
        errors += _validate_segment(name, place)
        if name in known:
            errors.append(duplicate(place, name))
        known.add(name)
    return errors + validate_rule(rule, path)


def _validate_segment(name: str, path: FieldPath) -> list[FieldError]:
    return [invalid(path, name, message) for message in names.check_path_segment(name)]


def validate_param_kind(kind: ParamKind, path: FieldPath) -> list[FieldError]:
    """Validate a ``paramKind``."""
    errors = _validate_api_version(kind.api_version, path / "apiVersion")
    if not kind.kind:
        errors.append(required(path / "kind"))
    elif messages := names.check_dns1035_label(kind.kind.lower()):
        detail = f"may have mixed case, but should otherwise match: {','.join(messages)}"
        errors.append(invalid(path / "kind", kind.kind, detail))
    return errors


def _validate_api_version(text: str, path: FieldPath) -> list[FieldError]:
    if not text:
        return [required(path)]
    if text.count("/") > 1:
        return [invalid(path, text, f"unexpected GroupVersion string: {text}")]
    group, _, version = ("", "", "") if text == "/" else text.rpartition("/")
    errors = []
    if group and (messages := names.check_dns1123_subdomain(group)):
        errors.append(invalid(path, group, ",".join(messages)))
    if not version:
        errors.append(invalid(path, text, "version must be specified"))
    elif messages := names.check_dns1035_label(version):
        errors.append(invalid(path, version, ",".join(messages)))
    return errors


def validate_param_ref(ref: ParamRef, path: FieldPath) -> list[FieldError]:
    """Validate a ``paramRef``."""
    errors = []
    both = bool(ref.name) and ref.selector is not None
    if ref.name:
        errors += _validate_segment(ref.name, path / "name")
    if both:
        errors.append(forbidden(path / "name", _EXCLUSIVE))
    errors += validate_selector(ref.selector, path / "selector")
    if both:
        errors.append(forbidden(path / "selector", _EXCLUSIVE))
    if not ref.name and ref.selector is None:
        errors.append(required(path, "one of name or selector must be specified"))
    action = ref.parameter_not_found_action
    if not action:
        errors.append(required(path / "parameterNotFoundAction"))
    elif action not in _NOT_FOUND_ACTIONS:
        errors.append(not_supported(path / "parameterNotFoundAction", action, _NOT_FOUND_ACTIONS))
    return errors


_FAILURE_POLICIES = ("Fail", "Ignore")
_REINVOCATION_POLICIES = ("IfNeeded", "Never")


def validate_policy(document: PolicyDocument, expressions: PolicyExpressionChecker) -> list[FieldError]:
    """Validate a policy after defaulting. The errors come in Kubernetes' order.

    Args:
        document: The policy.
        expressions: Compiles its expressions.
    """
    return validate_metadata(document.metadata, ROOT / "metadata") + validate_policy_spec(
        document, expressions
    )


def validate_policy_spec(
    document: PolicyDocument, expressions: PolicyExpressionChecker, *, ignores_conditions: bool = False
) -> list[FieldError]:
    """Validate the spec of a policy.

    Args:
        document: The policy.
        expressions: Compiles its expressions.
        ignores_conditions: Whether its match conditions are those of the stored object, and not validated again.
    """
    path = ROOT / "spec"
    errors = _validate_scope(document.spec, path, mutates=isinstance(document, MutatingAdmissionPolicy))
    if not ignores_conditions:
        conditions, place = document.spec.match_conditions, path / "matchConditions"
        errors += validate_match_conditions(conditions, place, expressions.check_match_condition)
    errors += validate_variables(document.spec.variables, path / "variables", expressions)
    match document:
        case ValidatingAdmissionPolicy():
            errors += validate_validations(document, path, expressions)
        case MutatingAdmissionPolicy():
            errors += validate_mutations(document.spec.mutations, path / "mutations", expressions)
            errors += _validate_reinvocation(document.spec.reinvocation_policy, path / "reinvocationPolicy")
    return errors


def _validate_scope(spec: PolicySpec, path: FieldPath, *, mutates: bool) -> list[FieldError]:
    """Validate ``failurePolicy``, ``paramKind`` and ``matchConstraints``."""
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


_ACTIONS = ("Audit", "Deny", "Warn")
_DENY_AND_WARN = (
    "must not contain both Deny and Warn (repeating the same validation failure information in the API response "
    "and headers serves no purpose)"
)


def validate_binding(document: PolicyBindingDocument) -> list[FieldError]:
    """Validate a binding after defaulting. The errors come in Kubernetes' order.

    What 1.37 requires of a binding of a validating policy by tags of the type comes last.
    """
    return validate_metadata(document.metadata, ROOT / "metadata") + validate_binding_spec(document)


def validate_binding_spec(document: PolicyBindingDocument) -> list[FieldError]:
    """Validate the spec of a binding."""
    spec, path = document.spec, ROOT / "spec"
    errors: list[FieldError] = []
    by_tags: list[FieldError] = []
    validates = isinstance(document, ValidatingAdmissionPolicyBinding)
    if validates and not spec.policy_name:
        by_tags += covered(required(path / "policyName"))
    else:
        errors += _validate_policy_name(spec.policy_name, path / "policyName")
    if spec.param_ref is not None:
        errors += validate_param_ref(spec.param_ref, path / "paramRef")
    if spec.match_resources is not None:
        errors += validate_match_resources(spec.match_resources, path / "matchResources")
        if isinstance(document, MutatingAdmissionPolicyBinding):
            errors += validate_mutable_operations(spec.match_resources, path / "matchResources")
    if isinstance(document, ValidatingAdmissionPolicyBinding):
        actions = document.spec.validation_actions
        errors += _validate_actions(actions, path / "validationActions")
        by_tags += [] if actions else covered(required(path / "validationActions"))
    return errors + by_tags


def _validate_policy_name(name: str, path: FieldPath) -> list[FieldError]:
    if not name:
        return [required(path)]
    return [invalid(path, name, message) for message in names.check_dns1123_subdomain(name)]


def _validate_actions(actions: tuple[str, ...], path: FieldPath) -> list[FieldError]:
    errors = []
    known: set[str] = set()
    for index, action in enumerate(actions):
        if action not in _ACTIONS:
            errors.append(not_supported(path / index, action, _ACTIONS))
        if action in known:
            errors.append(duplicate(path / index, action))
        known.add(action)
    if "Deny" in actions and "Warn" in actions:
        errors.append(invalid(path, actions, _DENY_AND_WARN))
    return errors
