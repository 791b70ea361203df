"""The decisions of a recording: what they add up to, a page of them, and one of them as the chain made it."""

from __future__ import annotations

import array
import collections
import dataclasses
import datetime as dt
import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import msgspec

from pratique.admission.controllers import Phase  # msgspec reads the types of fields
from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.kinds import GroupVersionResource
from pratique.apimachinery.patches import PatchError, patch_document
from pratique.apimachinery.statuses import Status, qualified_resource
from pratique.cluster.files import load_cluster
from pratique_frontdoor.chain.decisions import Decision, Step
from pratique_frontdoor.console.playground import DecidedReview
from pratique_frontdoor.http.codecs import decode_review

PAGE_DECISIONS = 50
"""How many decisions a page lists."""
MAX_NAMES = 1000
"""How many policies, namespaces and steps are counted by themselves."""
OTHERS = "(others)"
"""What all further names count as."""
LATENCY_SAMPLES = 1000
"""The durations of a step that its latency is made of: the newest."""
MAX_LINE_BYTES = 64 * 1024 * 1024
"""The longest line that is read. The front door writes none as long, unless its limits are raised."""

_DENYING = frozenset({OutcomeStatus.DENIED, OutcomeStatus.FAILED})
_NO_PATCH = msgspec.Raw(b"[]")
_patches = msgspec.json.Decoder(tuple[JSONObject, ...])


class _RecordedStep(msgspec.Struct, frozen=True, rename="camel"):
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
        return self.controller if self.name in {"", self.controller} else f"{self.controller}/{self.name}"


class _RecordedDecision(msgspec.Struct, frozen=True):
    allowed: bool
    steps: tuple[_RecordedStep, ...]
    status: Status | None = None
    patch: msgspec.Raw = _NO_PATCH
    warnings: tuple[str, ...] = ()
    uid: str = ""


class _RecordedRequest(msgspec.Struct, frozen=True, rename="camel"):
    resource: GroupVersionResource
    operation: str
    sub_resource: str = ""
    name: str = ""
    namespace: str = ""


class _Request(msgspec.Struct, frozen=True):
    request: _RecordedRequest


class _Line(msgspec.Struct, frozen=True):
    time: dt.datetime
    review: msgspec.Raw
    decision: _RecordedDecision


_lines = msgspec.json.Decoder(_Line)
_requests = msgspec.json.Decoder(_Request)


@dataclasses.dataclass(frozen=True, slots=True)
class ListedDecision:
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


@dataclasses.dataclass(frozen=True, slots=True)
class StepLatency:
    """How long a step took, in milliseconds."""

    step: str
    runs: int
    median: float
    p99: float


@dataclasses.dataclass(frozen=True, slots=True)
class RecordingPage:
    """A page of the list, and what all decisions add up to."""

    decisions: Sequence[ListedDecision]
    """Newest first."""
    page: int
    pages: int
    allowed: int
    denied: int
    warned: int
    unreadable: int
    """Lines that are no recorded decisions."""
    per_second: float | None
    """The mean rate from the first decision to the last; None if no time passed."""
    denials_by_policy: Sequence[tuple[str, int]]
    denials_by_namespace: Sequence[tuple[str, int]]
    latencies: Sequence[StepLatency]
    """The slowest steps first."""


class _Totals:
    """What the lines read so far add up to."""

    def __init__(self) -> None:
        self.allowed = self.denied = self.warned = self.unreadable = 0
        self.policies: collections.Counter[str] = collections.Counter()
        self.namespaces: collections.Counter[str] = collections.Counter()
        self._runs: collections.Counter[str] = collections.Counter()
        self._milliseconds: dict[str, collections.deque[float]] = {}
        self._first: dt.datetime | None = None
        self._last: dt.datetime | None = None

    def add(self, line: _Line, request: _RecordedRequest) -> None:
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


