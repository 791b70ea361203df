from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from pratique_frontdoor.http.endpoints import Timeouts


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


def test_only_what_takes_too_long_is_stopped() -> None:
    async def run() -> list[str]:
        timeouts = Timeouts()
        pairs = [(9, 0), (0.02, 9), (9, 0.01), (0.01, 9), (6, 0.001), (0.015, 9)]
        return await asyncio.gather(*(outcome(limited(timeouts, *pair)) for pair in pairs))

    assert asyncio.run(run()) == ["done", "timed out", "done", "timed out", "done", "timed out"]


def test_consecutive_limits_are_all_enforced() -> None:
    async def run() -> list[str]:
        timeouts = Timeouts()
        return [await outcome(limited(timeouts, *pair)) for pair in [(0.01, 0), (0.02, 9), (9, 0), (0.01, 9)]]

    assert asyncio.run(run()) == ["done", "timed out", "done", "timed out"]


def test_other_errors_pass_through() -> None:
    async def run() -> None:
        with Timeouts().limit(9):
            raise KeyError("own")

    with pytest.raises(KeyError, match="own"):
        asyncio.run(run())


def test_a_task_cancelled_from_outside_is_cancelled() -> None:
    async def run() -> None:
        task = asyncio.create_task(limited(Timeouts(), 9, 9))
        await asyncio.sleep(0)
        task.cancel()
        await task

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())


def test_a_cancellation_takes_precedence_over_an_expired_limit() -> None:
    async def run() -> None:
        with Timeouts().limit(0.001) as limit:
            limit.expire()
            asyncio.current_task().cancel()  # type: ignore[union-attr] # there is one
            await asyncio.sleep(9)

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(run())


def test_a_task_continues_after_it_handles_its_timeout() -> None:
    async def run() -> str:
        timeouts = Timeouts()
        first = await outcome(limited(timeouts, 0.001, 9))
        await asyncio.sleep(0.001)
        return first

    assert asyncio.run(run()) == "timed out"
