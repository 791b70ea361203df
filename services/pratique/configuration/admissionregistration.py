"""The types of ``admissionregistration.k8s.io`` and the defaults that the API server fills in.

It holds webhook configurations, policies and their bindings.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Annotated, Any, Generic, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from pratique.admission.rules import Rule
from pratique.apimachinery.decoding import decode_strictly
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.selectors import EVERYTHING, LabelSelector
from pratique.apimachinery.source_documents import SourceDocument

GROUP = "admissionregistration.k8s.io"
STATIC_SUFFIX = ".static.k8s.io"
"""The suffix of names of static manifests; an API server does not accept them through its API."""

Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


class WebhookConfigurationKind(enum.Enum):
    """The two kinds of webhook configurations."""

    MUTATING = "MutatingWebhookConfiguration"
    VALIDATING = "ValidatingWebhookConfiguration"


class ServiceReference(msgspec.Struct, frozen=True, omit_defaults=True):
    """A Service of the cluster. ``path`` may be empty; ``port`` is a TCP port."""

    namespace: str = ""
    name: str = ""
    path: str | None = None
    port: Int32 | None = None


class ClientConfig(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """How to reach a webhook: ``url`` or ``service``. ``ca_bundle`` is PEM; empty means the system's."""

    url: str | None = None
    service: ServiceReference | None = None
    ca_bundle: bytes = b""


class MatchCondition(msgspec.Struct, frozen=True):
    """A CEL expression that must be true for the webhook or policy to be used."""

    name: str = ""
    expression: str = ""


