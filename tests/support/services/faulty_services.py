"""Services that fail in every way that a network, a process or a liar can: each a context that gives an address."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeAlias

import grpc
from google.protobuf.message import Message
from grpc_health.v1 import health, health_pb2, health_pb2_grpc

from pratique.admission.controllers import Handler
from pratique.admission.reviews import Call
from pratique.admission.v1 import mutator_service_pb2, outcome_pb2, validator_service_pb2
from pratique.admission.v1.catalogue_service_pb2 import (
    PHASE_MUTATE,
    PHASE_VALIDATE,
    ControllerDescription,
    DescribeResponse,
)
from pratique.admission.v1.catalogue_service_pb2_grpc import (
    CatalogueServiceServicer,
    add_CatalogueServiceServicer_to_server,
)
from pratique.admission.v1.stream_pb2 import StreamedAnswer
from pratique.configuration.input_digests import RecentInputs
from pratique.rpc.handlers import inputs_to_messages
from pratique.rpc.servers import RpcServer, ServerSettings
from support.services import controllers
from support.services.controllers import hosted
from support.services.reviews import review_of
from support.services.servers import CONTROLLER as CONTROLLER  # noqa: PLC0414 - tests of faults take it from here
from support.services.servers import DIGESTS, MUTATOR, VALIDATOR, Kind
from support.webhook_servers import closed_port

Address: TypeAlias = "contextlib.AbstractAsyncContextManager[str]"
Connected: TypeAlias = "Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]"

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST
_SETTINGS = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_GOAWAY = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00" + struct.pack("!II", 0, 0)
_DATA, _HEADERS = 0, 1


@contextlib.asynccontextmanager
async def hosting(kind: Kind, half: Handler | None, **settings: Any) -> AsyncIterator[str]:
    """A real service whose controller runs ``half``; None hosts nothing."""
    hosting_ = [] if half is None else [hosted(CONTROLLER, half)]
    server = RpcServer(kind.services(hosting_), ServerSettings(drain_seconds=0, **settings))
    try:
        yield await server.start()
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def draining(kind: Kind) -> AsyncIterator[str]:
    """A service that is about to stop, and still has something in flight."""
    hosting_ = [hosted(CONTROLLER, controllers.allowing), hosted("Hanging", controllers.hanging)]
    server = RpcServer(kind.services(hosting_), ServerSettings(drain_seconds=0, grace_seconds=5))
    address = await server.start()
    stopping = asyncio.ensure_future(server.drain())
    try:
        yield address
    finally:
        await server.stop()
        await stopping


@contextlib.asynccontextmanager
async def full(kind: Kind) -> AsyncIterator[str]:
    """A service that would allow, and has no room for another call."""
    began = asyncio.Event()

    async with (
        hosting(kind, controllers.hanging_once(began), max_concurrent_calls=1) as address,
        grpc.aio.insecure_channel(address) as channel,
    ):
        asking = asyncio.ensure_future(kind.ask(channel, review_of(), [Call(CONTROLLER)], 30))
        await began.wait()
        yield address
        asking.cancel()
        await asyncio.wait([asking])


class _Agreeing(CatalogueServiceServicer):
    """Hosts everything, and decides by what the front door decides by, unless it does not tell."""

    def __init__(self, *, tells: bool) -> None:
        self._held = inputs_to_messages(RecentInputs(DIGESTS, None)) if tells else []

    async def Describe(self, *_: Any) -> DescribeResponse:  # noqa: N802 - as in the proto
        """Say so."""
        phases = [PHASE_MUTATE, PHASE_VALIDATE]
        return DescribeResponse(
            controllers=[ControllerDescription(name=CONTROLLER, phases=phases)],
            held=self._held,
        )


@contextlib.asynccontextmanager
async def speaking(handler: Any, stream: Any = None, *, tells: bool = True) -> AsyncIterator[str]:
    """A server that speaks gRPC, and answers both methods with whatever ``handler`` gives, their streams likewise."""
    server = grpc.aio.server()
    add_CatalogueServiceServicer_to_server(_Agreeing(tells=tells), server)
    method = grpc.unary_unary_rpc_method_handler(handler)

    def streams(name: str) -> dict[str, Any]:
        if stream is None:
            return {}
        return {f"{name}Stream": grpc.stream_stream_rpc_method_handler(stream)}

    for service, name in (("MutatorService", "Mutate"), ("ValidatorService", "Validate")):
        methods = {name: method} | streams(name)
        handlers = grpc.method_handlers_generic_handler(f"pratique.admission.v1.{service}", methods)
        server.add_generic_rpc_handlers((handlers,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


def saying(
    kind: Kind,
    *outcomes: outcome_pb2.Outcome,
    uid: str | None = None,
    digest: str | None = None,
    tells: bool = True,
) -> Address:
    """A server that answers every call with those outcomes, and says that they are of its review, or of another."""

    def answer(asked_uid: str, asked_digest: str) -> Message:
        named = {
            "uid": asked_uid if uid is None else uid,
            "digest": asked_digest if digest is None else digest,
        }
        if kind is MUTATOR:
            return mutator_service_pb2.MutateResponse(steps=outcomes, **named)
        return validator_service_pb2.ValidateResponse(verdicts=outcomes, **named)

    return speaking(echoing(answer), tells=tells)


def echoing(answer: Callable[[str, str], Message]) -> Any:
    """Make a handler that answers with what ``answer`` makes of the review's uid and the digest that is named."""

    async def handler(raw: bytes, _context: Any) -> bytes:
        request = validator_service_pb2.ValidateRequest.FromString(raw)  # a MutateRequest has the same fields
        return answer(request.review.uid, request.digest).SerializeToString()

    return handler


