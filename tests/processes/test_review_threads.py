"""Where work on reviews runs, and how it ends."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import pytest

from pratique.processes.review_threads import (
    INLINE_SECONDS,
    INLINE_VALUES,
    estimate_values,
    threads_for,
    work_beside_loop,
    work_on_review,
    work_on_text,
)
from support.waiting import within

PATIENCE_SECONDS = 120
LARGE = 1_000_000
MAIN, SMALLER, LARGER = threading.main_thread().name, "pratique-reviews", "pratique-large-reviews"


def own_thread() -> str:
    """The name of the thread that this runs in."""
    return threading.current_thread().name


@pytest.mark.parametrize(
    ("values", "name"),
    [(0, MAIN), (1, MAIN), (INLINE_VALUES, MAIN), (INLINE_VALUES + 1, SMALLER), (LARGE, LARGER)],
)
def test_work_runs_where_the_size_of_its_review_says(values: int, name: str) -> None:
    assert asyncio.run(work_on_review(values, own_thread)) == name


@pytest.mark.parametrize(("values", "name"), [(1, SMALLER), (LARGE, LARGER)])
def test_work_that_may_take_long_for_any_review_never_runs_on_the_loop(values: int, name: str) -> None:
    assert asyncio.run(work_beside_loop(values, own_thread)) == name


@pytest.mark.parametrize(("size", "name"), [(1_000, MAIN), (20_000, SMALLER), (500_000, LARGER)])
def test_a_text_is_read_where_its_length_says(size: int, name: str) -> None:
    assert asyncio.run(work_on_text(size, own_thread)) == name


def test_small_work_leaves_the_loop_after_much_other_work() -> None:
    assert threads_for(1, INLINE_SECONDS / 2) is None
    assert threads_for(1, INLINE_SECONDS * 2) is not None
    assert threads_for(0, INLINE_SECONDS * 2) is None  # nobody else waits


def test_values_and_text_count() -> None:
    assert estimate_values(b"") == 1
    assert estimate_values(b"[1,2,3]") == 3
    assert estimate_values(b"[1,2]", b"[3,4]") == 3
    assert estimate_values(b'"' + b"x" * 256_000 + b'"') == 1_001


def test_an_error_is_raised_where_the_work_is_awaited() -> None:
    def fail() -> None:
        raise LookupError("told")

    for values in (0, LARGE):
        with pytest.raises(LookupError, match="told"):
            asyncio.run(work_on_review(values, fail))


def test_large_reviews_do_not_take_the_threads_of_others() -> None:
    release = threading.Event()

    async def run() -> str:
        large = [asyncio.ensure_future(work_beside_loop(LARGE, release.wait)) for _ in range(20)]
        await asyncio.sleep(0)
        name = await work_on_review(INLINE_VALUES + 1, own_thread)
        assert not any(one.done() for one in large)
        release.set()
        await asyncio.gather(*large)
        return name

    assert asyncio.run(run()) == SMALLER


def test_work_ends_with_the_task_that_awaits_it() -> None:
    began, ended = threading.Event(), threading.Event()

    def endless() -> None:
        began.set()
        try:
            while True:
                pass
        finally:
            ended.set()

    async def run() -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_SECONDS):
                working = asyncio.ensure_future(work_beside_loop(LARGE, endless))
                await asyncio.to_thread(began.wait, PATIENCE_SECONDS)
                working.cancel()
                await asyncio.wait([working])
        assert within(PATIENCE_SECONDS, ended.is_set)
        return await work_beside_loop(LARGE, own_thread)

    assert asyncio.run(run()) == LARGER
