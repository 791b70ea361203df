"""The framing of everything that a service and its child processes send each other, over a socket pair.

A frame is a head of 9 bytes (length of the body, number, kind) and a body. There are three conversations:

- with a worker (:mod:`pratique.hosting.isolated_controllers`): the first frame in each direction holds JSON (the plan,
  and what is wrong with it); calls and outcomes are messages of the contract.
- with the process that reads large texts (:mod:`pratique.processes.large_texts`): a request in MessagePack, the text
  itself, and the result in MessagePack.
- with the process that reads YAML ahead (:mod:`pratique.processes.yaml_process`): batches of texts, and what they hold,
  both in MessagePack.
"""

from __future__ import annotations

import enum
import socket
import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import asyncio  # the process that reads large texts has no event loop, and saves the memory

_HEAD = struct.Struct("!IIB")


class FrameKind(enum.IntEnum):
    """The kind of a frame."""

    PLAN = 1
    """To the worker, first: what to run."""
    READY = 2
    """From the worker, in answer: it is ready, or the body says why not."""
    CALL = 3
    """To the worker: a review and the call."""
    REPEATED_CALL = 4
    """Like CALL, after another worker broke off the same call."""
    CANCEL = 5
    """To the worker: nobody waits for the call of that number any longer."""
    OUTCOME = 6
    """From the worker: the outcome of the call of that number; empty if it was cancelled."""
    UNREADABLE = 7
    """From the worker: the reviewed object is not JSON; the body is the error message."""
    STUCK = 8
    """From the worker: the call of that number occupies a thread after its timeout."""
    TEXT_REQUEST = 9
    """To the reader of large texts: what to strip from the text in the next frame."""
    TEXT = 10
    """To the reader of large texts: the text."""
    TEXT_RESULT = 11
    """From the reader of large texts: the result of the request."""
    YAML_TEXTS = 12
    """To the process that reads YAML ahead: a batch of texts."""
    YAML_READINGS = 13
    """From the process that reads YAML ahead: what the texts of the next batch hold."""
    METRICS = 14
    """From the worker: the metrics of its controller, in Prometheus' text format."""


class ProcessFrame(NamedTuple):
    """One frame."""

    kind: FrameKind
    number: int = 0
    body: bytes = b""


def encode_frame(frame: ProcessFrame) -> bytes:
    """Encode a frame."""
    return _HEAD.pack(len(frame.body), frame.number, frame.kind) + frame.body


async def read_frame(reader: asyncio.StreamReader) -> ProcessFrame:
    """Read the next frame from a stream.

    Raises:
        EOFError: the other side is gone.
        OSError: the connection broke.
        ValueError: it is not a frame.
    """
    length, number, kind = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    return ProcessFrame(FrameKind(kind), number, await reader.readexactly(length))


def send_frame(connection: socket.socket, kind: FrameKind, pieces: Sequence[bytes]) -> None:
    """Send a frame whose body comes in pieces, which are not copied into one.

    Raises:
        OSError: the other side is gone, or the socket timed out.
    """
    connection.sendall(_HEAD.pack(sum(map(len, pieces)), 0, kind))
    for piece in pieces:
        connection.sendall(piece)


def receive_body(connection: socket.socket, kind: FrameKind) -> bytearray:
    """Receive the next frame, which must be of a kind, and return its body.

    Raises:
        EOFError: the other side is gone.
        OSError: the connection broke, the socket timed out, or the frame is of another kind.
    """
    length, _, received = _HEAD.unpack(_receive_exactly(connection, _HEAD.size))
    if received != kind:
        raise ConnectionError(f"expected a frame of kind {kind.value}, got {received}")
    return _receive_exactly(connection, length)


def _receive_exactly(connection: socket.socket, length: int) -> bytearray:
    content = bytearray(length)
    rest = memoryview(content)
    while rest:
        received = connection.recv_into(rest)
        if not received:
            raise EOFError
        rest = rest[received:]
    return content
