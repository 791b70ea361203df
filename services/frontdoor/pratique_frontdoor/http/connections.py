"""One HTTP connection: where its messages begin and end, its limits, and the time that each part may take.

llhttp reports neither how long a head was nor where it ended, passes trailers on as if they were header fields, and
reads chunk extensions without a limit. ``Framing`` cuts the bytes into the parts of HTTP/1.1 messages, so that each
part is counted exactly however packets are cut, and the parser never sees a trailer. The parser still judges what a
part holds.

Until its caller is authenticated, a connection counts against limits by address and on memory. Where callers need no
credentials, no connection is ever authenticated, and these limits hold for all.
"""

from __future__ import annotations

import asyncio
import collections
import contextlib
import enum
import functools
import ipaddress
import logging
import socket
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from pratique.apimachinery import statuses
from pratique.apimachinery.patterns import pattern
from pratique_frontdoor.http.authentication import Callers, Peer
from pratique_frontdoor.http.messages import ResponseWriter, status_reply
from pratique_frontdoor.settings import FrontDoorSettings

if TYPE_CHECKING:
    from uvicorn.server import ServerState


_END_OF_HEAD = b"\r\n\r\n"
_MOST_LINE_BYTES = 1024
"""The longest line with the size of a chunk: 16 digits, and extensions, which nobody sends. Go allows 4096."""
_FRAMING_SHARE = 16
"""A chunked body may have one byte of framing for every 16 of data, besides the length of a head: chunks of 100 bytes
are fine without limit, and chunks of one byte, which cost a thousand times as much to read, for some thousands."""
_CHUNK_SIZE = pattern(rb"[0-9a-fA-F]{1,16}")
_HOST = pattern(rb"[A-Za-z0-9._~%!$&'()*+,;=:\[\]-]*")
"""The characters of ``uri-host [":" port]`` of RFC 9110, 7.2; it may be empty."""


class FramingError(ValueError):
    """The received bytes are not an HTTP message that can be answered; the message is for the client."""


class MessagePart(enum.Enum):
    """The part of a message that is expected next."""

    HEAD = enum.auto()
    BODY = enum.auto()
    CHUNK_SIZE = enum.auto()
    CHUNK_DATA = enum.auto()
    CHUNK_END = enum.auto()
    LAST_LINE = enum.auto()