class ValidatingWebhook(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A webhook without the fields of mutating webhooks. ``timeout_seconds`` is 1 to 30."""

    name: str = ""
    client_config: ClientConfig = ClientConfig()
    rules: tuple[Rule, ...] = ()
    failure_policy: str | None = None
    match_policy: str | None = None
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    side_effects: str | None = None
    timeout_seconds: Int32 | None = None
    admission_review_versions: tuple[str, ...] = ()
    match_conditions: tuple[MatchCondition, ...] = ()


class Webhook(ValidatingWebhook, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A webhook. ``reinvocation_policy`` is None in a ValidatingWebhookConfiguration."""

    reinvocation_policy: str | None = None


class ObjectMeta(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The metadata of a configuration, with the fields that an API server may have written."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    self_link: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    owner_references: list[Any] = []
    finalizers: list[str] = []
    managed_fields: list[Any] = []


class WebhookConfigurationDocument(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A webhook configuration as written."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[Webhook, ...] = ()

    @property
    def version(self) -> str:
        """The API version: ``v1`` or ``v1beta1``."""
        return self.api_version.rpartition("/")[2]


class ValidatingWebhookConfigurationDocument(msgspec.Struct, frozen=True, rename="camel"):
    """A ValidatingWebhookConfiguration as written."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[ValidatingWebhook, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class WebhookConfiguration:
    """A webhook configuration after defaulting and validation."""

    kind: WebhookConfigurationKind
    name: str
    """Its ``metadata.name``."""
    webhooks: tuple[Webhook, ...]
    """In the order of the calls."""
    source: SourceDocument | None = dataclasses.field(default=None, compare=False, repr=False)
    """The document that it was read from; None if it was not read from one."""

    @property
    def is_static(self) -> bool:
        """Whether its name marks it as a static manifest, which comes before all others."""
        return self.name.endswith(STATIC_SUFFIX)


_SELECTORS: Mapping[str, JSON] = {"namespace_selector": EVERYTHING, "object_selector": EVERYTHING}
_DEFAULTS: Mapping[str, Mapping[str, JSON]] = {
    "v1": {
        "failure_policy": "Fail",
        "match_policy": "Equivalent",
        "timeout_seconds": 10,
        **_SELECTORS,
    },
    "v1beta1": {
        "failure_policy": "Ignore",
        "match_policy": "Exact",
        "timeout_seconds": 30,
        "side_effects": "Unknown",
        "admission_review_versions": ("v1beta1",),
        **_SELECTORS,
    },
}
_SCOPE = "*"
_PORT = 443


def apply_webhook_defaults(document: WebhookConfigurationDocument) -> WebhookConfigurationDocument:
    """Fill in the defaults of a configuration's API version."""
    defaults = dict(_DEFAULTS[document.version])
    if document.kind == WebhookConfigurationKind.MUTATING.value:
        defaults["reinvocation_policy"] = "Never"
    webhooks = tuple(_default_webhook(webhook, defaults) for webhook in document.webhooks)
    return replace(document, webhooks=webhooks)


def _default_webhook(webhook: Webhook, defaults: Mapping[str, JSON]) -> Webhook:
    # An empty list counts as absent; that concerns only admissionReviewVersions.
    missing = {name: value for name, value in defaults.items() if getattr(webhook, name) in (None, ())}
    rules = tuple(map(_default_scope, webhook.rules))
    client_config = _default_client_config(webhook.client_config)
    return replace(webhook, rules=rules, client_config=client_config, **missing)


_Rule = TypeVar("_Rule", bound=Rule)


def _default_scope(rule: _Rule) -> _Rule:
    return rule if rule.scope is not None else replace(rule, scope=_SCOPE)


def _default_client_config(client_config: ClientConfig) -> ClientConfig:
    service = client_config.service
    if service is None or service.port is not None:
        return client_config
    return replace(client_config, service=replace(service, port=_PORT))


def decode_webhook_configuration(data: JSON) -> WebhookConfigurationDocument:
    """Decode a webhook configuration, without defaulting.

    Raises:
        StrictDecodingError: a field is unknown or has the wrong type.
    """
    if data.get("kind") != WebhookConfigurationKind.VALIDATING.value:
        return decode_strictly(data, WebhookConfigurationDocument)
    narrow = decode_strictly(data, ValidatingWebhookConfigurationDocument)
    return msgspec.convert(narrow, prepared(WebhookConfigurationDocument), from_attributes=True)


class PolicyKind(enum.Enum):
    """The kinds of policies and bindings."""

    MUTATING = "MutatingAdmissionPolicy"
    MUTATING_BINDING = "MutatingAdmissionPolicyBinding"
    VALIDATING = "ValidatingAdmissionPolicy"
    VALIDATING_BINDING = "ValidatingAdmissionPolicyBinding"


class NamedRuleWithOperations(Rule, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A rule that may name objects; no names match all objects."""

    resource_names: tuple[str, ...] = ()


class MatchResources(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """Which requests a policy or binding matches. Without ``resource_rules``, a binding matches all resources."""

    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    resource_rules: tuple[NamedRuleWithOperations, ...] = ()
    exclude_resource_rules: tuple[NamedRuleWithOperations, ...] = ()
    match_policy: str | None = None


class ParamKind(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """The kind of a policy's parameter objects."""

    api_version: str = ""
    kind: str = ""


class ParamRef(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A binding's parameter objects: one by ``name``, or several by ``selector``."""

    name: str = ""
    namespace: str = ""
    selector: LabelSelector | None = None
    parameter_not_found_action: str | None = None


class Variable(msgspec.Struct, frozen=True, omit_defaults=True):
    """A CEL expression that other expressions use as ``variables.<name>``."""

    name: str = ""
    expression: str = ""


class Validation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A CEL expression that must be true, and the message if it is not."""

    expression: str = ""
    message: str = ""
    reason: str | None = None
    message_expression: str = ""


class AuditAnnotation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A CEL expression whose string goes to the audit log, as ``<policy>/<key>``."""

    key: str = ""
    value_expression: str = ""


class PatchExpression(msgspec.Struct, frozen=True, omit_defaults=True):
    """A CEL expression that makes a patch."""

    expression: str = ""


class Mutation(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One mutation; ``patch_type`` says which of the other two fields is set."""

    patch_type: str = ""
    apply_configuration: PatchExpression | None = None
    json_patch: PatchExpression | None = None


class PolicySpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The fields of both kinds of policies."""

    param_kind: ParamKind | None = None
    match_constraints: MatchResources | None = None
    failure_policy: str | None = None
    match_conditions: tuple[MatchCondition, ...] = ()
    variables: tuple[Variable, ...] = ()

    @property
    def fails_open(self) -> bool:
        """Whether a request goes on if the evaluation fails; otherwise it is denied."""
        return self.failure_policy == "Ignore"


class ValidatingAdmissionPolicySpec(
    PolicySpec, frozen=True, rename="camel", omit_defaults=True, kw_only=True
):
    """The spec of a ValidatingAdmissionPolicy."""

    validations: tuple[Validation, ...] = ()
    audit_annotations: tuple[AuditAnnotation, ...] = ()


class MutatingAdmissionPolicySpec(PolicySpec, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The spec of a MutatingAdmissionPolicy."""

    mutations: tuple[Mutation, ...] = ()
    reinvocation_policy: str = ""


class PolicyBindingSpec(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """The fields of both kinds of bindings."""

    policy_name: str = ""
    param_ref: ParamRef | None = None
    match_resources: MatchResources | None = None


class ValidatingAdmissionPolicyBindingSpec(
    PolicyBindingSpec, frozen=True, rename="camel", omit_defaults=True, kw_only=True
):
    """The spec of a ValidatingAdmissionPolicyBinding."""

    validation_actions: tuple[str, ...] = ()


class _PolicyObject(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()

    @property
    def version(self) -> str:
        """The API version: ``v1``, ``v1beta1`` or ``v1alpha1``."""
        return self.api_version.rpartition("/")[2]


class ValidatingAdmissionPolicy(_PolicyObject, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A ValidatingAdmissionPolicy as written. ``status`` belongs to the API server and is ignored."""

    spec: ValidatingAdmissionPolicySpec = ValidatingAdmissionPolicySpec()
    status: Any = None


class MutatingAdmissionPolicy(_PolicyObject, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A MutatingAdmissionPolicy as written."""

    spec: MutatingAdmissionPolicySpec = MutatingAdmissionPolicySpec()


class ValidatingAdmissionPolicyBinding(
    _PolicyObject, frozen=True, rename="camel", omit_defaults=True, kw_only=True
):
    """A ValidatingAdmissionPolicyBinding as written."""

    spec: ValidatingAdmissionPolicyBindingSpec = ValidatingAdmissionPolicyBindingSpec()


class MutatingAdmissionPolicyBinding(
    _PolicyObject, frozen=True, rename="camel", omit_defaults=True, kw_only=True
):
    """A MutatingAdmissionPolicyBinding as written."""

    spec: PolicyBindingSpec = PolicyBindingSpec()


PolicyDocument: TypeAlias = ValidatingAdmissionPolicy | MutatingAdmissionPolicy
PolicyBindingDocument: TypeAlias = ValidatingAdmissionPolicyBinding | MutatingAdmissionPolicyBinding

POLICY_DOCUMENTS: dict[PolicyKind, type[PolicyDocument | PolicyBindingDocument]] = {
    PolicyKind.MUTATING: MutatingAdmissionPolicy,
    PolicyKind.MUTATING_BINDING: MutatingAdmissionPolicyBinding,
    PolicyKind.VALIDATING: ValidatingAdmissionPolicy,
    PolicyKind.VALIDATING_BINDING: ValidatingAdmissionPolicyBinding,
}
"""The document type of each kind."""

Spec_co = TypeVar("Spec_co", bound="PolicySpec | PolicyBindingSpec", covariant=True)


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyConfiguration(Generic[Spec_co]):
    """A policy or binding after defaulting and validation."""

    kind: PolicyKind
    name: str
    """Its ``metadata.name``."""
    spec: Spec_co
    source: SourceDocument | None = dataclasses.field(default=None, compare=False, repr=False)
    """The document that it was read from; None if it was not read from one."""

    @property
    def is_static(self) -> bool:
        """Whether its name marks it as a static manifest, which comes before all others."""
        return self.name.endswith(STATIC_SUFFIX)


_FAILURE_POLICY = "Fail"
_MATCH_POLICY = "Equivalent"
_OLDEST = "v1alpha1"
"""The version in which ``parameterNotFoundAction`` defaults to Deny; later versions require it."""

AnyPolicyDocument = TypeVar(
    "AnyPolicyDocument", bound="ValidatingAdmissionPolicy | MutatingAdmissionPolicy | PolicyBindingDocument"
)


def apply_policy_defaults(document: AnyPolicyDocument) -> AnyPolicyDocument:
    """Fill in the defaults of the API version of a policy or binding."""
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
        resource_rules=tuple(map(_default_scope, resources.resource_rules)),
        exclude_resource_rules=tuple(map(_default_scope, resources.exclude_resource_rules)),
    )


def _default_param_ref(param_ref: ParamRef | None, version: str) -> ParamRef | None:
    if param_ref is None or version != _OLDEST or param_ref.parameter_not_found_action is not None:
        return param_ref
    return replace(param_ref, parameter_not_found_action="Deny")