class Recording:
    """A recording, which may still be written to. Of each line, only the place is kept in memory."""

    def __init__(self, path: Path) -> None:
        """Read a recording.

        Raises:
            InputError: the file holds lines, but no recorded decision.
            OSError: it cannot be read.
        """
        self._path = path
        self._identity = (0, 0)
        self._forget()
        self._cluster = load_cluster(None)
        with self._followed():
            pass
        if self._totals.unreadable and not self._offsets:
            raise InputError(f"{path}: this is no recording of `pratique record`: no line is a decision")

    def _forget(self) -> None:
        self._end = 0
        self._offsets = array.array("Q")
        self._totals = _Totals()

    def page(self, number: int) -> RecordingPage:
        """Read a page of the list, from 1; a number beyond the last is the last.

        Raises:
            OSError: the file cannot be read.
        """
        with self._followed() as file:
            count, totals = len(self._offsets), self._totals
            pages = max(1, -(-count // PAGE_DECISIONS))
            number = min(max(number, 1), pages)
            newest = count - (number - 1) * PAGE_DECISIONS
            listed = range(newest, max(newest - PAGE_DECISIONS, 0), -1)
            return RecordingPage(
                decisions=[_listed(self._line(file, each), each) for each in listed],
                page=number,
                pages=pages,
                allowed=totals.allowed,
                denied=totals.denied,
                warned=totals.warned,
                unreadable=totals.unreadable,
                per_second=totals.per_second,
                denials_by_policy=totals.policies.most_common(PAGE_DECISIONS),
                denials_by_namespace=totals.namespaces.most_common(PAGE_DECISIONS),
                latencies=totals.latencies()[:PAGE_DECISIONS],
            )

    def decision(self, number: int) -> DecidedReview | None:
        """Read one decision by its place in the recording; None if there is none.

        Raises:
            InputError: its review, or its patch, cannot be read.
            OSError: the file cannot be read.
        """
        with self._followed() as file:
            if not 1 <= number <= len(self._offsets):
                return None
            line = self._line(file, number)
        review = decode_review(bytes(line.review), self._cluster).review
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
        return DecidedReview(_title(_requests.decode(line.review).request), review, decision)

    def _line(self, file: BinaryIO, number: int) -> _Line:
        file.seek(self._offsets[number - 1])
        return _lines.decode(file.readline())

    def _followed(self) -> BinaryIO:
        """Open the file, and read what it has got since; a file that took its place is read anew."""
        file = self._path.open("rb")
        try:
            state = os.fstat(file.fileno())
            if (state.st_dev, state.st_ino) != self._identity or state.st_size < self._end:
                self._identity = (state.st_dev, state.st_ino)
                self._forget()
            for offset, text in self._new_lines(file):
                self._add(offset, text)
        except BaseException:
            file.close()
            raise
        return file

    def _new_lines(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Yield the new complete lines with their places; of a line that is too long, only the beginning."""
        file.seek(self._end)
        while text := file.readline(MAX_LINE_BYTES):
            rest = text
            while rest and not rest.endswith(b"\n"):
                rest = file.readline(MAX_LINE_BYTES)
            if not rest:
                return  # its writer has not finished it
            offset, self._end = self._end, file.tell()
            yield offset, text

    def _add(self, offset: int, text: bytes) -> None:
        if not text.strip():
            return
        try:
            line = _lines.decode(text)
            request = _requests.decode(line.review).request
            self._totals.add(line, request)
        except (
            msgspec.DecodeError,
            UnicodeDecodeError,
            TypeError,
        ):  # TypeError: times with and without a zone
            self._totals.unreadable += 1
        else:
            self._offsets.append(offset)


def _listed(line: _Line, number: int) -> ListedDecision:
    decision = line.decision
    return ListedDecision(
        number=number,
        time=line.time.strftime("%Y-%m-%d %H:%M:%S"),
        title=_title(_requests.decode(line.review).request),
        allowed=decision.allowed,
        warnings=len(decision.warnings),
        message=decision.status.message if decision.status else "",
    )


def _title(request: _RecordedRequest) -> str:
    resource = qualified_resource(request.resource.group, request.resource.resource)
    subresource = f"/{request.sub_resource}" if request.sub_resource else ""
    name = "/".join(part for part in (request.namespace, request.name) if part)
    return f"{request.operation} {resource}{subresource} {name}".rstrip()


def _step(step: _RecordedStep) -> Step:
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
