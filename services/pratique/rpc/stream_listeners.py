"""The listener of a service for streams in the event loop: connections, TLS, handlers, age and draining.

It serves the streaming methods alone. The port of grpcio serves them too, and everything else.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import random
import socket
import ssl
import stat
import urllib.parse
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

import grpc
from h2.errors import ErrorCodes

from pratique.apimachinery.errors import ConfigurationError
from pratique.https.tls import client_chain
from pratique.rpc.http2 import Http2Connection, Keepalive, MessageStream
from pratique.telemetry.logs import describe_error

_log = logging.getLogger(__name__)

StreamHandler: TypeAlias = Callable[[Any], Awaitable[None]]
"""Serves one stream; gets its context."""

_KEEPALIVE = Keepalive(interval_seconds=30.0, timeout_seconds=10.0)
"""A client that vanished is noticed within 40 seconds, as by grpcio here."""
_HANDSHAKE_SECONDS = 10.0
_MAX_CONNECTIONS = 512
"""The most connections. Each front door has one; connections without TLS cost their sender nothing."""
_BACKLOG = 128
_AFTER_ACCEPT_FAILED_SECONDS = 0.1
"""How long to wait when the process has no free file descriptors."""
_AGE_JITTER = 0.1
"""The part of the age by which connections vary, as in gRPC: so that they do not all end together."""

_RESPONSE_HEADERS = ((":status", "200"), ("content-type", "application/grpc"))


class ServerStream(MessageStream):
    """A stream that a client opened: what handlers use of ``grpc.aio.ServicerContext``."""

    def __init__(self, connection: ServerConnection, stream_id: int) -> None:
        """Accept messages."""
        super().__init__(connection, stream_id)
        self._authentication = connection.authentication
        self.headers_received = True
        self.task: asyncio.Task[None] | None = None
        """Runs the handler."""
        self.unsent_headers = _RESPONSE_HEADERS

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        """The authentication of the connection, as in gRPC."""
        return self._authentication()

    async def abort(self, code: grpc.StatusCode, details: str = "", _trailing_metadata: Any = ()) -> NoReturn:
        """End the stream with a status.

        Raises:
            AbortError: always.
        """
        self.finish(code, details)
        raise grpc.aio.AbortError

    def finish(self, code: grpc.StatusCode, details: str = "") -> None:
        """Send the status, if the stream is still open; without messages it goes with the headers."""
        if self.local_ended:
            return
        headers = list(self.unsent_headers)
        headers.append(("grpc-status", str(code.value[0])))
        if details:
            headers.append(("grpc-message", urllib.parse.quote(details, safe=" !#$&'()*+,/:;=?@[]")))
        self.local_ended, self.status = True, code
        self._connection.send_headers(self.stream_id, headers, end_stream=True)
        if not self.remote_ended:
            self.remote_ended = True
            self._connection.reset_stream(self.stream_id, ErrorCodes.NO_ERROR)

    def refuse(self, code: grpc.StatusCode, details: str) -> None:
        """End the stream with a status, and cancel the handler."""
        self.finish(code, details)
        self._cancel()

    def end(self, status: grpc.StatusCode) -> None:
        """Cancel the handler: the client is gone."""
        super().end(status)
        self._cancel()

    def _cancel(self) -> None:
        if self.task is not None:
            self.task.cancel()


class ServerConnection(Http2Connection):
    """A client's connection."""

    def __init__(self, listener: StreamListener) -> None:
        """Serve the listener's handlers."""
        super().__init__(client=False, keepalive=_KEEPALIVE, max_message_bytes=listener.max_message_bytes)
        self._listener = listener
        self.authentication = functools.cache(self._authenticate)
        """Returns the certificates of the client, as gRPC's contexts do."""
        self._timers: list[asyncio.TimerHandle] = []
        self.lost: asyncio.Future[None] = self._loop.create_future()
        """Done when the connection is closed."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the connection's age."""
        super().connection_made(transport)
        connection = transport.get_extra_info("ssl_object")
        if connection is not None and connection.selected_alpn_protocol() != "h2":
            self.abort()
            return
        self._listener.connections.add(self)
        age = self._listener.max_age_seconds * random.uniform(1 - _AGE_JITTER, 1 + _AGE_JITTER)  # noqa: S311 - no secret
        self._timers.append(self._loop.call_later(age, self.leave, self._listener.grace_seconds))

    def connection_lost(self, error: Exception | None) -> None:
        """Cancel the handlers."""
        super().connection_lost(error)
        self._listener.connections.discard(self)
        self.lost.set_result(None)
        for timer in self._timers:
            timer.cancel()

    def request_received(self, stream_id: int, headers: dict[bytes, bytes]) -> None:
        """Run the handler of the method."""
        if self.is_leaving:
            self.reset_stream(stream_id, ErrorCodes.REFUSED_STREAM)
            return
        stream = self.streams[stream_id] = ServerStream(self, stream_id)
        handler = self._listener.handlers.get(headers.get(b":path", b"").decode("latin-1"))
        if not headers.get(b"content-type", b"").startswith(b"application/grpc"):
            stream.finish(grpc.StatusCode.INVALID_ARGUMENT, "the content type is not application/grpc")
        elif handler is None or headers.get(b":method") != b"POST":
            stream.finish(grpc.StatusCode.UNIMPLEMENTED, "the method is not served here")
        elif headers.get(b"grpc-encoding", b"identity") != b"identity":
            stream.finish(grpc.StatusCode.UNIMPLEMENTED, "compressed messages are not supported")
        else:
            stream.task = self._loop.create_task(_serve(handler, stream))

    def stream_closed(self) -> None:
        """Close a connection that is leaving, after its last stream."""
        if self.is_leaving and not self.streams:
            self.close()

    def leave(self, grace_seconds: float) -> None:
        """Ask the client to make another connection, and wait for the end of its streams."""
        if self.is_closed or self.is_leaving:
            return
        self.say_goaway()
        self._timers.append(self._loop.call_later(grace_seconds, self.abort))
        self.stream_closed()

    def _authenticate(self) -> Mapping[str, tuple[bytes, ...]]:
        connection = self.transport.get_extra_info("ssl_object")
        chain = () if connection is None else client_chain(connection)
        return {"x509_pem_cert": chain}


