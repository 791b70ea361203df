"""The levels and versions of the Pod Security Standards, and the policy of a namespace.

Source: ``k8s.io/pod-security-admission/api``.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable
from typing import TypeAlias, TypeVar

import msgspec

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.field_errors import ROOT, FieldError, invalid
from pratique.apimachinery.json_values import JSON, JSONObject, encode, member
from pratique.apimachinery.patterns import pattern


class PodSecurityLevel(enum.StrEnum):
    """A level of the Pod Security Standards. The members are in order of strictness."""

    PRIVILEGED = "privileged"
    BASELINE = "baseline"
    RESTRICTED = "restricted"

    @property
    def strictness(self) -> int:
        """0 for ``privileged``, which forbids nothing; a higher number is stricter."""
        return _STRICTNESS[self]


_STRICTNESS = {level: place for place, level in enumerate(PodSecurityLevel)}


class Version(msgspec.Struct, frozen=True):
    """The Kubernetes release whose standards apply: ``v1.<minor>``."""

    minor: int | None = None
    """None is ``latest``: the newest standards."""

    def __str__(self) -> str:
        return "latest" if self.minor is None else f"v1.{self.minor}"


LATEST = Version()


class LevelVersion(msgspec.Struct, frozen=True):
    """A level as of a release. Prints as ``restricted:v1.37``."""

    level: PodSecurityLevel
    version: Version = LATEST

    def __str__(self) -> str:
        return f"{self.level}:{self.version}"

    def is_equivalent(self, other: LevelVersion) -> bool:
        """Whether both forbid the same; for ``privileged``, versions do not matter."""
        return self == other or self.level is other.level is PodSecurityLevel.PRIVILEGED


PRIVILEGED = LevelVersion(PodSecurityLevel.PRIVILEGED)
"""Forbids nothing."""

_VERSION_PATTERN = pattern(r"v1\.(0|[1-9][0-9]*)")
_LARGEST_INT = 2**63 - 1  # Go's int


def parse_level(text: str) -> PodSecurityLevel:
    """Parse a level.

    Raises:
        InputError: There is no such level.
    """
    try:
        return PodSecurityLevel(text)
    except ValueError:
        raise InputError(f"must be one of {', '.join(PodSecurityLevel)}") from None


def parse_version(text: str) -> Version:
    """Parse a version, ``latest`` or ``v1.x``. A future release counts as the newest.

    Raises:
        InputError: It is neither.
    """
    if text == "latest":
        return LATEST
    match = _VERSION_PATTERN.fullmatch(text)
    # Python refuses to parse numbers with thousands of digits.
    if match is None or len(match[1]) > len(str(_LARGEST_INT)) or int(match[1]) > _LARGEST_INT:
        raise InputError('must be "latest" or "v1.x"')
    return Version(int(match[1]))


LABEL_PREFIX = "pod-security.kubernetes.io/"
"""The prefix of namespace labels and of audit annotations' keys."""

_LABELS = tuple(
    f"{LABEL_PREFIX}{name}"
    for name in ("enforce", "enforce-version", "audit", "audit-version", "warn", "warn-version")
)
_LABELS_PATH = ROOT / "metadata" / "labels"

_Value = TypeVar("_Value")
_LabelValues: TypeAlias = tuple[str | None, ...]
"""The labels' values in the order of ``_LABELS``; None for a missing label."""


class NamespacePolicy(msgspec.Struct, frozen=True):
    """The levels to enforce, to write to the audit log, and to warn users about."""

    enforce: LevelVersion = PRIVILEGED
    audit: LevelVersion = PRIVILEGED
    warn: LevelVersion = PRIVILEGED

    @property
    def is_fully_privileged(self) -> bool:
        """Whether all three levels are ``privileged``."""
        return self.enforce.level is self.audit.level is self.warn.level is PodSecurityLevel.PRIVILEGED

    def is_equivalent(self, other: NamespacePolicy) -> bool:
        """Whether both have the same effect."""
        return (
            self.enforce.is_equivalent(other.enforce)
            and self.audit.is_equivalent(other.audit)
            and self.warn.is_equivalent(other.warn)
        )


class LabeledPolicy(msgspec.Struct, frozen=True):
    """The policy that follows from a namespace's labels."""

    policy: NamespacePolicy
    """The effective policy. An invalid label makes ``enforce`` strict and the others lax."""
    errors: tuple[FieldError, ...] = ()
    """The errors in the labels."""


class NamespacePolicies:
    """The policies of namespaces, with defaults where their labels leave them open."""

    def __init__(self, defaults: NamespacePolicy) -> None:
        """``defaults`` applies where labels leave the policy open."""
        self.defaults = defaults
        """The policy of a namespace without labels."""
        self._unlabelled = LabeledPolicy(defaults)
        # Users write the labels, so the cache is bounded. Few namespaces of a cluster differ in them.
        self._read = functools.lru_cache(maxsize=1024)(functools.partial(_read, defaults))

    def policy_of(self, namespace: JSON) -> LabeledPolicy:
        """The policy of a Namespace."""
        labels = member(namespace, "metadata", "labels")
        if not labels or not isinstance(labels, dict):
            return self._unlabelled
        return self._read(tuple([_label_value(labels, name) for name in _LABELS]))


def is_labeled(namespace: JSON, mode: str) -> bool:
    """Whether a Namespace's own labels set the level or version of a mode, such as ``enforce``."""
    labels = member(namespace, "metadata", "labels") or {}
    return f"{LABEL_PREFIX}{mode}" in labels or f"{LABEL_PREFIX}{mode}-version" in labels


def _label_value(labels: JSONObject, name: str) -> str | None:
    value = labels.get(name)
    if value is None:
        return "" if name in labels else None
    return value if isinstance(value, str) else encode(value).decode()


def _read(defaults: NamespacePolicy, texts: _LabelValues) -> LabeledPolicy:
    errors: list[FieldError] = []

    def parse(place: int, reader: Callable[[str], _Value], default: _Value, mistaken: _Value) -> _Value:
        text = texts[place]
        if text is None:
            return default
        try:
            return reader(text)
        except InputError as error:
            errors.append(invalid(_LABELS_PATH.key(_LABELS[place]), text, str(error)))
            return mistaken

    def mode(place: int, default: LevelVersion, mistaken: PodSecurityLevel) -> LevelVersion:
        level = parse(place, parse_level, default.level, mistaken)
        return LevelVersion(level, parse(place + 1, parse_version, default.version, LATEST))

    policy = NamespacePolicy(
        enforce=mode(0, defaults.enforce, PodSecurityLevel.RESTRICTED),
        audit=mode(2, defaults.audit, PodSecurityLevel.PRIVILEGED),
        warn=mode(4, defaults.warn, PodSecurityLevel.PRIVILEGED),
    )
    return LabeledPolicy(_with_warnings(policy, texts), tuple(errors))


def _with_warnings(policy: NamespacePolicy, texts: _LabelValues) -> NamespacePolicy:
    """Also warn about the enforced level if the labels make it stricter than the warn level."""
    enforce_level, _, _, _, warn_level, warn_version = texts
    enforce, warn = policy.enforce, policy.warn
    if warn_level is not None or enforce_level != enforce.level:
        return policy
    if enforce.level.strictness <= warn.level.strictness:
        return policy
    version = enforce.version if warn_version is None else warn.version
    return msgspec.structs.replace(policy, warn=LevelVersion(enforce.level, version))
