"""gRPC's messages on one stream of an HTTP/2 connection in the event loop."""

from __future__ import annotations

import asyncio
import collections
from typing import TYPE_CHECKING

import grpc
import h2.errors

if TYPE_CHECKING:  # a cycle: connections have streams
    from pratique.rpc.http2 import Http2Connection

STREAM_WINDOW_BYTES = 1024 * 1024
"""The flow control window of a stream. 1 MiB: four of the largest messages that front doors make of small calls."""
_MAX_UNREAD_BYTES = 256 * 1024
"""The bytes of unread messages at which the peer is allowed to send no more: one such message."""
_PREFIX_BYTES = 5
"""Before each message: whether it is compressed, and its length in 4 bytes."""


class StreamEndedError(Exception):
    """A message cannot be sent or received, because the stream has ended; it has the code of the end."""

    def __init__(self, code: grpc.StatusCode) -> None:
        """End with ``code``."""
        super().__init__(code.name)
        self._code = code

    def code(self) -> grpc.StatusCode:
        """Return the gRPC status code."""
        return self._code


class MessageStream:
    """One stream: messages in both directions, with flow control. One task reads, and one writes."""

    def __init__(self, connection: Http2Connection, stream_id: int) -> None:
        """Start without messages."""
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        self.stream_id = stream_id
        self.headers_received = False
        """Whether messages may arrive."""
        self.remote_ended = False
        """Whether the peer sends nothing more."""
        self.local_ended = False
        """Whether nothing more can be sent."""
        self.status: grpc.StatusCode | None = None
        """How the stream ended; None while it is open."""
        self.receive_window = STREAM_WINDOW_BYTES
        """The bytes that the peer may still send."""
        self._partial = bytearray()
        self._messages: collections.deque[bytes] = collections.deque()
        self._unread_bytes = 0
        self._reader: asyncio.Future[None] | None = None
        self._writer: asyncio.Future[None] | None = None

    # Messages

    async def read(self) -> bytes:
        """Return the next message, or ``grpc.aio.EOF`` if there is none.

        Raises:
            StreamEndedError: the stream did not end well.
        """
        while not self._messages:
            if self.remote_ended:
                return self._end_of_messages()
            self._reader = self._loop.create_future()
            await self._reader
        message = self._messages.popleft()
        self._unread_bytes -= len(message)
        if self.receive_window < STREAM_WINDOW_BYTES // 2:
            self._return_window()
        return message

    def _end_of_messages(self) -> bytes:
        end: bytes = grpc.aio.EOF  # type: ignore[attr-defined]  # missing in the stubs
        return end

    async def write(self, message: bytes) -> None:
        """Send a message. If this is cancelled, the stream can only be ended.

        Raises:
            StreamEndedError: the stream has ended.
        """
        unsent = b"\0" + len(message).to_bytes(4, "big") + message
        while unsent:
            if self.local_ended:
                raise StreamEndedError(self.status or grpc.StatusCode.UNAVAILABLE)
            size = self._connection.sendable_bytes(self.stream_id)
            if size:
                self._connection.send_data(self.stream_id, unsent if size >= len(unsent) else unsent[:size])
                unsent = unsent[size:]
            else:
                self._writer = self._loop.create_future()
                await self._writer

    # What the connection tells

    def headers_arrived(self, headers: dict[bytes, bytes]) -> None:
        """Handle the server's headers."""
        raise NotImplementedError

    def trailers_arrived(self, trailers: dict[bytes, bytes]) -> None:
        """Handle trailers; those of clients mean nothing."""

    def receive(self, data: bytes) -> None:
        """Handle some data."""
        if not self._partial and self._is_one_message(data):
            self._deliver(data[_PREFIX_BYTES:])
        else:
            self._partial += data
            self._deliver_complete()
        if self.receive_window < STREAM_WINDOW_BYTES // 2:
            self._return_window()

    def _is_one_message(self, data: bytes) -> bool:
        """Tell whether the data is exactly one message that may be delivered, as most frames are."""
        size = len(data) - _PREFIX_BYTES
        return (
            0 <= size <= self._connection.max_message_bytes
            and not data[0]
            and int.from_bytes(data[1:_PREFIX_BYTES], "big") == size
        )

    def _deliver_complete(self) -> None:
        partial = self._partial
        while len(partial) >= _PREFIX_BYTES and self.status is None:
            if partial[0]:
                self.refuse(grpc.StatusCode.INTERNAL, "compressed messages are not supported")
                break
            size = int.from_bytes(partial[1:_PREFIX_BYTES], "big")
            if size > self._connection.max_message_bytes:
                self.refuse(grpc.StatusCode.RESOURCE_EXHAUSTED, "the message is too long")
                break
            end = _PREFIX_BYTES + size
            if len(partial) < end:
                return
            self._deliver(bytes(partial[_PREFIX_BYTES:end]))
            del partial[:end]

    def _deliver(self, message: bytes) -> None:
        self._messages.append(message)
        self._unread_bytes += len(message)
        self._wake_reader()

    def _return_window(self) -> None:
        """Let the peer send more, unless it is ahead of the reader."""
        if self._unread_bytes < _MAX_UNREAD_BYTES and not self.remote_ended:
            self._connection.return_window(self.stream_id, STREAM_WINDOW_BYTES - self.receive_window)
            self.receive_window = STREAM_WINDOW_BYTES

    def end_of_data(self) -> None:
        """Handle the end of what the peer sends."""
        if self._partial and self.status is None:
            self.refuse(grpc.StatusCode.INTERNAL, "the last message is incomplete")
        self.remote_ended = True
        self._wake_reader()

    def reset(self, code: h2.errors.ErrorCodes | int) -> None:
        """Handle the peer's abort of the stream."""
        self.end(_STATUS_OF_RESETS.get(code, grpc.StatusCode.INTERNAL))

    def lost(self) -> None:
        """Handle the end of the connection."""
        self.end(grpc.StatusCode.UNAVAILABLE)

    # Ends

    def refuse(self, code: grpc.StatusCode, details: str) -> None:
        """End the stream because of what the peer sent."""
        raise NotImplementedError

    def end(self, status: grpc.StatusCode) -> None:
        """Send and receive nothing more; what was received can be read."""
        if self.status is None:
            self.status = status
        self.remote_ended = self.local_ended = True
        self._partial.clear()
        self._wake_reader()
        self.wake_writer()

    def wake_writer(self) -> None:
        """Let the writer look again whether it can send."""
        if self._writer is not None and not self._writer.done():
            self._writer.set_result(None)

    def _wake_reader(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


_STATUS_OF_RESETS: dict[int, grpc.StatusCode] = {
    h2.errors.ErrorCodes.REFUSED_STREAM: grpc.StatusCode.UNAVAILABLE,
    h2.errors.ErrorCodes.CANCEL: grpc.StatusCode.CANCELLED,
    h2.errors.ErrorCodes.ENHANCE_YOUR_CALM: grpc.StatusCode.RESOURCE_EXHAUSTED,
    h2.errors.ErrorCodes.INADEQUATE_SECURITY: grpc.StatusCode.PERMISSION_DENIED,
}
"""As in https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md#errors; others are INTERNAL."""
