"""The lines of recordings: what they hold, what they add up to, and the decision that one of them was."""

from __future__ import annotations

import collections
import datetime as dt
import statistics
from collections.abc import Mapping, Sequence

import msgspec

from pratique.admission.controllers import Phase  # msgspec reads the types of fields
from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.kinds import GroupVersionResource
from pratique.apimachinery.patches import PatchError, patch_document
from pratique.apimachinery.prepared_types import prepared
from pratique.apimachinery.statuses import Status, qualified_resource
from pratique.cluster.store import Cluster
from pratique_frontdoor.chain.decisions import Decision, Step
from pratique_frontdoor.console.playground import DecidedReview
from pratique_frontdoor.http.codecs import decode_review

MAX_NAMES = 1000
"""How many policies, namespaces and steps are counted by themselves."""
OTHERS = "(others)"
"""What all further names count as."""
LATENCY_SAMPLES = 1000
"""The durations of a step that its latency is made of: the newest."""
MAX_ROWS = 50
"""How many policies, namespaces and steps a page shows."""

_DENYING = frozenset({OutcomeStatus.DENIED, OutcomeStatus.FAILED})
_NO_PATCH = msgspec.Raw(b"[]")
_patches = msgspec.json.Decoder(prepared(tuple[JSONObject, ...]))


class StepFields(msgspec.Struct, frozen=True, rename="camel"):
    """A step of a recorded decision."""

    controller: str
    phase: Phase
    name: str
    outcome: OutcomeStatus
    configuration: str = ""
    round: int = 0
    reason: str = ""
    patch: msgspec.Raw = _NO_PATCH
    duration_ms: float = 0.0
    endpoint: str = ""

    @property
    def title(self) -> str:
        """Its controller, and its name if that differs."""
        return self.controller if self.name in {"", self.controller} else f"{self.controller}/{self.name}"


class DecisionFields(msgspec.Struct, frozen=True):
    """A recorded decision."""

    allowed: bool
    steps: tuple[StepFields, ...]
    status: Status | None = None
    patch: msgspec.Raw = _NO_PATCH
    warnings: tuple[str, ...] = ()
    uid: str = ""


class RequestFields(msgspec.Struct, frozen=True, rename="camel"):
    """What was reviewed."""

    resource: GroupVersionResource
    operation: str
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""

    @property
    def title(self) -> str:
        """Such as ``CREATE pods shop/web``."""
        resource = qualified_resource(self.resource.group, self.resource.resource)
        subresource = f"/{self.sub_resource}" if self.sub_resource else ""
        name = "/".join(part for part in (self.namespace, self.name) if part)
        return f"{self.operation} {resource}{subresource} {name}".rstrip()


class _Request(msgspec.Struct, frozen=True):
    request: RequestFields


class RecordedLine(msgspec.Struct, frozen=True):
    """A line of a recording, as far as pages show it."""

    time: dt.datetime
    review: msgspec.Raw
    decision: DecisionFields

    @property
    def request(self) -> RequestFields:
        """What was reviewed."""
        return _requests.decode(self.review).request


_lines = msgspec.json.Decoder(prepared(RecordedLine))
_requests = msgspec.json.Decoder(prepared(_Request))


def read_line(text: bytes) -> RecordedLine:
    """Read a line.

    Raises:
        InputError: it is no recorded decision.
    """
    try:
        line = _lines.decode(text)
        line.request  # noqa: B018 - raises if it is not there
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InputError("this is no recorded decision") from None
    return line


class ListedDecision(msgspec.Struct, frozen=True):
    """A line of the list."""

    number: int
    """Its place in the recording, from 1."""
    time: str
    """When it was decided, in UTC."""
    title: str
    """What was reviewed, such as ``CREATE pods shop/web``."""
    allowed: bool
    warnings: int
    message: str
    """Why it was denied; empty if it was allowed."""


