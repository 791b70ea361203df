"""Exit codes, and ending by a signal."""

from __future__ import annotations

import contextlib
import enum
import os
import signal
from collections.abc import Iterator
from typing import NoReturn


class ExitCode(enum.IntEnum):
    """The exit codes of the program. If several apply, the highest wins."""

    ADMITTED = 0
    """Every request was admitted, or nothing went wrong."""
    DENIED = 1
    """At least one request was denied; with ``check --strict``, at least one warning."""
    BAD_INPUT = 2
    """Wrong usage, or input that cannot be read or used."""
    BROKEN = 3
    """The program itself failed."""


def end_by(number: signal.Signals) -> NoReturn:
    """End the process by a signal's default action, so that a shell sees the signal.

    An exit code would look like a decision: 1 means "denied".
    """
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # some sandboxes swallow signals that a process sends to itself


_CLEANING_SECONDS = 5.0
"""How long a command may clean up after Ctrl-C. 5: it ends its processes within one, and nobody waits for long."""


@contextlib.contextmanager
def handling_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt on Ctrl-C in a block, and end the process if that does not.

    Python drops a KeyboardInterrupt that is raised in a callback of its own, as imports have, and a policy may catch
    one. asyncio leaves this handler in place, so it also interrupts a blocking read of standard input.
    """
    before = signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGINT, before)


def _interrupt(_number: int, _frame: object) -> NoReturn:
    signal.signal(signal.SIGALRM, _end)
    signal.setitimer(signal.ITIMER_REAL, _CLEANING_SECONDS)
    raise KeyboardInterrupt


def _end(_number: int, _frame: object) -> NoReturn:
    end_by(signal.SIGINT)
