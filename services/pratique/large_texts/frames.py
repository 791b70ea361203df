"""Frames: what goes to and fro between a service and the process that reads for it, over a socket pair.

To the process go the length of an order, the order, and the text; back come the length of a reading, and the reading.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, TypeVar

import msgspec

from pratique.json_limits import JsonLimitError
from pratique.large_texts.cuts import Cut, Remainder  # noqa: TC001 - msgspec resolves the annotations

if TYPE_CHECKING:
    import socket

MessageT = TypeVar("MessageT", "Order", "Reading")

_LENGTH = struct.Struct("!Q")


class Order(msgspec.Struct, frozen=True):
    """What is to be read."""

    length: int
    """The text's, in bytes."""
    cut: Cut | None = None
    """What to take out of it; None: it is only to be checked."""


class Reading(msgspec.Struct, frozen=True):
    """What came of it. It says everything each time, so that nothing can be taken for a text that is good."""

    beyond: str
    """Which limit the text is beyond, as a ``JsonLimitError`` says it; empty where it is within all."""
    malformed: str
    """Why it is no JSON; empty where it is."""
    remainder: Remainder | None
    """What is left of it, where something was to be taken out and is there."""

    def check(self) -> Reading:
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


def send(connection: socket.socket, message: Order | Reading) -> None:
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
