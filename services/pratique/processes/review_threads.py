"""Where work on a review runs: little of it on the event loop, all else in threads that end with the review.

The loop answers everybody, so no review may hold it for longer than about 5 ms, whatever its sender has put into it.
Work in a thread is awaited by the task of its review. When the review's time is up, or nobody waits for its answer any
more, that task is cancelled, and the work is ended where the interpreter next enters a function or repeats a loop
(:meth:`ControllerThreads.submit_interruptible`). Code that runs here therefore needs no clock, takes no lock for long,
and changes nothing that others see in more than one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

from pratique.processes.thread_pool import ControllerThreads

P = ParamSpec("P")
T = TypeVar("T")

INLINE_VALUES = 192
"""The most values of a review whose work stays on the event loop. The slowest controller, ResourceDefaults on
containers of two bytes, takes 24 µs a value, so 5 ms are impossible below; 192 errors take 7 ms. By bytes they would be
possible from 600 bytes on. An ordinary Pod of 2 to 5 KiB has 60 to 140 values."""
INLINE_SECONDS = 0.002
"""How long the controllers of one call may run on the event loop together; those after that go on in a thread."""
LARGE_VALUES = 4096
"""More values make a large review: 16 KiB of the smallest ones, or an object of 1 MiB that is mostly text."""
_TEXT_BYTES = 256
"""Bytes that count as one value: reading and comparing so much text takes less time."""

INLINE_BYTES = 8 * 1024
"""Longer texts are read in a thread. The slowest that can be looked for in one, the place of a duplicate member, takes
0.7 ms for each KiB."""
_VALUE_BYTES = 8
"""Of a text before its values are counted."""

_SMALLER = ControllerThreads("reviews", 2)
_LARGER = ControllerThreads("large-reviews", 2)
"""Two pools, so that large reviews never take the threads of others. Few threads, because one interpreter runs one at a
time: more would finish no sooner, but keep the event loop waiting. Beside 16 callers whose reviews take 10 ms, small
reviews took 26 ms with six threads, 1.4 ms with two and 0.8 ms with one; two, so that one slow review does not hold up
all others."""


def estimate_values(*texts: bytes) -> int:
    """Tell about how many values JSON texts have together, never less than one; commas in strings count, too."""
    values, size = 1, 0
    for text in texts:
        values += text.count(b",")
        size += len(text)
    return values + size // _TEXT_BYTES


def threads_for(values: int, spent_seconds: float = 0.0) -> ControllerThreads | None:
    """The threads for work on a review of so many values; None to do it at once.

    Args:
        values: As :func:`estimate_values` tells; 0 of a review that was made here, where nobody else waits.
        spent_seconds: How long the event loop has worked on it without a pause.
    """
    if values > INLINE_VALUES or (values and spent_seconds > INLINE_SECONDS):
        return threads_beside_loop(values)
    return None


def threads_beside_loop(values: int) -> ControllerThreads:
    """The threads for work that never runs on the event loop, for a review of so many values."""
    return _LARGER if values > LARGE_VALUES else _SMALLER


async def work_on_review(values: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do a piece of work on a review of so many values: at once, or in a thread that ends with the awaiting task.

    Raises:
        Exception: what ``work`` raises.
    """
    if threads_for(values) is None:
        return work(*args, **kwargs)
    return await work_beside_loop(values, work, *args, **kwargs)


async def work_on_text(size_bytes: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Read or check a text whose values are not known yet, as :func:`work_on_review` does."""
    if size_bytes <= INLINE_BYTES:
        return work(*args, **kwargs)
    return await work_beside_loop(size_bytes // _VALUE_BYTES, work, *args, **kwargs)


async def work_beside_loop(values: int, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do a piece of work in a thread whatever the size of its review, as :func:`work_on_review` does.

    For what is seldom asked for, or can take long for a small review.
    """

    def call(_: None) -> T:
        return work(*args, **kwargs)

    result = await threads_beside_loop(values).submit_interruptible(call, None)
    if isinstance(result, BaseException):
        raise result
    return cast("T", result)
