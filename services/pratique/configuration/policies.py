"""Policies and their bindings: their types, and what the API server fills in."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from pratique.admission.rules import Rule
from pratique.apimachinery.selectors import (
    EVERYTHING,
    LabelSelector,
)
from pratique.configuration.webhooks import STATIC_SUFFIX, MatchCondition, ObjectMeta

if TYPE_CHECKING:
    from pratique.apimachinery.source_documents import SourceDocument


class PolicyKind(enum.Enum):
    """The kinds of policies and of what binds them."""

    MUTATING = "MutatingAdmissionPolicy"
    MUTATING_BINDING = "MutatingAdmissionPolicyBinding"
    VALIDATING = "ValidatingAdmissionPolicy"
    VALIDATING_BINDING = "ValidatingAdmissionPolicyBinding"


class NamedRuleWithOperations(Rule, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A rule that may name objects; no names mean all."""

    resource_names: tuple[str, ...] = ()


class MatchResources(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Which requests are meant. Without ``resource_rules``, those for all resources."""

    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    resource_rules: tuple[NamedRuleWithOperations, ...] = ()
    exclude_resource_rules: tuple[NamedRuleWithOperations, ...] = ()
    match_policy: str | None = None


class ParamKind(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The kind of a policy's parameters."""

    api_version: str = ""
    kind: str = ""


class ParamRef(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """Which parameters a binding means: one by ``name``, or those of ``selector``."""

    name: str = ""
    namespace: str = ""
    selector: LabelSelector | None = None
    parameter_not_found_action: str | None = None


class Variable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A CEL expression that others ask for as ``variables.<name>``."""

    name: str = ""
    expression: str = ""


class Validation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A CEL expression that must be true, and what is said where it is not."""

    expression: str = ""
    message: str = ""
    reason: str | None = None
    message_expression: str = ""


class AuditAnnotation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A CEL expression whose text is written to the audit log, as ``<policy>/<key>``."""

    key: str = ""
    value_expression: str = ""


class PatchExpression(msgspec.Struct, frozen=True, omit_defaults=True):
    """A CEL expression that makes a patch."""

    expression: str = ""


class Mutation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One change: ``patch_type`` says which of the other two is there."""

    patch_type: str = ""
    apply_configuration: PatchExpression | None = None
    json_patch: PatchExpression | None = None


class PolicySpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What policies of both kinds say."""

    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    failure_policy: str | None = None
    match_conditions: tuple[MatchCondition, ...] = ()
    variables: tuple[Variable, ...] = ()

    @property
    def fails_open(self) -> bool:
        """Whether a request goes on where the policy cannot be evaluated; else it is refused."""
        return self.failure_policy == "Ignore"


class ValidatingAdmissionPolicySpec(PolicySpec, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What a ValidatingAdmissionPolicy says."""

    validations: tuple[Validation, ...] = ()
    audit_annotations: tuple[AuditAnnotation, ...] = ()


class MutatingAdmissionPolicySpec(PolicySpec, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What a MutatingAdmissionPolicy says."""

    mutations: tuple[Mutation, ...] = ()
    reinvocation_policy: str = ""


class PolicyBindingSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What bindings of both kinds say."""

    policy_name: str = ""
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None


class ValidatingAdmissionPolicyBindingSpec(PolicyBindingSpec, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """What a ValidatingAdmissionPolicyBinding says."""

    validation_actions: tuple[str, ...] = ()


class _PolicyObject(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def version(self) -> str:
        """The version of its API: ``v1``, ``v1beta1`` or ``v1alpha1``."""
        return self.api_version.rpartition("/")[2]


class ValidatingAdmissionPolicy(_PolicyObject, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A ValidatingAdmissionPolicy as it is written. ``status`` is the API server's own."""

    spec: ValidatingAdmissionPolicySpec = ValidatingAdmissionPolicySpec()
    status: Any = None


class MutatingAdmissionPolicy(_PolicyObject, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A MutatingAdmissionPolicy as it is written."""

    spec: MutatingAdmissionPolicySpec = MutatingAdmissionPolicySpec()


class ValidatingAdmissionPolicyBinding(_PolicyObject, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A ValidatingAdmissionPolicyBinding as it is written."""

    spec: ValidatingAdmissionPolicyBindingSpec = ValidatingAdmissionPolicyBindingSpec()


class MutatingAdmissionPolicyBinding(_PolicyObject, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A MutatingAdmissionPolicyBinding as it is written."""

    spec: PolicyBindingSpec = PolicyBindingSpec()


PolicyDocument: TypeAlias = ValidatingAdmissionPolicy | MutatingAdmissionPolicy
PolicyBindingDocument: TypeAlias = ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding

POLICY_DOCUMENTS: dict[PolicyKind, type[PolicyDocument | PolicyBindingDocument]] = {
    PolicyKind.MUTATING: MutatingAdmissionPolicy,
    PolicyKind.MUTATING_BINDING: MutatingAdmissionPolicyBinding,
    PolicyKind.VALIDATING: ValidatingAdmissionPolicy,
    PolicyKind.VALIDATING_BINDING: ValidatingAdmissionPolicyBinding,
}
"""The type of the documents of each kind."""

Spec_co = TypeVar("Spec_co", bound="PolicySpec | PolicyBindingSpec", covariant=True)


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyConfiguration(Generic[Spec_co]):
    """A policy or binding ready for use: its fields have their defaults and have been checked."""

    kind: PolicyKind
    name: str
    """Its ``metadata.name``."""
    spec: Spec_co
    source: SourceDocument | None = dataclasses.field(default=None, compare=False, repr=False)
    """Where it was written; None where it was not."""

    @property
    def is_static(self) -> bool:
        """True where its name is one for configurations in files: it then comes before all others."""
        return self.name.endswith(STATIC_SUFFIX)


_FAILURE_POLICY = "Fail"
_MATCH_POLICY = "Equivalent"
_SCOPE = "*"
_OLDEST = "v1alpha1"
"""The version in which parameters that are not found are refused unless said otherwise; later ones make one say."""

AnyPolicyDocument = TypeVar("Document", bound="ValidatingAdmissionPolicy | MutatingAdmissionPolicy | PolicyBindingDocument")


def apply_policy_defaults(document: AnyPolicyDocument) -> AnyPolicyDocument:
    """Fill in the defaults of the version of the API in which a policy or binding is written."""
    spec = document.spec
    if isinstance(document, ValidatingAdmissionPolicy | MutatingAdmissionPolicy):
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
        resource_rules=tuple(map(_default_named_rule, resources.resource_rules)),
        exclude_resource_rules=tuple(map(_default_named_rule, resources.exclude_resource_rules)),
    )


def _default_named_rule(rule: NamedRuleWithOperations) -> NamedRuleWithOperations:
    return rule if rule.scope is not None else replace(rule, scope=_SCOPE)


def _default_param_ref(param_ref: ParamRef | None, version: str) -> ParamRef | None:
    if param_ref is None or version != _OLDEST or param_ref.parameter_not_found_action is not None:
        return param_ref
    return replace(param_ref, parameter_not_found_action="Deny")
