"""Framing: where the parts of HTTP/1.1 messages end, so that a parser is given one part at a time.

llhttp tells neither how long a head was nor where it ended, passes on trailers as if they were header fields, and reads
chunk extensions without end. Whoever cuts what comes by its parts can count each of them exactly, however packets are
cut, and give the parser no trailer at all. What a part may hold is still the parser's to judge.
"""

from __future__ import annotations

import enum
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_END_OF_HEAD = b"\r\n\r\n"
_MOST_LINE_BYTES = 1024
"""The longest line that tells the size of a chunk: 16 digits, and extensions, which nobody sends. Go has 4096."""
_FRAMING_SHARE = 16
"""A chunked body may spend one byte on framing for each 16 of data, beside the length of a head: chunks of 100 bytes
are fine without end, and those of one byte, which cost a thousand times as much to read, for some thousands."""
_CHUNK_SIZE = re.compile(rb"[0-9a-fA-F]{1,16}")
_HOST = re.compile(rb"[A-Za-z0-9._~%!$&'()*+,;=:\[\]-]*")
"""``uri-host [":" port]`` of RFC 9110, 7.2, by its characters; it may be empty."""


class FramingError(ValueError):
    """What came is no HTTP message that can be answered; the text is for who sent it."""


class MessagePart(enum.Enum):
    """What comes next on a connection."""

    HEAD = enum.auto()
    BODY = enum.auto()
    CHUNK_SIZE = enum.auto()
    CHUNK_DATA = enum.auto()
    CHUNK_END = enum.auto()
    LAST_LINE = enum.auto()


class Framing:
    """Where one connection is within its messages."""

    __slots__ = ("_bytes_left", "_data_bytes", "_line", "_max_head_bytes", "_tail", "framing_bytes", "part")

    def __init__(self, max_head_bytes: int) -> None:
        """Begin with the head of a message; ``framing_bytes`` are those of it, or of what goes round a body's data."""
        self._max_head_bytes = max_head_bytes
        self.begin()

    def begin(self) -> None:
        """Expect the head of a message."""
        self.part = MessagePart.HEAD
        self._tail = b""
        self._line = b""
        self._bytes_left = self._data_bytes = self.framing_bytes = 0

    def begin_body(self, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Expect the body that a head with these fields tells of.

        Raises:
            FramingError: the head ended in another way than by an empty line, or has a body in another transfer
                coding than ``chunked``, of which RFC 9112 (6.1) lets a server know no more.
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
        """Tell up to where ``data`` is of one part from ``start`` on, and expect what comes after that.

        Raises:
            FramingError: it is too much, or what is never read.
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
        # An end may have begun in what came before.
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
        """The empty line at the end of a chunked body. In its place trailers could come, which nothing here needs."""
        end = min(start + 2 - len(self._tail), len(data))
        self._tail += data[start:end]
        if not b"\r\n".startswith(self._tail):
            raise FramingError("trailers are not read")
        return end


def check_version_and_host(version: str, headers: Sequence[tuple[bytes, bytes]]) -> None:
    """Refuse what RFC 9112 (3.2) has a server refuse, and versions that an answer of HTTP/1.1 would not fit.

    Raises:
        FramingError: it is neither HTTP/1.1 nor HTTP/1.0, or has not one valid Host; 1.0 may have none.
    """
    if version not in {"1.0", "1.1"}:
        raise FramingError("HTTP/1.1 is spoken here, and HTTP/1.0")
    hosts = [value for name, value in headers if name == b"host"]
    if len(hosts) > 1 or (version == "1.1" and not hosts) or not all(map(_HOST.fullmatch, hosts)):
        raise FramingError("a request has one Host, which is that of a URL")
    if version == "1.0" and any(name == b"transfer-encoding" for name, _ in headers):
        raise FramingError("HTTP/1.0 has no transfer codings")
