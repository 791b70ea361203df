"""Hedging: a call that takes long is also made on another replica, and the first answer counts.

The copies are limited to a part of all calls, so that replicas that are all slow get hardly more work than without.
"""

from __future__ import annotations

import asyncio
import collections
import enum
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from pratique_frontdoor.settings import HedgeDelay

T = TypeVar("T")

_COPIES_EACH_CALL = 0.1
"""How many copies each call adds to the budget. 0.1: replicas that are all slow get a tenth more calls, as with the
budget for retries."""
_MAX_COPIES = 10
"""The most copies that can be made at once. 10: what a replica usually has in flight when it stops, and no more."""
_KEPT_DURATIONS = 512
"""Of how many calls the quantile is: one in twenty of them are 25, which is enough for it to be steady."""
_LEAST_DURATIONS = 64
"""How many calls must have ended before there is a quantile: three of them are in the slowest twentieth."""
_RENEWED_AFTER = 32
"""After how many calls the quantile is determined again. Sorting 512 numbers takes 20 µs, so under 1 µs a call."""
_QUANTILE = 0.95
_LEAST_QUANTILE_SECONDS = 0.01
"""The shortest delay by quantile. 10 ms: ten times what a hop takes. Below that, a copy costs more than it saves."""
_PAUSE_SECONDS = 0.01
"""If a timer is that late, this process has paused, so the answer may be here and unread."""


class HedgeResult(enum.StrEnum):
    """What came of a call that took longer than the delay."""

    WON = "won"
    """The second replica answered first."""
    LOST = "lost"
    """The first replica answered first, after all."""
    FAILED = "failed"
    """Neither answered."""
    OVER_BUDGET = "over_budget"
    """No copy was made: too many had been made already."""


class Hedging:
    """When the calls to one service are hedged, and how many copies may be made."""

    def __init__(self, delay: HedgeDelay) -> None:
        """Start with a full budget, and without knowing how long calls take."""
        self._fixed_seconds = delay.seconds
        self._copies: float = _MAX_COPIES
        self._durations: collections.deque[float] = collections.deque(maxlen=_KEPT_DURATIONS)
        self._observed = 0
        self._quantile_seconds: float | None = None
        self.results: dict[HedgeResult, int] = dict.fromkeys(HedgeResult, 0)
        """How many calls had each result."""

    def _observe(self, seconds: float) -> None:
        """Observe how long a call took until it had an answer, whoever gave it.

        Calls that were hedged count as well. Without them, the quantile would be that of the faster ones, and fall
        until all calls were hedged.
        """
        if self._fixed_seconds is not None:
            return
        self._durations.append(seconds)
        self._observed += 1
        if len(self._durations) >= _LEAST_DURATIONS and self._observed % _RENEWED_AFTER == 0:
            quantile = sorted(self._durations)[int(_QUANTILE * len(self._durations))]
            self._quantile_seconds = max(_LEAST_QUANTILE_SECONDS, quantile)

    async def race(
        self,
        first: Coroutine[Any, Any, T],
        second: Callable[[], Coroutine[Any, Any, T] | None],
        least_seconds: float,
    ) -> tuple[T, bool]:
        """Return the answer of the first call, or that of a copy made after the delay if it comes sooner.

        Args:
            first: Makes the call.
            second: Returns what makes the copy; None if no replica is left for it.
            least_seconds: The shortest delay for this call.

        Returns:
            The answer, and whether the copy gave it. The other call has been cancelled.

        Raises:
            Exception: what the first call raised, if there is no answer.
        """
        self._copies = min(_MAX_COPIES, self._copies + _COPIES_EACH_CALL)
        loop = asyncio.get_running_loop()
        began, calls = loop.time(), [asyncio.ensure_future(first)]
        try:
            if await self._takes_longer(calls[0], least_seconds) and (copy := self._copy(second)) is not None:
                calls.append(asyncio.ensure_future(copy))
                await _first_success(calls)
            answered = next((call for call in calls if _succeeded(call)), calls[0])
            if len(calls) > 1:
                self._count(answered, calls)
            result = await answered
        finally:
            await _cancel(calls)
        self._observe(loop.time() - began)
        return result, answered is not calls[0]

    async def _takes_longer(self, call: asyncio.Task[T], least_seconds: float) -> bool:
        """Wait for a call; return whether it takes longer than the delay. None does while the delay is not known."""
        delay = self._quantile_seconds if self._fixed_seconds is None else self._fixed_seconds
        if delay is None:
            await asyncio.wait([call])
            return False
        return await _takes_longer(call, max(delay, least_seconds))

    def _copy(self, second: Callable[[], Coroutine[Any, Any, T] | None]) -> Coroutine[Any, Any, T] | None:
        if self._copies < 1:
            self.results[HedgeResult.OVER_BUDGET] += 1
            return None
        if (copy := second()) is not None:
            self._copies -= 1
        return copy

    def _count(self, answered: asyncio.Task[T], calls: list[asyncio.Task[T]]) -> None:
        if not _succeeded(answered):
            result = HedgeResult.FAILED
        else:
            result = HedgeResult.LOST if answered is calls[0] else HedgeResult.WON
        self.results[result] += 1


async def _takes_longer(call: asyncio.Task[Any], seconds: float) -> bool:
    loop = asyncio.get_running_loop()
    due = loop.time() + seconds
    done, _ = await asyncio.wait([call], timeout=seconds)
    if not done and loop.time() - due > _PAUSE_SECONDS:
        done, _ = await asyncio.wait([call], timeout=seconds)
    return not done


async def _first_success(calls: list[asyncio.Task[T]]) -> None:
    """Wait until a call has an answer, or all have failed."""
    pending = set(calls)
    while pending and not any(map(_succeeded, calls)):
        _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)


def _succeeded(call: asyncio.Task[Any]) -> bool:
    return call.done() and not call.cancelled() and call.exception() is None


async def _cancel(calls: list[asyncio.Task[T]]) -> None:
    """Cancel what still runs, and wait until it has ended: nothing is left to run on its own."""
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)
