"""Replaced inputs are kept for the grace period only."""

from __future__ import annotations

import asyncio

from pratique.configuration.input_digests import InputDigests, RecentInputs


def digests(number: int) -> InputDigests:
    return InputDigests.of("chain", f"{number}", "cluster")


def test_previous_inputs_are_kept_for_the_grace_period() -> None:
    async def run() -> tuple[list[int], list[int], int]:
        held = RecentInputs(digests(0), 0, grace_seconds=0.05)
        news = asyncio.Event()
        held.listen(news.set)
        held.switch_to(digests(1), 1)
        between = [value for _, value in held]
        news.clear()
        await news.wait()
        return between, [value for _, value in held], held.current

    assert asyncio.run(run()) == ([1, 0], [1], 1)


def test_a_limited_number_of_inputs_is_kept_however_often_files_change() -> None:
    async def run() -> list[int]:
        held = RecentInputs(digests(0), 0)
        for number in range(1, 50):
            held.switch_to(digests(number), number)
        held.close()
        return [value for _, value in held]

    assert asyncio.run(run()) == [49, 48, 47, 46]


def test_inputs_that_come_back_are_current_again_and_not_dropped() -> None:
    async def run() -> tuple[list[int], list[int]]:
        held = RecentInputs(digests(0), 0, grace_seconds=0.05)
        held.switch_to(digests(1), 1)
        held.switch_to(digests(0), 2)
        first = [value for _, value in held]
        await asyncio.sleep(0.2)
        return first, [value for _, value in held]

    assert asyncio.run(run()) == ([2, 1], [2])


def test_equal_inputs_written_differently_change_nothing() -> None:
    async def run() -> tuple[list[int], int]:
        told: list[int] = []
        held = RecentInputs(digests(0), 0)
        held.listen(lambda: told.append(1))
        held.switch_to(digests(0), 7)
        return told, held.current

    assert asyncio.run(run()) == ([], 7)


def test_an_unknown_digest_is_awaited_until_the_timeout() -> None:
    async def run() -> tuple[int | None, int | None]:
        held = RecentInputs(digests(0), 0)
        waiting = asyncio.ensure_future(held.wait_for(digests(1).whole, 10))
        await asyncio.sleep(0)
        held.switch_to(digests(1), 1)
        held.close()
        return await waiting, await held.wait_for(digests(2).whole, 0.01)

    assert asyncio.run(run()) == (1, None)
