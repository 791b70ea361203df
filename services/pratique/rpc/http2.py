"""HTTP/2 connections in the event loop that carry gRPC messages, without threads.

``h2`` keeps the state of each connection: settings, headers, streams and their ends, pings. Two things are done here
instead: DATA frames, which take 20 µs in ``h2`` and 2 µs here, and GOAWAY, after which ``h2`` accepts nothing more.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
from typing import Any

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings

from pratique.rpc.message_streams import STREAM_WINDOW_BYTES, MessageStream
from pratique.telemetry.logs import describe_error

_log = logging.getLogger(__name__)

_FRAME_HEADER_BYTES = 9
_PREFACE_BYTES = 24
MAX_FRAME_BYTES = 16 * 1024
"""The longest frame, both ways: HTTP/2's minimum, which every peer accepts."""
_MAX_STREAMS = 16
"""The most open streams of one connection. A front door opens one."""
_CONNECTION_WINDOW_BYTES = _MAX_STREAMS * STREAM_WINDOW_BYTES
"""The window of a connection: so that a stream that is not read does not stop the others."""
_DEFAULT_WINDOW_BYTES = 65_535
_MAX_HEADER_BYTES = 8 * 1024
"""The longest list of headers, as in gRPC."""
_MAX_CONTROL_FRAMES = 1000
"""The most frames other than data that a peer can send in quick succession. Each second allows 10 more, where a
front door sends a ping in 4; each frame of data, in either direction, allows 2 more: gRPC sends up to 2 window updates
for each."""
_CONTROL_FRAMES_PER_SECOND = 10
_CONTROL_FRAMES_PER_DATA_FRAME = 2
_REQUEST_COST = 50
"""The control frames that a request counts as, because it starts a task: 20 requests, and then one in 5 seconds."""
_CLOSING_SECONDS = 5.0
"""How long a peer may take to read the last bytes of a connection."""

_DATA, _HEADERS, _PUSH_PROMISE, _GOAWAY, _WINDOW_UPDATE, _CONTINUATION = 0x0, 0x1, 0x5, 0x7, 0x8, 0x9
_END_STREAM, _END_HEADERS, _PADDED = 0x1, 0x4, 0x8
_LAST_STREAM_ID = 2**31 - 1


class Http2Error(Exception):
    """The peer broke the protocol or a limit; the connection ends with an error code of HTTP/2."""

    def __init__(self, code: h2.errors.ErrorCodes) -> None:
        """End with ``code``."""
        super().__init__(code.name)
        self.code = code


@dataclasses.dataclass(frozen=True, slots=True)
class Keepalive:
    """When a silent peer is asked whether it is alive."""

    interval_seconds: float
    """How long it may be silent."""
    timeout_seconds: float
    """How long it may then take to answer a ping."""