class Framing:
    """The position of one connection within its messages."""

    __slots__ = ("_bytes_left", "_data_bytes", "_line", "_max_head_bytes", "_tail", "framing_bytes", "part")

    def __init__(self, max_head_bytes: int) -> None:
        """Expect a head first. ``framing_bytes`` counts the bytes of the head, or those around the data of a body."""
        self._max_head_bytes = max_head_bytes
        self.begin()

    def begin(self) -> None:
        """Expect the head of a message."""
        self.part = MessagePart.HEAD
        self._tail = b""
        self._line = b""
        self._bytes_left = self._data_bytes = self.framing_bytes = 0

    def begin_body(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Expect the body that a head with these fields announces.

        Raises:
            FramingError: the head did not end with an empty line, or the body has another transfer coding than
                ``chunked``, which a server cannot delimit (RFC 9112, 6.1).
        """
        if self._tail != _END_OF_HEAD:
            raise FramingError("lines end in CR LF, and nothing else")
        codings = [value for name, value in headers if name == b"transfer-encoding"]
        lengths = [value for name, value in headers if name == b"content-length"]
        if codings and [coding.lower() for coding in codings] != [b"chunked"]:
            raise FramingError("chunked, once, is the only transfer coding that is read")
        self.framing_bytes = 0
        if codings:
            self.part = MessagePart.CHUNK_SIZE
        elif lengths and int(lengths[0]):
            self.part = MessagePart.BODY
            self._bytes_left = int(lengths[0])

    def end_of_part(self, data: bytes, start: int) -> int:
        """Return where the part that begins at ``start`` ends in ``data``, and expect the next part.

        Raises:
            FramingError: the part is too large, or is not accepted here.
        """
        match self.part:
            case MessagePart.HEAD:
                return self._head(data, start)
            case MessagePart.CHUNK_SIZE:
                return self._chunk_size(data, start)
            case MessagePart.LAST_LINE:
                return self._last_line(data, start)
        size = min(self._bytes_left, len(data) - start)
        self._bytes_left -= size
        if not self._bytes_left and self.part is MessagePart.CHUNK_DATA:
            self.part, self._bytes_left = MessagePart.CHUNK_END, 2
        elif not self._bytes_left and self.part is MessagePart.CHUNK_END:
            self.part = MessagePart.CHUNK_SIZE
        return start + size

    def _head(self, data: bytes, start: int) -> int:
        # The end may have begun in earlier bytes.
        before = self._tail[-3:]
        found = (before + data[start : start + 3]).find(_END_OF_HEAD)
        if found >= 0:
            end = start + found + len(_END_OF_HEAD) - len(before)
        else:
            found = data.find(_END_OF_HEAD, start)
            end = found + len(_END_OF_HEAD) if found >= 0 else len(data)
        self.framing_bytes += end - start
        if self.framing_bytes > self._max_head_bytes:
            raise FramingError(f"a head has at most {self._max_head_bytes} bytes")
        self._tail = (self._tail + data[max(start, end - 4) : end])[-4:]
        return end

    def _chunk_size(self, data: bytes, start: int) -> int:
        end = data.find(b"\n", start, start + _MOST_LINE_BYTES) + 1
        size = (end or len(data)) - start
        self.framing_bytes += size
        if len(self._line) + size > _MOST_LINE_BYTES:
            raise FramingError(f"the line with the size of a chunk has at most {_MOST_LINE_BYTES} bytes")
        if self.framing_bytes > self._max_head_bytes + self._data_bytes // _FRAMING_SHARE:
            raise FramingError("the chunks of a body are larger than what goes round them")
        self._line += data[start : start + size]
        if end:
            self._take_size()
        return start + size

    def _take_size(self) -> None:
        digits = _CHUNK_SIZE.match(self._line)
        if digits is None:
            raise FramingError("a chunk begins with its size in hexadecimal digits")
        self._bytes_left, self._line = int(digits[0], 16), b""
        self._data_bytes += self._bytes_left
        self._tail = b""
        self.part = MessagePart.CHUNK_DATA if self._bytes_left else MessagePart.LAST_LINE

    def _last_line(self, data: bytes, start: int) -> int:
        """Read the empty line at the end of a chunked body. Trailers could take its place, and are refused."""
        end = min(start + 2 - len(self._tail), len(data))
        self._tail += data[start:end]
        if not b"\r\n".startswith(self._tail):
            raise FramingError("trailers are not read")
        return end


def check_version_and_host(version: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Refuse what a server must refuse by RFC 9112 (3.2), and versions that a response of HTTP/1.1 would not fit.

    Raises:
        FramingError: it is neither HTTP/1.1 nor HTTP/1.0, or does not have exactly one valid Host; HTTP/1.0 needs none.
    """
    if version not in {"1.0", "1.1"}:
        raise FramingError("HTTP/1.1 is spoken here, and HTTP/1.0")
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (version == "1.1" and not hosts) or not all(map(_HOST.fullmatch, hosts)):
        raise FramingError("a request has one Host, which is that of a URL")
    if version == "1.0" and any(name == b"transfer-encoding" for name, _ in headers):
        raise FramingError("HTTP/1.0 has no transfer codings")


TLS_BYTES = 64 * 1024
"""Memory of a connection over TLS before it receives anything: 61 KiB measured, most of them OpenSSL's and uvloop's."""
PLAIN_BYTES = 8 * 1024
"""The same without TLS: 6 KiB measured."""
UNAUTHENTICATED_WINDOW_BYTES = 16 * 1024
"""Bytes that the kernel buffers for an unauthenticated connection: as much as a head may have, because Linux doubles
it."""
CALLER_WINDOW_BYTES = 1024 * 1024
"""Bytes that it buffers for an authenticated caller, if the system allows it: a body of 7 MiB arrives in a few round
trips."""
_LOG_SECONDS = 10.0
"""At most one log line per reason in that time, however many connections are closed."""

_log = logging.getLogger(__name__)


class CountedConnection(Protocol):
    """A connection that is counted."""

    @property
    def is_busy(self) -> bool:
        """Whether a request is being read or answered on the connection."""

    def abort(self) -> None:
        """Close it immediately, and release everything that it holds."""


class UnauthenticatedConnections:
    """The open connections that are not authenticated.

    Excess connections are closed, not queued: if attackers could fill the queue, allowed callers would find no place.
    The oldest idle connection of the address with the most is closed: an honest client is authenticated within a round
    trip.
    """

    def __init__(self, settings: FrontDoorSettings) -> None:
        """Start without connections."""
        self._max_connections = settings.max_address_connections
        self._max_bytes = settings.max_unauthenticated_bytes
        self._sizes: dict[str, dict[CountedConnection, int]] = {}
        self._totals: dict[str, int] = {}
        self.held_bytes = 0
        """The bytes of all connections."""
        self.closed: collections.Counter[tuple[str, ...]] = collections.Counter(
            {("address",): 0, ("memory",): 0, ("stalled",): 0}
        )
        """Closed connections by reason: too many from an address, too much memory, responses that the client does not
        read."""
        self._logged: dict[str, float] = {}

    def __len__(self) -> int:
        """Return the number of connections."""
        return sum(map(len, self._sizes.values()))

    def add(self, connection: CountedConnection, address: str, size: int) -> None:
        """Count a new connection, and close others, or this one, if a limit is exceeded."""
        of_address = self._sizes.setdefault(address, {})
        of_address[connection] = 0
        self.resize(connection, address, size)
        if self._max_connections and len(of_address) > self._max_connections:
            self._close(_oldest_idle(of_address, connection), address, "address")

    def resize(self, connection: CountedConnection, address: str, size: int) -> None:
        """Update the bytes of a connection."""
        of_address = self._sizes.get(address, {})
        if connection not in of_address:
            return  # authenticated or closed
        difference = size - of_address[connection]
        of_address[connection] = size
        self._totals[address] = self._totals.get(address, 0) + difference
        self.held_bytes += difference
        while difference > 0 and self._max_bytes and self.held_bytes > self._max_bytes:
            heaviest = max(self._totals, key=self._totals.__getitem__)
            victim = _oldest_idle(self._sizes[heaviest], None)
            if victim is None:
                heaviest, victim = address, connection
            self._close(victim, heaviest, "memory")
            if victim is connection:
                return

    def remove(self, connection: CountedConnection, address: str) -> None:
        """Forget a connection that is closed or authenticated. Calling it again has no effect."""
        of_address = self._sizes.get(address, {})
        size = of_address.pop(connection, None)
        if size is None:
            return
        self.held_bytes -= size
        self._totals[address] -= size
        if not of_address:
            del self._sizes[address], self._totals[address]

    def count(self, reason: str, address: str) -> None:
        """Count a closed connection, and log it unless that was done recently."""
        self.closed[reason,] += 1
        now = time.monotonic()
        if now - self._logged.get(reason, -_LOG_SECONDS) >= _LOG_SECONDS:
            self._logged[reason] = now
            extra = {"reason": reason, "address": address, "closed": self.closed[reason,]}
            _log.warning("connections are closed", extra=extra)

    def _close(self, connection: CountedConnection | None, address: str, reason: str) -> None:
        if connection is not None:
            self.remove(connection, address)
            self.count(reason, address)
            connection.abort()


def _oldest_idle(
    connections: dict[CountedConnection, int], otherwise: CountedConnection | None
) -> CountedConnection | None:
    return next(
        (connection for connection in connections if connection is not otherwise and not connection.is_busy),
        otherwise,
    )


@functools.lru_cache(maxsize=4096)
def network_address(host: str | None) -> str:
    """Return what counts as one address: for IPv6 the first 64 bits, which is what one machine gets of a network.

    Sockets without an address, such as Unix ones, all count as ``local``.
    """
    try:
        address = ipaddress.ip_address((host or "").partition("%")[0])
    except ValueError:
        return "local"
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False))


