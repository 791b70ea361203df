"""Starts, drains and stops uvicorn, and sets its limits of open files and memory."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import math
import os
import resource
import signal
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from pratique.apimachinery.errors import ListenError
from pratique.https.tls import keep_certificates_fresh
from pratique.processes.allocator import return_freed_memory
from pratique_frontdoor.http.connections import UNAUTHENTICATED_WINDOW_BYTES, HttpConnection
from pratique_frontdoor.http.listener import ListenerSecurity
from pratique_frontdoor.settings import FrontDoorSettings

WANTED_OPEN_FILES = 4096
"""Each connection is an open file and takes 60 to 70 KiB: a quarter of a GiB, which a front door with 512 MiB has
beside the 64 of its reviews. 500 silent connections per second are 2,500 at a time, as each is closed after 5 s."""


def raise_open_file_limit() -> None:
    """Raise the limit of open files if it is lower and the system permits it.

    The usual limit, 1,024, is for programs that use ``select``. Beyond it new connections are reset, so a thousand
    silent connections would lock out allowed callers. Go raises it in every program (``os/rlimit.go``).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = WANTED_OPEN_FILES if hard == resource.RLIM_INFINITY else min(WANTED_OPEN_FILES, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return
    # A container runtime may refuse it; the front door then works with the limit it has.
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def trim_memory() -> None:
    """Collect the garbage of closed connections, and return free memory to the system.

    Connections over TLS are reference cycles, and leave small free blocks all over the heap.
    """
    gc.collect()
    return_freed_memory()


class Handshake(asyncio.Protocol):
    """The protocol of a connection until its TLS handshake is complete."""

    def __init__(
        self,
        protocol: HttpConnection,
        context: ssl.SSLContext,
        seconds: float,
        tasks: set[asyncio.Task[None]],
    ) -> None:
        """Limit the handshake to ``seconds``; ``tasks`` holds the running handshakes."""
        self._protocol = protocol
        self._context = context
        self._seconds = seconds
        self._tasks = tasks

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # sockets have this type
        """Count the connection, and start the handshake.

        The socket continues under another transport: uvloop's own ``start_tls`` loses bytes that arrived before it was
        called.
        """
        accepted = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        peer = transport.get_extra_info("peername")
        transport.abort()
        task = asyncio.get_running_loop().create_task(self._shake_hands(accepted))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._protocol.count_accepted(accepted, peer)

    async def _shake_hands(self, accepted: socket.socket) -> None:
        # A client whose handshake fails or does not end has already received its alert.
        with contextlib.suppress(OSError):
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self._protocol,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=self._seconds,
                ssl_shutdown_timeout=self._seconds,
            )
            return
        self._protocol.forget()
        accepted.close()


_logger = logging.getLogger(__name__)

_TICKS_PER_SECOND = 10  # of uvicorn's main loop
_STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class FrontDoorServer(uvicorn.Server):
    """Serves one application until it is stopped by a signal.

    The first signal starts the drain: readiness fails, requests are still answered, each connection is closed with its
    next response, and nothing is reset. ``drain_seconds`` later, the listener and idle connections are closed, and
    requests in flight are finished. Ctrl-C is of a person, and no load balancer has to notice it: the listener closes
    at once. A second signal ends the process immediately.
    """

    def __init__(self, app: Starlette, settings: FrontDoorSettings, announce: Callable[[str], None]) -> None:
        """Prepare to serve the application of ``build_app``; ``announce`` gets the URL once the server listens."""
        self._app = app
        self._settings = settings
        self._announce = announce
        self._listener_security: ListenerSecurity = app.state.listener_security
        self._certificate = self._listener_security.certificate
        self._handshakes: set[asyncio.Task[None]] = set()
        self._closed = 0
        self._watching: asyncio.Task[None] | None = None
        super().__init__(_uvicorn_config(app, settings))

    def drain(self, seconds: float | None = None) -> None:
        """Start the drain, and accept requests for ``seconds``, by default ``drain_seconds``; a second call is ignored.

        Call it in the thread of the event loop.
        """
        if self._app.state.draining:
            return
        self._app.state.draining = True
        _logger.info("draining")
        # uvicorn sends these headers with every response, and closes the connection accordingly.
        closing = (b"connection", b"close")
        self.config.encoded_headers = [*self.config.encoded_headers, closing]
        self.server_state.default_headers.append(closing)
        asyncio.get_running_loop().call_later(
            self._settings.drain_seconds if seconds is None else seconds, self._stop
        )

    def _stop(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - unused
        """Listen. uvicorn's own method does not limit the time of TLS handshakes, and exits if it cannot listen.

        Raises:
            ListenError: the address cannot be listened on.
        """
        settings = self._settings
        try:
            listener = await asyncio.get_running_loop().create_server(
                self._connection,
                settings.host,
                settings.port,
                backlog=self.config.backlog,
            )
        except OSError as error:
            raise ListenError(error, {"host": settings.host, "port": settings.port}) from None
        self.servers = [listener]
        if self._certificate is not None:
            for listening in listener.sockets:
                with socket.socket(fileno=os.dup(listening.fileno())) as same:
                    same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, UNAUTHENTICATED_WINDOW_BYTES)
        self._watching = asyncio.ensure_future(
            keep_certificates_fresh(self._listener_security.reloaded_credentials)
        )
        self.started = True
        self._announce(self._url(listener.sockets[0].getsockname()[1]))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish requests in flight, and stop watching files."""
        await super().shutdown(sockets)
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    def _connection(self) -> asyncio.Protocol:
        protocol = HttpConnection(
            self._settings,
            self.config,
            self.server_state,
            self._app.state.connections,
            self._listener_security.callers,
        )
        if self._certificate is None:
            return protocol
        return Handshake(protocol, self._certificate.context, self._settings.head_seconds, self._handshakes)

    def _url(self, port: int) -> str:
        scheme = "http" if self._certificate is None else "https"
        host = self._settings.host
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    async def on_tick(self, counter: int) -> bool:
        """Close overdue connections once a second."""
        if counter % _TICKS_PER_SECOND == 0:
            self._close_overdue()
        return await super().on_tick(counter)

    def _close_overdue(self) -> None:
        closed = self._app.state.connections.closed.total()
        if closed != self._closed:
            self._closed = closed
            trim_memory()
        now = asyncio.get_running_loop().time()
        for connection in list(self.server_state.connections):
            if isinstance(connection, HttpConnection):
                connection.close_overdue(now)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Drain on the first signal.

        uvicorn itself stops immediately, and ends by the signal instead of with exit code 0.
        """
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()

        def on_first(first: int, _frame: FrameType | None) -> None:
            # From here on the next signal ends the process directly, even if its event loop hangs.
            for number in _STOP_SIGNALS:
                signal.signal(number, signal.SIG_DFL)
            seconds = 0 if first == signal.SIGINT else None
            loop.call_soon_threadsafe(self.drain, seconds)

        before = {number: signal.signal(number, on_first) for number in _STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _uvicorn_config(app: Starlette, settings: FrontDoorSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=HttpConnection,
        interface="asgi3",
        lifespan="off",
        ws="none",
        log_config=None,
        log_level=logging.ERROR,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=settings.keep_alive_seconds,
        # No review lives longer, so no response that can still be sent is cut off.
        timeout_graceful_shutdown=math.ceil(settings.max_timeout_seconds),
    )
