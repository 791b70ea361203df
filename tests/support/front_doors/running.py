"""Front doors that really run: on a socket of this machine, in a thread or in a process of their own."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http.client
import json
import queue
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import uvloop

from pratique.apimachinery.json_values import JSON
from pratique_frontdoor.engines.engine import Engine
from pratique_frontdoor.http.app import build_app
from pratique_frontdoor.http.servers import FrontDoorServer
from pratique_frontdoor.recording.recorders import Recorder
from pratique_frontdoor.settings import FrontDoorSettings
from support.forked_commands import ForkedCommand
from support.front_doors.reviews import review_body

PATIENCE_SECONDS = 120
"""How long a test waits for what has to happen before it fails."""
JSON_TYPE = {"Content-Type": "application/json"}
LONG_TIMEOUTS: dict[str, Any] = {"default_timeout_seconds": 120.0, "max_timeout_seconds": 120.0}
"""Settings with which a busy machine has time to read the largest reviews."""


@dataclasses.dataclass(frozen=True)
class Answer:
    """An HTTP answer."""

    code: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self) -> JSON:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


@dataclasses.dataclass(frozen=True)
class Door:
    """A front door that listens."""

    url: str
    tls: ssl.SSLContext | None = None

    @property
    def address(self) -> tuple[str, int]:
        host, _, port = self.url.partition("://")[2].rpartition(":")
        return host, int(port)

    def connect(self) -> http.client.HTTPConnection:
        host, port = self.address
        if self.tls is None:
            return http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
        return http.client.HTTPSConnection(host, port, timeout=PATIENCE_SECONDS, context=self.tls)

    def socket(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=PATIENCE_SECONDS)

    def request(
        self,
        method: str,
        path: str,
        body: bytes | Iterable[bytes] | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> Answer:
        with contextlib.closing(self.connect()) as connection:
            return exchange(connection, method, path, body, headers)

    def get(self, path: str) -> Answer:
        return self.request("GET", path)

    def post(self, path: str, body: bytes | Iterable[bytes] | None = None) -> Answer:
        return self.request("POST", path, review_body() if body is None else body, JSON_TYPE)


def exchange(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: bytes | Iterable[bytes] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """Send one request on a connection, and read the answer whole."""
    connection.request(method, path, body, headers or {})
    response = connection.getresponse()
    return Answer(response.status, response.headers, response.read())


def read_all(connection: socket.socket) -> bytes:
    """Everything until the other side closes, in order or not."""
    pieces = []
    with contextlib.suppress(ConnectionResetError):
        while piece := connection.recv(65536):
            pieces.append(piece)
    return b"".join(pieces)


@contextlib.contextmanager
def open_door(
    engine: Engine,
    settings: FrontDoorSettings | None = None,
    tls: ssl.SSLContext | None = None,
    recorder: Recorder | None = None,
) -> Iterator[Door]:
    """Run a front door in a thread, on a port of its own; without drain when it ends. It closes the engine."""
    settings = dataclasses.replace(settings or FrontDoorSettings(), port=0, drain_seconds=0)
    running: queue.Queue[tuple[str, FrontDoorServer, asyncio.AbstractEventLoop]] = queue.Queue()

    async def serve() -> None:
        loop = asyncio.get_running_loop()
        server = FrontDoorServer(
            build_app(engine, settings, recorder), settings, lambda url: running.put((url, server, loop))
        )
        await server.serve()
        await engine.close()

    thread = threading.Thread(target=lambda: uvloop.run(serve()))
    thread.start()
    url, server, loop = running.get(timeout=PATIENCE_SECONDS)
    try:
        yield Door(url, tls)
    finally:
        loop.call_soon_threadsafe(server.drain)
        thread.join(PATIENCE_SECONDS)
        assert not thread.is_alive()


@dataclasses.dataclass
class DoorProcess:
    """A front door in a process of its own."""

    door: Door
    process: subprocess.Popen[str]

    def wait_until_begun(self) -> None:
        """Wait until an engine that tells it has begun with a review."""
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "began\n"

    def wait(self) -> tuple[int, list[JSON]]:
        """Wait for its end: exit code, and what it logged."""
        _, errors = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, [json.loads(line) for line in errors.splitlines()]


@contextlib.contextmanager
def open_door_process(engine: str, **settings: float | str | list[str]) -> Iterator[DoorProcess]:
    """Run ``doors/process.py`` with the engine of that name, and those settings; killed where it does not end."""
    command = [sys.executable, "-m", "support.front_doors.process", engine, json.dumps(settings)]
    with ForkedCommand(
        command,
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            prefix = "pratique: frontdoor ready on "
            assert line.startswith(prefix), line
            yield DoorProcess(Door(line.removeprefix(prefix).strip()), process)
        finally:
            process.kill()
