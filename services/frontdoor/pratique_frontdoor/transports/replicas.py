"""The replicas of a service: the channel to each, and the stream on it with many calls in flight.

Each call has its own deadline, and can be cancelled and fail separately. If the stream breaks, all calls in flight fail
as UNAVAILABLE, and callers may retry them elsewhere.
"""

from __future__ import annotations

import asyncio
import collections
from collections.abc import Callable
from typing import Any

import grpc
import msgspec
from google.protobuf.message import DecodeError

from pratique.admission.reviews import Deadline
from pratique.configuration.input_digests import InputDigests
from pratique.rpc.handlers import fetch_inputs, inputs_from_messages
from pratique.rpc.streams import StreamedAnswer, StreamedMethod, streamed_call
from pratique.telemetry.tracing import TraceMetadata
from pratique_frontdoor.transports.channels import DRAIN_SECONDS

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
"""What grpcio raises on a stream that has ended."""


_NO_STREAM = frozenset({grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.RESOURCE_EXHAUSTED})
"""How a stream ends where a service has none, or as many as it takes: calls are unary until the channel changes."""


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


class _PendingCall(msgspec.Struct, eq=False):
    number: int
    request: bytes
    deadline: Deadline
    metadata: TraceMetadata | None
    answered: asyncio.Future[bytes]
    sent: bool = False


class CallStream:
    """A stream from its opening to its end. Calls can be made while it is ``usable``."""

    def __init__(self, call: Any, method: StreamedMethod) -> None:
        """Use an open stream; nothing happens until :meth:`run` runs.

        Args:
            call: A streaming call of grpcio.
            method: The method that it calls.
        """
        self._call = call
        self._method = method
        self._in_flight: dict[int, _PendingCall] = {}
        self._queue: collections.deque[_PendingCall] = collections.deque()
        self._cancelled: list[int] = []
        self._number = 0
        self._changed = asyncio.Event()
        self._is_stopping = False
        self.held: tuple[InputDigests, ...] = ()
        """Digests of the inputs that the service decides by: the current ones, then earlier ones that it still
        accepts."""
        self.greeted = False
        """Whether the service has ever reported that it takes calls."""
        self.over = asyncio.Event()
        """Set when no more calls can be made: the service said so, the stream broke, or :meth:`stop_accepting` ran."""

    @property
    def usable(self) -> bool:
        """Whether calls can be made."""
        return self.greeted and not self._is_stopping

    @property
    def in_flight(self) -> int:
        """The number of calls without an answer."""
        return len(self._in_flight)

    @property
    def queued(self) -> int:
        """The number of calls that wait for the next message."""
        return len(self._queue)

    async def ask(
        self,
        request: bytes,
        deadline: Deadline,
        metadata: TraceMetadata | None,
        patience: Deadline | None = None,
    ) -> bytes:
        """Make one call, and cancel it when ``patience`` ends, of which the service knows nothing.

        Raises:
            StreamedCallError: the call has no answer.
        """
        loop = asyncio.get_running_loop()
        self._number += 1
        pending = _PendingCall(self._number, request, deadline, metadata, loop.create_future())
        self._in_flight[pending.number] = pending
        self._queue.append(pending)
        self._changed.set()
        timer = loop.call_later((patience or deadline).remaining_seconds, self._expire, pending)
        try:
            return await pending.answered
        except asyncio.CancelledError:
            self._cancel(pending)
            raise
        finally:
            timer.cancel()

    def stop_accepting(self) -> None:
        """Make no more calls, and end the stream when those in flight are answered."""
        self._is_stopping = True
        self.over.set()
        self._changed.set()

    async def run(self) -> grpc.StatusCode:
        """Exchange messages until the stream ends, and return its status code. Calls in flight have failed then."""
        both = [asyncio.ensure_future(self._read()), asyncio.ensure_future(self._write())]
        try:
            await asyncio.gather(*both)
        except (*_STREAM_ERRORS, DecodeError):
            self._call.cancel()
        finally:
            self.stop_accepting()
            for task in both:
                task.cancel()
            self._call.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            self._fail_all()
        code: grpc.StatusCode = await self._call.code()
        return code

    def _expire(self, pending: _PendingCall) -> None:
        self._cancel(pending)
        if not pending.answered.done():
            pending.answered.set_exception(StreamedCallError(grpc.StatusCode.DEADLINE_EXCEEDED))

    def _cancel(self, pending: _PendingCall) -> None:
        if self._in_flight.pop(pending.number, None) and pending.sent:
            self._cancelled.append(pending.number)
        self._changed.set()

    def _fail_all(self) -> None:
        waiting, self._in_flight = self._in_flight, {}
        for pending in waiting.values():
            if not pending.answered.done():
                pending.answered.set_exception(
                    StreamedCallError(grpc.StatusCode.UNAVAILABLE, begun=pending.sent)
                )

    async def _read(self) -> None:
        while True:
            message = await self._call.read()
            if message is grpc.aio.EOF:  # type: ignore[attr-defined]  # missing in the stubs
                self.stop_accepting()  # calls in flight will not be answered
                self._fail_all()
                return
            response = self._method.response_type.FromString(message)
            if response.held:
                self.held = inputs_from_messages(response.held)
            self.greeted = True
            if response.leaving:
                self.stop_accepting()
            for answer in response.answers:
                self._take(answer)

    def _take(self, answer: StreamedAnswer) -> None:
        pending = self._in_flight.pop(answer.id, None)
        if self._is_stopping and not self._in_flight:
            self._changed.set()
        if pending is None or pending.answered.done():
            return
        if answer.HasField("response"):
            pending.answered.set_result(answer.response)
        else:
            code = _CODES.get(answer.status.code, grpc.StatusCode.UNKNOWN)
            pending.answered.set_exception(StreamedCallError(code))

    async def _write(self) -> None:
        """Send all queued calls in one message at a time."""
        while self._in_flight or self._cancelled or not self._is_stopping:
            if not self._queue and not self._cancelled:
                self._changed.clear()
                await self._changed.wait()
                continue
            given_up, self._cancelled = self._cancelled, []
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
            if pending.number in self._in_flight:
                pending.sent = True
                batch.append(
                    streamed_call(pending.number, pending.request, pending.deadline, pending.metadata)
                )
        return batch


