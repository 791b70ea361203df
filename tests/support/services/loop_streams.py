"""Listeners and connections of streams in the event loop, and peers that speak HTTP/2 frame by frame."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import grpc
import hpack

from pratique.rpc.stream_listeners import StreamListener
from pratique.rpc.streams import StreamListener as ListenerMessage
from pratique_frontdoor.transports.loop_streams import ClientStream, StreamConnector

HOST = "127.0.0.1"
SECONDS = 10
PATH = "/test.Echo/Echo"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST, SETTINGS, PUSH, PING, GOAWAY, WINDOW, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED = 1, 1, 4, 8
REQUEST = {
    ":method": "POST",
    ":scheme": "http",
    ":path": PATH,
    ":authority": "test",
    "te": "trailers",
    "content-type": "application/grpc",
}
RESPONSE = {":status": "200", "content-type": "application/grpc"}


async def echo(context: Any) -> None:
    """Send every message back."""
    while (message := await context.read()) is not grpc.aio.EOF:  # type: ignore[attr-defined]
        await context.write(message)


@contextlib.asynccontextmanager
async def listening(
    handler: Callable[[Any], Awaitable[None]] = echo, *, path: str = PATH, **settings: Any
) -> AsyncIterator[tuple[StreamListener, int]]:
    """Serve a handler on a free port."""
    listener = StreamListener(
        {path: handler},
        **{
            "tls": None,
            "max_message_bytes": 16 * 1024 * 1024,
            "max_age_seconds": 60.0,
            "grace_seconds": 5.0,
            **settings,
        },
    )
    try:
        yield listener, listener.listen(HOST, 0).port
    finally:
        listener.stop()
        await listener.closed()


@contextlib.asynccontextmanager
async def opened(port: int, path: str = PATH) -> AsyncIterator[ClientStream]:
    """Open a stream as a front door does."""
    connector = StreamConnector(None, "", None)
    stream = await connector.open(f"ipv4:{HOST}:1", ListenerMessage(port=port), path)
    try:
        yield stream
    finally:
        stream.cancel()


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """One frame."""
    return len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload


def headers(fields: dict[str, str], stream: int = 1, flags: int = END_HEADERS) -> bytes:
    """A frame of headers, which needs no state of earlier ones."""
    block = hpack.Encoder().encode(
        [hpack.NeverIndexedHeaderTuple(*field) for field in fields.items()], huffman=False
    )
    return frame(HEADERS, flags, stream, block)


def message(content: bytes, flag: int = 0) -> bytes:
    """A message with its prefix."""
    return bytes([flag]) + len(content).to_bytes(4, "big") + content


class Peer:
    """A client or server that sends what a test says, and reads frames."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Use a connection."""
        self.reader = reader
        self.writer = writer

    def send(self, *frames: bytes) -> None:
        """Send frames, or anything else."""
        self.writer.write(b"".join(frames))

    async def next(self) -> tuple[int, int, int, bytes]:
        """The next frame's kind, flags, stream and payload.

        Raises:
            IncompleteReadError: the connection has ended.
        """
        head = await asyncio.wait_for(self.reader.readexactly(9), SECONDS)
        payload = await asyncio.wait_for(self.reader.readexactly(int.from_bytes(head[:3], "big")), SECONDS)
        return head[3], head[4], int.from_bytes(head[5:], "big"), payload

    async def until(self, kind: int) -> tuple[int, int, bytes]:
        """The flags, stream and payload of the next frame of a kind."""
        while True:
            received, flags, stream, payload = await self.next()
            if received == kind and not (kind == SETTINGS and flags & ACK):
                return flags, stream, payload

    async def error(self) -> int:
        """The error code with which the connection ends; it does end."""
        code = -1
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                kind, _, _, payload = await self.next()
                if kind == GOAWAY:
                    code = int.from_bytes(payload[4:8], "big")
        return code


@contextlib.asynccontextmanager
async def hostile_client(port: int) -> AsyncIterator[Peer]:
    """Connect, and say what clients say first."""
    reader, writer = await asyncio.open_connection(HOST, port)
    peer = Peer(reader, writer)
    peer.send(PREFACE, frame(SETTINGS), frame(SETTINGS, ACK))
    try:
        yield peer
    finally:
        writer.transport.abort()


@contextlib.asynccontextmanager
async def hostile_server(script: Callable[[Peer], Awaitable[None]]) -> AsyncIterator[int]:
    """Serve every connection by a script, after what servers say first and the client's headers."""

    writers: list[asyncio.StreamWriter] = []
    ended: list[asyncio.Event] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer = Peer(reader, writer)
        writers.append(writer)
        ended.append(end := asyncio.Event())
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, TimeoutError):
            await reader.readexactly(len(PREFACE))
            peer.send(frame(SETTINGS), frame(SETTINGS, ACK))
            await peer.until(HEADERS)
            await script(peer)
            await reader.read()
        writer.transport.abort()
        end.set()

    server = await asyncio.start_server(serve, HOST, 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in writers:
            writer.transport.abort()
        for end in ended:
            await end.wait()
        await asyncio.sleep(0)
