"""What clients can make a service hold: messages that nobody completes, connections, streams."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import trustme

from pratique.admission.controllers import Phase
from pratique.admission.results import ALLOWED
from pratique.admission.reviews import Call
from pratique.rpc import handlers, servers
from pratique.rpc.servers import RpcServer, ServerSettings
from pratique.rpc.streams import STREAMED_METHODS
from support.certificate_mounts import Mount, bundle_of, chain_of, key_of
from support.services import controllers
from support.services.controllers import hosted
from support.services.reviews import review_of
from support.services.servers import VALIDATOR

SECONDS = 30
MIB = 1024 * 1024
METHOD = STREAMED_METHODS[Phase.VALIDATE]
UNFINISHED = 12
"""How many messages are begun."""
LEFT_AFTER_ANSWERS = 100
"""After so many answers to settings without a change, a service accepts no more; too many pings would end it all."""
DATA, HEADERS, SETTINGS, PING = 0, 1, 4, 6
ACK, END_HEADERS, INITIAL_WINDOW = 1, 4, 4


@contextlib.asynccontextmanager
async def served(**settings: Any) -> AsyncIterator[str]:
    given = ServerSettings(**{"port": 0, "drain_seconds": 0} | settings)
    server = RpcServer(VALIDATOR.services([hosted("c", controllers.allowing)]), given)
    try:
        yield await server.start()
    finally:
        await server.stop()


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def request_headers(path: str) -> bytes:
    """Headers of HTTP/2 without compression."""
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "test"}
    fields |= {"te": "trailers", "content-type": "application/grpc"}
    texts = (text for field in fields.items() for text in field)
    coded = [bytes([len(text)]) + text.encode() for text in texts]
    return b"".join(b"\0" + name + value for name, value in zip(coded[::2], coded[1::2], strict=True))


class UnfinishedMessages:
    """A client that begins messages of 15 MiB, and sends all but the last byte of each as far as the windows allow."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._initial = self._window = 65_535
        self._windows: dict[int, int] = {}
        self._rest: dict[int, int] = {}
        self.accepted = 0
        """The bytes that the service has let it send."""
        self.ended = 0
        """How many calls the service has ended."""

    def begin(self, path: str) -> None:
        """Begin all messages."""
        self._writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS))
        for number in range(1, 2 * UNFINISHED, 2):
            self._writer.write(frame(HEADERS, END_HEADERS, number, request_headers(path)))
            self._windows[number] = self._initial
            self._rest[number] = 15 * MIB - 1
            self._send(number, b"\0" + struct.pack(">I", 15 * MIB))

    def _send(self, number: int, data: bytes) -> None:
        self._writer.write(frame(DATA, 0, number, data))
        self._windows[number] -= len(data)
        self._window -= len(data)
        self.accepted += len(data)

    def _send_all(self) -> None:
        for number in self._rest:
            while (length := min(16_384, self._rest[number], self._windows[number], self._window)) > 0:
                self._send(number, bytes(length))
                self._rest[number] -= length

    async def send_until_stopped(self, most: int) -> None:
        """Send until the service lets no more through, or more than ``most`` bytes have passed."""
        unchanged = 0
        while unchanged < LEFT_AFTER_ANSWERS and self.accepted <= most:
            before = self.accepted
            self._send_all()
            self._writer.write(frame(SETTINGS))
            await self._writer.drain()
            while await self.read() != (SETTINGS, ACK):
                self._send_all()
            unchanged = unchanged + 1 if self.accepted == before else 0

    async def read(self) -> tuple[int, int]:
        """Read a frame, and return its kind and flags."""
        head = await self._reader.readexactly(9)
        length, kind, flags, number = int.from_bytes(head[:3], "big"), *struct.unpack(">BBI", head[3:])
        payload = await self._reader.readexactly(length)
        match kind:
            case 4 if not flags & ACK:
                self._settings(payload)
            case 6 if not flags & ACK:
                self._writer.write(frame(PING, ACK, payload=payload))
            case 8 if not number:
                self._window += int.from_bytes(payload, "big")
            case 8:
                self._windows[number] += int.from_bytes(payload, "big")
            case 3:
                self._rest.pop(number, None)
                self.ended += 1
        return kind, flags

    def _settings(self, payload: bytes) -> None:
        for name, value in struct.iter_unpack(">HI", payload):
            if name == INITIAL_WINDOW:
                for number in self._windows:
                    self._windows[number] += value - self._initial
                self._initial = value
        self._writer.write(frame(SETTINGS, ACK))


