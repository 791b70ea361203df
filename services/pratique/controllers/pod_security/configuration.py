"""The configuration of PodSecurity: its defaults and exemptions.

Source: ``k8s.io/pod-security-admission/admission/api``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import msgspec

from pratique.admission.results import Allow, allow
from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.errors import ConfigurationError, InputError
from pratique.apimachinery.field_errors import ROOT, FieldError, duplicate, invalid, join
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.statuses import aggregate, go_quoted
from pratique.controllers.pod_security.standards import (
    LABEL_PREFIX,
    LevelVersion,
    NamespacePolicies,
    NamespacePolicy,
    PodSecurityLevel,
    Version,
    parse_level,
    parse_version,
)


def _exempt(reason: str) -> Allow:
    return allow(audit_annotations={f"{LABEL_PREFIX}exempt": reason})


_EXEMPT_NAMESPACE = _exempt("namespace")
_EXEMPT_USER = _exempt("user")

EXEMPT_RUNTIME_CLASS = _exempt("runtimeClass")
"""The answer to a Pod with an exempt runtime class."""


class ExemptNames(msgspec.Struct, frozen=True):
    """The names that are exempt."""

    usernames: frozenset[str] = frozenset()
    namespaces: frozenset[str] = frozenset()
    runtime_classes: frozenset[str] = frozenset()

    def answer_for(self, review: Review) -> Allow | None:
        """The answer to a request by an exempt user or in an exempt namespace; None for all others."""
        if review.namespace in self.namespaces:
            return _EXEMPT_NAMESPACE
        return _EXEMPT_USER if review.user.username in self.usernames else None

    def has_runtime_class(self, spec: JSONObject) -> bool:
        """Whether a Pod's runtime class is exempt."""
        name = spec.get("runtimeClassName")
        return isinstance(name, str) and name in self.runtime_classes


_GROUP = "pod-security.admission.config.k8s.io"
_VERSIONS = tuple(f"{_GROUP}/{version}" for version in ("v1", "v1beta1", "v1alpha1"))
_KIND = "PodSecurityConfiguration"


class PodSecurityDefaults(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """The policy for namespaces whose labels leave it open. Empty means ``privileged`` or ``latest``."""

    enforce: str = ""
    enforce_version: str = ""
    audit: str = ""
    audit_version: str = ""
    warn: str = ""
    warn_version: str = ""


class PodSecurityExemptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The users, namespaces and runtime classes that no policy applies to."""

    usernames: tuple[str, ...] = ()
    namespaces: tuple[str, ...] = ()
    runtime_classes: tuple[str, ...] = ()


class PodSecurityConfiguration(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A PodSecurityConfiguration as users write it."""

    api_version: str = ""
    kind: str = ""
    defaults: PodSecurityDefaults = PodSecurityDefaults()
    exemptions: PodSecurityExemptions = PodSecurityExemptions()
    level: str = msgspec.field(default="", name="pod-security")
    """The flag of that name: a level that overrides ``defaults.enforce``."""


_EMPTY_CONFIGURATION = PodSecurityConfiguration()


class PodSecuritySettings(msgspec.Struct, frozen=True):
    """A parsed configuration."""

    policies: NamespacePolicies
    exempt: ExemptNames


def read_configuration(configuration: PodSecurityConfiguration) -> PodSecuritySettings:
    """Validate and parse a configuration.

    Raises:
        ConfigurationError: It is invalid; the text names the fields.
    """
    if msgspec.structs.replace(configuration, level="") != _EMPTY_CONFIGURATION:
        _check_kind(configuration)
    defaults = configuration.defaults
    if configuration.level:
        defaults = msgspec.structs.replace(defaults, enforce=configuration.level)
    policies = NamespacePolicies(_default_policy(defaults))
    exemptions = configuration.exemptions
    if errors := tuple(_exemption_errors(exemptions)):
        raise ConfigurationError(f"PodSecurity invalid: {join(errors)}")
    exempt = ExemptNames(
        frozenset(exemptions.usernames),
        frozenset(exemptions.namespaces),
        frozenset(exemptions.runtime_classes),
    )
    return PodSecuritySettings(policies, exempt)


def _check_kind(configuration: PodSecurityConfiguration) -> None:
    kind, version = configuration.kind, configuration.api_version
    if not kind:
        raise ConfigurationError(f"Object 'Kind' is missing; expected {_KIND} of {_VERSIONS[0]}")
    if not version:
        raise ConfigurationError(f"Object 'apiVersion' is missing; expected {_VERSIONS[0]}")
    if kind != _KIND or version not in _VERSIONS:
        registered = f"no kind {go_quoted(kind)} is registered for version {go_quoted(version)}"
        raise ConfigurationError(f"{registered}; expected {_KIND} of {_VERSIONS[0]}")


def _default_policy(defaults: PodSecurityDefaults) -> NamespacePolicy:
    errors: list[str] = []

    def mode(name: str, level: str, version: str) -> LevelVersion:
        parsed_level, parsed_version = PodSecurityLevel.PRIVILEGED, Version()
        try:
            parsed_level = parse_level(level or parsed_level)
        except InputError as error:
            errors.append(f"{name}: {error}")
        try:
            parsed_version = parse_version(version or str(parsed_version))
        except InputError as error:
            errors.append(f"{name}-version: {error}")
        return LevelVersion(parsed_level, parsed_version)

    policy = NamespacePolicy(
        enforce=mode("enforce", defaults.enforce, defaults.enforce_version),
        audit=mode("audit", defaults.audit, defaults.audit_version),
        warn=mode("warn", defaults.warn, defaults.warn_version),
    )
    if errors:
        raise ConfigurationError(f"PodSecurity configuration error: {aggregate(errors)}")
    return policy


def _exemption_errors(exemptions: PodSecurityExemptions) -> Iterator[FieldError]:
    yield from _value_errors("namespaces", exemptions.namespaces, names.check_dns1123_label)
    yield from _value_errors("runtimeClasses", exemptions.runtime_classes, names.check_dns1123_subdomain)
    yield from _value_errors("usernames", exemptions.usernames, _check_username)


def _value_errors(
    field: str, values: Sequence[str], check: Callable[[str], list[str]]
) -> Iterator[FieldError]:
    seen: set[str] = set()
    for index, value in enumerate(values):
        path = ROOT / "exemptions" / field / index
        messages = check(value)
        if messages:
            yield invalid(path, value, ", ".join(messages))
        elif value in seen:
            yield duplicate(path, value)
        seen.add(value)


def _check_username(value: str) -> list[str]:
    return [] if value else ["username must not be empty"]
