"""Threads of controllers that may block."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable

from pratique.admission.results import Answer, allow
from pratique.admission.reviews import Review
from pratique.processes.thread_pool import ControllerThreads
from support.services import controllers
from support.services.reviews import review_of
from support.waiting import within


def test_an_idle_thread_is_reused() -> None:
    names = set()

    def noting(_review: Review) -> Answer:
        names.add(threading.current_thread().name)
        return allow()

    async def run() -> None:
        threads = ControllerThreads("c")
        for _ in range(20):
            await threads.submit(noting, review_of())
            await asyncio.sleep(0.002)  # the thread needs a moment until it counts as idle

    asyncio.run(run())
    assert names == {"pratique-c"}


def test_calls_run_concurrently() -> None:
    together = threading.Barrier(4, timeout=120)

    def meeting(_review: Review) -> Answer:
        together.wait()
        return allow()

    async def run() -> list[object]:
        threads = ControllerThreads("c", max_threads=4)
        return await asyncio.gather(*(threads.submit(meeting, review_of()) for _ in range(4)))

    assert asyncio.run(run()) == [allow()] * 4


def test_calls_beyond_the_thread_limit_wait() -> None:
    async def run() -> list[object]:
        threads = ControllerThreads("c", max_threads=2)
        return await asyncio.gather(*(threads.submit(controllers.allowing, review_of()) for _ in range(50)))

    assert asyncio.run(run()) == [allow()] * 50


def test_cancelled_calls_are_not_run() -> None:
    release = threading.Event()
    ran: list[Review] = []

    async def run() -> None:
        threads = ControllerThreads("c", max_threads=1)
        first = threads.submit(controllers.blocking(release), review_of())
        given_up = [threads.submit(ran.append, review_of()) for _ in range(10)]
        for future in given_up:
            future.cancel()
        last = threads.submit(controllers.allowing, review_of())
        release.set()
        await first
        assert await last == allow()

    asyncio.run(run())
    assert ran == []


def test_an_answer_that_comes_after_its_loop_has_closed_is_dropped() -> None:
    release, done = threading.Event(), threading.Event()

    def late(_review: Review) -> Answer:
        release.wait(120)
        done.set()
        return allow()

    threads = ControllerThreads("c", max_threads=1)

    async def give_up() -> None:
        threads.submit(late, review_of()).cancel()
        await asyncio.sleep(0.01)

    async def run() -> object:
        return await threads.submit(controllers.allowing, review_of())

    asyncio.run(give_up())
    release.set()
    assert asyncio.run(run()) == allow()


def test_closing_ends_idle_threads_and_nothing_else() -> None:
    release = threading.Event()
    threads = ControllerThreads("c")

    async def run() -> list[object]:
        working = threads.submit(controllers.blocking(release), review_of())
        await threads.submit(controllers.allowing, review_of())
        threads.close()
        assert within(120, lambda: threads.threads == 1)
        release.set()
        return [await working, await threads.submit(controllers.allowing, review_of())]

    assert asyncio.run(run()) == [allow(), allow()]
    assert within(120, lambda: threads.threads == 0)


def endless(began: threading.Event) -> Callable[[Review], Answer]:
    """A handler that never returns by itself."""

    def run(_review: Review) -> Answer:
        began.set()
        while True:
            pass

    return run


def test_cancelling_an_interruptible_call_ends_it() -> None:
    began = threading.Event()
    threads = ControllerThreads("c", max_threads=1)

    async def run() -> object:
        future = threads.submit_interruptible(endless(began), review_of())
        await asyncio.to_thread(began.wait, 120)
        future.cancel()
        # The only thread is free again, and nothing of the interrupt is left for what it does next.
        return await threads.submit(controllers.allowing, review_of())

    assert asyncio.run(run()) == allow()
    assert threads.threads == 1


AFTER_AN_INTERRUPT = """
import asyncio, sys, threading, time
from pratique.processes.thread_pool import ControllerThreads

def handler(began):
    began.set()
    try:
        while True:
            pass
    except BaseException:
        return "ended"

async def run():
    threads = ControllerThreads("c", max_threads=1)
    began = threading.Event()
    future = threads.submit_interruptible(handler, began)
    await asyncio.to_thread(began.wait)
    future.cancel()
    return await threads.submit(lambda _: "free", None)

def nothing():
    pass

print(asyncio.run(run()))
sys.settrace(lambda *_: None)
nothing()
print("traced")
"""


def test_python_does_not_go_on_looking_for_interrupts_after_one() -> None:
    """Python 3.11 does if one is taken back that has arrived, and hangs in the next function that is traced."""
    command = [sys.executable, "-c", AFTER_AN_INTERRUPT]
    assert subprocess.check_output(command, text=True, timeout=120) == "free\ntraced\n"


def test_a_call_that_is_cancelled_before_it_begins_is_never_run() -> None:
    release = threading.Event()
    ran: list[Review] = []

    async def run() -> None:
        threads = ControllerThreads("c", max_threads=1)
        first = threads.submit(controllers.blocking(release), review_of())
        threads.submit_interruptible(ran.append, review_of()).cancel()
        last = threads.submit(controllers.allowing, review_of())
        release.set()
        await first
        assert await last == allow()

    asyncio.run(run())
    assert ran == []


def test_what_an_interruptible_call_returns_or_raises_is_its_result() -> None:
    async def run() -> list[object]:
        threads = ControllerThreads("c")
        return [
            await threads.submit_interruptible(handler, review_of())
            for handler in (controllers.allowing, lambda _review: int("x"))
        ]

    answer, error = asyncio.run(run())
    assert answer == allow()
    assert isinstance(error, ValueError)


def test_many_calls_that_end_as_they_are_cancelled_leave_their_threads_working() -> None:
    async def run() -> list[object]:
        threads = ControllerThreads("c", max_threads=2)
        for _ in range(200):
            future = threads.submit_interruptible(lambda _review: sum(range(200)), review_of())
            await asyncio.sleep(0)
            future.cancel()
        results = [threads.submit_interruptible(controllers.allowing, review_of()) for _ in range(4)]
        return [*await asyncio.gather(*results), threads.threads]

    *answers, count = asyncio.run(run())
    assert answers == [allow()] * 4
    assert isinstance(count, int)
    assert count <= 2
