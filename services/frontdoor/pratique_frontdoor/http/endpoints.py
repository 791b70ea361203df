"""The endpoints that decide: an AdmissionReview in, an AdmissionReview or a decision document out."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Deadline
from pratique.apimachinery.json_reading import LARGE_BYTES
from pratique.apimachinery.json_values import encode
from pratique.processes.large_texts import SEPARATE_PROCESS_BYTES, LargeTextReader
from pratique_frontdoor.blame.changes import blame_document, blame_of
from pratique_frontdoor.chain import decisions
from pratique_frontdoor.chain.decisions import Decision
from pratique_frontdoor.chain.hosted_controllers import OutageError
from pratique_frontdoor.decision_logs.entries import Observation
from pratique_frontdoor.decision_logs.writers import DecisionLog
from pratique_frontdoor.engines.engine import Engine
from pratique_frontdoor.http.codecs import ReceivedReview, decode_large_review, decode_review, encode_answer
from pratique_frontdoor.http.connections import Timeouts
from pratique_frontdoor.http.limits import Load, LoadShare, priority_of
from pratique_frontdoor.http.messages import (
    ClientGoneError,
    JSONReply,
    Query,
    check_head,
    failure_status,
    query_reader,
    read_body,
    shutting_down,
    status_reply,
)
from pratique_frontdoor.http.metrics import Metrics
from pratique_frontdoor.recording.recorders import Recorder

if TYPE_CHECKING:
    from typing import TypeAlias

    from starlette.types import Receive, Scope, Send

    from pratique_frontdoor.http.review_traces import ReviewTrace
    from pratique_frontdoor.settings import FrontDoorSettings


BeginTrace: TypeAlias = "Callable[[str, Iterable[tuple[bytes, bytes]]], ReviewTrace]"

_CLIENT_GONE = 499  # as nginx has it: nobody was there any more to be answered

_MOST_MARGIN_SECONDS = 0.05
"""What the front door keeps of a review's time for itself: as much as a service keeps for its answer
(``pratique.rpc.handlers``), or a tenth where that is less. So what hangs is given up, and what others said until then
is answered, before the limit on the whole request ends everything."""


@dataclasses.dataclass(frozen=True, slots=True)
class EndpointContext:
    """What all endpoints of one front door share."""

    engine: Engine
    settings: FrontDoorSettings
    metrics: Metrics
    load: Load
    timeouts: Timeouts
    reader: LargeTextReader
    recorder: Recorder | None = None
    begin_trace: BeginTrace | None = None
    decision_log: DecisionLog | None = None


class DecisionEndpoint:
    """An ASGI application for one path.

    It is one, instead of a function of a Starlette Request, because it is where every review passes: Request
    and Response objects would cost a sixth of the time that Starlette and uvicorn take together.
    """

    def __init__(self, path: str, phases: frozenset[Phase] | None, surroundings: EndpointContext) -> None:
        """Run ``phases`` for every review; None: those that ``?phase=`` asks for, and explain them."""
        self._path = path
        self._phases = phases
        self._engine = surroundings.engine
        self._metrics = surroundings.metrics
        self._load = surroundings.load
        self._timeouts = surroundings.timeouts
        self._recorder = surroundings.recorder
        self._decision_log = surroundings.decision_log
        self._begin_trace = surroundings.begin_trace
        self._max_body_bytes = surroundings.settings.max_body_bytes
        self._reader = surroundings.reader
        self._read_query = query_reader(surroundings.settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        started = time.perf_counter()
        trace = None if self._begin_trace is None else self._begin_trace(self._path, scope["headers"])
        log = self._decision_log
        seen = None if log is None else log.begin(self._path, scope)
        try:
            reply = await self._answer(scope, receive, trace, seen)
        except ClientGoneError:
            _end_trace(trace, _CLIENT_GONE)
            return
        except asyncio.CancelledError:
            # The server cancels what outlives the drain; this task has nothing else to do than to say so.
            reply = status_reply(shutting_down())
        except Exception as error:  # noqa: BLE001 - the outermost ring: whatever it is, it is answered
            if isinstance(error, OutageError):
                self._metrics.count_outage(error.service, error.cause)
            reply = status_reply(failure_status(error, self._path))
        if log is not None and seen is not None:
            # Whatever is answered comes by here, decision or outage, before anybody hears of it.
            seen.answered(reply.code, reply.body)
            log.take(seen)
        await reply.send(send)
        self._metrics.count_request(self._path, reply.code)
        self._metrics.observe_request(self._path, time.perf_counter() - started)
        _end_trace(trace, reply.code)

    async def _answer(
        self, scope: Scope, receive: Receive, trace: ReviewTrace | None, seen: Observation | None
    ) -> JSONReply:
        if self._decision_log is not None:
            self._decision_log.check()
        query = self._read_query(scope["query_string"])
        check_head(scope["headers"], self._max_body_bytes)
        deadline = Deadline.after(query.seconds - min(_MOST_MARGIN_SECONDS, query.seconds / 10))
        # A client that goes away is not noticed: its review ends by its deadline, and watching for it would
        # cost every review a task.
        with LoadShare(self._load, _share_holder(scope)) as share, self._timeouts.limit(query.seconds):
            pieces = await read_body(receive, self._max_body_bytes, share.hold)
            received = await self._read(pieces)
            share.complete(priority_of(received.review))
            pieces.clear()  # what is of use of them is in the review
            if seen is not None:
                seen.received = received
            if deadline.passed:
                raise TimeoutError
            decision = await self._decide(received, query, deadline)
        if seen is not None:
            seen.decision = decision
        if trace is not None:
            trace.decided(received.review, decision)
        return self._reply(received, decision, blame=query.blame)

    async def _read(self, pieces: list[bytes]) -> ReceivedReview:
        size, cluster = sum(map(len, pieces)), self._engine.cluster
        if size <= LARGE_BYTES:
            return decode_review(b"".join(pieces), cluster)
        if size <= SEPARATE_PROCESS_BYTES:
            return await asyncio.to_thread(decode_review, b"".join(pieces), cluster)
        return await self._reader.run(decode_large_review, pieces, cluster, self._reader.strip_members)

    async def _decide(self, received: ReceivedReview, query: Query, deadline: Deadline) -> Decision:
        explain = self._phases is None
        phases = query.phases if self._phases is None else self._phases
        decision = await self._engine.decide(received.review, phases, deadline, explain=explain)
        # In the next turn of the loop, after uvloop has written the answer.
        asyncio.get_running_loop().call_soon(
            self._metrics.observe_decision, received.review.operation, decision
        )
        if self._recorder is not None:
            self._recorder.record(self._path, phases, received, decision)
        return decision

    def _reply(self, received: ReceivedReview, decision: Decision, *, blame: bool) -> JSONReply:
        if self._phases is None:
            document = decisions.to_document(decision)
            if blame:
                found = blame_of(decision, received.review.object_document.data)
                document["blame"] = blame_document(found, decision)
            return JSONReply(200, encode(document))
        may_patch = Phase.MUTATE in self._phases
        return JSONReply(200, encode_answer(decision, received.api_version, may_patch=may_patch))


def _share_holder(scope: Scope) -> str:
    """Who counts for what a request holds: its caller, or the address that it came from."""
    state = scope["state"]
    holder: str = state.get("caller") or state.get("address", "")
    return holder


def _end_trace(trace: ReviewTrace | None, code: int) -> None:
    """End a trace, in the next turn of the loop, after uvloop has written the answer."""
    if trace is not None:
        asyncio.get_running_loop().call_soon(trace.end, code, time.perf_counter_ns())
