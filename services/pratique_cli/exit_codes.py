"""Exit codes, and ending by a signal."""

from __future__ import annotations

import enum
import os
import signal
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
