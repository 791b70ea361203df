"""The configuration of ImagePolicyWebhook.

Source: ``plugin/pkg/admission/imagepolicy/config.go``.
"""

from __future__ import annotations

import dataclasses

import msgspec

from pratique.apimachinery.durations import GoDuration
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON  # msgspec reads the types of fields

_MILLISECOND = 1_000_000
_SECOND = 1_000 * _MILLISECOND
_MINUTE = 60 * _SECOND
_DISABLED = -1
_DEFAULT = 0


@dataclasses.dataclass(frozen=True, slots=True)
class _DurationRange:
    """What a number may be, and what it is where it is not given."""

    unit: int
    """Nanoseconds."""
    above: GoDuration
    up_to: GoDuration
    default: GoDuration


_BACKOFF_RANGE = _DurationRange(
    _MILLISECOND, GoDuration(1), GoDuration(5 * _MINUTE), GoDuration(500 * _MILLISECOND)
)
_ALLOW_TTL_RANGE = _DurationRange(
    _SECOND, GoDuration(_SECOND), GoDuration(30 * _MINUTE), GoDuration(5 * _MINUTE)
)
_DENY_TTL_RANGE = _DurationRange(
    _SECOND, GoDuration(_SECOND), GoDuration(30 * _MINUTE), GoDuration(30 * _SECOND)
)


@dataclasses.dataclass(frozen=True, slots=True)
class ImagePolicyLimits:
    """What the configuration comes to, in seconds."""

    allow_seconds: float
    """How long what is allowed is remembered; 0 for not at all."""
    deny_seconds: float
    """How long what is refused is remembered; 0 for not at all."""
    backoff_seconds: float
    """The first wait before the backend is asked again; 0 for none."""
    default_allow: bool
    """What becomes of Pods while the backend gives no answer."""


class ImagePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How the backend is asked. In numbers, 0 stands for the default and -1 for none at all."""

    kube_config_file: str = ""
    """Names the backend, as the cluster of its current context, and the credentials for it."""
    allow_ttl: int = msgspec.field(default=_DEFAULT, name="allowTTL")
    """Seconds for which what is allowed is remembered."""
    deny_ttl: int = msgspec.field(default=_DEFAULT, name="denyTTL")
    """Seconds for which what is refused is remembered."""
    retry_backoff: int = _DEFAULT
    """Milliseconds before the backend is asked again."""
    default_allow: bool = False
    """Whether Pods are let through while the backend gives no answer."""

    def limits(self) -> ImagePolicyLimits:
        """Say what the numbers come to.

        Raises:
            ConfigurationError: one of them is out of bounds.
        """
        backoff = _normalize_duration("retryBackoff", self.retry_backoff, _BACKOFF_RANGE)
        allow = _normalize_duration("allowTTL", self.allow_ttl, _ALLOW_TTL_RANGE)
        deny = _normalize_duration("denyTTL", self.deny_ttl, _DENY_TTL_RANGE)
        return ImagePolicyLimits(allow.seconds, deny.seconds, backoff.seconds, self.default_allow)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The file, or the block, that configures the controller."""

    image_policy: ImagePolicy | None = None
    """All of it."""
    api_version: str = ""
    """Where the file says so: it has but one version."""
    kind: str = ""
    """Likewise."""
    pod_node_selector_plugin_config: JSON = None
    """Another controller's, in a file from before there was an AdmissionConfiguration."""


def _normalize_duration(field: str, value: int, span: _DurationRange) -> GoDuration:
    """``normalizeConfigDuration``: the lower bound itself is out of bounds."""
    if value == _DISABLED:
        return GoDuration(0)
    if value == _DEFAULT:
        return span.default
    found = GoDuration(value * span.unit)
    if not span.above < found <= span.up_to:
        raise ConfigurationError(
            f"imagePolicy.{field}: valid value is between {span.above} and {span.up_to}, got {found}"
        )
    return found
