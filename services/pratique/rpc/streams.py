"""Streams that carry many calls of a unary method. Each call is answered as if it had been sent separately."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import math
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import grpc
import msgspec
from google.protobuf.message import DecodeError, Message

from pratique.admission.controllers import Phase
from pratique.admission.reviews import Deadline
from pratique.admission.v1 import mutator_service_pb2, validator_service_pb2
from pratique.admission.v1.digest_pb2 import Inputs
from pratique.admission.v1.stream_pb2 import CallStatus, StreamedCall
from pratique.admission.v1.stream_pb2 import StreamedAnswer as StreamedAnswer  # noqa: PLC0414  # callers read them
from pratique.configuration.input_digests import RecentInputs
from pratique.rpc.handlers import (
    ATTEMPTS_KEY,
    BytesHandler,
    Context,
    Interceptor,
    hide_errors,
    inputs_to_messages,
)
from pratique.telemetry.tracing import TraceMetadata


class StreamedMethod(msgspec.Struct, frozen=True):
    """A unary method, and the streaming method that carries its calls."""

    path: str
    stream_path: str
    request_type: type[Any]
    """Has ``calls`` and ``given_up_ids``."""
    response_type: type[Any]
    """Has ``answers`` and ``leaving``."""


STREAMED_METHODS = MappingProxyType(
    {
        Phase.MUTATE: StreamedMethod(
            "/pratique.admission.v1.MutatorService/Mutate",
            "/pratique.admission.v1.MutatorService/MutateStream",
            mutator_service_pb2.MutateStreamRequest,
            mutator_service_pb2.MutateStreamResponse,
        ),
        Phase.VALIDATE: StreamedMethod(
            "/pratique.admission.v1.ValidatorService/Validate",
            "/pratique.admission.v1.ValidatorService/ValidateStream",
            validator_service_pb2.ValidateStreamRequest,
            validator_service_pb2.ValidateStreamResponse,
        ),
    }
)


def streamed_call(
    number: int, request: bytes, deadline: Deadline, metadata: TraceMetadata | None
) -> StreamedCall:
    """Create one call of a stream, to be sent now."""
    # Rounded up, and never to 0, which would be no deadline.
    millis = max(1, math.ceil(deadline.remaining_seconds * 1000))
    return StreamedCall(id=number, timeout_millis=millis, metadata=dict(metadata or ()), request=request)


class StreamedContext:
    """The part of ``grpc.aio.ServicerContext`` that interceptors and methods use, for one call of a stream."""

    __slots__ = ("_authentication", "_call", "_code", "_details", "_ends_at")

    def __init__(self, call: StreamedCall, authentication: Mapping[str, Iterable[bytes]]) -> None:
        """Start the call's time now. ``authentication`` is that of the connection."""
        self._call = call
        self._authentication = authentication
        self._code: grpc.StatusCode | None = None
        self._details = ""
        millis = call.timeout_millis
        self._ends_at = time.monotonic() + millis / 1000 if millis > 0 else None

    def time_remaining(self) -> float | None:
        """The seconds left; None if the call has no deadline."""
        if self._ends_at is None:
            return None
        return max(0.0, self._ends_at - time.monotonic())

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """The metadata that a separate call would have, in gRPC's form."""
        call = self._call
        sent = tuple(call.metadata.items()) if call.metadata else ()
        if call.previous_attempts > 0:
            return (*sent, (ATTEMPTS_KEY, str(call.previous_attempts)))
        return sent

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """The authentication of the client's connection."""
        return self._authentication

    def code(self) -> grpc.StatusCode | None:
        """The code with which the call was aborted; None if it was not."""
        return self._code

    def details(self) -> str:
        """The text with which the call was aborted."""
        return self._details

    async def abort(self, code: grpc.StatusCode, details: str = "", _trailing_metadata: Any = ()) -> NoReturn:
        """Abort the call, and nothing else on the stream. No pushback is needed: rejected calls are not retried.

        Raises:
            AbortError: always.
        """
        self._code, self._details = code, details
        raise grpc.aio.AbortError


class OpenStreams:
    """The open streams of a server, which can stop gracefully only after they have ended."""

    def __init__(self) -> None:
        """Start without streams."""
        self._tasks: set[asyncio.Task[object]] = set()
        self._ended = False

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Run a stream's handler in this context, which ends normally when :meth:`end` is called."""
        task = _current_task()
        self._tasks.add(task)
        if self._ended:
            task.cancel()
        try:
            yield
        except asyncio.CancelledError:
            if not self._ended:
                raise  # the client went away
        finally:
            self._tasks.discard(task)

    async def write(self, context: Any, message: object) -> None:
        """Send a message on this task's stream, completely even if :meth:`end` is called meanwhile.

        If the first message is cancelled while it is sent, gRPC believes that no metadata were sent. It sends them
        again with the status, which fails, and both client and server wait for the end of the call.
        """
        task = _current_task()
        self._tasks.discard(task)
        await context.write(message)
        if self._ended:
            raise asyncio.CancelledError
        self._tasks.add(task)

    def end(self) -> None:
        """End all streams, and new ones as soon as they open."""
        self._ended = True
        for task in self._tasks:
            task.cancel()


