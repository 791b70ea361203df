"""Webhook configurations: their types, and what the API server fills in."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
from msgspec.structs import replace

from pratique.admission.rules import Rule  # noqa: TC001 - msgspec reads the types when it decodes
from pratique.apimachinery.decoding import decode_strictly
from pratique.apimachinery.selectors import (
    EVERYTHING,
    LabelSelector,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.apimachinery.json_values import JSON
    from pratique.apimachinery.source_documents import SourceDocument

GROUP = "admissionregistration.k8s.io"
STATIC_SUFFIX = ".static.k8s.io"
"""Names that end so are for configurations in files; an API server does not take them over its API."""

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
    """A CEL expression that must be true for the webhook to be called."""

    name: str = ""
    expression: str = ""


class ValidatingWebhook(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """A webhook, without what only mutating ones have. ``timeout_seconds`` is in seconds, 1 to 30."""

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
    """The metadata of a configuration; all of what an API server may have written there is let pass."""

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
    """A webhook configuration as it is written."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[Webhook, ...] = ()

    @property
    def version(self) -> str:
        """The version of its API: ``v1`` or ``v1beta1``."""
        return self.api_version.rpartition("/")[2]


class ValidatingWebhookConfigurationDocument(msgspec.Struct, frozen=True, rename="camel"):
    """A ValidatingWebhookConfiguration as it is written."""

    api_version: str = ""
    kind: str = ""
    metadata: ObjectMeta = ObjectMeta()
    webhooks: tuple[ValidatingWebhook, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class WebhookConfiguration:
    """A webhook configuration ready for use: its fields have their defaults and have been checked."""

    kind: WebhookConfigurationKind
    name: str
    """Its ``metadata.name``."""
    webhooks: tuple[Webhook, ...]
    """In the order in which they are called."""
    source: SourceDocument | None = dataclasses.field(default=None, compare=False, repr=False)
    """Where it was written; None where it was not."""

    @property
    def is_static(self) -> bool:
        """True where its name is one for configurations in files: it then comes before all others."""
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
    """Fill in the defaults of the version of the API in which the configuration is written."""
    defaults = dict(_DEFAULTS[document.version])
    if document.kind == WebhookConfigurationKind.MUTATING.value:
        defaults["reinvocation_policy"] = "Never"
    webhooks = tuple(_default_webhook(webhook, defaults) for webhook in document.webhooks)
    return replace(document, webhooks=webhooks)


def _default_webhook(webhook: Webhook, defaults: Mapping[str, JSON]) -> Webhook:
    # An empty list counts as absent, which is only ever the case for the list of versions.
    missing = {name: value for name, value in defaults.items() if getattr(webhook, name) in (None, ())}
    rules = tuple(rule if rule.scope is not None else replace(rule, scope=_SCOPE) for rule in webhook.rules)
    client_config = _default_client_config(webhook.client_config)
    return replace(webhook, rules=rules, client_config=client_config, **missing)


def _default_client_config(client_config: ClientConfig) -> ClientConfig:
    service = client_config.service
    if service is None or service.port is not None:
        return client_config
    return replace(client_config, service=replace(service, port=_PORT))


def decode_webhook_configuration(data: JSON) -> WebhookConfigurationDocument:
    """Decode a configuration without defaults.

    Raises:
        StrictDecodingError: a member is unknown or of another type.
    """
    if data.get("kind") != WebhookConfigurationKind.VALIDATING.value:
        return decode_strictly(data, WebhookConfigurationDocument)
    narrow = decode_strictly(data, ValidatingWebhookConfigurationDocument)
    return msgspec.convert(narrow, WebhookConfigurationDocument, from_attributes=True)
