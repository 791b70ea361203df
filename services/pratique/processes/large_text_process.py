"""The child process that checks large JSON texts for a service, and the messages it exchanges with it.

The service starts it from :mod:`pratique.processes.large_texts` as
``python -m pratique.processes.large_text_process FD``, where FD is a socket to the service.
"""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import struct
import sys
from collections.abc import Callable, Sequence
from typing import TypeAlias, TypeVar

import msgspec

from pratique.apimachinery.json_reading import JsonLimitError, parse_checked
from pratique.processes.parent_death import end_with_parent

_members = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NULL = msgspec.Raw(b"null")


class MemberSelection(msgspec.Struct, frozen=True):
    """Which values to take out."""

    of: str
    """The member of the outermost object whose members they are."""
    names: tuple[str, ...]
    """The names of those."""


class StrippedText(msgspec.Struct, frozen=True):
    """What is left of a text."""

    text: bytes
    """The same with ``null`` for each value."""
    spans: dict[str, tuple[int, int]]
    """Where in the whole text each value begins and ends, by its name."""


MemberStripper: TypeAlias = "Callable[[Sequence[bytes], MemberSelection], StrippedText | None]"
"""Checks a text that came in pieces, and takes values out of it as :func:`cut_out` does."""


def strip_members(text: bytes, cut: MemberSelection) -> StrippedText | None:
    """Take values out of a text in which no member is twice; None where it has no such member or that is no object.

    Raises:
        msgspec.DecodeError: it is no JSON.
    """
    try:
        outer = _members.decode(text)
        inner = _members.decode(outer[cut.of])
    except (msgspec.ValidationError, KeyError):
        return None
    spans = {name: _span(text, bytes(inner[name])) for name in cut.names if name in inner}
    outer[cut.of] = msgspec.Raw(msgspec.json.encode(inner | dict.fromkeys(spans, _NULL)))
    return StrippedText(msgspec.json.encode(outer), spans)


def slice_pieces(pieces: Sequence[bytes], begin: int, end: int) -> bytes:
    """What stands from one byte to another of a text in pieces. It is copied without the interpreter's lock."""
    found = []
    for piece in pieces:
        if begin < len(piece) and end > 0:
            found.append(piece[max(begin, 0) : end])
        begin, end = begin - len(piece), end - len(piece)
    return b"".join(found)


def _span(text: bytes, value: bytes) -> tuple[int, int]:
    # Where the same stands earlier in the text, that is as good.
    begin = text.index(value)
    return begin, begin + len(value)


MessageT = TypeVar("MessageT", "TextRequest", "TextResult")

_LENGTH = struct.Struct("!Q")


class TextRequest(msgspec.Struct, frozen=True):
    """What is to be read."""

    length: int
    """The text's, in bytes."""
    cut: MemberSelection | None = None
    """What to take out of it; None: it is only to be checked."""


class TextResult(msgspec.Struct, frozen=True):
    """What came of it. It says everything each time, so that nothing can be taken for a text that is good."""

    beyond: str
    """Which limit the text is beyond, as a ``JsonLimitError`` says it; empty where it is within all."""
    malformed: str
    """Why it is no JSON; empty where it is."""
    remainder: StrippedText | None
    """What is left of it, where something was to be taken out and is there."""

    def check(self) -> TextResult:
        """This, where the text is good.

        Raises:
            JsonLimitError: it is beyond a limit.
            msgspec.DecodeError: it is no JSON, or no UTF-8.
        """
        if self.beyond:
            raise JsonLimitError(self.beyond)
        if self.malformed:
            raise msgspec.DecodeError(self.malformed)
        return self


def send(connection: socket.socket, message: TextRequest | TextResult) -> None:
    """Send a message. Raises OSError where the other side is gone."""
    content = msgspec.msgpack.encode(message)
    connection.sendall(_LENGTH.pack(len(content)) + content)


def receive(connection: socket.socket, kind: type[MessageT]) -> MessageT:
    """Receive a message.

    Raises:
        EOFError: the other side is gone.
        OSError: the connection broke, or its time is up.
    """
    (length,) = _LENGTH.unpack(receive_bytes(connection, _LENGTH.size))
    return msgspec.msgpack.decode(receive_bytes(connection, length), type=kind)


def receive_bytes(connection: socket.socket, length: int) -> bytearray:
    """Receive that many bytes; raises as :func:`receive`."""
    content = bytearray(length)
    rest = memoryview(content)
    while rest:
        received = connection.recv_into(rest)
        if not received:
            raise EOFError
        rest = rest[received:]
    return content


_NICENESS = 10
"""Small reviews go first: where there are more that want to run than cores, this has a tenth of a service's share."""


def check_text(text: bytes, cut: MemberSelection | None) -> TextResult:
    """Check a text, and take out of it what is to be taken out."""
    try:
        parse_checked(text)
        return TextResult("", "", None if cut is None else strip_members(text, cut))
    except JsonLimitError as error:
        return TextResult(str(error), "", None)
    except UnicodeDecodeError as error:
        return TextResult("", f"invalid UTF-8 at byte {error.start}", None)
    except msgspec.DecodeError as error:
        return TextResult("", str(error), None)


def main() -> None:
    """Read until the service is gone."""
    end_with_parent()
    os.nice(_NICENESS)
    gc.disable()  # nothing that is read has circles, and all that a large text becomes would be walked again and again
    with socket.socket(fileno=int(sys.argv[1])) as service, contextlib.suppress(EOFError, ConnectionError):
        while True:
            order = receive(service, TextRequest)
            send(service, check_text(bytes(receive_bytes(service, order.length)), order.cut))


if __name__ == "__main__":
    main()