def _current_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a stream's handler must run in a task")
    return task


_MAX_UNANSWERED_CALLS = 1024
"""The most calls of one stream whose answers have not been sent. Nothing more is read until some are, so that a client
that reads no answers fills its own buffers. Front doors stay far below."""
_BATCH_BYTES = 256 * 1024
"""The size at which further answers wait for the next message, so that sending one never takes long."""
_MESSAGE_OVERHEAD_BYTES = 1024
"""The most that a message needs around the response."""
_STREAM_ENDED_ERRORS = (grpc.aio.InternalError, grpc.aio.UsageError, asyncio.InvalidStateError)
"""What grpcio raises for a message on a stream that has ended."""


async def _empty_answer(_request: bytes, _context: Context) -> bytes:
    return b""


class StreamLimit:
    """Limits the streams whose clients may send a message at any time: each may hold one that is incomplete."""

    def __init__(self, max_message_bytes: int) -> None:
        """Allow as many as hold 256 MiB of messages, or one."""
        self._most = max(1, _STREAMED_BYTES // max_message_bytes)
        self._open = 0

    @contextlib.asynccontextmanager
    async def admit(self, context: Context) -> AsyncIterator[None]:
        """Count a stream, or abort it with RESOURCE_EXHAUSTED if there are too many."""
        if self._open >= self._most:
            await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "too many streams are open")
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1


_STREAMED_BYTES = 256 * 1024 * 1024
"""256 MiB: sixteen streams. A front door has one, for a moment two, and the chart has at most four front doors."""


