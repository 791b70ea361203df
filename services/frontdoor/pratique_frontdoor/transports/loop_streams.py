"""Streams to replicas in the event loop: each on a connection of its own, over TCP, TLS or a Unix socket."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, TypeAlias

import grpc
from h2.errors import ErrorCodes
from h2.exceptions import H2Error

from pratique.apimachinery.patterns import pattern
from pratique.rpc.http2 import Http2Connection, Keepalive, MessageStream, StreamEndedError
from pratique.rpc.streams import StreamListener

_KEEPALIVE = Keepalive(interval_seconds=1.0, timeout_seconds=3.0)
"""A replica that is frozen is noticed 4 s after its last sign of life. A connection with calls is never silent for 1 s
otherwise, and a ping a second on one without is nothing."""
_CONNECT_SECONDS = 5.0
"""How long connecting and the handshake may take; calls go another way meanwhile. TLS between continents takes 1 s."""
_MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""As on channels of grpcio."""
_SOCKET_NAME = pattern(r"[0-9A-Za-z_-]{1,64}\.sock")
"""The names of sockets that are believed: no path leads out of the folder."""
_MAX_PORT = 65_535

OpenStream: TypeAlias = Callable[[StreamListener, str], Awaitable["ClientStream"]]
"""Opens a stream of a method, by its path, at a listener; raises ConnectError."""

_CODES = {str(code.value[0]).encode(): code for code in grpc.StatusCode}
_STATUS_OF_HTTP = {
    b"400": grpc.StatusCode.INTERNAL,
    b"401": grpc.StatusCode.UNAUTHENTICATED,
    b"403": grpc.StatusCode.PERMISSION_DENIED,
    b"404": grpc.StatusCode.UNIMPLEMENTED,
    b"429": grpc.StatusCode.UNAVAILABLE,
    b"502": grpc.StatusCode.UNAVAILABLE,
    b"503": grpc.StatusCode.UNAVAILABLE,
    b"504": grpc.StatusCode.UNAVAILABLE,
}
"""As in https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md; others are UNKNOWN."""


class ConnectError(Exception):
    """A listener cannot be reached; the text says why."""


def _do_nothing() -> None:
    pass


class ClientStream(MessageStream):
    """A stream of one method, with the part of grpcio's streaming calls that is used. Its connection ends with it."""

    def __init__(self, connection: Http2Connection, path: str, *, scheme: str, authority: str) -> None:
        """Send the request's headers."""
        super().__init__(connection, 0)
        self.on_leaving: Callable[[], None] = _do_nothing
        """Called when the service wants another connection to be used."""
        headers = [
            (":method", "POST"),
            (":scheme", scheme),
            (":path", path),
            (":authority", authority),
            ("te", "trailers"),
            ("content-type", "application/grpc"),
        ]
        self.stream_id = connection.open_stream(self, headers)

    def _end_of_messages(self) -> bytes:
        if self.status is not grpc.StatusCode.OK:
            raise StreamEndedError(self.status or grpc.StatusCode.UNKNOWN)
        return super()._end_of_messages()

    async def done_writing(self) -> None:
        """Send no more messages."""
        if not self.local_ended:
            self.local_ended = True
            self._connection.end_stream(self.stream_id)

    def cancel(self) -> None:
        """End the stream and its connection."""
        if self.status is None:
            self._connection.reset_stream(self.stream_id, ErrorCodes.CANCEL)
            self.end(grpc.StatusCode.CANCELLED)
        self._connection.close()

    async def code(self) -> grpc.StatusCode:
        """Return the status of a stream that has ended."""
        return self.status or grpc.StatusCode.UNKNOWN

    def headers_arrived(self, headers: dict[bytes, bytes]) -> None:
        """Check the service's headers, which have the status if it sends no messages."""
        status = headers.get(b":status", b"")
        if status != b"200":
            self.end(_STATUS_OF_HTTP.get(status, grpc.StatusCode.UNKNOWN))
        elif not headers.get(b"content-type", b"").startswith(b"application/grpc"):
            self.end(grpc.StatusCode.UNKNOWN)
        elif headers.get(b"grpc-encoding", b"identity") != b"identity":
            self.refuse(grpc.StatusCode.INTERNAL, "")
        elif b"grpc-status" in headers:
            self.trailers_arrived(headers)
        self.headers_received = True

    def trailers_arrived(self, trailers: dict[bytes, bytes]) -> None:
        """Take the status. Its text is not read: it could contain anything."""
        self.end(_CODES.get(trailers.get(b"grpc-status", b""), grpc.StatusCode.UNKNOWN))

    def end_of_data(self) -> None:
        """End without a status, which every answer should have."""
        super().end_of_data()
        self.end(grpc.StatusCode.UNKNOWN)

    def refuse(self, code: grpc.StatusCode, _details: str) -> None:
        """Abort the stream because of what the service sent."""
        self._connection.reset_stream(self.stream_id, ErrorCodes.CANCEL)
        self.end(code)


