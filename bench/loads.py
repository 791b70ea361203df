"""Load generators: closed loops over a fixed number of connections.

Run as ``python bench/loads.py`` with a JSON object on standard input; prints one JSON object. A process of its own, so
that it shares no interpreter with what it measures.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import grpc
import uvloop


class HttpConnection(asyncio.Protocol):
    """One keep-alive connection that sends the same request again and again."""

    def __init__(self) -> None:
        """Start with nothing received."""
        self._buffer = bytearray()
        self._missing = -1
        self._answered: asyncio.Future[int] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = transport

    def send(self, request: bytes) -> asyncio.Future[int]:
        """Send a request; the future gives the answer's status code."""
        self._answered = asyncio.get_running_loop().create_future()
        self._buffer.clear()
        self._missing = -1
        self.transport.write(request)  # type: ignore[attr-defined]  # a TCP transport writes
        return self._answered

    def data_received(self, data: bytes) -> None:
        """Finish once the declared length is there."""
        self._buffer += data
        if self._missing < 0:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return
            head = bytes(self._buffer[:end]).lower()
            length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            self._missing = end + 4 + length
        if len(self._buffer) >= self._missing and self._answered is not None:
            self._answered.set_result(int(self._buffer[9:12]))

    def connection_lost(self, exc: Exception | None) -> None:
        """A connection that ends in the middle of a run makes the run worthless."""
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(exc or ConnectionError("closed by the server"))


async def _http_loop(port: int, request: bytes, seconds: float) -> list[float]:
    _, connection = await asyncio.get_running_loop().create_connection(HttpConnection, "127.0.0.1", port)
    latencies, until = [], time.perf_counter() + seconds
    while (begun := time.perf_counter()) < until:
        status = await connection.send(request)
        if status != 200:
            raise RuntimeError(f"answered with {status}")
        latencies.append(time.perf_counter() - begun)
    connection.transport.close()
    return latencies


def _http_request(path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, */*\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def http_load(port: int, path: str, body: bytes, connections: int, seconds: float) -> list[float]:
    """Latencies in seconds of a closed loop over ``connections`` keep-alive connections."""
    request = _http_request(path, body)
    loops = await asyncio.gather(*(_http_loop(port, request, seconds) for _ in range(connections)))
    return [latency for loop in loops for latency in loop]


async def grpc_load(port: int, body: bytes, connections: int, seconds: float) -> list[float]:
    """Latencies in seconds of ``connections`` concurrent callers over one channel."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.unary_unary("/bench.Echo/Echo")

        async def loop() -> list[float]:
            latencies, until = [], time.perf_counter() + seconds
            while (begun := time.perf_counter()) < until:
                await call(body, timeout=10)
                latencies.append(time.perf_counter() - begun)
            return latencies

        return [
            latency for one in await asyncio.gather(*(loop() for _ in range(connections))) for latency in one
        ]


async def _measure(task: dict[str, object], body: bytes) -> dict[str, float]:
    port, connections, seconds = (
        int(str(task["port"])),
        int(str(task["connections"])),
        float(str(task["seconds"])),
    )
    begun = time.perf_counter()
    if task["kind"] == "grpc":
        latencies = await grpc_load(port, body, connections, seconds)
    else:
        latencies = await http_load(port, str(task["path"]), body, connections, seconds)
    elapsed = time.perf_counter() - begun
    latencies.sort()
    return {
        "count": len(latencies),
        "p50": latencies[len(latencies) // 2],
        "p99": latencies[int(len(latencies) * 0.99)],
        "rate": len(latencies) / elapsed,
    }


if __name__ == "__main__":
    given = json.load(sys.stdin)
    print(json.dumps(uvloop.run(_measure(given, Path(given["body"]).read_bytes()))))
