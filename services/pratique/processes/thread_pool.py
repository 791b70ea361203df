"""Threads for controllers that may block, and how long one thread keeps the others waiting."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from pratique.admission.reviews import Review


_Job: TypeAlias = "tuple[asyncio.Future[object], Callable[[Review], object], Review]"

SWITCH_INTERVAL_SECONDS = 0.0005
"""How long a thread that looks at a large review keeps the event loop waiting each time it is its turn. Handler a
millisecond: with Python's 5 the reviews beside it took 5 ms longer for each turn of the loop that they need, and they
need several. It is less than what the longest single call takes, so that a shorter one would gain little."""


def set_switch_interval() -> None:
    """Have the threads of this process take turns as often as suits an event loop among them."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)


MAX_THREADS = 32
"""Threads of one lane at most, as many as Python's own default executor has. More calls than that wait in
line until their time is up."""

_IDLE_SECONDS = 10.0
"""How long an idle thread waits for more work before it ends."""


class ControllerThreads:
    """The threads of one controller.

    They are started when needed and end by themselves. They are daemons, unlike those of
    ``ThreadPoolExecutor``: a controller that never returns must not keep its service from stopping.
    """

    def __init__(self, name: str, most_threads: int = MAX_THREADS) -> None:
        """Make a lane without threads, for the controller of that name."""
        self._name = name
        self._most_threads = most_threads
        self._jobs: deque[_Job] = deque()
        self._running: set[asyncio.Future[object]] = set()
        self._threads = 0
        self._idle = 0
        self._changed = threading.Condition()

    def submit(self, handler: Callable[[Review], object], review: Review) -> asyncio.Future[object]:
        """Run ``handler`` in a thread. The future holds its answer, or as a value the error that it raised.

        Cancelling the future gives up waiting; a call that has begun runs on to its end.
        """
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._threads == self._most_threads:
                # All may hang: what nobody waits for any longer must not pile up behind them.
                self._jobs = deque(job for job in self._jobs if not job[0].cancelled())
            self._jobs.append((future, handler, review))
            if self._idle < len(self._jobs) and self._threads < self._most_threads:
                self._threads += 1
                threading.Thread(target=self._work, name=f"pratique-{self._name}", daemon=True).start()
            self._changed.notify()
        return future

    @property
    def threads(self) -> int:
        """How many threads there are now."""
        return self._threads

    @property
    def waiting(self) -> int:
        """How many calls wait for a thread, those that were given up included until one comes by."""
        return len(self._jobs)

    @property
    def abandoned(self) -> int:
        """How many threads go on though nobody waits for them any longer."""
        with self._changed:
            return sum(future.cancelled() for future in self._running)

    def _work(self) -> None:
        while (job := self._next_job()) is not None:
            future = job[0]
            _run(*job)
            with self._changed:
                self._running.discard(future)
            del job, future  # an idle thread holds no secrets

    def _next_job(self) -> _Job | None:
        """Wait for work; None where there was none for so long that the thread may end."""
        with self._changed:
            self._idle += 1
            self._changed.wait_for(lambda: self._jobs, timeout=_IDLE_SECONDS)
            self._idle -= 1
            if self._jobs:
                job = self._jobs.popleft()
                self._running.add(job[0])
                return job
            self._threads -= 1
            return None


def _run(future: asyncio.Future[object], handler: Callable[[Review], object], review: Review) -> None:
    if future.cancelled():
        return
    try:
        answer = call_and_catch(handler, review)
    except KeyboardInterrupt as error:
        answer = error  # Ctrl-C is for the main thread: here it is the controller that raised it
    with contextlib.suppress(RuntimeError):  # the loop that asked has closed
        future.get_loop().call_soon_threadsafe(_set_result, future, answer)


def _set_result(future: asyncio.Future[object], answer: object) -> None:
    if not future.done():
        future.set_result(answer)


def call_and_catch(handler: Callable[[Review], object], review: Review) -> object:
    """Call ``handler`` and return its answer, or as a value the error that it raised."""
    try:
        return handler(review)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a policy that calls sys.exit() fails, and its service stays
        return error
