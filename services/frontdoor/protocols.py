"""Protocols: one HTTP connection, as uvicorn and httptools run it, with what they lack.

uvicorn has no time limit for a head, nor a size limit, and it answers what it cannot parse in plain text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from frontdoor.authentication.peers import Peer
from frontdoor.framing import Framing, FramingError, Part, check_version_and_host
from frontdoor.response_writers import ResponseWriter
from frontdoor.responses import status_reply
from pratique import statuses

if TYPE_CHECKING:
    import asyncio

    import uvicorn
    from uvicorn.protocols.http.httptools_impl import RequestResponseCycle
    from uvicorn.server import ServerState

    from frontdoor.settings import FrontDoorSettings


class Protocol(HttpToolsProtocol):
    """One connection.

    ``overdue`` is asked once a second for each connection: cheaper than a timer for each request.
    """

    _waiting_since: float | None = None
    _head_came_at = 0.0
    _discarding = False
    _body_since: float | None = None
    _body_bytes = 0
    _unread = b""
    """What came and is not parsed, up to ``_read``."""
    _read = 0
    _complaint = ""

    def __init__(self, settings: FrontDoorSettings, config: uvicorn.Config, state: ServerState) -> None:
        """Keep the limits of ``settings``."""
        super().__init__(config=config, server_state=state, app_state={})
        self._settings = settings
        self._framing = Framing(settings.max_head_bytes)

    def overdue(self, now: float) -> bool:
        """True where the client has kept the front door waiting for too long. ``now`` is the loop's time.

        The wait is for a head that was begun, or never came on a new connection, for a body, or for the rest of one
        that is answered already.
        """
        if self._waiting_since is not None:
            return now - self._waiting_since > self._settings.head_seconds
        return self._body_since is not None and self._body_lags(now)

    def _body_lags(self, now: float) -> bool:
        if self.flow.read_paused:
            # It is the front door that keeps the client waiting, for an earlier answer or for room.
            self._expect_body(now)
            return False
        settings, seconds = self._settings, now - (self._body_since or now)
        due = (seconds - settings.body_grace_seconds) * settings.min_body_bytes_per_second
        return seconds > settings.body_seconds or self._body_bytes < due

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        """Begin to wait for the first head."""
        super().connection_made(transport)
        connection = transport.get_extra_info("ssl_object")
        if connection is not None:
            self.app_state["peer"] = Peer(connection)
        self._wait()

    def on_message_begin(self) -> None:
        """Begin to wait for the rest of a head."""
        self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Stop waiting; the application waits for the body. Raising makes httptools refuse the request."""
        self._waiting_since = None
        self._head_came_at = self.loop.time()
        try:
            self._check_head()
        except FramingError as error:
            self._complaint = str(error)
            raise
        self._expect_body(self._head_came_at)
        super().on_headers_complete()
        if self.scope["method"] != "HEAD":  # whose answer is a head and nothing else
            self.cycle.transport = ResponseWriter(self.transport)  # type: ignore[assignment] # what it needs of it

    def _check_head(self) -> None:
        if len(self.headers) > self._settings.max_head_fields:
            raise FramingError(f"a head has at most {self._settings.max_head_fields} fields")
        if self.parser.should_upgrade():
            # httptools would take the body for another protocol, and drop it.
            raise FramingError("no other protocol is spoken here")
        check_version_and_host(self.parser.get_http_version(), self.headers)
        self._framing.begin_body(self.headers)

    def on_body(self, body: bytes) -> None:
        """Count what comes."""
        self._body_bytes += len(body)
        super().on_body(body)

    def on_response_complete(self) -> None:
        """Wait for the rest of a body that is answered already, and go on with what came after the request.

        The time for the rest counts from its head. So a body that was too large has time to end, and one that was too
        slow has had it.
        """
        super().on_response_complete()
        self.cycle.body = bytearray()  # what came of it after the answer was decided on; nobody reads it
        if self.cycle.more_body:
            self._waiting_since = self._head_came_at
            self._body_since = None
            self._discarding = True
        if self._unread:
            self.loop.call_soon(self._read_on)

    def on_message_complete(self) -> None:
        """Stop waiting for a body, and expect a head."""
        self._body_since = None
        super().on_message_complete()
        self._framing.begin()
        if self.cycle.response_complete:
            self._waiting_since = None
            # uvicorn leaves this true where it discarded the body.
            self.cycle.more_body = False

    def data_received(self, data: bytes) -> None:
        """Read requests one after another: the next one waits, unparsed, until the one before it is answered."""
        self._unread = self._unread[self._read :] + data if self._unread else data
        self._read = 0
        self._read_on()

    def _read_on(self) -> None:
        while self._unread and not self.transport.is_closing():
            if self._is_answering():
                # What has been read is one packet; the rest waits with the client.
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
        """Whether a request has come whole, and is not answered."""
        cycle: RequestResponseCycle | None = self.cycle  # which uvicorn does not say
        return self._framing.part is Part.HEAD and cycle is not None and not cycle.response_complete

    def connection_lost(self, exc: Exception | None) -> None:
        """Let go of what nobody will read."""
        self._unread = b""
        super().connection_lost(exc)

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words are replaced
        """Answer what is no HTTP request that can be answered, and close."""
        text = f"not an HTTP/1.1 request that can be answered: {self._complaint or 'it is malformed'}"
        body = status_reply(statuses.bad_request(text)).body
        head = [
            b"HTTP/1.1 400 Bad Request\r\n",
            *(b"%s: %s\r\n" % header for header in self.server_state.default_headers),
            b"content-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(body),
        ]
        self._unread = b""
        if self._framing.part is Part.HEAD or not self.cycle.response_started:
            self.transport.write(b"".join([*head, body]))
        self.transport.close()

    def _expect_body(self, now: float) -> None:
        self._body_since = now
        self._body_bytes = 0

    def _wait(self) -> None:
        self._waiting_since = self.loop.time()
        self._discarding = False
