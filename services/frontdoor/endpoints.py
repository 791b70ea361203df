"""The endpoints that decide: an AdmissionReview in, an AdmissionReview or a decision document out."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING

from frontdoor import decisions
from frontdoor.codecs import decode_review, encode_answer
from frontdoor.loads import Share
from frontdoor.requests import ClientGoneError, check_head, query_reader, read_body
from frontdoor.responses import JSONReply, failure_status, shutting_down, status_reply
from pratique.calls import Deadline
from pratique.definitions import Phase
from pratique.json_values import encode

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from frontdoor.codecs import ReceivedReview
    from frontdoor.decisions import Decision
    from frontdoor.engines import Engine
    from frontdoor.loads import Load
    from frontdoor.metrics import Metrics
    from frontdoor.requests import Query
    from frontdoor.settings import FrontDoorSettings
    from frontdoor.timeouts import Timeouts


@dataclasses.dataclass(frozen=True, slots=True)
class Surroundings:
    """What all endpoints of one front door share."""

    engine: Engine
    settings: FrontDoorSettings
    metrics: Metrics
    load: Load
    timeouts: Timeouts


class DecisionEndpoint:
    """An ASGI application for one path.

    It is one, instead of a function of a Starlette Request, because it is where every review passes: Request
    and Response objects would cost a sixth of the time that Starlette and uvicorn take together.
    """

    def __init__(self, path: str, phases: frozenset[Phase] | None, surroundings: Surroundings) -> None:
        """Run ``phases`` for every review; None: those that ``?phase=`` asks for, and explain them."""
        self._path = path
        self._phases = phases
        self._engine = surroundings.engine
        self._metrics = surroundings.metrics
        self._load = surroundings.load
        self._timeouts = surroundings.timeouts
        self._max_body_bytes = surroundings.settings.max_body_bytes
        self._read_query = query_reader(surroundings.settings)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        started = time.perf_counter()
        try:
            reply = await self._answer(scope, receive)
        except ClientGoneError:
            return
        except asyncio.CancelledError:
            # The server cancels what outlives the drain; this task has nothing else to do than to say so.
            reply = status_reply(shutting_down())
        except Exception as error:  # noqa: BLE001 - the outermost ring: whatever it is, it is answered
            reply = status_reply(failure_status(error, self._path))
        await reply.send(send)
        self._metrics.count_request(self._path, reply.code)
        self._metrics.observe_request(self._path, time.perf_counter() - started)

    async def _answer(self, scope: Scope, receive: Receive) -> JSONReply:
        query = self._read_query(scope["query_string"])
        check_head(scope["headers"], self._max_body_bytes)
        deadline = Deadline.after(query.seconds)
        # A client that goes away is not noticed: its review ends by its deadline, and watching for it would
        # cost every review a task.
        with Share(self._load) as share, self._timeouts.limit(query.seconds):
            body = await read_body(receive, self._max_body_bytes, share.hold)
            share.complete()
            # Not in a thread however long the body: msgspec holds the lock of the interpreter all the while.
            # It takes 0.2 ms for 256 KiB of pods, 11 ms for 7 MiB, 25 ms for 7 MiB of the worst: objects stay raw.
            received = decode_review(body, self._engine.cluster)
            decision = await self._decide(received, query, deadline)
        return self._reply(received, decision)

    async def _decide(self, received: ReceivedReview, query: Query, deadline: Deadline) -> Decision:
        explain = self._phases is None
        phases = query.phases if self._phases is None else self._phases
        decision = await self._engine.decide(received.review, phases, deadline, explain=explain)
        # In the next turn of the loop, after uvloop has written the answer.
        asyncio.get_running_loop().call_soon(
            self._metrics.observe_decision, received.review.operation, decision
        )
        return decision

    def _reply(self, received: ReceivedReview, decision: Decision) -> JSONReply:
        if self._phases is None:
            return JSONReply(200, encode(decisions.to_document(decision)))
        may_patch = Phase.MUTATE in self._phases
        return JSONReply(200, encode_answer(decision, received.api_version, may_patch=may_patch))
