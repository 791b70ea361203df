"""What the API server says of the requests that a policy or binding means, and of its parameters.

Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/validation/validation.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import names
from pratique.configurations.rule_validations import validate_rule
from pratique.field_errors import (
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from pratique.selector_validations import validate_selector

if TYPE_CHECKING:
    from pratique.configurations.policies import MatchResources, NamedRule, ParamKind, ParamRef
    from pratique.selectors import LabelSelector

MUTABLE = ("*", "CONNECT", "CREATE", "UPDATE")
"""The operations whose objects can be changed."""

_MATCH_POLICIES = ("Equivalent", "Exact")
_NOT_FOUND_ACTIONS = ("Deny", "Allow")
_EXCLUSIVE = "name and selector are mutually exclusive"


def validate_match_resources(resources: MatchResources, path: FieldPath) -> list[FieldError]:
    """Check which requests are meant, by a policy or by a binding."""
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
            errors += _validate_named_rule(rule, path / field / index)
    return errors


def validate_mutable_operations(resources: MatchResources, path: FieldPath) -> list[FieldError]:
    """Check that all that is meant can be changed; the path of the error has no index, as the API server's."""
    return [
        not_supported(path / "resourceRules" / "operations", operation, MUTABLE)
        for rule in resources.resource_rules
        for operation in rule.operations
        if operation not in MUTABLE
    ]


def _validate_selector(selector: LabelSelector | None, path: FieldPath) -> list[FieldError]:
    return [required(path)] if selector is None else validate_selector(selector, path)


def _validate_named_rule(rule: NamedRule, path: FieldPath) -> list[FieldError]:
    errors = []
    for index, name in enumerate(rule.resource_names):
        place = path / "resourceNames" / index
        errors += _validate_segment(name, place)
        if name in rule.resource_names[:index]:
            errors.append(duplicate(place, name))
    return errors + validate_rule(rule, path)


def _validate_segment(name: str, path: FieldPath) -> list[FieldError]:
    return [invalid(path, name, message) for message in names.check_path_segment(name)]


def validate_param_kind(kind: ParamKind, path: FieldPath) -> list[FieldError]:
    """Check the kind of parameters."""
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
    """Check which parameters are meant."""
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
