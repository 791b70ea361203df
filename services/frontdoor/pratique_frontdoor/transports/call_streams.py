"""One stream to one replica, on which many calls are under way at a time.

Each call has its own deadline, can be cancelled by itself, and fails by itself. Where the stream breaks, all that are
under way fail as UNAVAILABLE, and whoever made them may make them again elsewhere.
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
"""When a request has to wait for the next message: as long as it takes to send a quarter of a MiB."""
_CODES = {code.value[0]: code for code in grpc.StatusCode if code is not grpc.StatusCode.OK}
_STREAM_ERRORS = (
    grpc.aio.AioRpcError,
    grpc.aio.InternalError,
    grpc.aio.UsageError,
    asyncio.InvalidStateError,
)
"""What gRPC raises on a stream that has ended."""


class StreamedCallError(Exception):
    """A call failed, as :class:`grpc.aio.AioRpcError` has it of a call of its own."""

    def __init__(self, code: grpc.StatusCode, *, begun: bool = True) -> None:
        """Fail with a code; ``begun`` says that the service may have carried the call out."""
        super().__init__(code.name)
        self._code = code
        self.begun = begun

    def code(self) -> grpc.StatusCode:
        """What kind of failure it was."""
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
    """The stream, from its opening to its end. It is used while it is ``usable``."""

    def __init__(self, channel: grpc.aio.Channel, method: StreamedMethod) -> None:
        """Open it; :meth:`run` has to run for anything to happen."""
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
        """What the service says that it decides by, now first and then what it has kept of before."""
        self.greeted = False
        """Whether the service ever said that it takes calls."""
        self.over = asyncio.Event()
        """Set when no more calls are to be made: the service said so, or the stream broke, or it was left."""

    @property
    def usable(self) -> bool:
        """Whether calls can be made."""
        return self.greeted and not self._left

    @property
    def in_flight(self) -> int:
        """How many calls wait for their answers."""
        return len(self._waiting)

    async def ask(self, request: bytes, deadline: Deadline, metadata: TraceMetadata | None) -> bytes:
        """Make one call.

        Raises:
            StreamedCallError: it has no answer.
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
        """Make no more calls, and end the stream when those under way are answered."""
        self._left = True
        self.over.set()
        self._news.set()

    async def run(self) -> grpc.StatusCode:
        """Carry calls until the stream ends; gives its code. Calls that are under way then have failed."""
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
        """Send what is there at a time in one message."""
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