class StepLatency(msgspec.Struct, frozen=True):
    """How long a step took, in milliseconds."""

    step: str
    runs: int
    median: float
    p99: float


class Totals:
    """What the lines read so far add up to."""

    def __init__(self) -> None:
        self.allowed = self.denied = self.warned = self.unreadable = 0
        self.policies: collections.Counter[str] = collections.Counter()
        self.namespaces: collections.Counter[str] = collections.Counter()
        self._runs: collections.Counter[str] = collections.Counter()
        self._milliseconds: dict[str, collections.deque[float]] = {}
        self._first: dt.datetime | None = None
        self._last: dt.datetime | None = None

    def add(self, line: RecordedLine, request: RequestFields) -> None:
        """Add a decision."""
        decision = line.decision
        self._first = min(line.time, self._first or line.time)
        self._last = max(line.time, self._last or line.time)
        self.allowed += decision.allowed
        self.denied += not decision.allowed
        self.warned += bool(decision.warnings)
        if not decision.allowed:
            self.namespaces[_bounded(request.namespace or "(none)", self.namespaces)] += 1
            for title in dict.fromkeys(step.title for step in decision.steps if step.outcome in _DENYING):
                self.policies[_bounded(title, self.policies)] += 1
        for step in decision.steps:
            if step.duration_ms:
                self._time(_bounded(step.title, self._runs), step.duration_ms)

    def _time(self, title: str, milliseconds: float) -> None:
        self._runs[title] += 1
        self._milliseconds.setdefault(title, collections.deque(maxlen=LATENCY_SAMPLES)).append(milliseconds)

    @property
    def per_second(self) -> float | None:
        """The mean rate."""
        seconds = (self._last - self._first).total_seconds() if self._first and self._last else 0.0
        return (self.allowed + self.denied) / seconds if seconds else None

    def latencies(self) -> list[StepLatency]:
        """The latency of each step, the slowest first."""
        found = [
            StepLatency(title, self._runs[title], statistics.median(times), _p99(times))
            for title, times in self._milliseconds.items()
        ]
        return sorted(found, key=lambda latency: (-latency.p99, latency.step))


def _bounded(name: str, seen: Mapping[str, int]) -> str:
    return name if name in seen or len(seen) < MAX_NAMES else OTHERS


def _p99(times: Sequence[float]) -> float:
    return sorted(times)[min(len(times) - 1, len(times) * 99 // 100)]


def list_line(line: RecordedLine, number: int) -> ListedDecision:
    """Return the row of a line in a list."""
    decision = line.decision
    return ListedDecision(
        number=number,
        time=line.time.strftime("%Y-%m-%d %H:%M:%S"),
        title=line.request.title,
        allowed=decision.allowed,
        warnings=len(decision.warnings),
        message=decision.status.message if decision.status else "",
    )


def read_decision(line: RecordedLine, cluster: Cluster) -> DecidedReview:
    """Return the review and the decision of a line.

    Raises:
        InputError: its review, or its patch, cannot be read.
    """
    review = decode_review(bytes(line.review), cluster).review
    patch = _patches.decode(line.decision.patch)
    try:
        final = patch_document(review.object_document, patch) if patch else review.object_document
    except PatchError as error:
        raise InputError(f"the recorded patch does not apply to the recorded object: {error}") from None
    decision = Decision(
        uid=line.decision.uid,
        allowed=line.decision.allowed,
        status=line.decision.status,
        object_document=final,
        patch=patch,
        warnings=line.decision.warnings,
        steps=tuple(map(_step, line.decision.steps)),
    )
    return DecidedReview(line.request.title, review, decision)


def _step(step: StepFields) -> Step:
    return Step(
        controller=step.controller,
        phase=step.phase,
        name=step.name,
        configuration=step.configuration,
        round=step.round,
        outcome=step.outcome,
        reason=step.reason,
        patch=_patches.decode(step.patch),
        duration_seconds=step.duration_ms / 1000,
        endpoint=step.endpoint,
    )
