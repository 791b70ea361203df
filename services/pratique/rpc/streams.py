"""Streams that carry many calls of a unary method, each answered as if it had come by itself."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import dataclasses
import math
import time
from collections.abc import Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any, NoReturn

import grpc
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


@dataclasses.dataclass(frozen=True, slots=True)
class StreamedMethod:
    """A unary method, and the one that carries its calls."""

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
    """Write one call of a stream, to be sent now."""
    # Rounded up, and never to 0, which would be no deadline.
    millis = max(1, math.ceil(deadline.remaining_seconds * 1000))
    return StreamedCall(id=number, timeout_millis=millis, metadata=dict(metadata or ()), request=request)


class StreamedContext:
    """The part of ``grpc.aio.ServicerContext`` that rings and methods here use, for one call of a stream."""

    __slots__ = ("_authentication", "_call", "_code", "_details", "_ends_at")

    def __init__(self, call: StreamedCall, authentication: Mapping[str, Iterable[bytes]]) -> None:
        """Begin the call's time now. ``authentication`` is the connection's."""
        self._call = call
        self._authentication = authentication
        self._code: grpc.StatusCode | None = None
        self._details = ""
        millis = call.timeout_millis
        self._ends_at = time.monotonic() + millis / 1000 if millis > 0 else None

    def time_remaining(self) -> float | None:
        """Seconds that are left; None where the call has no deadline."""
        if self._ends_at is None:
            return None
        return max(0.0, self._ends_at - time.monotonic())

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        """What a call of its own would have brought along, as gRPC gives it."""
        call = self._call
        sent = tuple(call.metadata.items()) if call.metadata else ()
        if call.previous_attempts > 0:
            return (*sent, (ATTEMPTS_KEY, str(call.previous_attempts)))
        return sent

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """What the client has shown when it connected."""
        return self._authentication

    def code(self) -> grpc.StatusCode | None:
        """The code that the call was ended with; None where it was not."""
        return self._code

    def details(self) -> str:
        """The text that the call was ended with."""
        return self._details

    async def abort(self, code: grpc.StatusCode, details: str = "", _trailing_metadata: Any = ()) -> NoReturn:
        """End the call, and nothing else on the stream. Pushback is not needed: what is refused is not made again.

        Raises:
            AbortError: always.
        """
        self._code, self._details = code, details
        raise grpc.aio.AbortError


class OpenStreams:
    """The open streams of a server. Until they end a server cannot stop but by breaking them off."""

    def __init__(self) -> None:
        """Start without any."""
        self._tasks: set[asyncio.Task[object]] = set()
        self._ended = False

    @contextlib.contextmanager
    def open(self) -> Iterator[None]:
        """Run a stream's handler. It is left, as if at its own end, once :meth:`end` is called."""
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
        """Send a message on the stream whose handler this task runs, whole even if :meth:`end` is called meanwhile.

        A first message that is cancelled on its way leaves gRPC in the belief that no metadata were sent. It sends them
        once more with the status, which fails, so that client and server both wait for the end of the call.
        """
        task = _current_task()
        self._tasks.discard(task)
        await context.write(message)
        if self._ended:
            raise asyncio.CancelledError
        self._tasks.add(task)

    def end(self) -> None:
        """End all streams, and those that are still to come."""
        self._ended = True
        for task in self._tasks:
            task.cancel()


def _current_task() -> asyncio.Task[object]:
    task = asyncio.current_task()
    if task is None:
        raise RuntimeError("a stream is handled in a task")
    return task


_MAX_UNANSWERED_CALLS = 1024
"""Calls of one stream whose answers have not been sent. No more is read until some are, so that a client that reads no
answers fills its own buffers. Front doors stay far below."""
_BATCH_BYTES = 256 * 1024
"""When an answer has to wait for the next message: as long as it takes to send a quarter of a MiB."""
_MESSAGE_OVERHEAD_BYTES = 1024
"""What goes round the response in a message."""
_STREAM_ENDED_ERRORS = (grpc.aio.InternalError, grpc.aio.UsageError, asyncio.InvalidStateError)
"""What gRPC raises where something is sent on a stream that has ended."""


async def _nothing(_request: bytes, _context: Context) -> bytes:
    return b""


class StreamedCalls:
    """The streams of calls of a server."""

    def __init__(self, max_message_bytes: int) -> None:
        """Start without any; answers have to be shorter than that."""
        self._most_bytes = max_message_bytes - _MESSAGE_OVERHEAD_BYTES
        self._open: set[_Stream] = set()
        self._leaving = False

    def stream_handler(
        self,
        method: StreamedMethod,
        handler: BytesHandler,
        door: Interceptor,
        held: RecentInputs[Any] | None = None,
    ) -> grpc.RpcMethodHandler[bytes, bytes]:
        """Make a method of streams whose calls ``handler`` answers, for those whom ``door`` lets in.

        Each stream tells what is ``held``.
        """
        careful = hide_errors(handler)
        enter = door(_nothing)

        async def carry(_: object, context: Context) -> None:
            await enter(b"", context)
            stream = _Stream(method, careful, context, self._most_bytes, held)
            self._open.add(stream)
            ignore = None if held is None else held.listen(stream.tell_held)
            try:
                await stream.run(leaving=self._leaving)
            finally:
                if ignore is not None:
                    ignore()
                self._open.discard(stream)

        return grpc.stream_stream_rpc_method_handler(carry)

    def leave(self) -> None:
        """Tell all clients, and those that are still to come, that this server is about to stop."""
        self._leaving = True
        for stream in self._open:
            stream.leave()

    def end(self) -> None:
        """Take no more calls, and end each stream when those that were taken are answered."""
        for stream in self._open:
            stream.end()


