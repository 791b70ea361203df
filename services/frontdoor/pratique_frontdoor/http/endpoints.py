"""The endpoints that decide: an AdmissionReview in, an AdmissionReview or a decision document out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

import msgspec
from starlette.types import Receive, Scope, Send

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Deadline
from pratique.apimachinery.json_values import MIN_PROVED_BYTES, TextChecks, encode
from pratique.processes.allocator import make_room
from pratique.processes.large_texts import SEPARATE_PROCESS_BYTES, LargeTextReader
from pratique.processes.review_threads import work_beside_loop, work_on_review, work_on_text
from pratique_frontdoor.chain import decision_documents
from pratique_frontdoor.chain.decisions import Decision, OutageError, check_documents
from pratique_frontdoor.engines.engine import Engine
from pratique_frontdoor.http.codecs import (
    ReceivedReview,
    decode_deferring,
    decode_large_review,
    decode_review,
    encode_answer,
)
from pratique_frontdoor.http.messages import (
    ClientGoneError,
    JSONReply,
    Load,
    LoadShare,
    Query,
    check_head,
    failure_status,
    priority_of,
    query_reader,
    read_body,
    shutting_down,
    status_reply,
)
from pratique_frontdoor.http.metrics import Metrics
from pratique_frontdoor.settings import FrontDoorSettings

if TYPE_CHECKING:
    from pratique_frontdoor.decision_logs.entries import Observation
    from pratique_frontdoor.decision_logs.writers import DecisionLog
    from pratique_frontdoor.http.review_traces import ReviewTrace
    from pratique_frontdoor.recording.recorders import Recorder


BeginTrace: TypeAlias = "Callable[[str, Iterable[tuple[bytes, bytes]]], ReviewTrace]"

_CLIENT_GONE = 499  # as in nginx: the client closed the connection

_MOST_MARGIN_SECONDS = 0.05
"""What the front door reserves of a review's time: as much as a service reserves for its answer
(``pratique.rpc.handlers``), or a tenth if that is less. Hanging calls then end before the limit on the whole request
does, and other outcomes are still used."""


class Timeouts:
    """The time limits of all requests in flight.

    ``asyncio.timeout`` sets a timer for each, and nearly always cancels it, which takes uvloop 12 µs: as long as
    decoding a review. Here one timer waits for the earliest limit.
    """

    def __init__(self) -> None:
        """Start without limits."""
        self._limits: set[TimeLimit] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def limit(self, seconds: float) -> TimeLimit:
        """Limit the time of a ``with`` block, which raises TimeoutError when the time is over."""
        return TimeLimit(self, asyncio.get_running_loop().time() + seconds)

    def add(self, limit: TimeLimit) -> None:
        """Start to enforce a limit."""
        self._limits.add(limit)
        if self._timer is None or limit.at < self._timer_at:
            self._wake_at(limit.at)

    def remove(self, limit: TimeLimit) -> None:
        """Stop enforcing a limit. The timer stays: it will find the next one, or none."""
        self._limits.discard(limit)

    def _wake_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._wake)
        self._timer_at = at

    def _wake(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for limit in [limit for limit in self._limits if limit.at <= now]:
            self._limits.discard(limit)
            limit.expire()
        if self._limits:
            self._wake_at(min(limit.at for limit in self._limits))


class TimeLimit:
    """A time limit on the current task, as a context manager for one use. Created by :meth:`Timeouts.limit`."""

    __slots__ = ("_cancelling", "_expired", "_task", "_timeouts", "at")

    def __init__(self, timeouts: Timeouts, at: float) -> None:
        """End at ``at``, in the time of the event loop."""
        self.at = at
        self._timeouts = timeouts
        self._expired = False

    def expire(self) -> None:
        """Cancel the task."""
        self._expired = True
        self._task.cancel()

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a time limit needs a task")
        self._task, self._cancelling = task, task.cancelling()
        self._timeouts.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timeouts.remove(self)
        # If the task was also cancelled from outside, that cancellation takes precedence.
        if (
            self._expired
            and self._task.uncancel() <= self._cancelling
            and kind is not None
            and issubclass(kind, asyncio.CancelledError)
        ):
            raise TimeoutError from error


class EndpointContext(msgspec.Struct, frozen=True):
    """What all endpoints of a front door share."""

    engine: Engine
    settings: FrontDoorSettings
    metrics: Metrics
    load: Load
    timeouts: Timeouts
    reader: LargeTextReader
    checks: TextChecks | None = None
    """Proves to the services what was checked here."""
    recorder: Recorder | None = None
    begin_trace: BeginTrace | None = None
    decision_log: DecisionLog | None = None


class DecisionEndpoint:
    """An ASGI application for one path.

    It is not a function of a Starlette Request, because every review passes through it: Request and Response objects
    would cost a sixth of the time that Starlette and uvicorn take together.
    """

    def __init__(self, path: str, phases: frozenset[Phase] | None, context: EndpointContext) -> None:
        """Run ``phases`` for every review. None runs the phases of ``?phase=`` and returns a decision document."""
        self._path = path
        self._phases = phases
        self._engine = context.engine
        self._metrics = context.metrics
        self._load = context.load
        self._timeouts = context.timeouts
        self._recorder = context.recorder
        self._decision_log = context.decision_log
        self._begin_trace = context.begin_trace
        self._max_body_bytes = context.settings.max_body_bytes
        self._reader = context.reader
        self._checks = context.checks
        # The engine in this process, the recorder and the log read objects without asking a service.
        self._defers_checks = (
            getattr(context.engine, "calls_services", False)
            and context.recorder is None
            and context.decision_log is None
        )
        self._read_query = query_reader(context.settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        started = time.perf_counter()
        trace = None if self._begin_trace is None else self._begin_trace(self._path, scope["headers"])
        log = self._decision_log
        observation = None if log is None else log.begin(self._path, scope)
        try:
            reply = await self._answer(scope, receive, trace, observation)
        except ClientGoneError:
            _end_trace(trace, _CLIENT_GONE)
            return
        except asyncio.CancelledError:
            # The server cancels requests that outlive the drain; they are still answered.
            reply = status_reply(shutting_down())
        except Exception as error:  # noqa: BLE001 - the outermost handler: every error gets a response
            if isinstance(error, OutageError):
                self._metrics.count_outage(error.service, error.cause)
            reply = status_reply(failure_status(error, self._path))
        if log is not None and observation is not None and observation.confirmation is None:
            # Every response passes here before it is sent, whether it has a decision or not; if it is to wait for its
            # entry, the log has it already.
            observation.answered(reply.code, reply.body)
            log.take(observation)
        await reply.send(send)
        self._metrics.count_request(self._path, reply.code)
        self._metrics.observe_request(self._path, time.perf_counter() - started)
        _end_trace(trace, reply.code)

    async def _answer(
        self, scope: Scope, receive: Receive, trace: ReviewTrace | None, observation: Observation | None
    ) -> JSONReply:
        if self._decision_log is not None:
            self._decision_log.check()
        query = self._read_query(scope["query_string"])
        check_head(scope["headers"], self._max_body_bytes)
        deadline = Deadline.after(query.seconds - min(_MOST_MARGIN_SECONDS, query.seconds / 10))
        # A client that disconnects is not noticed: its review ends at its deadline, and watching the connection would
        # cost every review a task.
        with LoadShare(self._load, _share_holder(scope)) as share, self._timeouts.limit(query.seconds):
            pieces = await read_body(receive, self._max_body_bytes, share.hold)
            received = await self._read(pieces)
            share.complete(priority_of(received.review))
            pieces.clear()  # the review has all that is needed of them
            if observation is not None:
                observation.received = received
            if deadline.passed:
                raise TimeoutError
            decision = await self._decide(received, query, deadline)
            if self._decision_log is not None and observation is not None:
                observation.decision = decision
                observation.answered(200, b"")
                await self._decision_log.confirm(observation)
            if trace is not None:
                trace.set_decision(received.review, decision)
            return await self._reply(received, decision, blame=query.blame)

    async def _read(self, pieces: list[bytes]) -> ReceivedReview:
        size, cluster, checks = sum(map(len, pieces)), self._engine.cluster, self._checks
        if size >= MIN_PROVED_BYTES:
            make_room()
        if size <= SEPARATE_PROCESS_BYTES:
            body = b"".join(pieces)
            if size >= MIN_PROVED_BYTES and self._defers_checks:
                received = decode_deferring(body, cluster, checks)
                if received is not None:
                    return received
            return await work_on_text(size, decode_review, body, cluster, checks)
        return await self._reader.run(
            decode_large_review, pieces, cluster, self._reader.strip_members, checks
        )

    async def _decide(self, received: ReceivedReview, query: Query, deadline: Deadline) -> Decision:
        explain = self._phases is None
        phases = query.phases if self._phases is None else self._phases
        try:
            decision = await self._engine.decide(received.review, phases, deadline, explain=explain)
        finally:
            # Whatever came of it: a bad review is answered as one that was checked before all else.
            await check_documents(received.review)
        # In the next iteration of the event loop, after uvloop has written the response.
        asyncio.get_running_loop().call_soon(
            self._metrics.observe_decision, received.review.operation, decision
        )
        if self._recorder is not None:
            self._recorder.record(self._path, phases, received, decision)
        return decision

    async def _reply(self, received: ReceivedReview, decision: Decision, *, blame: bool) -> JSONReply:
        values = received.review.received_values
        if self._phases is None:
            # A few values can make a large document: each step shows its changes.
            body = await work_beside_loop(values, _explanation, received, decision, blame=blame)
            return JSONReply(200, body)
        values += len(decision.patch) + len(decision.audit_annotations)
        may_patch = Phase.MUTATE in self._phases
        body = await work_on_review(
            values, encode_answer, decision, received.api_version, may_patch=may_patch
        )
        return JSONReply(200, body)


def _explanation(received: ReceivedReview, decision: Decision, *, blame: bool) -> bytes:
    """Encode the decision document, if wanted with what made each of the object's fields what it is."""
    document = decision_documents.to_document(decision)
    if blame:
        from pratique_frontdoor.blame.changes import blame_document, blame_of  # noqa: PLC0415 - seldom asked for

        found = blame_of(decision, received.review.object_document.data)
        document["blame"] = blame_document(found, decision)
    return encode(document)


def _share_holder(scope: Scope) -> str:
    """Return whose limits a request counts against: those of its caller, or of its address."""
    state = scope["state"]
    holder: str = state.get("caller") or state.get("address", "")
    return holder


def _end_trace(trace: ReviewTrace | None, code: int) -> None:
    """End a trace in the next iteration of the event loop, after uvloop has written the response."""
    if trace is not None:
        asyncio.get_running_loop().call_soon(trace.end, code, time.perf_counter_ns())
