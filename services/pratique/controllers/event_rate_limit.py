"""EventRateLimit: only so many events a second, of a server, a namespace, a user, or one source about one object.

Source: ``plugin/pkg/admission/eventratelimit/{admission,limitenforcer,cache}.go``.
"""

from __future__ import annotations

import dataclasses
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
    """Who tells what of whom, one behind the other without anything between, as Kubernetes has it."""
    fields = (member(review.object, *path) for path in _KEY_FIELDS)
    return "".join(field for field in fields if isinstance(field, str))


_KEYS: Mapping[str, Callable[[Review], str]] = {
    "Server": lambda _: "",
    "Namespace": lambda review: review.namespace,
    "User": lambda review: review.user.username,
    "SourceAndObject": _source_and_object_key,
}
"""What events share a bucket by, for each type of limit."""


class EventLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """How often events of one key may come."""

    type: str = ""
    """What is a key: ``Server``, ``Namespace``, ``User`` or ``SourceAndObject``."""
    qps: _Int32 = 0
    """Events a second."""
    burst: _Int32 = 0
    """Events at once, where there were few before."""
    cache_size: _Int32 = 0
    """Keys that are remembered; 0 means 4096. A server has one."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """All limits; an event has to stay within each of them."""

    api_version: str = _API_VERSION
    kind: str = _KIND
    limits: tuple[EventLimit, ...] | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class _Enforcer:
    type: str
    buckets: TokenBuckets

    def refusal(self, review: Review, now: int) -> str | None:
        """Take a token for the event; None where there was one."""
        key = _KEYS[self.type](review)
        if self.buckets.take(key, now):
            return None
        return _too_many_requests(f"limit reached on type {self.type} for key {key}").message


@dataclasses.dataclass(frozen=True, slots=True)
class _RateLimits:
    enforcers: tuple[_Enforcer, ...]
    clock: Callable[[], int]

    def validate(self, review: Review) -> Answer:
        """Take a token from every bucket that the event concerns; refuse it where one was empty."""
        # What is not stored burdens nobody; what is only tried finds the buckets full.
        if not _is_event(review.kind) or review.dry_run or review.quota_mode is QuotaMode.CHECK:
            return allow()
        now = self.clock()
        # All are asked, so that an event that is refused by one is counted by the others.
        found = [enforcer.refusal(review, now) for enforcer in self.enforcers]
        refusals = [refusal for refusal in found if refusal is not None]
        return deny(status=_too_many_requests(statuses.aggregate(refusals))) if refusals else allow()


def _is_event(kind: GroupVersionKind) -> bool:
    return (kind.group, kind.kind) == ("", "Event")


def _too_many_requests(text: str) -> Status:
    """``NewTooManyRequestsError`` of ``k8s.io/apimachinery/pkg/api/errors``: 429."""
    return statuses.failure(429, "TooManyRequests", f"Too many requests: {text}")


def build(settings: Settings, clock: Callable[[], int] = time.monotonic_ns) -> Handlers:
    """Make the controller, its buckets full.

    Args:
        settings: The limits.
        clock: Tells the time in nanoseconds, and never goes back.

    Raises:
        ConfigurationError: the limits make no sense, or there are none.
    """
    if (settings.api_version, settings.kind) != (_API_VERSION, _KIND):
        got = f"{settings.api_version}, Kind={settings.kind}"
        raise ConfigurationError(f"apiVersion, kind: must be {_API_VERSION}, Kind={_KIND}, not {got}")
    faults = list(_configuration_errors(settings))
    if faults:
        raise ConfigurationError(join(faults))
    enforcers = tuple(_Enforcer(limit.type, _buckets(limit)) for limit in settings.limits or ())
    return Handlers(validate=_RateLimits(enforcers, clock).validate)


def _buckets(limit: EventLimit) -> TokenBuckets:
    size = 1 if limit.type == "Server" else limit.cache_size or _DEFAULT_CACHE_SIZE
    return TokenBuckets(Rate(limit.qps, limit.burst), size)


def _configuration_errors(settings: Settings) -> Iterator[FieldError]:
    """What is wrong with the limits, in Kubernetes' order.

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
    summary="Refuses events beyond so many a second of a server, namespace, user, or source and object.",
    phases=VALIDATE,
    rules=(rule("events"),),
    build=build,
    settings=Settings,
    trusted=True,
)
