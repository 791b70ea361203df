"""Links do exactly what nemeses request."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from chaos.links import Link, linked
from support.waiting import until

LARGE = bytes(range(256)) * 4096


async def _echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while piece := await reader.read(1 << 16):
            writer.write(piece)
            await writer.drain()
    writer.close()


@contextlib.asynccontextmanager
async def echoing() -> AsyncIterator[Link]:
    """A link to an echo server."""
    server = await asyncio.start_server(_echo, "127.0.0.1", 0)
    async with server, linked(server.sockets[0].getsockname()[1]) as link:
        yield link


@contextlib.asynccontextmanager
async def talking(link: Link) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(120):
            await scenario()

    asyncio.run(limited())


def test_a_link_forwards_bytes() -> None:
    async def scenario() -> None:
        async with echoing() as link, talking(link) as (reader, writer):
            writer.write(LARGE)
            assert await reader.readexactly(len(LARGE)) == LARGE

    run(scenario)


def test_a_deaf_link_holds_bytes_and_delivers_them_later() -> None:
    async def scenario() -> None:
        async with echoing() as link, talking(link) as (reader, writer):
            with link.deaf():
                writer.write(b"a")
                with pytest.raises(TimeoutError):
                    await asyncio.wait_for(reader.readexactly(1), 0.2)
            assert await reader.readexactly(1) == b"a"

    run(scenario)


def test_a_slow_link_delays_bytes_in_order() -> None:
    async def scenario() -> None:
        async with echoing() as link, talking(link) as (reader, writer):
            clock = asyncio.get_running_loop().time
            with link.slow(0.2):
                began = clock()
                writer.write(LARGE)
                assert await reader.readexactly(len(LARGE)) == LARGE
                assert clock() - began >= 0.4  # there and back

    run(scenario)


@pytest.mark.parametrize("before", [True, False])
def test_a_cut_link_forwards_a_set_number_of_answer_bytes(before: bool) -> None:  # noqa: FBT001
    async def scenario() -> None:
        async with echoing() as link, contextlib.AsyncExitStack() as stack:
            if before:
                reader, writer = await stack.enter_async_context(talking(link))
                writer.write(b"abc")
                assert await reader.readexactly(3) == b"abc"
            with link.cutting(5, answers=True):
                if not before:
                    reader, writer = await stack.enter_async_context(talking(link))
                writer.write(b"0123456789")
                assert await reader.read() == b"01234"

    run(scenario)


def test_a_cut_of_requests_delivers_only_a_part() -> None:
    heard = bytearray()

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.read())
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(listen, "127.0.0.1", 0)
        async with server, linked(server.sockets[0].getsockname()[1]) as link:
            with link.cutting(4, answers=False):
                async with talking(link) as (_, writer):
                    writer.write(b"0123456789")
                    await until(120, _async(lambda: heard == b"0123"))

    run(scenario)


def test_a_link_to_a_closed_port_ends_the_connection() -> None:
    async def scenario() -> None:
        server = await asyncio.start_server(_echo, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        async with linked(port) as link, talking(link) as (reader, _):
            assert await reader.read() == b""

    run(scenario)


def _async(holds: Callable[[], bool]) -> Callable[[], Awaitable[bool]]:
    async def asked() -> bool:
        return holds()

    return asked