class ReplicaLoad:
    """The load and speed of one replica."""

    __slots__ = (
        "active_at",
        "doublings",
        "ended",
        "epoch",
        "excluded",
        "exclusions",
        "in_flight",
        "late",
        "late_until",
        "longest",
        "longest_before",
        "message_ticket",
        "name",
        "score",
        "seen",
        "seen_before",
        "span_ends",
        "trying",
        "until",
    )

    def __init__(self, name: str) -> None:
        """Start idle."""
        self.name = name
        self.in_flight = 0
        """Calls without an answer, and refused ones for a moment longer."""
        self.active_at = 0.0
        """When it last answered, or got a call while it had none."""
        self.ended = 0
        """Calls that have ended, whatever came of them."""
        self.late = 0
        """Calls that were given up for another replica."""
        self.late_until = 0.0
        """Until when it is avoided because a call was late; 0 if it has answered since."""
        self.excluded = False
        """Whether it gets no calls because it is slow."""
        self.exclusions = 0
        """How often it has been excluded."""
        self.span_ends = float("-inf")
        """When the current span of measurement ends."""
        self.seen = self.seen_before = 0
        """Calls in the current span, and in the previous one."""
        self.longest = self.longest_before = 0.0
        """Seconds of the longest of these calls."""
        self.score = 0
        """Grows with slow calls, and falls with others."""
        self.epoch = 1
        """The ticket of calls that count; it changes whenever the replica is excluded, tried, or used again."""
        self.until = float("-inf")
        """When its next trial is due, or its last one was."""
        self.message_ticket = 0
        """The ticket of the first call of its next message; a ticket of an earlier epoch no longer counts."""
        self.trying = False
        """Whether a trial is in progress."""
        self.doublings = 0
        """How often the time of its exclusion has doubled."""


