"""What the page of a replay shows. Who replays the recording is given to the application."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Protocol

import msgspec


class ReplayStatus(enum.StrEnum):
    """How far a replay is."""

    IDLE = "idle"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"


class ShownExample(msgspec.Struct, frozen=True):
    """A review that would be decided otherwise."""

    title: str
    number: int
    """Its place in the recording, from 1; 0 if it is not known."""
    lines: Sequence[tuple[str, str]]
    """What was (``-``) and what would be (``+``)."""
    doubts: Sequence[str]
    """Why it may not be a real difference."""


class ShownDifferences(msgspec.Struct, frozen=True):
    """All differences of one kind that one policy makes."""

    text: str
    """Such as ``admitted before, denied now``."""
    symbol: str
    level: str
    """``denied``, ``allowed`` or ``changed``."""
    count: int
    uncertain: int
    examples: Sequence[ShownExample]


class DifferenceGroup(msgspec.Struct, frozen=True):
    """The differences that one controller, webhook or policy makes."""

    origin: str
    differences: Sequence[ShownDifferences]


class PolicyUse(msgspec.Struct, frozen=True):
    """What one controller, webhook or policy did with the reviews of a recording."""

    origin: str
    ran: int
    """For how many reviews it ran."""
    denied: int
    mutated: int
    warned: int
    skipped: int
    """How many reviews it did not concern."""


class ReplayState(msgspec.Struct, frozen=True):
    """How far a replay is, and what came of it."""

    status: ReplayStatus = ReplayStatus.IDLE
    share: float = 0.0
    """How much of the recording is read, from 0 to 1."""
    totals: Sequence[str] = ()
    """Such as ``200 replayed``."""
    problem: str = ""
    """Why it failed."""
    groups: Sequence[DifferenceGroup] = ()
    coverage: Sequence[PolicyUse] = ()
    """Those that never ran come first."""


class Replayer(Protocol):
    """Replays a recording under the console's configuration."""

    def start(self) -> None:
        """Begin a replay in the background, unless one is running."""

    @property
    def state(self) -> ReplayState:
        """How far it is."""

    def stop(self) -> None:
        """End a replay that is running, and wait until it has."""