class _Stream:
    """One stream, from the greeting to the last answer."""

    def __init__(
        self,
        method: StreamedMethod,
        handler: BytesHandler,
        context: Context,
        most_bytes: int,
        held: RecentInputs[Any] | None,
    ) -> None:
        self._method = method
        self._handler = handler
        self._context = context
        self._most_bytes = most_bytes
        self._held = held
        self._authentication: Mapping[str, Iterable[bytes]] = context.auth_context()
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._answers: collections.deque[StreamedAnswer] = collections.deque()
        self._says_leaving = False
        self._says_held = False
        self._closing = False
        self._news, self._room = asyncio.Event(), asyncio.Event()

    async def run(self, *, leaving: bool) -> None:
        """Take calls until the client has no more, or :meth:`end`; then answer those that are under way."""
        await self._context.write(
            self._method.response_type(leaving=leaving, held=self._inputs()).SerializeToString()
        )
        reader = asyncio.ensure_future(self._read())
        writer = asyncio.ensure_future(self._write())
        try:
            await asyncio.wait([reader, writer], return_when=asyncio.FIRST_COMPLETED)
            self._closing = True
            self._news.set()
            if reader.done():
                reader.result()
            await writer
        except _STREAM_ENDED_ERRORS:
            pass  # the client is gone, and gRPC knows
        finally:
            for task in (reader, writer, *self._tasks.values()):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    def _inputs(self) -> list[Inputs]:
        return [] if self._held is None else inputs_to_messages(self._held)

    def tell_held(self) -> None:
        self._says_held = True
        self._news.set()

    def leave(self) -> None:
        self._says_leaving = True
        self._news.set()

    def end(self) -> None:
        self._closing = True
        self._news.set()

    async def _read(self) -> None:
        while True:
            message = await self._context.read()
            if message is grpc.aio.EOF:  # type: ignore[attr-defined]  # the stubs lack it
                return
            try:
                request = self._method.request_type.FromString(message)
            except DecodeError:
                await self._refuse_stream("the message cannot be read")
            for number in request.given_up_ids:
                # Forgotten here: one that has not begun yet never will, and cannot do it itself.
                if task := self._tasks.pop(number, None):
                    task.cancel()
            for call in request.calls:
                await self._take(call)

    async def _take(self, call: StreamedCall) -> None:
        if call.id in self._tasks:
            await self._refuse_stream("the id of a call that is under way has been used again")
        while len(self._tasks) + len(self._answers) >= _MAX_UNANSWERED_CALLS:
            self._room.clear()
            await self._room.wait()
        if self._closing:
            self._answers.append(
                _failed_answer(call.id, grpc.StatusCode.UNAVAILABLE, "the service is stopping")
            )
            self._news.set()
            return
        self._tasks[call.id] = asyncio.ensure_future(self._answer(call))

    async def _refuse_stream(self, words: str) -> None:
        await self._context.abort(grpc.StatusCode.INVALID_ARGUMENT, words)

    async def _answer(self, call: StreamedCall) -> None:
        context = StreamedContext(call, self._authentication)
        seconds = context.time_remaining()
        task = self._tasks[call.id]
        timer = None if seconds is None else asyncio.get_running_loop().call_later(seconds, task.cancel)
        try:
            response = await self._handler(call.request, context)  # type: ignore[arg-type]  # the part that is used
            answer = self._answered(call.id, response)
        except grpc.aio.AbortError:
            answer = _failed_answer(call.id, context.code() or grpc.StatusCode.UNKNOWN, context.details())
        except asyncio.CancelledError:
            # Out of time; or given up, and nobody waits for what is said.
            answer = _failed_answer(call.id, grpc.StatusCode.DEADLINE_EXCEEDED)
        finally:
            if timer is not None:
                timer.cancel()
            if self._tasks.get(call.id) is task:
                del self._tasks[call.id]
        self._answers.append(answer)
        self._news.set()

    def _answered(self, number: int, response: bytes) -> StreamedAnswer:
        if len(response) > self._most_bytes:
            return _failed_answer(number, grpc.StatusCode.RESOURCE_EXHAUSTED, "the answer is too long")
        return StreamedAnswer(id=number, response=response)

    @property
    def _says_something(self) -> bool:
        return self._says_leaving or self._says_held

    async def _write(self) -> None:
        """Send answers, those that are there at a time in one message."""
        while self._answers or self._says_something or self._tasks or not self._closing:
            if not self._answers and not self._says_something:
                self._news.clear()
                await self._news.wait()
                continue
            leaving, self._says_leaving = self._says_leaving, False
            inputs, self._says_held = self._inputs() if self._says_held else (), False
            response: Message = self._method.response_type(
                answers=self._batch(), leaving=leaving, held=inputs
            )
            await self._context.write(response.SerializeToString())
            self._room.set()

    def _batch(self) -> list[StreamedAnswer]:
        batch: list[StreamedAnswer] = []
        size = 0
        while self._answers:
            size += len(self._answers[0].response)
            if batch and size > _BATCH_BYTES:
                break
            batch.append(self._answers.popleft())
        return batch


def _failed_answer(number: int, code: grpc.StatusCode, words: str = "") -> StreamedAnswer:
    return StreamedAnswer(id=number, status=CallStatus(code=code.value[0], message=words))
