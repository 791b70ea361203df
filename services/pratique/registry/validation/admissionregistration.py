"""Webhook configurations, policies and their bindings.

Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/validation``, and the strategies of
``pkg/registry/admissionregistration``. Whether the user may read a policy's parameters is not asked.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import ROOT, FieldError, invalid
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.statuses import go_quoted, qualified_resource
from pratique.cluster.api_resources import VIRTUAL_RESOURCES
from pratique.configuration.admissionregistration import (
    GROUP,
    STATIC_SUFFIX,
    MutatingAdmissionPolicy,
    MutatingAdmissionPolicyBinding,
    PolicyBindingDocument,
    PolicyDocument,
    ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding,
    WebhookConfigurationDocument,
)
from pratique.configuration.expression_validation import PolicyExpressionChecker, check_match_condition
from pratique.configuration.policy_validation import validate_binding_spec, validate_policy_spec
from pratique.configuration.webhook_validation import (
    ValidationOptions,
    update_validation_options,
    validate_webhooks,
    validation_options,
)
from pratique.registry.validation.kind_validation import KindValidation, ValidationTable
from pratique.registry.validation.metadata import subdomain_name, validate_metadata

_METADATA = ROOT / "metadata"
_RESERVED = (
    f"names ending with {go_quoted(STATIC_SUFFIX)} are reserved for static manifest-based configurations and cannot be "
    "managed via the API"
)


def _validate_name(written: JSONObject) -> list[FieldError]:
    return validate_metadata(written.get("metadata", {}), subdomain_name, _METADATA, namespaced=False)


def _name_of(written: JSONObject) -> str:
    name: str = written.get("metadata", {}).get("name", "")
    return name


def _reserved_name(written: JSONObject) -> list[FieldError]:
    """Refuse the names of static manifests: ``ValidateStaticSuffix``."""
    name = _name_of(written)
    return [invalid(_METADATA / "name", name, _RESERVED)] if name.endswith(STATIC_SUFFIX) else []


def _name_warnings(written: JSONObject, old: JSONObject | None, _review: Review) -> list[str]:
    """What is said on updates of objects with the names of static manifests: ``WarningsForStaticSuffix``."""
    is_reserved = old is not None and _name_of(written).endswith(STATIC_SUFFIX)
    return [f"metadata.name: {_RESERVED}"] if is_reserved else []


def _webhooks(written: JSONObject) -> WebhookConfigurationDocument:
    return msgspec.convert(written, prepared(WebhookConfigurationDocument))


def _validate_configuration(written: JSONObject, _review: Review) -> list[FieldError]:
    document = _webhooks(written)
    options = _of_api_server(validation_options(document.version, check_match_condition))
    return _validate_name(written) + validate_webhooks(document, options) + _reserved_name(written)


def _validate_configuration_update(written: JSONObject, old: JSONObject, _review: Review) -> list[FieldError]:
    document = _webhooks(written)
    options = update_validation_options(document, _webhooks(old), check_match_condition)
    return _validate_name(written) + validate_webhooks(document, _of_api_server(options))


def _of_api_server(options: ValidationOptions) -> ValidationOptions:
    return msgspec.structs.replace(options, allows_grpc=False)


def _configuration_warnings(written: JSONObject, old: JSONObject | None, review: Review) -> list[str]:
    """Rules for resources that no webhook is asked about: ``WarningsForValidatingWebhookRules``."""
    warnings = _name_warnings(written, old, review)
    for index, webhook in enumerate(written.get("webhooks", ())):
        for at, rule in enumerate(webhook.get("rules", ())):
            warnings += [
                f"webhooks[{index}].rules[{at}]: {resource} is excluded from admission webhooks; "
                "this rule will have no effect"
                for resource in _excluded(rule.get("apiGroups", ()), rule.get("resources", ()))
            ]
    return warnings


def _excluded(groups: Iterable[str], resources: Iterable[str]) -> list[str]:
    if "*" in groups or "*" in resources:
        return []
    named = dict.fromkeys((group, resource) for group in groups for resource in resources)
    return [qualified_resource(*resource) for resource in named if resource in VIRTUAL_RESOURCES]


def _policy(written: JSONObject) -> PolicyDocument:
    kinds: dict[str, type[PolicyDocument]] = {
        "MutatingAdmissionPolicy": MutatingAdmissionPolicy,
        "ValidatingAdmissionPolicy": ValidatingAdmissionPolicy,
    }
    return msgspec.convert(written, prepared(kinds[written["kind"]]))


def _validate_policy(written: JSONObject, _review: Review) -> list[FieldError]:
    document = _policy(written)
    errors = _validate_name(written) + validate_policy_spec(document, PolicyExpressionChecker(document))
    return errors + _reserved_name(written)


def _validate_policy_update(written: JSONObject, old: JSONObject, _review: Review) -> list[FieldError]:
    document, stored = _policy(written), _policy(old)
    keeps_conditions = (
        document.spec.param_kind == stored.spec.param_kind
        and document.spec.match_conditions == stored.spec.match_conditions
    )
    checker = PolicyExpressionChecker(document)
    return _validate_name(written) + validate_policy_spec(
        document, checker, ignores_conditions=keeps_conditions
    )


def _binding(written: JSONObject) -> PolicyBindingDocument:
    kinds: dict[str, type[PolicyBindingDocument]] = {
        "MutatingAdmissionPolicyBinding": MutatingAdmissionPolicyBinding,
        "ValidatingAdmissionPolicyBinding": ValidatingAdmissionPolicyBinding,
    }
    return msgspec.convert(written, prepared(kinds[written["kind"]]))


def _validate_binding(written: JSONObject, _review: Review) -> list[FieldError]:
    return _validate_name(written) + validate_binding_spec(_binding(written)) + _reserved_name(written)


def _validate_binding_update(written: JSONObject, _old: JSONObject, _review: Review) -> list[FieldError]:
    return _validate_name(written) + validate_binding_spec(_binding(written))


_CONFIGURATIONS = KindValidation(
    _validate_configuration, _validate_configuration_update, _configuration_warnings
)
_POLICIES = KindValidation(_validate_policy, _validate_policy_update, _name_warnings)
_BINDINGS = KindValidation(_validate_binding, _validate_binding_update, _name_warnings)
VALIDATIONS: ValidationTable = {
    (GROUP, "mutatingadmissionpolicies"): _POLICIES,
    (GROUP, "mutatingadmissionpolicybindings"): _BINDINGS,
    (GROUP, "mutatingwebhookconfigurations"): _CONFIGURATIONS,
    (GROUP, "validatingadmissionpolicies"): _POLICIES,
    (GROUP, "validatingadmissionpolicybindings"): _BINDINGS,
    (GROUP, "validatingwebhookconfigurations"): _CONFIGURATIONS,
}
