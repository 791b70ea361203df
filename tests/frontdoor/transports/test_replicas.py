"""Replicas of a service: calls are spread evenly, new ones are found, and those that leave lose no call."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import Answer, allow
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.errors import CallError
from pratique.rpc.servers import RpcServer, ServerSettings
from pratique_frontdoor.transports.channels import grpc_target, watched_name
from pratique_frontdoor.transports.grpc import GrpcTransport
from support.chains import pod_review
from support.free_ports import free_port
from support.name_servers import name_server
from support.services.controllers import hosted
from support.services.faulty_services import listening
from support.services.servers import VALIDATOR
from support.waiting import streams_to

CALLERS = 20
ways = pytest.mark.parametrize("streamed", [None, Phase.VALIDATE], ids=["unary", "stream"])
Counts = collections.Counter[str]


@contextlib.asynccontextmanager
async def replica(
    counts: Counts, name: str, host: str = "127.0.0.1", port: int = 0, drain_seconds: float = 0.2
) -> AsyncIterator[tuple[str, RpcServer]]:
    """A validator that counts its calls under ``name``."""

    def half(_: Review) -> Answer:
        counts[name] += 1
        return allow()

    settings = ServerSettings(host=host, port=port, drain_seconds=drain_seconds)
    server = RpcServer(VALIDATOR.services([hosted("Count", half, trusted=True)]), settings)
    address = await server.start()
    try:
        yield address, server
    finally:
        await server.stop()


@contextlib.asynccontextmanager
async def transport(
    target: str, *, streamed: Phase | None = None, replicas: int = 1, **options: Any
) -> AsyncIterator[GrpcTransport]:
    """A transport; where it streams, to so many replicas already."""
    opened = GrpcTransport(target, streamed=streamed, **options)
    try:
        if streamed is not None:
            await streams_to(opened, replicas)
        yield opened
    finally:
        await opened.close()


async def ask(client: GrpcTransport) -> None:
    await client.validate(pod_review(), [Call("Count")], Deadline.after(30))


async def ask_often(client: GrpcTransport, calls: int, when: Callable[[int], Awaitable[None]]) -> None:
    """Make many calls, some concurrently; ``when`` gets their number before each."""
    numbers = iter(range(calls))

    async def caller() -> None:
        for number in numbers:
            await when(number)
            await ask(client)

    await asyncio.gather(*(caller() for _ in range(CALLERS)))


async def nothing(_: int) -> None:
    pass


@ways
@pytest.mark.parametrize("calls", [2_000, pytest.param(10_000, marks=pytest.mark.long)])
def test_two_replicas_share_the_calls_evenly(calls: int, streamed: Phase | None) -> None:
    counts: Counts = collections.Counter()

    async def run() -> None:
        async with (
            replica(counts, "a") as (a, _),
            replica(counts, "b") as (b, _),
            transport(grpc_target([a, b]), streamed=streamed, replicas=2) as client,
        ):
            await ask_often(client, calls, nothing)

    asyncio.run(run())
    print(dict(counts))  # noqa: T201 - the figure
    assert sum(counts.values()) == calls
    assert 0.45 <= counts["a"] / calls <= 0.55


@ways
def test_a_draining_replica_gets_no_calls_after_its_health_changes_and_none_is_lost(
    streamed: Phase | None,
) -> None:
    counts: Counts = collections.Counter()
    seen: list[float] = []

    async def run() -> None:
        async with (
            replica(counts, "leaving", drain_seconds=0.2) as (a, leaving),
            replica(counts, "staying") as (b, _),
            transport(grpc_target([a, b]), streamed=streamed, replicas=2) as client,
        ):
            drains: list[asyncio.Future[None]] = []

            async def when(number: int) -> None:
                if number == 500:
                    seen.append(time.monotonic())
                    drains.append(asyncio.ensure_future(leaving.drain()))
                if drains and counts["leaving"] != counts["before"]:
                    counts["before"] = counts["leaving"]
                    seen.append(time.monotonic())

            await ask_often(client, 2_000, when)
            await drains[0]

    asyncio.run(run())
    print(f"the last call came {(seen[-1] - seen[0]) * 1000:.0f} ms after the drain began")  # noqa: T201
    assert counts["leaving"] + counts["staying"] == 2_000
    assert counts["leaving"] < 400


async def found_while_calling(look_seconds: float | None, streamed: Phase | None) -> float:
    """Add a replica to a name while calls go on; how long it took until it had one."""
    counts: Counts = collections.Counter()
    port = free_port()
    options: dict[str, Any] = {} if look_seconds is None else {"look_seconds": look_seconds}
    async with (
        name_server("127.0.0.1") as names,
        replica(counts, "first", "127.0.0.1", port),
        replica(counts, "second", "127.0.0.2", port),
        transport(names.target(port), resolve=names.resolve, streamed=streamed, **options) as client,
    ):
        for _ in range(50):
            await ask(client)
        assert counts["second"] == 0
        names.addresses.append("127.0.0.2")
        began = time.monotonic()
        async with asyncio.timeout(120):
            while not counts["second"]:
                await asyncio.gather(*(ask(client) for _ in range(CALLERS)))
                await asyncio.sleep(0.01)
        return time.monotonic() - began


@ways
def test_a_new_replica_is_found_and_no_call_fails(streamed: Phase | None) -> None:
    asyncio.run(found_while_calling(0.2, streamed))


@ways
@pytest.mark.long
def test_a_new_replica_is_found_within_half_a_minute(streamed: Phase | None) -> None:
    print(f"found after {asyncio.run(found_while_calling(None, streamed)):.1f} s")  # noqa: T201 - the figure


@ways
def test_connections_stay_when_the_name_no_longer_resolves(streamed: Phase | None) -> None:
    counts: Counts = collections.Counter()
    port = free_port()

    async def run() -> None:
        async with (
            name_server("127.0.0.1") as names,
            replica(counts, "first", "127.0.0.1", port),
            transport(
                names.target(port), resolve=names.resolve, look_seconds=0.01, streamed=streamed
            ) as client,
        ):
            await ask(client)
            names.addresses.clear()
            await asyncio.sleep(0.1)
            names.addresses.append("127.0.0.9")  # where nobody listens
            await asyncio.sleep(0.1)
            await ask_often(client, 100, nothing)

    asyncio.run(run())
    assert counts["first"] == 101


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("dns:///validator:9443", "validator"),
        ("dns:///validator.shop.svc", "validator.shop.svc"),
        ("dns://10.0.0.10/validator:9443", "validator"),
        ("dns:///127.0.0.1:9002", ""),
        ("dns:///[::1]:9002", ""),
        ("ipv4:127.0.0.1:1,127.0.0.1:2", ""),
        ("unix:/run/validator.sock", ""),
    ],
)
def test_only_names_are_resolved_again(target: str, name: str) -> None:
    assert watched_name(target) == name


@ways
def test_renewing_a_channel_fails_no_call(streamed: Phase | None) -> None:
    counts: Counts = collections.Counter()

    async def run() -> None:
        async with (
            replica(counts, "a") as (address, _),
            transport(grpc_target([address]), streamed=streamed) as client,
        ):
            renewals: list[asyncio.Future[None]] = []

            async def when(number: int) -> None:
                if number % 100 == 0:
                    renewals.append(asyncio.ensure_future(client.renew()))

            await ask_often(client, 1_000, when)
            await asyncio.gather(*renewals)

    asyncio.run(run())
    assert counts["a"] == 1_000


@contextlib.asynccontextmanager
async def answering_by(
    script: Callable[[int, Any], Awaitable[bytes]],
) -> AsyncIterator[tuple[str, list[int]]]:
    """A validator that records earlier attempts; yields its address and the attempts."""
    attempts: list[int] = []

    async def handler(_request: bytes, context: Any) -> bytes:
        attempts.append(len(attempts))
        return await script(attempts[-1], context)

    server = grpc.aio.server()
    method = grpc.unary_unary_rpc_method_handler(handler)
    name = "pratique.admission.v1.ValidatorService"
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(name, {"Validate": method}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        yield f"127.0.0.1:{port}", attempts
    finally:
        await server.stop(None)


ALLOWED = VALIDATOR.response.FromString(b"")
ALLOWED.verdicts.add(controller="Count").allowed.SetInParent()  # type: ignore[attr-defined]  # Message is its base
_OK = ALLOWED.SerializeToString()


def failing(
    code: grpc.StatusCode, times: int, pushback_ms: str = ""
) -> Callable[[int, Any], Awaitable[bytes]]:
    """Fail that many attempts, and allow from then on."""

    async def script(before: int, context: Any) -> bytes:
        if before < times:
            metadata = (("grpc-retry-pushback-ms", pushback_ms),) if pushback_ms else ()
            await context.abort(code, "", metadata)
        return _OK

    return script


UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("script", "attempts", "succeeds"),
    [
        (failing(UNAVAILABLE, 0), 1, True),
        (failing(UNAVAILABLE, 1), 2, True),
        (failing(UNAVAILABLE, 100), 2, False),
        (failing(grpc.StatusCode.CANCELLED, 1), 2, True),
        (failing(grpc.StatusCode.RESOURCE_EXHAUSTED, 1), 1, False),
        (failing(grpc.StatusCode.INVALID_ARGUMENT, 1), 1, False),
        (failing(grpc.StatusCode.INTERNAL, 1), 1, False),
        (failing(grpc.StatusCode.DEADLINE_EXCEEDED, 1), 1, False),
        (failing(UNAVAILABLE, 1, "-1"), 1, False),
        (failing(UNAVAILABLE, 1, "30"), 2, True),
    ],
    ids=[
        "OK", "retryable", "retryable for ever", "stopping", "overload", "fatal", "fatal inside", "too late",
        "pushback: no", "pushback: later",
    ],
)  # fmt: skip
def test_only_calls_without_an_answer_are_retried(
    script: Callable[[int, Any], Awaitable[bytes]], attempts: int, *, succeeds: bool
) -> None:
    async def run() -> tuple[int, bool]:
        async with answering_by(script) as (address, made), transport(grpc_target([address])) as client:
            try:
                await ask(client)
            except CallError:
                return len(made), False
            return len(made), True

    assert asyncio.run(run()) == (attempts, succeeds)


def test_few_calls_are_retried_when_most_fail() -> None:
    calls = 3_000

    async def run() -> int:
        script = failing(UNAVAILABLE, 10**9)
        async with answering_by(script) as (address, made), transport(grpc_target([address])) as client:

            async def failing_call(_: int) -> None:
                with contextlib.suppress(CallError):
                    await ask(client)

            for _ in range(calls // CALLERS):
                await asyncio.gather(*(failing_call(number) for number in range(CALLERS)))
            return len(made)

    attempts = asyncio.run(run())
    print(f"{attempts} attempts of {calls} calls")  # noqa: T201 - the figure
    assert attempts <= 1.1 * calls


@pytest.mark.parametrize("seconds", [14, pytest.param(300, marks=pytest.mark.long)])
def test_keepalive_pings_do_not_end_an_idle_connection(seconds: float) -> None:
    # A server that is not told to expect pings every 4 s sends the client away with the third, after 12 s.
    counts: Counts = collections.Counter()

    async def run() -> int:
        connections = 0
        async with replica(counts, "a") as (address, _):
            host, port = address.split(":")

            async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                nonlocal connections
                connections += 1
                there, back = await asyncio.open_connection(host, int(port))
                with contextlib.closing(back):
                    await asyncio.gather(pump(reader, back), pump(there, writer))

            async with listening(relay) as relayed, transport(grpc_target([relayed])) as client:
                await ask(client)
                await asyncio.sleep(seconds)
                await ask(client)
        return connections

    assert asyncio.run(run()) == 1


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while piece := await reader.read(65536):
        writer.write(piece)
    writer.close()
