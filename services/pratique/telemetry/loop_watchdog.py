"""The watchdog of an event loop: how late the loop runs what is due, and what its thread does meanwhile.

While one callback runs, nothing else is answered: no review, no probe, no deadline. So each service measures its loop.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Self

from pratique.telemetry.logs import describe_stack
from pratique.telemetry.metrics import DurationHistogram

if TYPE_CHECKING:
    from types import TracebackType

    from prometheus_client.metrics_core import Metric

_log = logging.getLogger(__name__)

_BEAT_SECONDS = 0.05
"""Between two beats, which take 20 µs each. A gap is seen from the beat that it delays on, so it may be this much
longer than measured, and none that is longer than a long gap and a beat is missed."""
LONG_GAP_SECONDS = 0.25
"""A gap that is logged. Answers may take a second, and half a dozen turns of the loop go into one."""
_BUCKETS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, LONG_GAP_SECONDS, 0.5, 1.0, 2.5, 10.0, 30.0)
"""In seconds. What takes more than 5 ms belongs into a thread, and no review has more than 30 s."""


class LoopWatchdog:
    """Measures the gaps of the running event loop while a ``with`` block lasts.

    The loop itself measures them by a timer, and a thread logs each long one while it lasts, with the places in the
    code where the loop's thread is. Where a single step of the interpreter takes all the time, the thread sees what
    comes after it.
    """

    def __init__(self) -> None:
        """Watch the running event loop, whose thread this is."""
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._gaps = DurationHistogram(
            "pratique_event_loop_gap_seconds",
            "How much later than due the event loop ran a timer, twenty times a second.",
            _BUCKETS,
            (),
        )
        self._stopped = threading.Event()
        self._logged = False

    def collect(self) -> Iterator[Metric]:
        """Yield the one metric, for a registry."""
        yield from self._gaps.collect()

    def __enter__(self) -> Self:
        """Begin to measure."""
        self._set_timer()
        threading.Thread(target=self._watch, name="pratique-loop-watchdog", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End it."""
        self._stopped.set()
        self._timer.cancel()

    def _set_timer(self) -> None:
        self._due = time.monotonic() + _BEAT_SECONDS
        self._timer = self._loop.call_later(_BEAT_SECONDS, self._beat)

    def _beat(self) -> None:
        gap = max(0.0, time.monotonic() - self._due)
        self._gaps.observe(gap)
        self._set_timer()
        if self._logged:
            self._logged = False
            _log.warning("the event loop runs again", extra={"duration_ms": round(gap * 1000)})

    def _watch(self) -> None:
        logged = 0.0
        while not self._stopped.wait(self._seconds_to_wait(logged)):
            due = self._due
            if due != logged and time.monotonic() - due >= LONG_GAP_SECONDS:
                logged = due
                self._log_gap()

    def _seconds_to_wait(self, logged: float) -> float:
        """The time until the next gap would be a long one."""
        due = self._due
        return LONG_GAP_SECONDS if due == logged else max(0.001, due + LONG_GAP_SECONDS - time.monotonic())

    def _log_gap(self) -> None:
        frame = sys._current_frames().get(self._loop_thread)  # noqa: SLF001 - the documented way to another thread
        if frame is not None:
            self._logged = True
            _log.warning("the event loop does not run", extra={"stack": describe_stack(frame)})
