"""The webhook configurations that make an API server call Pratique."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgspec

from pratique.admission.controllers import BOTH, MUTATE, VALIDATE, Controller, Phase
from pratique.admission.rule_checks import built_in_rule_checker
from pratique.admission.rules import Rule
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.kinds import ResourceType
from pratique.apimachinery.patterns import pattern
from pratique.apimachinery.statuses import go_quoted
from pratique.configuration.admissionregistration import (
    GROUP,
    WebhookConfigurationKind,
    decode_webhook_configuration,
)
from pratique.configuration.loading import Configurations
from pratique.configuration.webhook_validation import validate_configuration, validation_options
from pratique.hosting.webhook_rules import rules_of_chain

SYSTEM_NAMESPACES = ("kube-system", "kube-node-lease", "kube-public")
"""The namespaces that are left out unless you choose others: what runs in them keeps the cluster up."""

_NAMESPACE_LABEL = "kubernetes.io/metadata.name"
_SERVICE = pattern(r"([^/:]+)/([^/:]+)(?::([0-9]{1,5}))?(/.*)?")
_REQUIREMENT = pattern(
    r"(?P<key>[^\s!=,()]+)\s*(?:(?P<equal>==?|!=)\s*(?P<value>[^\s!=,()]*)"
    r"|\s(?P<set>in|notin)\s*\((?P<values>[^()]*)\))?"
    r"|!\s*(?P<absent>[^\s!=,()]+)"
)
_SEPARATOR = pattern(r",(?![^()]*\))")


class Endpoint(msgspec.Struct, frozen=True):
    """Where API servers reach the front door: a URL, or a Service of the cluster."""

    client_config: JSONObject
    path: str
    """What comes before ``/mutate``, ``/validate`` and ``/admit``."""
    namespace: str | None
    """The namespace of the Service, which its own webhooks must leave out; None for a URL."""
    suffix: str
    """What the names of webhooks end with."""

    @classmethod
    def of_url(cls, url: str) -> Endpoint:
        """Reach the front door at a URL, such as ``https://pratique.example:8443``."""
        return cls({"url": url.rstrip("/")}, "", None, "webhooks.pratique")

    @classmethod
    def of_service(cls, text: str) -> Endpoint:
        """Reach the front door by a Service, written ``NAMESPACE/NAME[:PORT][/PATH]``.

        Raises:
            ValueError: the text is written otherwise.
        """
        found = _SERVICE.fullmatch(text)
        if found is None:
            raise ValueError(f"{text!r} is not a Service; write NAMESPACE/NAME[:PORT][/PATH]")
        namespace, name, port, path = found.groups()
        service: JSONObject = {"namespace": namespace, "name": name, "port": int(port or 443)}
        return cls({"service": service}, (path or "").rstrip("/"), namespace, f"{name}.{namespace}.svc")

    @property
    def service_name(self) -> str:
        """The name of the Service; empty for a URL."""
        return str(member(self.client_config, "service", "name") or "")

    def to(self, path: str, ca_bundle: bytes) -> JSONObject:
        """Return the ``clientConfig`` for a path."""
        url, service = self.client_config.get("url"), self.client_config.get("service")
        written: JSONObject = {"url": f"{url}/{path}"} if url else {}
        if isinstance(service, dict):
            written = {"service": {**service, "path": f"{self.path}/{path}"}}
        bundle = {"caBundle": base64.b64encode(ca_bundle).decode()} if ca_bundle else {}
        return {**written, **bundle}


class WebhookSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How an API server calls Pratique."""

    endpoint: Endpoint
    ca_bundle: bytes = b""
    """PEM; empty means the API server's own authorities."""
    failure_policy: str = "Fail"
    timeout_seconds: int = 10
    excluded_namespaces: Sequence[str] = SYSTEM_NAMESPACES
    """Beside the front door's own."""
    namespace_selector: Sequence[JSONObject] = ()
    """Further requirements (``matchExpressions``) on the labels of namespaces."""


def parse_label_selector(text: str) -> tuple[JSONObject, ...]:
    """Read a selector as kubectl's ``--selector`` does: ``a=b,c!=d,e in (f,g),h,!i``.

    Source: ``k8s.io/apimachinery/pkg/labels/selector.go`` ``Parse``.

    Raises:
        ValueError: a requirement cannot be read.
    """
    return tuple(_requirement(part.strip()) for part in _SEPARATOR.split(text))


def _requirement(text: str) -> JSONObject:
    found = _REQUIREMENT.fullmatch(text)
    if found is None:
        raise ValueError(
            f"{text!r} is not a requirement; write a=b, a!=b, a in (b,c), a notin (b,c), a or !a"
        )
    if found["absent"]:
        return {"key": found["absent"], "operator": "DoesNotExist"}
    if found["equal"]:
        operator = "NotIn" if found["equal"] == "!=" else "In"
        return {"key": found["key"], "operator": operator, "values": [found["value"]]}
    if found["set"]:
        operator = "In" if found["set"] == "in" else "NotIn"
        values: JSONObject = {"values": [value.strip() for value in found["values"].split(",")]}
        return {"key": found["key"], "operator": operator, **values}
    return {"key": found["key"], "operator": "Exists"}


def read_ca_bundle(file: Path) -> bytes:
    """Read the authorities of a PEM file.

    Raises:
        ConfigurationError: it holds no certificate, or a private key, which must not become public.
    """
    from cryptography import x509  # noqa: PLC0415 - only with --ca-file

    text = file.read_bytes()
    if b"PRIVATE KEY" in text:
        raise ConfigurationError(f"{file}: holds a private key; name the file with the certificates alone")
    try:
        x509.load_pem_x509_certificates(text)
    except ValueError:
        raise ConfigurationError(f"{file}: holds no certificate in PEM form") from None
    return text


