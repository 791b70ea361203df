"""Frames between a service and a worker process, over a socket pair.

A frame is a head of 9 bytes (length of the body, number, kind) and a body. The first frame in each direction holds JSON
(:class:`pratique.hosting.services.Plan`, and what is wrong with it); calls and outcomes are messages of the contract.
"""

from __future__ import annotations

import asyncio
import enum
import struct
from typing import NamedTuple

_HEAD = struct.Struct("!IIB")


class FrameKind(enum.IntEnum):
    """What a frame says."""

    PLAN = 1
    """To the worker, first: what it is to run."""
    READY = 2
    """From the worker, in answer: it can run it, or the body says why not."""
    CALL = 3
    """To the worker: a review and the call."""
    REPEATED_CALL = 4
    """Likewise; another worker was asked the same before, and broke off."""
    CANCEL = 5
    """To the worker: nobody waits for the call of that number any longer."""
    OUTCOME = 6
    """From the worker: the outcome of the call of that number; empty where it was cancelled."""
    UNREADABLE = 7
    """From the worker: the reviewed object is not JSON; the body is the error's text."""
    STUCK = 8
    """From the worker: the call of that number keeps a thread busy though its time is over."""


class ProcessFrame(NamedTuple):
    """One frame."""

    kind: FrameKind
    number: int = 0
    body: bytes = b""


def encode_frame(frame: ProcessFrame) -> bytes:
    """Write a frame."""
    return _HEAD.pack(len(frame.body), frame.number, frame.kind) + frame.body


async def read_frame(reader: asyncio.StreamReader) -> ProcessFrame:
    """Read the next frame.

    Raises:
        EOFError: there is none, because the other side is gone.
        OSError: the connection broke.
        ValueError: what came is no frame.
    """
    length, number, kind = _HEAD.unpack(await reader.readexactly(_HEAD.size))
    return ProcessFrame(FrameKind(kind), number, await reader.readexactly(length))
