"""How long each kind of request may take in admission: by timeouts at worst, and by recorded times."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from pratique.admission.rules import Rule, RuleSet, compile_rules
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.kinds import GroupVersionResource
from pratique.apimachinery.source_documents import SourceDocument
from pratique.configuration.admissionregistration import Webhook, WebhookConfiguration
from pratique.configuration.loading import Configurations

_ANY = "*"
_OPERATIONS = ("CREATE", "UPDATE", "DELETE", "CONNECT")
_LAST_CONTROLLER = "ResourceQuota"
"""Runs after all other validating controllers, because it charges."""


class RequestKind(NamedTuple):
    """A kind of request. ``*`` is what no other kind names."""

    group: str
    resource: str
    subresource: str
    operation: str

    def __str__(self) -> str:
        """As people write it: ``CREATE pods``, ``UPDATE deployments.apps/scale``."""
        name = f"{self.resource}.{self.group}" if self.group else self.resource
        return f"{self.operation} {name}" + (f"/{self.subresource}" if self.subresource else "")


class ServiceLimits(msgspec.Struct, frozen=True):
    """The time limits of calls to Pratique's own services, in seconds; None is no limit of their own."""

    mutator: float | None = None
    validator: float | None = None


class RecordedTimes(msgspec.Struct, frozen=True):
    """The recorded durations of a kind of request, in seconds."""

    reviews: int
    median: float
    p99: float


class RequestLatency(msgspec.Struct, frozen=True):
    """The latency of a kind of request, in seconds."""

    kind: RequestKind
    mutating: tuple[str, ...]
    """The webhooks that are called one after another."""
    validating: tuple[str, ...]
    """The webhooks that are called side by side."""
    first_round: float
    """The mutating phase, if every call takes as long as it may."""
    reinvocation: float
    """The same for what may be called a second time."""
    validation: float
    """The same for the validating phase."""
    recorded: RecordedTimes | None = None

    @property
    def worst(self) -> float:
        """The sum of the phases."""
        return self.first_round + self.reinvocation + self.validation


class _TimedWebhook(NamedTuple):
    configuration: str
    webhook: Webhook
    rules: RuleSet

    @property
    def name(self) -> str:
        return f"{self.configuration}/{self.webhook.name}"

    @property
    def seconds(self) -> float:
        return float(self.webhook.timeout_seconds or 0)

    def is_called(self, kind: RequestKind, versions: Iterable[str]) -> bool:
        """Tell whether any such request is sent to it, whatever its version, scope and labels."""
        return any(
            self.rules.matches_request(
                kind.operation,
                GroupVersionResource(kind.group, version, kind.resource),
                kind.subresource,
                place,
            )
            for version in versions
            for place in ("default", "")
        )


def request_latencies(
    configurations: Configurations, limits: ServiceLimits, recorded: Mapping[RequestKind, RecordedTimes]
) -> list[RequestLatency]:
    """Return the latencies of all kinds of requests that a rule names or that were recorded, the longest first.

    Selectors and match conditions count as if they matched.
    """
    mutating = _timed(configurations.mutating)
    validating = _timed(configurations.validating)
    rules = [rule for hook in (*mutating, *validating) for rule in hook.webhook.rules]
    versions = sorted({_ANY, *itertools.chain.from_iterable(rule.api_versions for rule in rules)})
    kinds = {kind for rule in rules for kind in _named_kinds(rule)} | set(recorded)
    latencies = [
        _latency(
            kind,
            [hook for hook in mutating if hook.is_called(kind, versions)],
            [hook for hook in validating if hook.is_called(kind, versions)],
            limits,
            recorded.get(kind),
        )
        for kind in kinds
    ]
    return sorted(latencies, key=lambda latency: (-latency.worst, latency.kind))


def _timed(configurations: Sequence[WebhookConfiguration]) -> list[_TimedWebhook]:
    return [
        _TimedWebhook(configuration.name, webhook, compile_rules(webhook.rules))
        for configuration in configurations
        for webhook in configuration.webhooks
    ]


def _named_kinds(rule: Rule) -> Iterator[RequestKind]:
    for group, written, operation in itertools.product(rule.api_groups, rule.resources, rule.operations):
        resource, _, subresource = written.partition("/")
        # "pods/*" and "*/*" are the resource itself, too.
        for part in dict.fromkeys(("", subresource) if subresource == _ANY else (subresource,)):
            for name in _OPERATIONS if operation == _ANY else (operation,):
                if name != "CONNECT" or part or operation == name:
                    yield RequestKind(group, resource, part, name)


def _latency(
    kind: RequestKind,
    mutating: Sequence[_TimedWebhook],
    validating: Sequence[_TimedWebhook],
    limits: ServiceLimits,
    recorded: RecordedTimes | None,
) -> RequestLatency:
    again = [hook for hook in mutating if hook.webhook.reinvocation_policy == "IfNeeded"]
    mutator, validator = limits.mutator or 0.0, limits.validator or 0.0
    # Controllers run again where a webhook changed the object. ResourceQuota is a call after all others.
    return RequestLatency(
        kind,
        tuple(hook.name for hook in mutating),
        tuple(hook.name for hook in validating),
        first_round=mutator + sum(hook.seconds for hook in mutating),
        reinvocation=sum(hook.seconds for hook in again) + (mutator if mutating else 0.0),
        validation=max([validator, *(hook.seconds for hook in validating)]) + validator,
        recorded=recorded,
    )


def recorded_times(documents: Iterable[SourceDocument]) -> dict[RequestKind, RecordedTimes]:
    """Read how long recorded reviews took, by kind of request.

    Raises:
        InputError: a document is no line of a recording; the message gives location and reason.
    """
    durations: dict[RequestKind, list[float]] = {}
    for document in documents:
        if member(document.data, "decision") is None and member(document.data, "review") is not None:
            continue  # the review was not decided
        try:
            kind, seconds = _kind_of(document.data), _duration(document.data)
        except (InputError, KeyError, TypeError, AttributeError):
            raise document.fault((), "not a line of a recording with its decision") from None
        durations.setdefault(kind, []).append(seconds)
    return {kind: _summary(found) for kind, found in durations.items()}


def _kind_of(line: JSONObject) -> RequestKind:
    request = member(line, "review", "request")
    resource = request["resource"]
    return RequestKind(
        resource.get("group", ""), resource["resource"], request.get("subResource", ""), request["operation"]
    )


def _duration(line: JSONObject) -> float:
    """Add up mutating steps; validating ones run side by side, and ResourceQuota after them."""
    steps = member(line, "decision", "steps")
    serial = sum(_seconds(step) for step in steps if step["phase"] == "mutate" or _is_last(step))
    side_by_side = [_seconds(step) for step in steps if step["phase"] == "validate" and not _is_last(step)]
    return serial + max(side_by_side, default=0.0)


def _seconds(step: JSONObject) -> float:
    return float(step["durationMs"]) / 1000


def _is_last(step: JSON) -> bool:
    return bool(step["controller"] == _LAST_CONTROLLER)


def _summary(seconds: Sequence[float]) -> RecordedTimes:
    if len(seconds) == 1:
        return RecordedTimes(1, seconds[0], seconds[0])
    percentiles = statistics.quantiles(seconds, n=100, method="inclusive")
    return RecordedTimes(len(seconds), statistics.median(seconds), percentiles[98])