class StreamedCalls:
    """The streams that carry calls to a server."""

    def __init__(self, max_message_bytes: int, limit: StreamLimit) -> None:
        """Start without streams. An answer with its message must fit into ``max_message_bytes``."""
        self._limit = limit
        self._max_answer_bytes = max_message_bytes - _MESSAGE_OVERHEAD_BYTES
        self._open: set[_Stream] = set()
        self._leaving = False

    def stream_handler(
        self,
        method: StreamedMethod,
        handler: BytesHandler,
        check_client: Interceptor,
        held: RecentInputs[Any] | None = None,
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Return the handler of a streaming method.

        Args:
            method: The streaming method.
            handler: Answers the calls.
            check_client: Rejects a client when it opens a stream.
            held: The inputs that each stream reports, initially and after every change.
        """
        safe_handler = hide_errors(handler)
        enter = check_client(_empty_answer)

        async def carry(_: object, context: Context) -> None:
            await enter(b"", context)
            async with self._limit.admit(context):
                await run(_Stream(method, safe_handler, context, self._max_answer_bytes, held))

        async def run(stream: _Stream) -> None:
            self._open.add(stream)
            stop_listening = None if held is None else held.listen(stream.report_inputs)
            try:
                await stream.run(leaving=self._leaving)
            finally:
                if stop_listening is not None:
                    stop_listening()
                self._open.discard(stream)

        return grpc.stream_stream_rpc_method_handler(carry)

    def leave(self) -> None:
        """Tell all current and future clients that this server is about to stop."""
        self._leaving = True
        for stream in self._open:
            stream.leave()

    def end(self) -> None:
        """Accept no more calls, and end each stream once its accepted calls are answered."""
        for stream in self._open:
            stream.end()


class _Stream:
    """One stream, from the first message to the last answer."""

    def __init__(
        self,
        method: StreamedMethod,
        handler: BytesHandler,
        context: Context,
        max_answer_bytes: int,
        held: RecentInputs[Any] | None,
    ) -> None:
        self._method = method
        self._handler = handler
        self._context = context
        self._max_answer_bytes = max_answer_bytes
        self._held = held
        self._authentication: Mapping[str, Iterable[bytes]] = context.auth_context()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._answers: collections.deque[StreamedAnswer] = collections.deque()
        self._leaving_is_due = False
        self._inputs_are_due = False
        self._closing = False
        self._wake_writer, self._wake_reader = asyncio.Event(), asyncio.Event()

    async def run(self, *, leaving: bool) -> None:
        """Accept calls until the client has no more or :meth:`end` is called; then answer those in progress."""
        greeting = self._method.response_type(leaving=leaving, held=self._inputs())
        await self._context.write(greeting.SerializeToString())
        reader = asyncio.ensure_future(self._read())
        writer = asyncio.ensure_future(self._write())
        try:
            await asyncio.wait([reader, writer], return_when=asyncio.FIRST_COMPLETED)
            self._closing = True
            self._wake_writer.set()
            if reader.done():
                reader.result()
            await writer
        except _STREAM_ENDED_ERRORS:
            pass  # the client is gone
        finally:
            for task in (reader, writer, *self._tasks.values()):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    def _inputs(self) -> list[Inputs]:
        return [] if self._held is None else inputs_to_messages(self._held)

    def report_inputs(self) -> None:
        self._inputs_are_due = True
        self._wake_writer.set()

    def leave(self) -> None:
        self._leaving_is_due = True
        self._wake_writer.set()

    def end(self) -> None:
        self._closing = True
        self._wake_writer.set()

    async def _read(self) -> None:
        while True:
            message = await self._context.read()
            if message is grpc.aio.EOF:  # type: ignore[attr-defined]  # the stubs lack it
                return
            try:
                request = self._method.request_type.FromString(message)
            except DecodeError:
                await self._abort_stream("the message cannot be decoded")
            for number in request.given_up_ids:
                # Removed here because a task that is cancelled before it starts cannot do it itself.
                if task := self._tasks.pop(number, None):
                    task.cancel()
            for call in request.calls:
                await self._accept(call)

    async def _accept(self, call: StreamedCall) -> None:
        if call.id in self._tasks:
            await self._abort_stream("the id of a call in progress was used again")
        while len(self._tasks) + len(self._answers) >= _MAX_UNANSWERED_CALLS:
            self._wake_reader.clear()
            await self._wake_reader.wait()
        if self._closing:
            self._answers.append(
                _failed_answer(call.id, grpc.StatusCode.UNAVAILABLE, "the service is stopping")
            )
            self._wake_writer.set()
            return
        self._tasks[call.id] = asyncio.ensure_future(self._answer(call))

    async def _abort_stream(self, details: str) -> None:
        await self._context.abort(grpc.StatusCode.INVALID_ARGUMENT, details)

    async def _answer(self, call: StreamedCall) -> None:
        context = StreamedContext(call, self._authentication)
        seconds = context.time_remaining()
        task = self._tasks[call.id]
        timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, task.cancel)
        try:
            response = await self._handler(call.request, context)  # type: ignore[arg-type]  # it has all that handlers use
            answer = self._streamed_answer(call.id, response)
        except grpc.aio.AbortError:
            answer = _failed_answer(call.id, context.code() or grpc.StatusCode.UNKNOWN, context.details())
        except asyncio.CancelledError:
            # The deadline passed, or the client cancelled the call and ignores the answer.
            answer = _failed_answer(call.id, grpc.StatusCode.DEADLINE_EXCEEDED)
        finally:
            if timer is not None:
                timer.cancel()
            if self._tasks.get(call.id) is task:
                del self._tasks[call.id]
        self._answers.append(answer)
        self._wake_writer.set()

    def _streamed_answer(self, number: int, response: bytes) -> StreamedAnswer:
        if len(response) > self._max_answer_bytes:
            return _failed_answer(number, grpc.StatusCode.RESOURCE_EXHAUSTED, "the answer is too long")
        return StreamedAnswer(id=number, response=response)

    @property
    def _has_news(self) -> bool:
        return self._leaving_is_due or self._inputs_are_due

    async def _write(self) -> None:
        """Send answers, as many as are ready in one message."""
        while self._answers or self._has_news or self._tasks or not self._closing:
            if not self._answers and not self._has_news:
                self._wake_writer.clear()
                await self._wake_writer.wait()
                continue
            leaving, self._leaving_is_due = self._leaving_is_due, False
            inputs, self._inputs_are_due = self._inputs() if self._inputs_are_due else (), False
            response: Message = self._method.response_type(
                answers=self._batch(), leaving=leaving, held=inputs
            )
            await self._context.write(response.SerializeToString())
            self._wake_reader.set()

    def _batch(self) -> list[StreamedAnswer]:
        batch: list[StreamedAnswer] = []
        size = 0
        while self._answers:
            size += len(self._answers[0].response)
            if batch and size > _BATCH_BYTES:
                break
            batch.append(self._answers.popleft())
        return batch


def _failed_answer(number: int, code: grpc.StatusCode, details: str = "") -> StreamedAnswer:
    return StreamedAnswer(id=number, status=CallStatus(code=code.value[0], message=details))