_SILENT_SECONDS = 0.5
"""How long a replica with a late call may take to say which inputs it holds. 0.5: many times what that takes on a busy
machine, and half of the shortest time limit of a review."""
_MAX_IN_FLIGHT = 512
"""Calls in flight on one stream; further calls are unary. 512: nearly the 600 that a kube-apiserver with default
flags has in flight, and half of the 1,000 that a service accepts."""
_DESCRIBE_SECONDS = 1.0
"""How often a replica without streams is asked for its digests, and the timeout of that call. It is short compared
with the grace period in which services keep earlier inputs."""
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 2.0
"""How long to wait before an ended stream is reopened; as long as for connections."""


class Replica:
    """The replica at one address. Its channel is ready only while it is alive, answers pings, and reports SERVING."""

    def __init__(
        self,
        open_channel: Callable[[], grpc.aio.Channel],
        method: StreamedMethod,
        load: ReplicaLoad,
        endpoint: str = "",
        *,
        streams: bool = True,
    ) -> None:
        """Connect, and reconnect until closed.

        Args:
            open_channel: Returns a new channel to it, each with its own connection.
            method: The method to call.
            load: Its load, which a replacement of this object takes over.
            endpoint: Its address for display.
            streams: Open a stream; otherwise all calls are unary.
        """
        self.endpoint = endpoint
        self.load = load
        self._open = open_channel
        self._channel = open_channel()
        self._separate_channel: grpc.aio.Channel | None = None
        self._method = method
        self._streams = streams
        self._described: tuple[InputDigests, ...] = ()
        self._stream: CallStream | None = None
        self._has_no_streams = False
        self._is_asked = False
        self._running: set[asyncio.Task[grpc.StatusCode]] = set()
        self._connecting = asyncio.ensure_future(self._keep_connected())

    @property
    def usable(self) -> bool:
        """Whether calls can be made to it now."""
        return self._has_no_streams or (self._stream is not None and self._stream.usable)

    @property
    def held(self) -> tuple[InputDigests, ...]:
        """Digests of the inputs that it decides by: the current ones, then earlier ones that it still accepts."""
        stream = self._stream
        return stream.held if stream is not None and stream.usable else self._described

    def holds(self, digest: str) -> bool:
        """Return whether it decides by the inputs of a digest, or still accepts them."""
        return any(digests.whole == digest for digests in self.held)

    @property
    def channel(self) -> grpc.aio.Channel:
        """The channel of grpcio to it."""
        return self._channel

    @property
    def queued(self) -> int:
        """The number of calls that wait for the next message of its stream."""
        return 0 if self._stream is None else self._stream.queued

    async def ask(
        self,
        request: bytes,
        deadline: Deadline,
        metadata: TraceMetadata | None,
        *,
        patience: Deadline | None = None,
        separately: bool = False,
    ) -> bytes:
        """Make one call: on the stream, or as a unary call if the service has no streams or the stream is full.

        The call is cancelled when ``patience`` ends, of which the service knows nothing. One that goes ``separately``
        has a connection of its own, so that calls behind it need not wait.

        Raises:
            StreamedCallError: the call has no answer.
            AioRpcError: the same for a unary call.
        """
        stream = self._stream
        if not separately and stream is not None and stream.usable and stream.in_flight < _MAX_IN_FLIGHT:
            return await stream.ask(request, deadline, metadata, patience)
        alone: Any = (self._separate if separately else self._channel).unary_unary(
            self._method.path, None, None
        )
        answering = alone(request, timeout=deadline.remaining_seconds, metadata=metadata)
        if patience is None:
            return bytes(await answering)
        try:
            async with asyncio.timeout(patience.remaining_seconds):
                return bytes(await answering)
        except TimeoutError:
            raise StreamedCallError(grpc.StatusCode.DEADLINE_EXCEEDED) from None

    @property
    def _separate(self) -> grpc.aio.Channel:
        if self._separate_channel is None:
            self._separate_channel = self._open()
        return self._separate_channel

    async def _keep_connected(self) -> None:
        """Keep a stream open whenever the channel is ready."""
        while True:
            state = self._channel.get_state(try_to_connect=True)
            changed: asyncio.Future[Any] = asyncio.ensure_future(self._channel.wait_for_state_change(state))
            try:
                if state is grpc.ChannelConnectivity.READY:
                    await self._keep_ready(changed)
                await changed
            finally:
                changed.cancel()
                self._has_no_streams = False
                self._described = ()
                if self._stream is not None:
                    self._stream.stop_accepting()

    async def _keep_ready(self, changed: asyncio.Future[Any]) -> None:
        """Make calls possible, until the state of the channel changes."""
        if self._streams and await self._keep_stream(changed):
            return
        while not changed.done():
            try:
                self._described = await fetch_inputs(self._channel, _DESCRIBE_SECONDS)
            except grpc.aio.AioRpcError as error:
                if error.code() is grpc.StatusCode.UNIMPLEMENTED:
                    self._described = ()
            self._has_no_streams = True
            await asyncio.wait([changed], timeout=_DESCRIBE_SECONDS)

    async def _keep_stream(self, changed: asyncio.Future[Any]) -> bool:
        """Keep opening streams until the state of the channel changes; return False if the service has none."""
        pause = _FIRST_PAUSE_SECONDS
        opened: Any = self._channel.stream_stream(self._method.stream_path, None, None)
        while not changed.done():
            began = asyncio.get_running_loop().time()
            stream = self._stream = CallStream(opened(), self._method)
            running = self._run(stream)
            over: asyncio.Future[Any] = asyncio.ensure_future(stream.over.wait())
            try:
                await asyncio.wait([changed, over], return_when=asyncio.FIRST_COMPLETED)
            finally:
                over.cancel()
            if changed.done():
                return True
            if not stream.greeted and await running in _NO_STREAM:
                return False
            pause = _FIRST_PAUSE_SECONDS if stream.greeted else min(2 * pause, _MAX_PAUSE_SECONDS)
            # The end of a stream that lasted is no failure that might repeat itself at once: its connection was old.
            lasted = asyncio.get_running_loop().time() - began > _MAX_PAUSE_SECONDS
            await asyncio.wait([changed], timeout=0 if lasted else pause)
        return True

    def _run(self, stream: CallStream) -> asyncio.Task[grpc.StatusCode]:
        running = asyncio.ensure_future(stream.run())
        self._running.add(running)
        running.add_done_callback(self._running.discard)
        return running

    async def end_if_silent(self) -> None:
        """End its stream, and with it all calls in flight, if it answers nothing at all, as pings do only later."""
        if self._is_asked:
            return
        self._is_asked, running = True, tuple(self._running)
        try:
            await fetch_inputs(self._channel, _SILENT_SECONDS)
        except grpc.aio.AioRpcError as error:
            if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
                for task in running:
                    task.cancel()
        finally:
            self._is_asked = False

    async def retire(self) -> None:
        """Make no more calls, and close the channels when those in flight have ended."""
        await self._stop_connecting()
        try:
            if self._running:
                await asyncio.wait(self._running, timeout=DRAIN_SECONDS)
            await self._close_channels(DRAIN_SECONDS)
        except asyncio.CancelledError:
            await self._close_channels(None)
            raise
        finally:
            await self._cancel_streams()

    async def close(self) -> None:
        """Close immediately; calls in flight fail."""
        await self._stop_connecting()
        await self._close_channels(None)
        await self._cancel_streams()

    async def _close_channels(self, seconds: float | None) -> None:
        channels = [channel for channel in (self._channel, self._separate_channel) if channel is not None]
        await asyncio.gather(*(channel.close(seconds) for channel in channels))

    async def _stop_connecting(self) -> None:
        self._connecting.cancel()
        await asyncio.wait([self._connecting])

    async def _cancel_streams(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
