"""Lifelines: a service that ``pratique up`` started ends when ``pratique up`` ends, however that ends.

The parent holds the other end of the child's standard input. Whatever kills the parent closes it, which works
on Linux and macOS alike, and without a moment in which a child could be missed.
"""

from __future__ import annotations

import functools
import os
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

from pratique_cli.flags import flag

if TYPE_CHECKING:
    from collections.abc import Callable

GRACE_SECONDS = 10.0
"""How long a service may drain once nobody is there to ask it again: as long as the front door drains."""


def lifeline_flag(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--until-stdin-closes`` to a command, which need not know of it."""

    @functools.wraps(callback)
    def watched(*, until_stdin_closes: bool, **values: Any) -> Any:
        if until_stdin_closes:
            end_with_standard_input()
        return callback(**values)

    return flag(
        "--until-stdin-closes",
        is_flag=True,
        help="Stop when standard input closes, so as not to outlive whoever holds it open.",
    )(watched)


def end_with_standard_input() -> None:
    """From now on, drain when standard input closes, and end at once if that takes too long."""
    threading.Thread(target=_wait_and_end, name="lifeline", daemon=True).start()


def _wait_and_end() -> None:
    while _read():
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def _read() -> bytes:
    try:
        return os.read(0, 1024)
    except OSError:
        return b""
