"""Histories: all that happened in a run, as JSON Lines, written while it happens and judged afterwards.

Times are seconds since the run began. A request has one line when it is asked and one when its answer is there or has
failed, so that one without a second line, or with two of them, can be told from the others.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

import msgspec


class Began(msgspec.Struct, frozen=True, tag="began"):
    """The parameters of the run: the same seed makes the same requests and the same strikes."""

    seed: int
    seconds: float
    per_second: float


class Asked(msgspec.Struct, frozen=True, tag="asked"):
    """A request was sent; its content follows from seed and number."""

    at: float
    number: int
    path: str
    uid: str
    timeout: float


class Answered(msgspec.Struct, frozen=True, tag="answered"):
    """An answer came: any HTTP code, with its body."""

    at: float
    number: int
    code: int
    body: str


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """The connection broke, or no answer came in time (``silence``)."""

    at: float
    number: int
    reason: str


class Struck(msgspec.Struct, frozen=True, tag="struck"):
    """A nemesis did its work between these two moments; at the second all that it broke was mended.

    A complaint says what the services did that nothing excuses.
    """

    at: float
    until: float
    nemesis: str
    target: str
    complaint: str = ""


class Counted(msgspec.Struct, frozen=True, tag="counted"):
    """What a process held: after its start and first requests, and at the end."""

    at: float
    node: str
    pid: int
    descriptors: int
    threads: int
    tasks: int
    children: int
    resident_kib: int


class Waited(msgspec.Struct, frozen=True, tag="waited"):
    """Since the line of this kind before, the front door and the clients waited so long for a processor: a machine
    that is busy with other things makes answers late that are nobody's fault."""

    at: float
    seconds: float


Event: TypeAlias = Began | Asked | Answered | Failed | Struck | Counted | Waited

SILENCE = "silence"
"""The reason of a request without an answer."""

_decoder = msgspec.json.Decoder[Event](Event)


class History:
    """A history that is being written."""

    def __init__(self, path: Path) -> None:
        """Begin one; its clock starts now."""
        self.path = path
        self._file = path.open("wb")
        self._start = time.monotonic()

    def now(self) -> float:
        """Seconds since the run began."""
        return time.monotonic() - self._start

    def add(self, event: Event) -> None:
        """Write an event."""
        self._file.write(msgspec.json.encode(event) + b"\n")

    def close(self) -> None:
        """Write no more."""
        self._file.close()


def read_history(path: Path) -> list[Event]:
    """Read a history that was written."""
    with path.open("rb") as lines:
        return [_decoder.decode(line) for line in lines]


def write_history(path: Path, events: Iterable[Event]) -> Path:
    """Write a history that is made up."""
    path.write_bytes(b"".join(msgspec.json.encode(event) + b"\n" for event in events))
    return path
