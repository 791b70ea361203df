"""Servers: uvicorn, told when to stop and how."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import os
import signal
import socket
import threading
from typing import TYPE_CHECKING

import uvicorn

from frontdoor.connections import STRANGER_WINDOW_BYTES
from frontdoor.handshakes import Handshake
from frontdoor.open_files import give_freed_memory_back
from frontdoor.protocols import Protocol
from pratique.errors import ConfigurationError
from pratique.tls.kept import keep_fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

    from starlette.applications import Starlette

    from frontdoor.entrances import Entrance
    from frontdoor.settings import FrontDoorSettings

_logger = logging.getLogger(__name__)

_TICKS_PER_SECOND = 10  # of uvicorn's main loop
_STOPPING = (signal.SIGTERM, signal.SIGINT)


class FrontDoorServer(uvicorn.Server):
    """Serves one application until it is told to stop.

    The first signal begins to drain: probes say so, requests are still answered, each connection is closed
    with its next answer, and nothing is reset. ``drain_seconds`` later the listener and the idle connections
    close, and what is in flight is finished. A second signal ends the process at once.
    """

    def __init__(self, app: Starlette, settings: FrontDoorSettings, announce: Callable[[str], None]) -> None:
        """Be ready to serve what ``build_app`` made; ``announce`` is told the URL once it listens."""
        self._app = app
        self._settings = settings
        self._announce = announce
        self._entrance: Entrance = app.state.entrance
        self._certificate = self._entrance.certificate
        self._handshakes: set[asyncio.Task[None]] = set()
        self._closed = 0
        self._watching: asyncio.Task[None] | None = None
        super().__init__(_config(app, settings))

    def drain(self) -> None:
        """Begin to stop. To be called in the loop's own thread; again has no effect."""
        if self._app.state.draining:
            return
        self._app.state.draining = True
        _logger.info("draining")
        # uvicorn sends these with every answer, and closes where they say so.
        closing = (b"connection", b"close")
        self.config.encoded_headers = [*self.config.encoded_headers, closing]
        self.server_state.default_headers.append(closing)
        asyncio.get_running_loop().call_later(self._settings.drain_seconds, self._stop)

    def _stop(self) -> None:
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - never given
        """Listen. uvicorn's own does not limit the time for TLS handshakes, and exits where it cannot listen.

        Raises:
            ConfigurationError: the address cannot be listened on.
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
            reason = error.strerror or str(error)
            raise ConfigurationError(
                f"--host {settings.host}, --port {settings.port}: cannot listen there: {reason}"
            ) from None
        self.servers = [listener]
        if self._certificate is not None:
            for listening in listener.sockets:
                with socket.socket(fileno=os.dup(listening.fileno())) as same:
                    same.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, STRANGER_WINDOW_BYTES)
        self._watching = asyncio.ensure_future(keep_fresh(self._entrance.kept))
        self.started = True
        self._announce(self._url(listener.sockets[0].getsockname()[1]))

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what is in flight, and watch no files any more."""
        await super().shutdown(sockets)
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    def _connection(self) -> asyncio.Protocol:
        protocol = Protocol(
            self._settings,
            self.config,
            self.server_state,
            self._app.state.connections,
            self._entrance.callers,
        )
        if self._certificate is None:
            return protocol
        return Handshake(protocol, self._certificate.context, self._settings.head_seconds, self._handshakes)

    def _url(self, port: int) -> str:
        scheme = "http" if self._certificate is None else "https"
        host = self._settings.host
        return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"

    async def on_tick(self, counter: int) -> bool:
        """Do what is to be done from time to time."""
        if counter % _TICKS_PER_SECOND == 0:
            self._close_overdue()
        return await super().on_tick(counter)

    def _close_overdue(self) -> None:
        closed = self._app.state.connections.closed.total()
        if closed != self._closed:
            self._closed = closed
            give_freed_memory_back()
        now = asyncio.get_running_loop().time()
        for connection in list(self.server_state.connections):
            if isinstance(connection, Protocol):
                connection.close_overdue(now)

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Drain on the first signal. uvicorn stops at once on its own, and ends by the signal, not with 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        loop = asyncio.get_running_loop()

        def on_first(_number: int, _frame: FrameType | None) -> None:
            # From here on the system itself ends the process, even one whose loop hangs.
            for number in _STOPPING:
                signal.signal(number, signal.SIG_DFL)
            loop.call_soon_threadsafe(self.drain)

        before = {number: signal.signal(number, on_first) for number in _STOPPING}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _config(app: Starlette, settings: FrontDoorSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Protocol,
        interface="asgi3",
        lifespan="off",
        ws="none",
        log_config=None,
        log_level=logging.ERROR,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        timeout_keep_alive=settings.keep_alive_seconds,
        # No review lives longer, so nothing that can still be answered is cut off.
        timeout_graceful_shutdown=math.ceil(settings.max_timeout_seconds),
    )