def answering(raw: bytes) -> Any:
    """Make a handler that answers with bytes."""

    async def handler(_request: bytes, _context: Any) -> bytes:
        return raw

    return handler


def aborting(code: grpc.StatusCode) -> Any:
    """Make a handler that fails, and quotes what a status should never hold."""

    async def handler(_request: bytes, context: Any) -> bytes:
        await context.abort(code, "allowed: true")
        return b""

    return handler


@contextlib.asynccontextmanager
async def swapping() -> AsyncIterator[str]:
    """A validator that allows every other review, denies those between, and gives each answer to the other's call.

    It answers two reviews at a time, and holds the first one back until there is another.
    """
    taken: list[tuple[int, str, str]] = []

    def answer(number: int, uid: str, digest: str, *, allows: bool) -> StreamedAnswer:
        verdict = outcome_pb2.Outcome(controller=CONTROLLER)
        if allows:
            verdict.allowed.SetInParent()
        else:
            verdict.denied.status.code = 403
        response = validator_service_pb2.ValidateResponse(verdicts=[verdict], uid=uid, digest=digest)
        return StreamedAnswer(id=number, response=response.SerializeToString())

    async def stream(_: object, context: Any) -> None:
        message = validator_service_pb2.ValidateStreamResponse
        greeting = message(held=inputs_to_messages(RecentInputs(DIGESTS, None)))
        await context.write(greeting.SerializeToString())
        while (raw := await context.read()) is not grpc.aio.EOF:  # type: ignore[attr-defined]  # the stubs lack it
            for call in validator_service_pb2.ValidateStreamRequest.FromString(raw).calls:
                request = validator_service_pb2.ValidateRequest.FromString(call.request)
                taken.append((call.id, request.review.uid, request.digest))
            while len(taken) > 1:
                (one, first, digest), (other, second, _) = taken.pop(0), taken.pop(0)
                answers = [
                    answer(other, first, digest, allows=True),
                    answer(one, second, digest, allows=False),
                ]
                await context.write(message(answers=answers).SerializeToString())

    async with speaking(aborting(grpc.StatusCode.UNAVAILABLE), stream) as address:
        yield address


@contextlib.asynccontextmanager
async def unhealthy() -> AsyncIterator[str]:
    """A service that would allow, and says NOT_SERVING."""
    server = grpc.aio.server()
    servicer = health.aio.HealthServicer()  # type: ignore[attr-defined]  # the stubs lack its aio half
    await servicer.set("", health_pb2.HealthCheckResponse.NOT_SERVING)
    health_pb2_grpc.add_HealthServicer_to_server(servicer, server)
    services = [*MUTATOR.services([hosted(CONTROLLER, controllers.allowing)])]
    services += VALIDATOR.services([hosted(CONTROLLER, controllers.allowing)])[:1]
    for service in services:
        handler = grpc.method_handlers_generic_handler(service.name, dict(service.methods))
        server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        await server.stop(None)


@contextlib.asynccontextmanager
async def refused() -> AsyncIterator[str]:
    """Nobody listens."""
    with closed_port() as port:
        yield f"127.0.0.1:{port}"


@contextlib.asynccontextmanager
async def black_hole() -> AsyncIterator[str]:
    """A listener that never accepts and whose backlog is full, so that no handshake is finished."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(4):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)
            filler.connect_ex(listener.getsockname())
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@contextlib.asynccontextmanager
async def listening(connected: Connected) -> AsyncIterator[str]:
    """A listener that treats every connection the same."""
    tasks: set[asyncio.Task[Any]] = set()

    async def treat(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        with contextlib.suppress(OSError, EOFError, asyncio.CancelledError):
            await connected(reader, writer)
        writer.close()

    server = await asyncio.start_server(treat, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def say_nothing(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
    """Never answer."""
    await asyncio.Event().wait()


async def go_away(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Greet, and send every client away."""
    await reader.read(4096)
    writer.write(_SETTINGS + _GOAWAY)
    await reader.read()


async def talk_nonsense(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer HTTP/1.1 to clients that speak HTTP/2."""
    await reader.read(4096)
    writer.write(b'HTTP/1.1 200 OK\r\nContent-Length: 16\r\n\r\n{"allowed":true}')
    await reader.read()


@contextlib.asynccontextmanager
async def cut(kind: Kind, frames: int, share: float, *, reset: bool) -> AsyncIterator[str]:
    """A service that allows, behind a wire that is cut in the answer to the first call on each connection.

    Args:
        kind: The service.
        frames: How many frames of the answer come through: 0 is nothing, 1 its head, 2 its body.
        share: How much of the frame after those comes through.
        reset: Cut by RST; else by a quiet end.
    """
    async with hosting(kind, controllers.allowing) as address:
        host, port = address.split(":")

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, back = await asyncio.open_connection(host, int(port))
            sending = asyncio.ensure_future(_pump(reader, back))
            try:
                await _relay_frames(there, writer, frames, share)
                if reset:
                    raw = writer.get_extra_info("socket")
                    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            finally:
                sending.cancel()
                back.close()

        async with listening(relay) as relayed:
            yield relayed


async def _relay_frames(
    there: asyncio.StreamReader, writer: asyncio.StreamWriter, frames: int, share: float
) -> None:
    answer = 0
    while True:
        head = await there.readexactly(9)
        frame = head + await there.readexactly(int.from_bytes(head[:3]))
        # The first stream of a connection is the watch of health.
        if frame[3] in (_DATA, _HEADERS) and int.from_bytes(frame[5:9]) > 1:
            if answer == frames:
                writer.write(frame[: int(len(frame) * share)])
                await writer.drain()
                return
            answer += 1
        writer.write(frame)
        await writer.drain()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(65536):
            writer.write(piece)
