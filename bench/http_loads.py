"""HTTP load: closed loops over a fixed number of connections, and open loops at a fixed rate."""

from __future__ import annotations

import asyncio
import ssl
import time
from collections import deque
from collections.abc import Callable

import msgspec


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be sent."""

    kind: str
    """``http``, ``https``, ``grpc``, ``frames`` or ``unix``."""
    port: int
    body: str
    """The file that holds it."""
    path: str = ""
    """Of the URL, or of the Unix socket."""
    connections: int = 1
    """Over gRPC and with frames, which need no more than one: how many are in flight on it."""
    seconds: float = 0
    """For how long; for ever, where it is 0, until ``count`` is reached."""
    count: int = 0
    """How many at most; any number, where it is 0."""
    rate: float = 0
    """Requests a second, whether or not those before are answered; as many as are answered, where it is 0."""
    core: int | None = None
    """The one that the generator has to itself, where it has one."""


class HttpConnection(asyncio.Protocol):
    """One keep-alive connection that sends the same request again and again, and again where the server hung up."""

    def __init__(self, request: bytes, answered: Callable[[HttpConnection], None]) -> None:
        """``answered`` is called after each answer, and may send again."""
        self._request = request
        self._answered = answered
        self._head = b""
        self._missing = -1
        self.idle = True
        self.closing = False
        self.failure: Exception | None = None
        self.due = 0.0
        """When the request that is in flight was due; what it took is counted from then."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport."""
        self.transport = transport

    def send(self, due: float) -> None:
        """Send the request."""
        self.idle, self.due, self._head, self._missing = False, due, b"", -1
        self.transport.write(self._request)  # type: ignore[attr-defined]  # a TCP transport writes

    def data_received(self, data: bytes) -> None:
        """Finish once the declared length is there; what it holds is counted, and not kept."""
        if self._missing < 0:
            self._head += data
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._head[:end].lower()
            if int(head[9:12]) != 200:
                self.failure = RuntimeError(f"answered with {head[9:12].decode()}")
            self.closing = b"\r\nconnection: close" in head
            length = int(head.split(b"content-length:", 1)[1].split(b"\r\n", 1)[0])
            self._missing = end + 4 + length - len(self._head)
        else:
            self._missing -= len(data)
        if self._missing <= 0:
            self.idle = True
            self._answered(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """A connection that ends in the middle of an answer makes the run worthless."""
        if not self.idle:
            self.failure = exc or ConnectionError("closed by the server")
            self.idle = True
            self._answered(self)


class HttpLoad:
    """Sends by a task; closed or open."""

    def __init__(self, task: Task, body: bytes) -> None:
        """Nothing is sent before :meth:`run`."""
        self._task = task
        self._request = _http_request(task.path, body)
        self._tls = _tls() if task.kind == "https" else None
        self._loop = asyncio.get_running_loop()
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._waiting: deque[float] = deque()
        self._idle: list[HttpConnection] = []
        self._opening: set[asyncio.Task[None]] = set()
        self._in_flight = 0
        self._begun = 0.0
        self._due = 0
        self.latencies: list[float] = []

    async def run(self) -> list[float]:
        """Latencies in seconds."""
        self._begun = time.perf_counter()
        connections = await asyncio.gather(*(self._open() for _ in range(self._task.connections)))
        if self._task.rate:
            self._begun = time.perf_counter()
            self._idle = connections
            self._tick()
        await self._over
        for connection in connections:
            connection.transport.close()
        return self.latencies

    async def _open(self) -> HttpConnection:
        """Make a connection, and use it at once where nothing says when: a thread of the server may wait for it."""
        connection = await self._connect()
        if not self._task.rate:
            self._send(connection, time.perf_counter())
        return connection

    async def _connect(self) -> HttpConnection:
        _, connection = await self._loop.create_connection(
            lambda: HttpConnection(self._request, self._answered), "127.0.0.1", self._task.port, ssl=self._tls
        )
        return connection

    def _send(self, connection: HttpConnection, due: float) -> None:
        self._in_flight += 1
        connection.send(due)

    def _is_over(self, now: float) -> bool:
        begun = len(self.latencies) + self._in_flight
        return bool(
            (self._task.seconds and now >= self._begun + self._task.seconds)
            or (self._task.count and begun >= self._task.count)
        )

    def _answered(self, connection: HttpConnection) -> None:
        now = time.perf_counter()
        self._in_flight -= 1
        self.latencies.append(now - connection.due)
        if connection.failure is not None:
            self._end(connection.failure)
        elif connection.closing:
            self._opening.add(asyncio.ensure_future(self._go_on_anew(now)))
        else:
            self._go_on(connection, now)

    async def _go_on_anew(self, now: float) -> None:
        """As an API server does where a webhook closes each connection: make another, whose time counts."""
        try:
            self._go_on(await self._connect(), now)
        except OSError as error:
            self._end(error)

    def _go_on(self, connection: HttpConnection, now: float) -> None:
        if self._task.rate:
            if self._waiting:
                self._send(connection, self._waiting.popleft())
            else:
                self._idle.append(connection)
                self._end_if_done(now)
        elif not self._is_over(now):
            self._send(connection, now)
        else:
            self._end_if_done(now)

    def _tick(self) -> None:
        """Send all that is due, and wait for the next."""
        now = time.perf_counter()
        while (due := self._begun + self._due / self._task.rate) <= now:
            if self._is_over(due):
                self._end_if_done(now)
                return
            self._due += 1
            if self._idle:
                self._send(self._idle.pop(), due)
            else:
                self._waiting.append(due)
        self._loop.call_later(due - now, self._tick)

    def _end_if_done(self, now: float) -> None:
        if self._is_over(now) and not self._in_flight and not self._waiting:
            self._end(None)

    def _end(self, error: Exception | None) -> None:
        if self._over.done():
            return
        if error is None:
            self._over.set_result(None)
        else:
            self._over.set_exception(error)


def _http_request(path: str, body: bytes) -> bytes:
    head = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
        f"Accept: application/json, */*\r\nUser-Agent: kube-apiserver-admission\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _tls() -> ssl.SSLContext:
    """Whoever answers is who was started: what checking a certificate costs is paid once a connection, and not here."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
