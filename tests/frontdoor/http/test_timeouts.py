from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from pratique_frontdoor.http.connections import Timeouts


async def outcome(awaited: Awaitable[object]) -> str:
    try:
        await awaited
    except TimeoutError:
        return "timed out"
    return "done"


async def limited(timeouts: Timeouts, limit_seconds: float, seconds: float) -> str:
    with timeouts.limit(limit_seconds):
        await asyncio.sleep(seconds)
    return "done"


def test_what_takes_too_long_is_stopped_and_nothing_else() -> None:
    async def run() -> list[str]:
        timeouts = Timeouts()
        pairs = [(9, 0), (0.02, 9), (9, 0.01), (0.01, 9), (0.03, 0.001), (0.015, 9)]
        return await asyncio.gather(*(outcome(limited(timeouts, *pair)) for pair in pairs))

    assert asyncio.run(run()) == ["done", "timed out", "done", "timed out", "done", "timed out"]


def test_limits_one_after_another_are_all_kept() -> None:
    async def run() -> list[str]:
        timeouts = Timeouts()
        return [await outcome(limited(timeouts, *pair)) for pair in [(0.01, 0), (0.02, 9), (9, 0), (0.01, 9)]]

    assert asyncio.run(run()) == ["done", "timed out", "done", "timed out"]


def test_errors_of_what_runs_pass_through() -> None:
    async def run() -> None:
        with Timeouts().limit(9):
            raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        asyncio.run(run())


def test_a_task_that_somebody_else_cancels_is_cancelled() -> None:
    async def run() -> None:
        task = asyncio.create_task(limited(Timeouts(), 9, 9))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())


def test_a_cancellation_counts_for_more_than_a_limit_that_is_over() -> None:
    async def run() -> None:
        with Timeouts().limit(0.001) as limit:
            limit.expire()
            asyncio.current_task().cancel()  # type: ignore[union-attr] # there is one
            await asyncio.sleep(9)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())


def test_a_task_goes_on_after_its_limit_was_over() -> None:
    async def run() -> str:
        timeouts = Timeouts()
        first = await outcome(limited(timeouts, 0.001, 9))
        await asyncio.sleep(0.001)
        return first

    assert asyncio.run(run()) == "timed out"
