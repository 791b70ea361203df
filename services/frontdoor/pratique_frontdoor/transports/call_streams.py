"""One stream to one replica, with many calls in flight.

Each call has its own deadline, and can be cancelled and fail separately. If the stream breaks, all calls in flight fail
as UNAVAILABLE, and callers may retry them elsewhere.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from pratique.admission.reviews import Deadline
from pratique.configuration.input_digests import InputDigests
from pratique.rpc.handlers import inputs_from_messages
from pratique.rpc.streams import StreamedAnswer, StreamedMethod, streamed_call
from pratique.telemetry.tracing import TraceMetadata

_BATCH_BYTES = 256 * 1024
"""Bytes of requests in one message; further requests wait for the next. A quarter of a MiB, so that none waits for
longer than that takes to send."""
_CODES = {code.value[0]: code for code in grpc.StatusCode if code is not grpc.StatusCode.OK}
_STREAM_ERRORS = (
    grpc.aio.AioRpcError,
    grpc.aio.InternalError,
    grpc.aio.UsageError,
    asyncio.InvalidStateError,
)
"""What gRPC raises on a stream that has ended."""


class StreamedCallError(Exception):
    """A call on a stream failed; like :class:`grpc.aio.AioRpcError` for a unary call."""

    def __init__(self, code: grpc.StatusCode, *, begun: bool = True) -> None:
        """Fail with a code; ``begun`` says that the service may have executed the call."""
        super().__init__(code.name)
        self._code = code
        self.begun = begun

    def code(self) -> grpc.StatusCode:
        """Return the gRPC status code."""
        return self._code


@dataclasses.dataclass(eq=False, slots=True)
class _PendingCall:
    number: int
    request: bytes
    deadline: Deadline
    metadata: TraceMetadata | None
    answered: asyncio.Future[bytes]
    sent: bool = False


class CallStream:
    """A stream from its opening to its end. Calls can be made while it is ``usable``."""

    def __init__(self, channel: grpc.aio.Channel, method: StreamedMethod) -> None:
        """Open the stream; nothing happens until :meth:`run` runs."""
        opened: Any = channel.stream_stream(method.stream_path, None, None)
        self._call = opened()
        self._method = method
        self._waiting: dict[int, _PendingCall] = {}
        self._queue: collections.deque[_PendingCall] = collections.deque()
        self._given_up: list[int] = []
        self._number = 0
        self._news = asyncio.Event()
        self._left = False
        self.held: tuple[InputDigests, ...] = ()
        """Digests of the inputs that the service decides by: the current ones, then earlier ones that it still
        accepts."""
        self.greeted = False
        """Whether the service has ever reported that it takes calls."""
        self.over = asyncio.Event()
        """Set when no more calls can be made: the service said so, the stream broke, or :meth:`leave` was called."""

    @property
    def usable(self) -> bool:
        """Whether calls can be made."""
        return self.greeted and not self._left

    @property
    def in_flight(self) -> int:
        """The number of calls without an answer."""
        return len(self._waiting)

    async def ask(self, request: bytes, deadline: Deadline, metadata: TraceMetadata | None) -> bytes:
        """Make one call.

        Raises:
            StreamedCallError: the call has no answer.
        """
        loop = asyncio.get_running_loop()
        self._number += 1
        pending = _PendingCall(self._number, request, deadline, metadata, loop.create_future())
        self._waiting[pending.number] = pending
        self._queue.append(pending)
        self._news.set()
        timer = loop.call_later(deadline.remaining_seconds, self._expire, pending)
        try:
            return await pending.answered
        except asyncio.CancelledError:
            self._give_up(pending)
            raise
        finally:
            timer.cancel()

    def leave(self) -> None:
        """Make no more calls, and end the stream when those in flight are answered."""
        self._left = True
        self.over.set()
        self._news.set()

    async def run(self) -> grpc.StatusCode:
        """Exchange messages until the stream ends, and return its status code. Calls in flight have failed then."""
        both = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._write())]
        try:
            await asyncio.gather(*both)
        except (*_STREAM_ERRORS, DecodeError):
            self._call.cancel()
        finally:
            self.leave()
            for task in both:
                task.cancel()
            self._call.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            self._fail_all()
        code: grpc.StatusCode = await self._call.code()
        return code

    def _expire(self, pending: _PendingCall) -> None:
        self._give_up(pending)
        if not pending.answered.done():
            pending.answered.set_exception(StreamedCallError(grpc.StatusCode.DEADLINE_EXCEEDED))

    def _give_up(self, pending: _PendingCall) -> None:
        if self._waiting.pop(pending.number, None) and pending.sent:
            self._given_up.append(pending.number)
        self._news.set()

    def _fail_all(self) -> None:
        waiting, self._waiting = self._waiting, {}
        for pending in waiting.values():
            if not pending.answered.done():
                pending.answered.set_exception(
                    StreamedCallError(grpc.StatusCode.UNAVAILABLE, begun=pending.sent)
                )

    async def _read(self) -> None:
        while True:
            message = await self._call.read()
            if message is grpc.aio.EOF:  # type: ignore[attr-defined]  # the stubs lack it
                self.leave()  # and nothing that is under way will be answered
                self._fail_all()
                return
            response = self._method.response_type.FromString(message)
            if response.held:
                self.held = inputs_from_messages(response.held)
            self.greeted = True
            if response.leaving:
                self.leave()
            for answer in response.answers:
                self._take(answer)

    def _take(self, answer: StreamedAnswer) -> None:
        pending = self._waiting.pop(answer.id, None)
        if self._left and not self._waiting:
            self._news.set()
        if pending is None or pending.answered.done():
            return
        if answer.HasField("response"):
            pending.answered.set_result(answer.response)
        else:
            code = _CODES.get(answer.status.code, grpc.StatusCode.UNKNOWN)
            pending.answered.set_exception(StreamedCallError(code))

    async def _write(self) -> None:
        """Send all queued calls in one message at a time."""
        while self._waiting or self._given_up or not self._left:
            if not self._queue and not self._given_up:
                self._news.clear()
                await self._news.wait()
                continue
            given_up, self._given_up = self._given_up, []
            request = self._method.request_type(calls=self._batch(), given_up_ids=given_up)
            await self._call.write(request.SerializeToString())
        await self._call.done_writing()

    def _batch(self) -> list[Any]:
        batch: list[Any] = []
        size = 0
        while self._queue:
            size += len(self._queue[0].request)
            if batch and size > _BATCH_BYTES:
                break
            pending = self._queue.popleft()
            if pending.number in self._waiting:
                pending.sent = True
                batch.append(
                    streamed_call(pending.number, pending.request, pending.deadline, pending.metadata)
                )
        return batch
