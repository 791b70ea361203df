"""Timeouts: limits on the time of many tasks, kept by one timer."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class Timeouts:
    """The time limits of all requests in flight.

    ``asyncio.timeout`` sets a timer for each, and nearly always takes it back, which takes uvloop 12 µs:
    as long as it takes to read a review. Here one timer waits for the limit that comes first.
    """

    def __init__(self) -> None:
        """Start with no limits."""
        self._limits: set[Limit] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0

    def limit(self, seconds: float) -> Limit:
        """Limit the time of what runs in a ``with`` of this, which raises TimeoutError once it is over."""
        return Limit(self, asyncio.get_running_loop().time() + seconds)

    def add(self, limit: Limit) -> None:
        """Begin to watch a limit."""
        self._limits.add(limit)
        if self._timer is None or limit.at < self._timer_at:
            self._wake_at(limit.at)

    def remove(self, limit: Limit) -> None:
        """Watch a limit no longer. The timer stays: it will find the next one, or none."""
        self._limits.discard(limit)

    def _wake_at(self, at: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = asyncio.get_running_loop().call_at(at, self._wake)
        self._timer_at = at

    def _wake(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        for limit in [limit for limit in self._limits if limit.at <= now]:
            self._limits.discard(limit)
            limit.expire()
        if self._limits:
            self._wake_at(min(limit.at for limit in self._limits))


class Limit:
    """A time limit on the current task, as a context manager. Made by :meth:`Timeouts.limit`, for one use."""

    __slots__ = ("_cancelling", "_expired", "_task", "_timeouts", "at")

    def __init__(self, timeouts: Timeouts, at: float) -> None:
        """End at ``at``, in the loop's time."""
        self.at = at
        self._timeouts = timeouts
        self._expired = False

    def expire(self) -> None:
        """Cancel what runs."""
        self._expired = True
        self._task.cancel()

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a time limit needs a task")
        self._task, self._cancelling = task, task.cancelling()
        self._timeouts.add(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timeouts.remove(self)
        # Somebody else may have cancelled the task as well; then that is what counts.
        if (
            self._expired
            and self._task.uncancel() <= self._cancelling
            and kind is not None
            and issubclass(kind, asyncio.CancelledError)
        ):
            raise TimeoutError from error
