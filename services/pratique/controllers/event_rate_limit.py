"""EventRateLimit: limits the events per second of a server, a namespace, a user, or a source and object.

Source: ``plugin/pkg/admission/eventratelimit/{admission,limitenforcer,cache}.go``.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, TypeAlias

import msgspec

from pratique.admission.controllers import VALIDATE, Controller, Handlers
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import QuotaMode, Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    GoLiteral,
    invalid,
    join,
    not_supported,
)
from pratique.apimachinery.flow_control import Rate, TokenBuckets
from pratique.apimachinery.json_values import member
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.statuses import Status

_API_VERSION = "eventratelimit.admission.k8s.io/v1alpha1"
_KIND = "Configuration"
_DEFAULT_CACHE_SIZE = 4096
"""Keys; the bound keeps users from filling the memory with made-up keys."""

_KEY_FIELDS = (
    ("source", "component"),
    ("source", "host"),
    ("involvedObject", "kind"),
    ("involvedObject", "namespace"),
    ("involvedObject", "name"),
    ("involvedObject", "uid"),
    ("involvedObject", "apiVersion"),
)

_Int32: TypeAlias = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]


def _source_and_object_key(review: Review) -> str:
    """The fields of an event's source and object, concatenated without a separator as Kubernetes does."""
    fields = (member(review.object, *path) for path in _KEY_FIELDS)
    return "".join(field for field in fields if isinstance(field, str))


_KEYS: Mapping[str, Callable[[Review], str]] = {
    "Server": lambda _: "",
    "Namespace": lambda review: review.namespace,
    "User": lambda review: review.user.username,
    "SourceAndObject": _source_and_object_key,
}
"""For each type of limit, the key by which events share a bucket."""


class EventLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How many events of one key are admitted."""

    type: str = ""
    """The kind of key: ``Server``, ``Namespace``, ``User`` or ``SourceAndObject``."""
    qps: _Int32 = 0
    """Events per second."""
    burst: _Int32 = 0
    """Events that may come at once after a quiet time."""
    cache_size: _Int32 = 0
    """How many keys are remembered; 0 means 4096. ``Server`` has a single key."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """All limits; an event has to respect each of them."""

    api_version: str = _API_VERSION
    kind: str = _KIND
    limits: tuple[EventLimit, ...] | None = None


class _Enforcer(msgspec.Struct, frozen=True):
    type: str
    buckets: TokenBuckets

    def refusal(self, review: Review, now: int) -> str | None:
        """Take a token for the event; the reason for the denial if the bucket is empty, otherwise None."""
        key = _KEYS[self.type](review)
        if self.buckets.take(key, now):
            return None
        return f"limit reached on type {self.type} for key {key}"


class _RateLimits(msgspec.Struct, frozen=True):
    enforcers: tuple[_Enforcer, ...]
    clock: Callable[[], int]

    def validate(self, review: Review) -> Answer:
        """Take a token from every bucket that applies to the event; deny if one was empty."""
        # Dry runs and trials take no tokens, and are never denied.
        if not _is_event(review.kind) or review.dry_run or review.quota_mode is QuotaMode.CHECK:
            return allow()
        now = self.clock()
        # Every bucket is asked, so an event that one denies still counts in the others.
        results = [enforcer.refusal(review, now) for enforcer in self.enforcers]
        refusals = [refusal for refusal in results if refusal is not None]
        return deny(status=_too_many_requests(statuses.aggregate(refusals))) if refusals else allow()


def _is_event(kind: GroupVersionKind) -> bool:
    return (kind.group, kind.kind) == ("", "Event")


def _too_many_requests(text: str) -> Status:
    """``NewTooManyRequestsError`` of ``k8s.io/apimachinery/pkg/api/errors``: 429."""
    return statuses.failure(429, "TooManyRequests", f"Too many requests: {text}")


def build(settings: Settings, clock: Callable[[], int] = time.monotonic_ns) -> Handlers:
    """Make the controller with full buckets.

    Args:
        settings: The limits.
        clock: The time in nanoseconds; it never goes back.

    Raises:
        ConfigurationError: The limits are invalid, or there are none.
    """
    if (settings.api_version, settings.kind) != (_API_VERSION, _KIND):
        got = f"{settings.api_version}, Kind={settings.kind}"
        raise ConfigurationError(f"apiVersion, kind: must be {_API_VERSION}, Kind={_KIND}, not {got}")
    errors = list(_configuration_errors(settings))
    if errors:
        raise ConfigurationError(join(errors))
    enforcers = tuple(_Enforcer(limit.type, _buckets(limit)) for limit in settings.limits or ())
    return Handlers(validate=_RateLimits(enforcers, clock).validate)


def _buckets(limit: EventLimit) -> TokenBuckets:
    size = 1 if limit.type == "Server" else limit.cache_size or _DEFAULT_CACHE_SIZE
    return TokenBuckets(Rate(limit.qps, limit.burst), size)


def _configuration_errors(settings: Settings) -> Iterator[FieldError]:
    """The errors in the limits, in Kubernetes' order.

    Source: ``plugin/pkg/admission/eventratelimit/apis/eventratelimit/validation/validation.go``.
    """
    path = ROOT / "limits"
    if not settings.limits:
        yield invalid(path, GoLiteral("null" if settings.limits is None else "[]"), "must not be empty")
    for index, limit in enumerate(settings.limits or ()):
        yield from _limit_errors(limit, path / index)


def _limit_errors(limit: EventLimit, path: FieldPath) -> Iterator[FieldError]:
    if limit.type not in _KEYS:
        yield not_supported(path / "type", limit.type, _KEYS)
    if limit.burst <= 0:
        yield invalid(path / "burst", limit.burst, "must be positive")
    if limit.qps <= 0:
        yield invalid(path / "qps", limit.qps, "must be positive")
    if limit.type != "Server" and limit.cache_size < 0:
        yield invalid(path / "cacheSize", limit.cache_size, "must not be negative")


CONTROLLER = Controller(
    name="EventRateLimit",
    summary="Limits the events per second of a server, namespace, user, or source and object.",
    phases=VALIDATE,
    rules=(rule("events"),),
    build=build,
    settings=Settings,
    asked_once=True,
    trusted=True,
)
