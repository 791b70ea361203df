"""Waiting for what comes in its own time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def within(seconds: float, holds: Callable[[], bool]) -> bool:
    """Tell whether something comes to hold before the time is up, asking every now and then."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.1)
    return False