_ACCESS_REVIEWS = {
    "name": "no-access-reviews",
    "expression": "!(request.resource.group in ['authentication.k8s.io', 'authorization.k8s.io'])",
}
_HEARTBEATS = {
    "name": "no-node-heartbeats",
    "expression": "!('system:nodes' in request.userInfo.?groups.orValue([])"
    " && (request.resource.group == 'coordination.k8s.io'"
    " || request.resource.resource == 'nodes' && request.operation == 'UPDATE'))",
}
"""What rules for all resources match besides, and what a cluster cannot do without to start Pratique again."""

_HALVES = {
    "mutate": (("mutate", WebhookConfigurationKind.MUTATING, MUTATE),),
    "validate": (("validate", WebhookConfigurationKind.VALIDATING, VALIDATE),),
    "admit": (("admit", WebhookConfigurationKind.MUTATING, BOTH),),
}
PHASES = {**_HALVES, "split": (*_HALVES["mutate"], *_HALVES["validate"])}
"""By ``--phase``: the paths to call, in which kind of configuration, for what the chain does in which phases."""


def webhook_configurations(
    phase: str, controllers: Sequence[Controller], configurations: Configurations, settings: WebhookSettings
) -> Iterator[JSONObject]:
    """Yield the configurations of a phase, without those for which the chain has nothing to do.

    Raises:
        ConfigurationError: an API server would refuse one of them.
    """
    for path, kind, phases in PHASES[phase]:
        rules = rules_of_chain(controllers, configurations, phases)
        if rules:
            chosen: JSONObject = {
                "matchConditions": _conditions(controllers, rules),
                "sideEffects": _side_effects(controllers, phases),
            }
            yield _checked(_configuration(path, kind, rules, chosen, settings))


def _configuration(
    path: str,
    kind: WebhookConfigurationKind,
    rules: Sequence[Rule],
    chosen: JSONObject,
    settings: WebhookSettings,
) -> JSONObject:
    webhook: JSONObject = {
        "name": f"{path}.{settings.endpoint.suffix}",
        "clientConfig": settings.endpoint.to(path, settings.ca_bundle),
        "rules": msgspec.json.decode(msgspec.json.encode(rules)),
        "matchPolicy": "Equivalent",
        **(_selector(settings) if selects_by_namespace(rules) else {}),
        "admissionReviewVersions": ["v1"],
        **{field: value for field, value in chosen.items() if value},
        "timeoutSeconds": settings.timeout_seconds,
        "failurePolicy": settings.failure_policy,
    }
    if kind is WebhookConfigurationKind.MUTATING:
        webhook["reinvocationPolicy"] = "IfNeeded"
    metadata: JSONObject = {"name": "pratique", "labels": {"app.kubernetes.io/part-of": "pratique"}}
    return {"apiVersion": f"{GROUP}/v1", "kind": kind.value, "metadata": metadata, "webhooks": [webhook]}


def selects_by_namespace(rules: Iterable[Rule]) -> bool:
    """Whether a namespaceSelector decides anything: not if all that rules match is in no namespace, and is none.

    Of resources that are not built in, only the scope of a rule tells.
    """
    checker = built_in_rule_checker()
    return any(
        rule.scope != "Cluster" if not types else any(t.namespaced or _is_namespace(t) for t in types)
        for rule in rules
        for types in [{type_ for type_, _ in checker.matched(rule)}]
    )


def _is_namespace(type_: ResourceType) -> bool:
    return (type_.resource.group, type_.resource.resource) == ("", "namespaces")


def _selector(settings: WebhookSettings) -> JSONObject:
    own = [settings.endpoint.namespace] if settings.endpoint.namespace else []
    excluded = list(dict.fromkeys([*settings.excluded_namespaces, *own]))
    unnamed: JSONObject = {"key": _NAMESPACE_LABEL, "operator": "NotIn", "values": [*excluded]}
    requirements = [*([unnamed] if excluded else []), *settings.namespace_selector]
    return {"namespaceSelector": {"matchExpressions": [*requirements]}} if requirements else {}


def _conditions(controllers: Sequence[Controller], rules: Sequence[Rule]) -> list[JSON]:
    """Leave out of rules for everything what would lock a cluster, unless a controller is there to check just that."""
    if not any("*" in rule.api_groups and "*/*" in rule.resources for rule in rules):
        return []
    checks_nodes = any(controller.name == "NodeRestriction" for controller in controllers)
    return [dict(_ACCESS_REVIEWS)] if checks_nodes else [dict(_ACCESS_REVIEWS), dict(_HEARTBEATS)]


def _side_effects(controllers: Sequence[Controller], phases: frozenset[Phase]) -> str:
    """A ledger that is charged is a side effect, and so may be what further webhooks do; a dry run has neither."""
    affecting = (
        controller.commits_quota or not controller.hosted
        for controller in controllers
        if controller.phases & phases
    )
    return "NoneOnDryRun" if any(affecting) else "None"


def _checked(document: JSONObject) -> JSONObject:
    """Return the configuration if an API server would accept it."""
    decoded = decode_webhook_configuration(document)
    errors = validate_configuration(decoded, validation_options(decoded.version))
    if errors:
        reasons = "; ".join(map(str, errors))
        raise ConfigurationError(
            f"the API server would refuse the {decoded.kind} {go_quoted('pratique')}: {reasons}"
        )
    return document
