"""What the API server fills in where a policy or binding says nothing.

Source: ``k8s.io/kubernetes/pkg/apis/admissionregistration/{v1,v1beta1,v1alpha1}/defaults.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from msgspec.structs import replace

from pratique.configurations.policies import MutatingDocument, ValidatingDocument
from pratique.selectors import EVERYTHING

if TYPE_CHECKING:
    from pratique.configurations.policies import BindingDocument, MatchResources, NamedRule, ParamRef

_FAILURE_POLICY = "Fail"
_MATCH_POLICY = "Equivalent"
_SCOPE = "*"
_OLDEST = "v1alpha1"
"""The version in which parameters that are not found are refused unless said otherwise; later ones make one say."""

Document = TypeVar("Document", bound="ValidatingDocument | MutatingDocument | BindingDocument")


def apply_policy_defaults(document: Document) -> Document:
    """Fill in the defaults of the version of the API in which a policy or binding is written."""
    spec = document.spec
    if isinstance(document, ValidatingDocument | MutatingDocument):
        constraints = _default_matching(document.spec.match_constraints)
        policy = document.spec.failure_policy
        policy = _FAILURE_POLICY if policy is None else policy
        return replace(document, spec=replace(spec, failure_policy=policy, match_constraints=constraints))
    param_ref = _default_param_ref(document.spec.param_ref, document.version)
    resources = _default_matching(document.spec.match_resources)
    return replace(document, spec=replace(spec, param_ref=param_ref, match_resources=resources))


def _default_matching(resources: MatchResources | None) -> MatchResources | None:
    if resources is None:
        return None
    return replace(
        resources,
        match_policy=_MATCH_POLICY if resources.match_policy is None else resources.match_policy,
        namespace_selector=resources.namespace_selector or EVERYTHING,
        object_selector=resources.object_selector or EVERYTHING,
        resource_rules=tuple(map(_default_rule, resources.resource_rules)),
        exclude_resource_rules=tuple(map(_default_rule, resources.exclude_resource_rules)),
    )


def _default_rule(rule: NamedRule) -> NamedRule:
    return rule if rule.scope is not None else replace(rule, scope=_SCOPE)


def _default_param_ref(param_ref: ParamRef | None, version: str) -> ParamRef | None:
    if param_ref is None or version != _OLDEST or param_ref.parameter_not_found_action is not None:
        return param_ref
    return replace(param_ref, parameter_not_found_action="Deny")
