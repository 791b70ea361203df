"""Steady loads: requests at an even pace beside a test, none of which may fail."""

from __future__ import annotations

import contextlib
import dataclasses
import threading
import time
from collections.abc import Callable, Iterator

PER_SECOND = 50


@dataclasses.dataclass
class SteadyLoad:
    """What has become of the requests so far."""

    answered: int = 0
    failures: list[str] = dataclasses.field(default_factory=list)


@contextlib.contextmanager
def steady_load(ask: Callable[[], object], per_second: float = PER_SECOND) -> Iterator[SteadyLoad]:
    """Call ``ask`` again and again, each in its time; whatever it raises is a failure, and no such may be."""
    load, ending = SteadyLoad(), threading.Event()

    def run() -> None:
        due = time.monotonic()
        while not ending.is_set():
            try:
                ask()
                load.answered += 1
            except Exception as error:  # noqa: BLE001 - whatever it is, it is a failure
                load.failures.append(repr(error))
            # One that is late is not made up for: a busy machine is asked less often, and never all at once.
            due = max(due + 1 / per_second, time.monotonic())
            ending.wait(due - time.monotonic())

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield load
    finally:
        ending.set()
        thread.join()
    assert load.failures == [], load.failures
    assert load.answered > 0
