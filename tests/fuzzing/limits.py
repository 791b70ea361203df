"""Limits: how long an attempt may take. What takes longer is a defect, whatever comes of it."""

from __future__ import annotations

import contextlib
import gc
import time
from collections.abc import Iterator

SECONDS = 1.0
"""Of the processor, of this process: how busy the machine is with other things does not matter."""
GROWTH_MIB = 256
"""How much memory a process may take beside what it had when the target was ready."""


class SlowError(AssertionError):
    """An attempt took too long."""


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Fail where what is done within takes too long."""
    # A full collection takes as long as everything is large that is alive, and is nobody's input's fault.
    gc.disable()
    begun = time.process_time()
    try:
        yield
        took = time.process_time() - begun
    finally:
        gc.enable()
    if took > SECONDS:
        raise SlowError(f"took {took:.1f} s of the processor")