class HttpConnection(HttpToolsProtocol):
    """One HTTP connection.

    ``overdue`` is checked once a second for each connection: cheaper than a timer for each request.
    """

    _waiting_since: float | None = None
    _head_came_at = 0.0
    _discarding = False
    _body_since: float | None = None
    _body_bytes = 0
    _unread = b""
    """Received bytes, parsed up to ``_read``."""
    _read = 0
    _complaint = ""
    _socket: socket.socket | None = None
    _address = ""
    _size = 0
    _most_read = 0
    _most_head = 0
    _is_authenticated = False
    _unsent_since: float | None = None

    def __init__(
        self,
        settings: FrontDoorSettings,
        config: uvicorn.Config,
        state: ServerState,
        connections: UnauthenticatedConnections,
        callers: Callers | None,
    ) -> None:
        """Enforce the limits of ``settings``; ``connections`` counts the connection until authentication."""
        super().__init__(config=config, server_state=state, app_state={})
        self._settings = settings
        self._framing = Framing(settings.max_head_bytes)
        self._connections = connections
        self._callers = callers

    @property
    def is_busy(self) -> bool:
        """Whether a request is being read or answered on the connection."""
        cycle: RequestResponseCycle | None = self.cycle  # uvicorn does not annotate it
        return cycle is not None and not cycle.response_complete

    def count_accepted(self, accepted: socket.socket | None, peer: object, size: int = TLS_BYTES) -> None:
        """Count the connection, whether or not anything is ever sent on it; ``accepted`` is None without TLS."""
        self._socket = accepted
        self._size = size
        self._address = network_address(peer[0] if isinstance(peer, tuple) else None)
        self.app_state["address"] = self._address
        if self._callers is not None:
            # The authentication middleware takes it out of the state of the first request.
            self.app_state["mark_authenticated"] = self.mark_authenticated
        self._connections.add(self, self._address, size)

    def mark_authenticated(self) -> None:
        """Stop counting it as unauthenticated: its memory now counts against its caller."""
        if not self._is_authenticated:
            self._is_authenticated = True
            self.forget()
            if self._socket is not None:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, CALLER_WINDOW_BYTES)

    def forget(self) -> None:
        """Stop counting the connection."""
        self.app_state.pop("mark_authenticated", None)
        self._connections.remove(self, self._address)

    def abort(self) -> None:
        """Close the connection immediately, and drop what was read but not processed."""
        self._unread = b""
        if self.is_busy:
            self.cycle.body = bytearray()
        if self.transport is not None:
            self.transport.abort()
        if self._socket is not None:
            # During a handshake, this is the only way to end the connection.
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)

    def _resize(self, read: int = 0) -> None:
        """Update the memory counted for the connection: unprocessed bytes and unsent responses."""
        if self._is_authenticated or self.transport.is_closing():
            return
        taken = len(self.cycle.body) if self.is_busy else 0
        unsent = self.transport.get_write_buffer_size()
        if self._socket is not None:
            # uvloop and OpenSSL each have a buffer per connection over TLS; used parts of it stay allocated.
            self._most_read = max(self._most_read, 2 * read)
        # There are two copies of a head at a time, as received bytes and as fields; they stay until the next one.
        self._most_head = max(self._most_head, 2 * self._framing.framing_bytes)
        held = self._most_read + self._most_head + len(self._unread) - self._read + taken + unsent
        self._connections.resize(self, self._address, self._size + held)

    def close_overdue(self, now: float) -> None:
        """Close the connection if the client has kept the front door waiting for too long.

        ``now`` is the event loop's time.
        """
        if self._is_stalled(now):
            self._connections.count("stalled", self._address)
            self.abort()
        elif self.overdue(now):
            self.transport.close()

    def _is_stalled(self, now: float) -> bool:
        """Return whether responses have been unsent at every check for longer than a body may take."""
        if not self.transport.get_write_buffer_size():
            self._unsent_since = None
            return False
        self._unsent_since = self._unsent_since or now
        return now - self._unsent_since > self._settings.body_seconds

    def overdue(self, now: float) -> bool:
        """Return whether the client has kept the front door waiting for too long. ``now`` is the event loop's time.

        The front door waits for the rest of a head, for the first head of a new connection, for a body, or for the rest
        of a body that is already answered.
        """
        if self._waiting_since is not None:
            return now - self._waiting_since > self._settings.head_seconds
        return self._body_since is not None and self._body_lags(now)

    def _body_lags(self, now: float) -> bool:
        if self.flow.read_paused:
            # The front door keeps the client waiting, for an earlier response or for memory.
            self._expect_body(now)
            return False
        settings, seconds = self._settings, now - (self._body_since or now)
        due = (seconds - settings.body_grace_seconds) * settings.min_body_bytes_per_second
        return seconds > settings.body_seconds or self._body_bytes < due

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Start to wait for the first head."""
        super().connection_made(transport)
        connection = transport.get_extra_info("ssl_object")
        if connection is None:
            self.count_accepted(None, transport.get_extra_info("peername"), PLAIN_BYTES)
        else:
            peer = self.app_state["peer"] = Peer(connection)
            if self._callers is not None and self._callers.knows(peer):
                self.mark_authenticated()
        self._wait()

    def on_message_begin(self) -> None:
        """Start to wait for the rest of a head."""
        self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop waiting for the head; the application waits for the body.

        An exception makes httptools refuse the request.
        """
        self._waiting_since = None
        self._head_came_at = self.loop.time()
        try:
            self._check_head()
        except FramingError as error:
            self._complaint = str(error)
            raise
        self._expect_body(self._head_came_at)
        try:
            super().on_headers_complete()
        except Exception:  # whatever it is that uvicorn cannot take apart
            self._complaint = "its target is neither a path nor a URL with one"
            self._framing.begin()  # nothing answers this request, so that the refusal is the answer
            raise
        if self.scope["method"] != "HEAD":  # its response has no body
            self.cycle.transport = ResponseWriter(self.transport)  # type: ignore[assignment] # it has the methods that are used

    def _check_head(self) -> None:
        if len(self.headers) > self._settings.max_head_fields:
            raise FramingError(f"a head has at most {self._settings.max_head_fields} fields")
        if self.parser.should_upgrade():
            # httptools would treat the body as another protocol, and drop it.
            raise FramingError("no other protocol is spoken here")
        check_version_and_host(self.parser.get_http_version(), self.headers)
        self._framing.begin_body(self.headers)

    def on_body(self, body: bytes) -> None:
        """Count the received bytes."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Wait for the rest of a body that is already answered, and continue with what came after the request.

        The time for the rest counts from its head. So a body that was too large has time to finish, and one that was
        too slow has none left.
        """
        super().on_response_complete()
        self.cycle.body = bytearray()  # received after the response was decided; nothing reads it
        if self.cycle.more_body:
            self._waiting_since = self._head_came_at
            self._body_since = None
            self._discarding = True
        if self._unread:
            self.loop.call_soon(self._read_on)
        self._resize()

    def on_message_complete(self) -> None:
        """Stop waiting for a body, and expect a head."""
        self._body_since = None
        super().on_message_complete()
        self._framing.begin()
        if self.cycle.response_complete:
            self._waiting_since = None
            # uvicorn leaves this true after it has discarded the body.
            self.cycle.more_body = False

    def data_received(self, data: bytes) -> None:
        """Parse requests one after another: the next one stays unparsed until the previous one is answered."""
        self._unread = self._unread[self._read :] + data if self._unread else data
        self._read = 0
        self._read_on()
        self._resize(len(data))

    def _read_on(self) -> None:
        while self._unread and not self.transport.is_closing():
            if self._is_answering():
                # One packet has been read; the rest waits at the client.
                self.flow.pause_reading()
                return
            try:
                end = self._framing.end_of_part(self._unread, self._read)
            except FramingError as error:
                self._complaint = str(error)
                self.send_400_response("")
                return
            part = self._unread[self._read : end]
            self._read = end
            if end == len(self._unread):
                self._unread, self._read = b"", 0
            super().data_received(part)

    def _is_answering(self) -> bool:
        """Return whether a complete request is not answered yet."""
        return self._framing.part is MessagePart.HEAD and self.is_busy

    def connection_lost(self, exc: Exception | None) -> None:
        """Release what the connection held."""
        self.forget()
        self._unread, self._socket = b"", None
        self.app_state.clear()
        if self.flow is not None:  # the TLS handshake is complete, or there is none
            super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words are replaced
        """Answer a malformed request, and close the connection."""
        text = f"not an HTTP/1.1 request that can be answered: {self._complaint or 'it is malformed'}"
        body = status_reply(statuses.bad_request(text)).body
        head = [
            b"HTTP/1.1 400 Bad Request\r\n",
            *(b"%s: %s\r\n" % header for header in self.server_state.default_headers),
            b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body),
        ]
        self._unread = b""
        if self._framing.part is MessagePart.HEAD or not self.cycle.response_started:
            self.transport.write(b"".join([*head, body]))
        self.transport.close()

    def _expect_body(self, now: float) -> None:
        self._body_since = now
        self._body_bytes = 0

    def _wait(self) -> None:
        self._waiting_since = self.loop.time()
        self._discarding = False
