"""Threads for work that may block or take long, and the interpreter's switch interval."""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

_Job: TypeAlias = tuple[asyncio.Future[object], Callable[[Any], object], Any]
"""The future of a call, the handler to call, and the review to call it with."""

SWITCH_INTERVAL_SECONDS = 0.0005
"""How long a thread that works on a large review may keep the event loop waiting. With Python's default of 5 ms, other
reviews took 5 ms longer for every turn of the loop, and they need several. A shorter interval would gain little,
because single calls into C take longer than this."""


def set_switch_interval() -> None:
    """Make the threads of this process switch often enough for an event loop among them."""
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)


MAX_THREADS = 32
"""The maximum number of threads per controller, as in Python's default executor. Further calls wait."""

_IDLE_SECONDS = 10.0
"""How long an idle thread waits for work before it ends."""


class InterruptedCallError(BaseException):
    """Nobody waits for a call any more, so its thread ends it. No ``except Exception`` may keep it going."""


class _InterruptibleCall:
    """A call that another thread can end, between two steps of the interpreter.

    At most one interrupt is sent, and none is left for what the thread does next.
    """

    __slots__ = ("_handler", "_is_interrupted", "_lock", "_thread")

    def __init__(self, handler: Callable[[Any], object]) -> None:
        self._handler = handler
        self._lock = threading.Lock()
        self._thread: int | None = None
        self._is_interrupted = False

    def __call__(self, review: object) -> object:
        try:
            with self._lock:
                if self._is_interrupted:
                    raise InterruptedCallError
                self._thread = threading.get_ident()
            return self._handler(review)
        finally:
            self._end()

    def _end(self) -> None:
        with self._lock:
            self._thread = None
        # An interrupt that was sent before is raised by now. To take it back would leave Python 3.11 and 3.12 looking
        # for one at every call and every turn of a loop, in all threads, and a debugger hanging.
        for _ in range(_TURNS):
            pass

    def interrupt_if_cancelled(self, future: asyncio.Future[object]) -> None:
        if not future.cancelled():
            return
        with self._lock:
            if not self._is_interrupted and self._thread is not None:
                _raise_in_thread(self._thread, InterruptedCallError)
            self._is_interrupted = True


_TURNS = 2
"""Turns of a loop, at each of which Python raises what another thread has sent."""


def _raise_in_thread(thread: int, error: type[BaseException]) -> None:
    """Raise an error in a thread when it next enters a function or repeats a loop."""
    import ctypes  # noqa: PLC0415 - most processes interrupt nothing

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(error))


class ControllerThreads:
    """The threads of one controller, or of one kind of work.

    They start on demand and end when idle. Unlike those of ``ThreadPoolExecutor`` they are daemon threads: a
    controller that never returns must not keep its service from stopping.
    """

    def __init__(self, name: str, max_threads: int = MAX_THREADS) -> None:
        """Start without threads; ``name`` is the controller's or the work's."""
        self._name = name
        self._max_threads = max_threads
        self._jobs: deque[_Job] = deque()
        self._running: set[asyncio.Future[object]] = set()
        self._threads = 0
        self._idle = 0
        self._closed = False
        self._changed = threading.Condition()

    def submit(self, handler: Callable[[T], object], review: T) -> asyncio.Future[object]:
        """Run ``handler`` in a thread. The future's result is the answer, or the error it raised, as a value.

        Cancelling the future gives up waiting; a call that has begun runs to its end.
        """
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        with self._changed:
            if self._threads == self._max_threads:
                # All threads may hang: cancelled calls must not pile up behind them.
                self._jobs = deque(job for job in self._jobs if not job[0].cancelled())
            self._jobs.append((future, handler, review))
            if self._idle < len(self._jobs) and self._threads < self._max_threads:
                self._threads += 1
                threading.Thread(target=self._work, name=f"pratique-{self._name}", daemon=True).start()
            self._changed.notify()
        return future

    def submit_interruptible(self, handler: Callable[[T], object], review: T) -> asyncio.Future[object]:
        """Run ``handler`` as :meth:`submit` does. Cancelling the future ends the call as well.

        For work that holds no locks, changes nothing that others see, and may take longer than its caller waits. What
        runs in a single step of the interpreter, such as sorting, is ended after it.
        """
        call = _InterruptibleCall(handler)
        future = self.submit(call, review)
        future.add_done_callback(call.interrupt_if_cancelled)
        return future

    def close(self) -> None:
        """End idle threads at once, and the others after their calls. Calls that follow are still run."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def threads(self) -> int:
        """The current number of threads."""
        return self._threads

    @property
    def waiting(self) -> int:
        """How many calls wait for a thread, including cancelled ones that no thread has dropped yet."""
        return len(self._jobs)

    @property
    def abandoned(self) -> int:
        """How many threads still run calls that were cancelled."""
        with self._changed:
            return sum(future.cancelled() for future in self._running)

    def _work(self) -> None:
        while (job := self._next_job()) is not None:
            future = job[0]
            _run(*job)
            with self._changed:
                self._running.discard(future)
            del job, future  # so that an idle thread holds no reviewed object

    def _next_job(self) -> _Job | None:
        """Wait for work; None if there was none for so long that the thread should end."""
        with self._changed:
            # An idle thread takes the next job, so submit starts threads only for jobs beyond the idle ones.
            self._idle += 1
            self._changed.wait_for(lambda: self._jobs or self._closed, timeout=_IDLE_SECONDS)
            self._idle -= 1
            if self._jobs:
                job = self._jobs.popleft()
                self._running.add(job[0])
                return job
            self._threads -= 1
            return None


def _run(future: asyncio.Future[object], handler: Callable[[T], object], review: T) -> None:
    if future.cancelled():
        return
    try:
        answer = _call_and_catch(handler, review)
    except KeyboardInterrupt as error:
        answer = error  # Ctrl-C reaches only the main thread: the controller itself raised this
    with contextlib.suppress(RuntimeError):  # the loop of the caller has closed
        future.get_loop().call_soon_threadsafe(_set_result, future, answer)


def _set_result(future: asyncio.Future[object], answer: object) -> None:
    if not future.done():
        future.set_result(answer)


def _call_and_catch(handler: Callable[[T], object], review: T) -> object:
    """Call ``handler`` and return its answer, or the error it raised."""
    try:
        return handler(review)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - a policy that calls sys.exit() must not end its service
        return error
