"""Calls: which controller is to be asked, and for how long."""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One controller that is to see a review."""

    name: str
    """The controller's name, or a webhook's."""
    timeout_seconds: float | None = None
    """How long it may take; None means as long as the deadline allows."""
    may_patch: bool = False
    """Whether its answer may change the object though it validates."""
    again: tuple[str, ...] | None = None
    """In the second round of the mutating phase, the keys of those of its members that are to run again; None in the
    first."""
    explain: bool = False
    """Tell of members, too, that have nothing to do with the review."""

    @property
    def is_plain(self) -> bool:
        """True where a controller need not be told more than the review."""
        return self.again is None and not self.explain


@dataclasses.dataclass(frozen=True, slots=True)
class Deadline:
    """The moment by which an answer must be there, on this process's monotonic clock."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Self:
        """The moment ``seconds`` from now."""
        return cls(time.monotonic() + seconds)

    @property
    def remaining_seconds(self) -> float:
        """What is left, 0 where it has passed."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        """True where nothing is left."""
        return time.monotonic() >= self.at

    def sooner(self, seconds: float | None) -> Deadline:
        """This deadline, or ``seconds`` from now where that comes first."""
        if seconds is None:
            return self
        return Deadline(min(self.at, time.monotonic() + seconds))