async def abort(writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


@contextlib.asynccontextmanager
async def unfinished(address: str, path: str) -> AsyncIterator[UnfinishedMessages]:
    host, _, port = address.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    client = UnfinishedMessages(reader, writer)
    client.begin(path)
    try:
        yield client
    finally:
        await abort(writer)


@pytest.mark.parametrize(
    "path", [METHOD.path, "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"]
)
def test_of_messages_that_nobody_completes_a_service_holds_64_mib_and_a_window_of_each(path: str) -> None:
    bound = 64 * MIB + UNFINISHED * 65_536

    async def run() -> int:
        async with served() as address, unfinished(address, path) as client:
            await client.send_until_stopped(bound)
            return client.accepted

    assert 4 * 15 * MIB <= asyncio.run(run()) <= bound


def test_what_does_not_arrive_in_time_is_ended_and_others_are_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(handlers, "_RECEIVE_SECONDS", 1.0)

    async def run() -> None:
        async with served() as address, unfinished(address, METHOD.path) as client:
            await client.send_until_stopped(64 * MIB)
            while client.ended < UNFINISHED:
                await asyncio.wait_for(client.read(), SECONDS)
            async with grpc.aio.insecure_channel(address) as channel:
                [outcome] = await VALIDATOR.ask(channel, review_of(), [Call("c")], seconds=SECONDS)
                assert outcome.decision is ALLOWED
                late = opened(channel.stream_unary(METHOD.path, None, None))
                assert "has not arrived within 1 seconds" in await late.details()
                assert await late.code() is grpc.StatusCode.DEADLINE_EXCEEDED

    asyncio.run(run())


def opened(calls: Any) -> Any:
    """A call whose messages are sent one by one."""
    return calls(timeout=SECONDS)


def test_an_unknown_client_is_refused_before_it_has_sent_a_message(tmp_path: Path) -> None:
    authority = trustme.CA()
    mount = Mount.of(tmp_path, authority.issue_cert("127.0.0.1"), authority)
    shown = authority.issue_cert("stranger.example.com")
    credentials = grpc.ssl_channel_credentials(bundle_of(authority), key_of(shown), chain_of(shown))
    settings = {
        "tls_cert_file": mount.certificate,
        "tls_private_key_file": mount.key,
        "client_ca_file": mount.authorities,
        "client_allowed_names": ("door.example.com",),
    }

    async def run() -> Any:
        async with served(**settings) as address, grpc.aio.secure_channel(address, credentials) as channel:
            return await opened(channel.stream_unary(METHOD.path, None, None)).code()

    assert asyncio.run(run()) is grpc.StatusCode.PERMISSION_DENIED


def test_a_call_without_a_message_is_refused() -> None:
    async def run() -> Any:
        async with served() as address, grpc.aio.insecure_channel(address) as channel:
            begun = opened(channel.stream_unary(METHOD.path, None, None))
            await begun.done_writing()
            return await begun.code()

    assert asyncio.run(run()) is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize(
    "path", [METHOD.stream_path, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"]
)
def test_streams_are_limited_to_what_holds_256_mib_until_others_end(path: str) -> None:
    async def run() -> None:
        async with (
            served(max_message_bytes=128 * MIB) as address,
            grpc.aio.insecure_channel(address) as channel,
        ):
            streams = channel.stream_stream(METHOD.stream_path, None, None)
            first, second = opened(streams), opened(streams)
            assert await first.read() is not grpc.aio.EOF  # type: ignore[attr-defined]  # the stubs lack it
            assert await second.read() is not grpc.aio.EOF  # type: ignore[attr-defined]  # likewise
            third = opened(channel.stream_stream(path, None, None))
            assert await third.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
            await first.done_writing()
            assert await first.code() is grpc.StatusCode.OK
            assert await opened(streams).read() is not grpc.aio.EOF  # type: ignore[attr-defined]  # likewise

    asyncio.run(run())


def test_connections_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(servers, "_MAX_CONNECTIONS", 2)

    async def run() -> None:
        async with contextlib.AsyncExitStack() as stack:
            host, _, port = (await stack.enter_async_context(served())).rpartition(":")
            readers = []
            for _ in range(3):
                reader, writer = await asyncio.open_connection(host, int(port))
                stack.push_async_callback(abort, writer)
                writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(SETTINGS))
                readers.append(reader)
            for reader in readers[:2]:
                assert len(await asyncio.wait_for(reader.readexactly(9), SECONDS)) == 9
            with contextlib.suppress(ConnectionResetError):
                assert await asyncio.wait_for(readers[2].read(), SECONDS) == b""

    asyncio.run(run())
