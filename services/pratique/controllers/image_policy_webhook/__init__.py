"""ImagePolicyWebhook: a backend decides which images Pods may use.

Sources: ``plugin/pkg/admission/imagepolicy/{admission,config}.go``. The configuration is here; :mod:`.image_reviews`
asks the backend.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from pratique.admission.controllers import VALIDATE, Controller, Handlers, OpenBackend
from pratique.admission.rules import rule
from pratique.apimachinery.durations import GoDuration
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSON

_MILLISECOND = 1_000_000
_SECOND = 1_000 * _MILLISECOND
_MINUTE = 60 * _SECOND
_DISABLED = -1
_DEFAULT = 0


class _DurationRange(msgspec.Struct, frozen=True):
    """The bounds of a configured duration, and its default."""

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


class ImagePolicyLimits(msgspec.Struct, frozen=True):
    """The configured durations, in seconds."""

    allow_seconds: float
    """How long an allowed review is cached; 0 disables caching."""
    deny_seconds: float
    """How long a denied review is cached; 0 disables caching."""
    backoff_seconds: float
    """The wait before the first retry; 0 for none."""
    default_allow: bool
    """Whether Pods are admitted while the backend does not answer."""


class ImagePolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How to ask the backend. In the numbers, 0 means the default, and -1 disables the feature."""

    kube_config_file: str = ""
    """A kubeconfig: the cluster of its current context is the backend, with the credentials for it."""
    allow_ttl: int = msgspec.field(default=_DEFAULT, name="allowTTL")
    """Seconds for which an allowed review is cached."""
    deny_ttl: int = msgspec.field(default=_DEFAULT, name="denyTTL")
    """Seconds for which a denied review is cached."""
    retry_backoff: int = _DEFAULT
    """Milliseconds before the backend is asked again."""
    default_allow: bool = False
    """Whether Pods are admitted while the backend does not answer."""

    def limits(self) -> ImagePolicyLimits:
        """Convert the numbers to seconds.

        Raises:
            ConfigurationError: One of them is out of bounds.
        """
        backoff = _normalize_duration("retryBackoff", self.retry_backoff, _BACKOFF_RANGE)
        allow = _normalize_duration("allowTTL", self.allow_ttl, _ALLOW_TTL_RANGE)
        deny = _normalize_duration("denyTTL", self.deny_ttl, _DENY_TTL_RANGE)
        return ImagePolicyLimits(allow.seconds, deny.seconds, backoff.seconds, self.default_allow)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The file, or the inline block, that configures the controller."""

    image_policy: ImagePolicy | None = None
    """The settings proper."""
    api_version: str = ""
    """Optional: there is only one version."""
    kind: str = ""
    """Optional, like ``api_version``."""
    pod_node_selector_plugin_config: JSON = None
    """The configuration of PodNodeSelector, which may share a file that predates AdmissionConfiguration."""


def _normalize_duration(field: str, value: int, span: _DurationRange) -> GoDuration:
    """``normalizeConfigDuration``: the lower bound is exclusive."""
    if value == _DISABLED:
        return GoDuration(0)
    if value == _DEFAULT:
        return span.default
    duration = GoDuration(value * span.unit)
    if not span.above < duration <= span.up_to:
        raise ConfigurationError(
            f"imagePolicy.{field}: valid value is between {span.above} and {span.up_to}, got {duration}"
        )
    return duration


def _build(settings: Settings, open_backend: OpenBackend) -> Handlers:
    # Imported late: tenacity is slow to import, and most chains ask no backend.
    from pratique.controllers.image_policy_webhook.image_reviews import ImageReviewer  # noqa: PLC0415

    policy = settings.image_policy
    if policy is None:
        raise ConfigurationError("no config specified: imagePolicy is missing")
    limits = policy.limits()
    if not policy.kube_config_file:
        raise ConfigurationError("imagePolicy.kubeConfigFile: Required value")
    try:
        backend = open_backend(Path(policy.kube_config_file))
    except ConfigurationError as error:
        raise ConfigurationError(f"imagePolicy.kubeConfigFile: {error}") from None
    return Handlers(validate=ImageReviewer(backend, limits).validate, close=backend.close)


CONTROLLER = Controller(
    name="ImagePolicyWebhook",
    summary="Asks a backend which images Pods may use.",
    phases=VALIDATE,
    rules=(rule("pods", "pods/ephemeralcontainers"),),
    build=_build,
    settings=Settings,
    needs_backend=True,
    asked_once=True,
    location_settings=("kubeConfigFile",),
    may_patch=True,
    trusted=True,
)