class ClientConnection(Http2Connection):
    """A connection with one stream."""

    def __init__(self) -> None:
        """Prepare the connection."""
        super().__init__(client=True, keepalive=_KEEPALIVE, max_message_bytes=_MAX_MESSAGE_BYTES)

    def leaving(self) -> None:
        """Make new calls on another connection."""
        for stream in tuple(self.streams.values()):
            if isinstance(stream, ClientStream):
                stream.on_leaving()


class StreamConnector:
    """Opens streams to replicas, at the listeners that they name."""

    def __init__(
        self, context: Callable[[], ssl.SSLContext] | None, server_name: str, socket_folder: Path | None
    ) -> None:
        """Connect as channels to the same replicas do.

        Args:
            context: Returns the TLS of a new connection; None connects without TLS.
            server_name: The name that certificates must have; empty means the replica's address.
            socket_folder: The folder of Unix sockets; None uses none.
        """
        self._context = context
        self._server_name = server_name
        self._socket_folder = socket_folder

    async def open(self, target: str, listener: StreamListener, path: str) -> ClientStream:
        """Connect to a replica's listener, and open a stream of a method.

        Args:
            target: The gRPC target of the replica: an address and its port.
            listener: What the replica says of its listener.
            path: The path of the method.

        Raises:
            ConnectError: the listener cannot be reached, or is not what it should be.
        """
        connection: ClientConnection | None = None
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                connection = await self._connect(target, listener)
                await asyncio.wait([connection.ready])
        except (OSError, ValueError) as error:
            if connection is not None:
                connection.abort()
            raise ConnectError(_reason(error)) from None
        if connection.ready.cancelled() or connection.is_leaving:
            connection.abort()
            raise ConnectError("the listener closed the connection")
        scheme = "http" if self._context is None else "https"
        try:
            return ClientStream(connection, path, scheme=scheme, authority=self._server_name or _host(target))
        except H2Error:
            connection.abort()
            raise ConnectError("the listener accepts no streams") from None

    async def _connect(self, target: str, listener: StreamListener) -> ClientConnection:
        loop = asyncio.get_running_loop()
        if listener.socket_name and self._socket_folder is not None and self._context is None:
            if _SOCKET_NAME.fullmatch(listener.socket_name) is None:
                raise ConnectError("the name of the socket is not one that a service would choose")
            _, connection = await loop.create_unix_connection(
                ClientConnection, str(self._socket_folder / listener.socket_name)
            )
            return connection
        host = _host(target)
        if not host or not 0 < listener.port <= _MAX_PORT:
            raise ConnectError("it has no address that can be used from here")
        security: dict[str, Any] = {}
        if self._context is not None:
            security = {"ssl": self._context(), "server_hostname": self._server_name or host}
        transport, connection = await loop.create_connection(
            ClientConnection, host, listener.port, **security
        )
        secured = transport.get_extra_info("ssl_object")
        if secured is not None and secured.selected_alpn_protocol() != "h2":
            connection.abort()
            raise ConnectError("it does not speak HTTP/2")
        return connection


def _host(target: str) -> str:
    """Return the host of a target like ``ipv4:10.0.0.1:9002`` or ``dns:///127.0.0.1:9002``; empty without one."""
    scheme, _, rest = target.partition(":")
    if scheme not in {"ipv4", "ipv6", "dns"}:
        return ""
    return rest.rpartition("/")[2].rpartition(":")[0].strip("[]")


def _reason(error: OSError | ValueError) -> str:
    if isinstance(error, ssl.SSLError):
        return f"TLS: {error.reason}"
    return getattr(error, "strerror", None) or type(error).__name__
