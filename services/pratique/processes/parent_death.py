"""Lifelines: a worker ends when its service ends, however that ends, and before it where memory runs out."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import threading
from pathlib import Path

_PR_SET_PDEATHSIG = 1
"""``linux/prctl.h``."""
_MAX_OOM_SCORE = "1000"
"""The highest ``oom_score_adj`` of ``proc(5)``: whoever is allowed to do anything may raise its own."""


def end_with_parent() -> None:
    """From now on, end when standard input closes, which the parent holds open.

    On Linux the kernel sees to it as well, even where code in C never lets go of the interpreter.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_MAX_OOM_SCORE, "ascii")
    threading.Thread(target=_wait_and_end, name="lifeline", daemon=True).start()


def _wait_and_end() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os._exit(0)
