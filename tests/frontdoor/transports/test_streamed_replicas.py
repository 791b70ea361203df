"""Streams to replicas: which calls they carry, and what happens to calls when one breaks."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import Answer, allow
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.errors import BadAnswerError, CallError, CallTimeoutError, UnreachableError
from pratique.apimachinery.json_values import Document
from pratique.hosting.catalogue import HostedController
from pratique.rpc.handlers import is_retry
from pratique.rpc.servers import RpcServer, ServerSettings
from pratique.rpc.streams import STREAMED_METHODS
from pratique_frontdoor.transports.channels import fixed_targets, grpc_target, replica_target
from pratique_frontdoor.transports.grpc import GrpcTransport
from support.chains import pod_review
from support.services import controllers
from support.services.controllers import hosted
from support.services.servers import VALIDATOR
from support.waiting import streams_to

SECONDS = 10
NAME = "pratique.admission.v1.ValidatorService"


@contextlib.asynccontextmanager
async def served(*hosting: HostedController, **settings: Any) -> AsyncIterator[str]:
    given = ServerSettings(**{"port": 0, "drain_seconds": 0, **settings})
    server = RpcServer(VALIDATOR.services(hosting), given)
    address = await server.start()
    try:
        yield address
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def streamed(address: str) -> AsyncIterator[GrpcTransport]:
    opened = GrpcTransport(grpc_target([address]), streamed=Phase.VALIDATE)
    try:
        await streams_to(opened, 1)
        yield opened
    finally:
        await opened.close()


async def ask(client: GrpcTransport, seconds: float = SECONDS, review: Review | None = None) -> None:
    await client.validate(review or pod_review(), [Call("c")], Deadline.after(seconds))


class Scripted:
    """A validator whose streams end on request; it counts streamed and unary calls."""

    def __init__(self, on_stream: Callable[[Any, Any], Awaitable[None]], cancelled: int = 0) -> None:
        """Greet on each stream, and give its first request and context to ``on_stream``. Cancel so many unary calls."""
        self.on_stream = on_stream
        self.cancelled = cancelled
        self.streamed = 0
        self.greeting = b""
        self.alone: list[bool] = []
        """Whether they said that they repeat."""

    async def stream(self, _: Any, context: Any) -> None:
        await context.write(self.greeting)
        self.streamed += 1
        await self.on_stream(await context.read(), context)

    async def unary(self, _: bytes, context: Any) -> bytes:
        self.alone.append(is_retry(context))
        if len(self.alone) <= self.cancelled:
            await context.abort(grpc.StatusCode.CANCELLED)
        answer: Any = VALIDATOR.response()
        answer.verdicts.add(controller="c").allowed.SetInParent()
        return bytes(answer.SerializeToString())

    @contextlib.asynccontextmanager
    async def serving(self, *, streams: bool = True) -> AsyncIterator[str]:
        server = grpc.aio.server()
        methods: dict[str, Any] = {"Validate": grpc.unary_unary_rpc_method_handler(self.unary)}
        if streams:
            methods["ValidateStream"] = grpc.stream_stream_rpc_method_handler(self.stream)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(NAME, methods),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            await server.stop(None)


async def break_off(_request: Any, context: Any) -> None:
    await context.abort(grpc.StatusCode.UNAVAILABLE)


async def end_well(_request: Any, _context: Any) -> None:
    pass


async def answer_nonsense(_request: Any, context: Any) -> None:
    await context.write(b"\xff")
    await context.read()


@pytest.mark.parametrize("ending", [break_off, end_well, answer_nonsense], ids=lambda it: it.__name__)
def test_a_call_on_a_broken_stream_is_retried_and_marked_as_a_retry(
    ending: Callable[[Any, Any], Awaitable[None]],
) -> None:
    script = Scripted(ending)

    async def run() -> None:
        async with script.serving() as address, streamed(address) as client:
            await ask(client)

    asyncio.run(run())
    assert script.alone == [True]


def answering(**answer: Any) -> Callable[[Any, Any], Awaitable[None]]:
    """Answer the first call with this."""

    async def script(_request: Any, context: Any) -> None:
        message: Any = STREAMED_METHODS[Phase.VALIDATE].response_type()
        message.answers.add(id=1, **answer)
        await context.write(message.SerializeToString())
        await context.read()

    return script


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        ({"status": {"code": 8}}, CallError, "code = ResourceExhausted desc = the service refused the call"),
        (
            {"status": {"code": 3, "message": "secret"}},
            CallError,
            "code = InvalidArgument desc = the service",
        ),
        (
            {"status": {"code": 4}},
            CallTimeoutError,
            "code = DeadlineExceeded desc = context deadline exceeded",
        ),
        ({"status": {}}, CallError, "code = Unknown desc = the service refused the call"),
        ({}, CallError, "code = Unknown desc = the service refused the call"),
        ({"response": b"\xff"}, BadAnswerError, "code = Internal desc = grpc: failed to unmarshal"),
    ],
)
def test_an_invalid_answer_is_not_retried(answer: dict[str, Any], error: type[CallError], words: str) -> None:
    script = Scripted(answering(**answer))

    async def run() -> None:
        async with script.serving() as address, streamed(address) as client:
            with pytest.raises(error, match=words) as raised:
                await ask(client)
            assert "secret" not in str(raised.value)

    asyncio.run(run())
    assert script.alone == []


def test_a_service_of_an_earlier_release_that_names_another_listener_is_called_where_it_is() -> None:
    decided: Any = VALIDATOR.response()
    decided.verdicts.add(controller="c").allowed.SetInParent()
    script = Scripted(answering(response=decided.SerializeToString()))
    script.greeting = bytes.fromhex("2203 08b446")  # the field 4 of that time: port 9012

    async def run() -> None:
        async with script.serving() as address, streamed(address) as client:
            await ask(client)

    asyncio.run(run())
    assert (script.streamed, script.alone) == (1, [])


def test_a_service_without_streams_gets_unary_calls() -> None:
    script = Scripted(end_well)

    async def run() -> None:
        async with script.serving(streams=False) as address, streamed(address) as client:
            await asyncio.gather(*(ask(client) for _ in range(10)))

    asyncio.run(run())
    assert script.alone == [False] * 10


def test_a_service_that_has_as_many_streams_as_it_takes_gets_unary_calls() -> None:
    async def run() -> None:
        async with (
            served(hosted("c", controllers.allowing), max_message_bytes=256 * 1024 * 1024) as address,
            streamed(address),
            streamed(address) as second,
        ):
            await ask(second)

    asyncio.run(run())


def test_a_large_request_is_a_unary_call() -> None:
    script = Scripted(break_off)
    large = Document.from_data({"metadata": {"annotations": {"long": "x" * 70_000}}})

    async def run() -> None:
        async with script.serving() as address, streamed(address) as client:
            await ask(client, review=pod_review().with_object(large))

    asyncio.run(run())
    assert script.alone == [False]


def test_a_unary_call_that_reaches_a_stopping_service_is_retried_and_marked_as_a_retry() -> None:
    script = Scripted(break_off, cancelled=1)
    large = Document.from_data({"metadata": {"annotations": {"long": "x" * 70_000}}})

    async def run() -> None:
        async with script.serving() as address, streamed(address) as client:
            await ask(client, review=pod_review().with_object(large))

    asyncio.run(run())
    assert script.alone == [False, True]


@pytest.mark.parametrize("ending", ["the deadline passes", "the caller goes away"])
def test_a_call_ends_on_both_sides_when(ending: str) -> None:
    async def run() -> None:
        began, cancelled = asyncio.Event(), asyncio.Event()

        async def noticing(_: Review) -> Answer:
            began.set()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.set()
            return allow()

        async with served(hosted("c", noticing)) as address, streamed(address) as client:
            late = ending == "the deadline passes"
            asking = asyncio.ensure_future(ask(client, 0.1 if late else 30))
            if late:
                with contextlib.suppress(CallTimeoutError):
                    await asking
            await asyncio.wait_for(began.wait(), SECONDS)
            asking.cancel()
            await asyncio.wait_for(cancelled.wait(), SECONDS)
            await asyncio.wait([asking])

    asyncio.run(run())


def test_a_hanging_service_does_not_hold_a_call_beyond_its_deadline() -> None:
    async def never(_request: Any, _context: Any) -> None:
        await asyncio.Event().wait()

    async def run() -> None:
        async with Scripted(never).serving() as address, streamed(address) as client:
            with pytest.raises(CallTimeoutError):
                await ask(client, 0.2)

    asyncio.run(run())


def test_closing_the_transport_ends_calls_in_flight() -> None:
    async def run() -> None:
        async with served(hosted("c", controllers.hanging)) as address:
            async with streamed(address) as client:
                asking = asyncio.ensure_future(ask(client))
                await asyncio.sleep(0)
            await asyncio.wait([asking])
            assert isinstance(asking.exception(), UnreachableError)

    asyncio.run(run())


def test_calls_beyond_the_limit_of_a_stream_are_unary() -> None:
    async def slow(_: Review) -> Answer:
        await asyncio.sleep(0.1)
        return allow()

    async def run() -> None:
        async with served(hosted("c", slow, trusted=True)) as address, streamed(address) as client:
            await asyncio.gather(*(ask(client, 60) for _ in range(700)))

    asyncio.run(run())


def test_no_call_is_lost_when_connections_reach_their_maximum_age() -> None:
    async def run() -> None:
        async with (
            served(hosted("c", controllers.allowing), max_connection_age_seconds=0.3) as address,
            streamed(address) as client,
        ):
            for _ in range(200):
                await asyncio.gather(*(ask(client) for _ in range(5)))
                await asyncio.sleep(0.01)

    asyncio.run(run())


def test_a_cancelled_call_does_not_delay_a_leaving_service() -> None:
    async def run() -> None:
        began = asyncio.Event()

        async def hanging(_: Review) -> Answer:
            began.set()
            await asyncio.Event().wait()
            return allow()

        settings = ServerSettings(port=0, drain_seconds=0)
        server = RpcServer(VALIDATOR.services([hosted("c", hanging)]), settings)
        async with streamed(await server.start()) as client:
            asking = asyncio.ensure_future(ask(client, 30))
            await began.wait()
            draining = asyncio.ensure_future(server.drain())
            await streams_to(client, 0)
            asking.cancel()
            await asyncio.wait_for(draining, SECONDS)
            await asyncio.wait([asking])

    asyncio.run(run())


def test_a_stream_is_reopened_when_the_service_returns() -> None:
    async def run() -> None:
        async with served(hosted("c", controllers.allowing)) as address:
            port = int(address.rpartition(":")[2])
            opened = GrpcTransport(grpc_target([address]), streamed=Phase.VALIDATE)
            await streams_to(opened, 1)
        await streams_to(opened, 0)
        server = RpcServer(VALIDATOR.services([hosted("c", controllers.allowing)]), ServerSettings(port=port))
        await server.start()
        try:
            await streams_to(opened, 1)
            await ask(opened)
        finally:
            await opened.close()
            await server.stop()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("target", "targets"),
    [
        ("dns:///127.0.0.1:9002", ("dns:///127.0.0.1:9002",)),
        ("ipv4:10.0.0.1:1,10.0.0.2:2", ("ipv4:10.0.0.1:1", "ipv4:10.0.0.2:2")),
        ("ipv6:[::1]:1,[::2]:2", ("ipv6:[::1]:1", "ipv6:[::2]:2")),
        ("unix:/run/validator.sock", ("unix:/run/validator.sock",)),
        ("xds:///validator", ()),
    ],
)
def test_every_known_address_has_a_stream(target: str, targets: tuple[str, ...]) -> None:
    assert fixed_targets(target) == targets


@pytest.mark.parametrize(
    ("target", "address", "found"),
    [
        ("dns:///validator:9002", "10.0.0.1", "ipv4:10.0.0.1:9002"),
        ("dns:///validator:9002", "fd00::1", "ipv6:[fd00::1]:9002"),
        ("dns:///validator", "10.0.0.1", "ipv4:10.0.0.1:443"),
    ],
)
def test_a_stream_uses_the_port_of_the_name(target: str, address: str, found: str) -> None:
    assert replica_target(target, address) == found
