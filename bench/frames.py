"""Frames over a socket: a length of four bytes, then as many bytes, and nothing else.

What any message between two event loops costs at least: one write and one read at each end, without HTTP/2, without
headers, without a thread. The answers come in the order of the frames, so no number tells them apart.
"""

from __future__ import annotations

import asyncio
import collections
import time
from collections.abc import Iterator

_LENGTH = 4
"""Bytes that say how many follow, as gRPC's messages have them."""


def framed(body: bytes) -> bytes:
    """A frame of these bytes."""
    return len(body).to_bytes(_LENGTH, "big") + body


class FrameReader:
    """Cuts what arrives into frames; what is incomplete waits for the rest."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._held = 0
        self._wanted = _LENGTH

    def feed(self, data: bytes) -> Iterator[bytes]:
        """The whole frames, lengths included, that these bytes complete."""
        self._parts.append(data)
        self._held += len(data)
        if self._held < self._wanted:
            return
        received, place = b"".join(self._parts), 0
        while len(received) >= place + _LENGTH:
            end = place + _LENGTH + int.from_bytes(received[place : place + _LENGTH], "big")
            if len(received) < end:
                self._wanted = end - place
                break
            yield received[place:end]
            place = end
        else:
            self._wanted = _LENGTH
        self._parts, self._held = [received[place:]], len(received) - place


class FrameEcho(asyncio.Protocol):
    """Answers each frame with the same frame; those that arrive together are answered together."""

    def __init__(self) -> None:
        self._reader = FrameReader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        """Answer what is complete in one write."""
        if whole := b"".join(self._reader.feed(data)):
            self.transport.write(whole)  # type: ignore[attr-defined]  # a stream's transport writes


class FrameCaller(asyncio.Protocol):
    """Keeps a number of frames in flight on one connection, as a front door does on its one to a service."""

    def __init__(self, body: bytes, in_flight: int, seconds: float) -> None:
        self._frame = framed(body)
        self._in_flight = in_flight
        self._seconds = seconds
        self._reader = FrameReader()
        self._begun: collections.deque[float] = collections.deque()
        self.latencies: list[float] = []
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self.transport = transport
        self._until = time.perf_counter() + self._seconds
        self._send(self._in_flight, time.perf_counter())

    def data_received(self, data: bytes) -> None:
        """Send another frame for each that came back, all in one write."""
        answered = sum(1 for _ in self._reader.feed(data))
        now = time.perf_counter()
        self.latencies += [now - self._begun.popleft() for _ in range(answered)]
        if now < self._until:
            self._send(answered, now)
        elif not self._begun and not self.over.done():
            self.over.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        """A connection that ends before the run makes it worthless."""
        if not self.over.done():
            self.over.set_exception(exc or ConnectionError("closed by the server"))

    def _send(self, number: int, now: float) -> None:
        if number:
            self._begun.extend([now] * number)
            self.transport.write(self._frame * number)  # type: ignore[attr-defined]  # a stream's transport writes


async def frame_load(address: int | str, body: bytes, in_flight: int, seconds: float) -> list[float]:
    """Latencies in seconds of frames to a port of this machine, or to a Unix socket."""
    loop = asyncio.get_running_loop()

    def caller() -> FrameCaller:
        return FrameCaller(body, in_flight, seconds)

    if isinstance(address, str):
        transport, protocol = await loop.create_unix_connection(caller, address)
    else:
        transport, protocol = await loop.create_connection(caller, "127.0.0.1", address)
    await protocol.over
    transport.close()
    return protocol.latencies