async def _serve(handler: StreamHandler, stream: ServerStream) -> None:
    """Run a handler, and send the status."""
    try:
        await handler(stream)
    except grpc.aio.AbortError:
        return
    except asyncio.CancelledError:
        stream.finish(grpc.StatusCode.UNAVAILABLE, "the service is stopping")
        raise
    except Exception as error:  # noqa: BLE001 - the handler's last resort; the peer learns nothing of it
        _log.error("a stream failed", extra={"error": describe_error(error)})
        stream.finish(grpc.StatusCode.INTERNAL)
    else:
        stream.finish(grpc.StatusCode.OK)


class ListenerAddress(NamedTuple):
    """Where a listener listens, as its service tells front doors."""

    port: int = 0
    """The TCP port, on the service's own address; 0 without one."""
    socket_name: str = ""
    """The name of the Unix socket, in a folder that both know; empty without one."""


class StreamListener:
    """Accepts connections, on a TCP port or a Unix socket."""

    def __init__(
        self,
        handlers: Mapping[str, StreamHandler],
        *,
        tls: Callable[[], ssl.SSLContext] | None,
        max_message_bytes: int,
        max_age_seconds: float,
        grace_seconds: float,
    ) -> None:
        """Serve ``handlers``, by the path of their method.

        Args:
            handlers: They run in tasks, which are cancelled when the client goes away.
            tls: Returns the context of a new handshake; None without TLS.
            max_message_bytes: The longest message that is accepted.
            max_age_seconds: When connections are asked to leave.
            grace_seconds: How long their streams may then take to end.
        """
        self.handlers = handlers
        self.max_message_bytes = max_message_bytes
        self.max_age_seconds = max_age_seconds
        self.grace_seconds = grace_seconds
        self.connections: set[ServerConnection] = set()
        """The open connections."""
        self._tls = tls
        self._sockets: list[socket.socket] = []
        self._socket_path: Path | None = None
        self._accepting: list[asyncio.Task[None]] = []
        self._opening: set[asyncio.Task[None]] = set()

    def listen(self, host: str, port: int) -> ListenerAddress:
        """Listen on a TCP port; 0 picks a free one.

        Raises:
            OSError: the address cannot be used.
        """
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
            self._accept_from(listener)
        except OSError:
            listener.close()
            raise
        return ListenerAddress(port=listener.getsockname()[1])

    def listen_in(self, folder: Path) -> ListenerAddress:
        """Listen on a Unix socket in a folder, which is open to its owner alone: everybody else is kept out by it.

        Raises:
            ConfigurationError: the folder is open to others.
            OSError: the socket cannot be made.
        """
        if stat.S_IMODE(folder.stat().st_mode) & 0o077:
            raise ConfigurationError(
                f"{folder}: the folder of sockets must be open to its owner alone (0700)"
            )
        path = self._socket_path = folder / f"{os.getpid()}-{id(self):x}.sock"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(str(path))
            self._accept_from(listener)
        except OSError:
            listener.close()
            raise
        return ListenerAddress(socket_name=path.name)

    def _accept_from(self, listener: socket.socket) -> None:
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        self._sockets.append(listener)
        self._accepting.append(asyncio.ensure_future(self._accept(listener)))

    async def _accept(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, _ = await loop.sock_accept(listener)
            except OSError:
                await asyncio.sleep(_AFTER_ACCEPT_FAILED_SECONDS)
                continue
            if len(self.connections) + len(self._opening) >= _MAX_CONNECTIONS:
                accepted.close()
                continue
            task = asyncio.ensure_future(self._open(accepted))
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)

    async def _open(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        if accepted.family != socket.AF_UNIX:
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        security: dict[str, Any] = {}
        if self._tls is not None:
            # Each handshake has a context of its own, with the files as they are now.
            security = {"ssl": self._tls(), "ssl_handshake_timeout": _HANDSHAKE_SECONDS}
        try:
            await loop.connect_accepted_socket(lambda: ServerConnection(self), accepted, **security)
        except OSError:
            accepted.close()  # the handshake failed

    def leave(self) -> None:
        """Accept no more connections, and close each when its streams have ended."""
        self._stop_accepting()
        for connection in tuple(self.connections):
            connection.leave(self.grace_seconds)

    async def closed(self) -> None:
        """Wait until all connections are closed, at most for the grace time; then close them."""
        if ending := [connection.lost for connection in self.connections]:
            await asyncio.wait(ending, timeout=self.grace_seconds)
        self.stop()

    def stop(self) -> None:
        """Close everything immediately."""
        self._stop_accepting()
        for task in tuple(self._opening):
            task.cancel()
        for connection in tuple(self.connections):
            connection.abort()

    def _stop_accepting(self) -> None:
        for task in self._accepting:
            task.cancel()
        for listener in self._sockets:
            listener.close()
        self._accepting, self._sockets = [], []
        if self._socket_path is not None:
            self._socket_path.unlink(missing_ok=True)
