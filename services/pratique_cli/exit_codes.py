"""How the program ends: exit codes, and ends by signal."""

from __future__ import annotations

import enum
import os
import signal
from typing import NoReturn


class ExitCode(enum.IntEnum):
    """What the exit code tells. Of several that apply, the highest is given."""

    ADMITTED = 0
    """Every request admitted, or nothing went wrong."""
    DENIED = 1
    """At least one request denied; of ``check --strict``, at least one warning."""
    BAD_INPUT = 2
    """Wrong usage, or input that cannot be read or used."""
    BROKEN = 3
    """The program itself failed."""


def end_by(number: signal.Signals) -> NoReturn:
    """End as a program does that leaves ``number`` to the system, so that a shell sees why it ended.

    An exit code of its own would be read as a decision: 1 is "denied".
    """
    signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)
    os._exit(128 + number)  # where a sandbox swallows signals that a process sends itself
