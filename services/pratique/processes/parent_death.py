"""Ending a child process when its parent ends, even if the parent is killed, and before it when memory runs out."""

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
"""The highest ``oom_score_adj`` of ``proc(5)``; an unprivileged process may raise its own."""


def end_with_parent() -> None:
    """End this process as soon as its standard input closes, which the parent holds open.

    On Linux the kernel kills it as well, even if C code never releases the interpreter lock.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with contextlib.suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text(_MAX_OOM_SCORE, "ascii")
    threading.Thread(target=_wait_and_end, name="parent-death", daemon=True).start()


def _wait_and_end() -> None:
    with contextlib.suppress(OSError):
        while os.read(0, 1024):
            pass
    os._exit(0)