class Http2Connection(asyncio.Protocol):
    """One end of a connection. A subclass reacts to what its peer opens and ends."""

    def __init__(self, *, client: bool, keepalive: Keepalive, max_message_bytes: int) -> None:
        """Prepare the connection; its transport starts it."""
        self._loop = asyncio.get_running_loop()
        self._is_client = client
        self._keepalive = keepalive
        self.max_message_bytes = max_message_bytes
        self.streams: dict[int, MessageStream] = {}
        """The open streams."""
        # Headers stay bytes, because h2 would fail with what is not UTF-8.
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=client, header_encoding=None)
        )
        self._h2.local_settings = _local_settings(client=client)
        self._h2.decoder.max_header_list_size = _MAX_HEADER_BYTES
        self._transport: asyncio.Transport | None = None
        self._unparsed = b""
        self._preface_bytes = 0 if client else _PREFACE_BYTES
        self._header_block_bytes = 0
        self._receive_window = _CONNECTION_WINDOW_BYTES
        self._control_frames: float = _MAX_CONTROL_FRAMES
        self._data_frames = 0
        self._refilled_at = self._last_received = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._pinged = False
        self._is_paused = False
        self.ready: asyncio.Future[None] = self._loop.create_future()
        """Done when the peer has sent its settings; cancelled if it never does."""
        self.is_leaving = False
        """Whether either side has sent GOAWAY: no more streams can be opened."""
        self.is_closed = False
        """Whether nothing more is sent or received."""

    @property
    def transport(self) -> asyncio.Transport:
        """The transport, once the connection is made."""
        if self._transport is None:
            raise RuntimeError("the connection is not made")
        return self._transport

    # What a subclass reacts to

    def request_received(self, stream_id: int, headers: dict[bytes, bytes]) -> None:
        """Handle the headers of a new stream of the client."""
        raise NotImplementedError

    def leaving(self) -> None:
        """Handle the peer's GOAWAY."""

    def stream_closed(self) -> None:
        """Handle the end of a stream in both directions."""

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the preface and the settings."""
        self._transport = transport  # type: ignore[assignment]  # sockets have this type
        self._h2.initiate_connection()
        self._h2.increment_flow_control_window(_CONNECTION_WINDOW_BYTES - _DEFAULT_WINDOW_BYTES)
        self.flush()
        self._timer = self._loop.call_later(self._keepalive.timeout_seconds, self._check_peer)

    def connection_lost(self, _error: Exception | None) -> None:
        """End all streams."""
        self.is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self.ready.cancel()
        streams, self.streams = self.streams, {}
        for stream in streams.values():
            stream.lost()

    def pause_writing(self) -> None:
        """Let writers wait."""
        self._is_paused = True

    def resume_writing(self) -> None:
        """Let writers go on."""
        self._is_paused = False
        self._wake_writers()

    def data_received(self, data: bytes) -> None:
        """Handle what arrived."""
        if self.is_closed:
            return
        self._last_received = self._loop.time()
        self._pinged = False
        try:
            self._unparsed = self._receive_frames(self._unparsed + data if self._unparsed else data)
        except Http2Error as error:
            self._fail(error.code)
        except h2.exceptions.ProtocolError as error:
            self._fail(error.error_code)
        except Exception as error:  # noqa: BLE001 - a peer may find a fault of h2; only its connection ends
            _log.error("a connection failed", extra={"error": describe_error(error)})
            self._fail(h2.errors.ErrorCodes.INTERNAL_ERROR)
        else:
            self.flush()

    # Receiving

    def _receive_frames(self, data: bytes) -> bytes:
        """Handle all complete frames, and return the rest, which is at most one frame."""
        position, end = 0, len(data)
        if self._preface_bytes:
            position = min(self._preface_bytes, end)
            self._preface_bytes -= position
            self._h2.receive_data(data[:position])
        while end - position >= _FRAME_HEADER_BYTES and not self.is_closed:
            length = int.from_bytes(data[position : position + 3], "big")
            if length > MAX_FRAME_BYTES:
                raise Http2Error(h2.errors.ErrorCodes.FRAME_SIZE_ERROR)
            start = position + _FRAME_HEADER_BYTES
            after = start + length
            if after > end:
                break
            if data[position + 3] == _DATA and not self._header_block_bytes:
                stream_id = int.from_bytes(data[position + 5 : start], "big") & _LAST_STREAM_ID
                self._receive_data(stream_id, data[position + 4], data[start:after])
            else:
                self._receive_other(data[position:after])
            position = after
        return data[position:]

    def _receive_data(self, stream_id: int, flags: int, payload: bytes) -> None:
        length = len(payload)
        self._receive_window -= length
        stream = self.streams.get(stream_id)
        if self._receive_window < 0:
            raise Http2Error(h2.errors.ErrorCodes.FLOW_CONTROL_ERROR)
        if stream is None:
            if not self._was_opened(stream_id):
                raise Http2Error(h2.errors.ErrorCodes.PROTOCOL_ERROR)
            self._count_control_frame()  # it may have been sent before the peer knew of the end
        elif stream.remote_ended or not stream.headers_received:
            raise Http2Error(h2.errors.ErrorCodes.STREAM_CLOSED)
        else:
            if length:
                self._data_frames += 1
            else:
                self._count_control_frame()
            stream.receive_window -= length
            if stream.receive_window < 0:
                raise Http2Error(h2.errors.ErrorCodes.FLOW_CONTROL_ERROR)
            stream.receive(_without_padding(payload) if flags & _PADDED else payload)
        if self._receive_window < _CONNECTION_WINDOW_BYTES // 2:
            self.return_window(0, _CONNECTION_WINDOW_BYTES - self._receive_window)
            self._receive_window = _CONNECTION_WINDOW_BYTES
        if flags & _END_STREAM and stream_id in self.streams:
            self._pass_on(_frame_header(0, _DATA, _END_STREAM, stream_id))

    def _was_opened(self, stream_id: int) -> bool:
        if stream_id % 2 == 0:
            return False  # nothing is pushed
        highest = (
            self._h2.highest_outbound_stream_id if self._is_client else self._h2.highest_inbound_stream_id
        )
        return stream_id <= highest

    def _receive_other(self, frame: bytes) -> None:
        kind, flags = frame[3], frame[4]
        self._count_control_frame()
        if kind in {_HEADERS, _PUSH_PROMISE, _CONTINUATION}:
            self._header_block_bytes += len(frame)
            if self._header_block_bytes > _MAX_HEADER_BYTES:
                raise Http2Error(h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)
            if flags & _END_HEADERS:
                self._header_block_bytes = 0
        elif kind == _GOAWAY and not self._header_block_bytes:
            self._receive_goaway(frame)
            return
        self._pass_on(frame)

    def _count_control_frame(self, cost: int = 1) -> None:
        """Count a frame other than data.

        Raises:
            Http2Error: there were too many.
        """
        now = self._last_received
        refilled = (
            self._control_frames
            + (now - self._refilled_at) * _CONTROL_FRAMES_PER_SECOND
            + self._data_frames * _CONTROL_FRAMES_PER_DATA_FRAME
        )
        self._refilled_at, self._data_frames = now, 0
        self._control_frames = min(_MAX_CONTROL_FRAMES, refilled) - cost
        if self._control_frames < 0:
            raise Http2Error(h2.errors.ErrorCodes.ENHANCE_YOUR_CALM)

    def _receive_goaway(self, frame: bytes) -> None:
        if len(frame) < _FRAME_HEADER_BYTES + 8 or int.from_bytes(frame[5:9], "big") & _LAST_STREAM_ID:
            raise Http2Error(h2.errors.ErrorCodes.PROTOCOL_ERROR)
        last = int.from_bytes(frame[9:13], "big") & _LAST_STREAM_ID
        self.is_leaving = True
        if self._is_client:
            for stream in [stream for number, stream in self.streams.items() if number > last]:
                stream.reset(h2.errors.ErrorCodes.REFUSED_STREAM)
                self._forget(stream.stream_id)
        self.leaving()

    def _pass_on(self, frame: bytes) -> None:
        for event in self._h2.receive_data(frame):
            self._handle(event)

    def _handle(self, event: Any) -> None:
        # Pings are answered by h2, and what is not here says nothing that counts.
        match event:
            case h2.events.RequestReceived():
                self._count_control_frame(_REQUEST_COST)
                self.request_received(event.stream_id, _fields(event.headers))
            case h2.events.RemoteSettingsChanged():
                if not self.ready.done():
                    self.ready.set_result(None)
                self._wake_writers()
            case h2.events.WindowUpdated():
                self._wake_writers()
            case _:
                stream = self.streams.get(getattr(event, "stream_id", 0))
                if stream is not None:
                    self._handle_on_stream(event, stream)

    def _handle_on_stream(self, event: Any, stream: MessageStream) -> None:
        match event:
            case h2.events.ResponseReceived():
                stream.headers_arrived(_fields(event.headers))
            case h2.events.TrailersReceived():
                stream.trailers_arrived(_fields(event.headers))
            case h2.events.StreamEnded():
                stream.end_of_data()
            case h2.events.StreamReset():
                stream.reset(event.error_code)
                self._forget(event.stream_id)
            case _:
                pass

    def _wake_writers(self) -> None:
        for stream in self.streams.values():
            stream.wake_writer()

    # Sending

    def flush(self) -> None:
        """Send what h2 has prepared."""
        if prepared := self._h2.data_to_send():
            self._write(prepared)

    def _write(self, data: bytes) -> None:
        if not self.is_closed:
            self.transport.write(data)

    def return_window(self, stream_id: int, size: int) -> None:
        """Allow the peer to send more bytes, on a stream or (0) on the connection."""
        self._write(_frame_header(4, _WINDOW_UPDATE, 0, stream_id) + size.to_bytes(4, "big"))

    def open_stream(self, stream: MessageStream, headers: list[tuple[str, str]]) -> int:
        """Open a client's stream, and return its id."""
        stream_id = self._h2.get_next_available_stream_id()
        self._h2.send_headers(stream_id, headers)
        self.streams[stream_id] = stream
        self.flush()
        return stream_id

    def send_headers(
        self, stream_id: int, headers: list[tuple[str, str]], *, end_stream: bool = False
    ) -> None:
        """Send headers or trailers, unless the stream has ended."""
        with contextlib.suppress(h2.exceptions.H2Error):
            self._h2.send_headers(stream_id, headers, end_stream=end_stream)
        self.flush()
        if end_stream:
            self._forget_ended(stream_id)

    def sendable_bytes(self, stream_id: int) -> int:
        """How many bytes of data can be sent in one frame now; 0 if the peer takes none, or a buffer is full."""
        if self._is_paused:
            return 0
        return max(0, min(self._h2.local_flow_control_window(stream_id), self._h2.max_outbound_frame_size))

    def send_data(self, stream_id: int, data: bytes) -> None:
        """Send one frame of data of at most :meth:`sendable_bytes`."""
        size = len(data)
        self._data_frames += 1
        # What h2's send_data does, in a tenth of its time.
        self._h2.outbound_flow_control_window -= size
        self._h2.streams[stream_id].outbound_flow_control_window -= size
        self._write(_frame_header(size, _DATA, 0, stream_id) + data)

    def end_stream(self, stream_id: int) -> None:
        """Send nothing more on a stream."""
        with contextlib.suppress(h2.exceptions.H2Error):
            self._h2.end_stream(stream_id)
        self.flush()
        self._forget_ended(stream_id)

    def reset_stream(self, stream_id: int, code: h2.errors.ErrorCodes) -> None:
        """Abort a stream."""
        with contextlib.suppress(h2.exceptions.H2Error):
            self._h2.reset_stream(stream_id, code)
        self.flush()
        self._forget(stream_id)

    def _forget_ended(self, stream_id: int) -> None:
        stream = self.streams.get(stream_id)
        if stream is not None and stream.remote_ended:
            self._forget(stream_id)

    def _forget(self, stream_id: int) -> None:
        if self.streams.pop(stream_id, None) is not None:
            self.stream_closed()

    # Ending

    def say_goaway(self, code: h2.errors.ErrorCodes = h2.errors.ErrorCodes.NO_ERROR) -> None:
        """Accept no more streams; those that are open go on."""
        self.is_leaving = True
        last = 0 if self._is_client else self._h2.highest_inbound_stream_id
        self._write(_frame_header(8, _GOAWAY, 0, 0) + last.to_bytes(4, "big") + code.to_bytes(4, "big"))

    def close(self) -> None:
        """Close the connection, when what was written has been sent."""
        if not self.is_closed:
            self.is_closed = True
            self.transport.close()
            self._loop.call_later(_CLOSING_SECONDS, self.transport.abort)

    def abort(self) -> None:
        """Close the connection immediately."""
        self.is_closed = True
        if self._transport is not None:
            self._transport.abort()

    def _fail(self, code: h2.errors.ErrorCodes) -> None:
        """End a connection whose peer broke the protocol or a limit, and say why."""
        reason = h2.errors.ErrorCodes(code).name
        _log.warning("a connection is ended: its peer does not keep to HTTP/2", extra={"reason": reason})
        self._h2.clear_outbound_data_buffer()
        self.say_goaway(code)
        self.close()

    def _check_peer(self) -> None:
        """Ping a silent peer, and give it up if it stays silent."""
        silent = self._loop.time() - self._last_received
        interval, timeout = self._keepalive.interval_seconds, self._keepalive.timeout_seconds
        if self._pinged or not self.ready.done():
            self.abort()  # it speaks no HTTP/2, or is frozen
            return
        if silent >= interval:
            self._pinged = True
            self._h2.ping(bytes(8))
            self.flush()
        wait = timeout if self._pinged else max(interval - silent, 0.01)
        self._timer = self._loop.call_later(wait, self._check_peer)


def _local_settings(*, client: bool) -> h2.settings.Settings:
    codes = h2.settings.SettingCodes
    values: dict[Any, int] = {
        codes.INITIAL_WINDOW_SIZE: STREAM_WINDOW_BYTES,
        codes.MAX_CONCURRENT_STREAMS: 0 if client else _MAX_STREAMS,
        codes.MAX_FRAME_SIZE: MAX_FRAME_BYTES,
        codes.MAX_HEADER_LIST_SIZE: _MAX_HEADER_BYTES,
    }
    if client:
        values[codes.ENABLE_PUSH] = 0
    return h2.settings.Settings(client=client, initial_values=values)


def _frame_header(length: int, kind: int, flags: int, stream_id: int) -> bytes:
    return length.to_bytes(3, "big") + bytes((kind, flags)) + stream_id.to_bytes(4, "big")


def _without_padding(payload: bytes) -> bytes:
    if not payload or payload[0] >= len(payload):
        raise Http2Error(h2.errors.ErrorCodes.PROTOCOL_ERROR)
    return payload[1 : len(payload) - payload[0]]


def _fields(headers: Any) -> dict[bytes, bytes]:
    return {bytes(name): bytes(value) for name, value in headers}
