"""When Python looks for garbage."""

from __future__ import annotations

import gc


def collect_less_often() -> None:
    """Make collections rare while a program starts, as what it loads stays: 60,000 objects if it is a service.

    With Python's own thresholds they are a tenth of the start of ``pratique review``.
    """
    gc.set_threshold(100_000, 50, 1_000)


def freeze_loaded() -> None:
    """Leave what is loaded out of all later collections, and make these rare; call it once all is loaded.

    Collections that walk it add 16 ms to the slowest answers. What is garbage by then stays, too: it is 0.3 % of the
    objects, and a search for it would be a tenth of the start. With higher thresholds, mutations at 16 connections take
    0.83 of the CPU.
    """
    gc.freeze()
    gc.set_threshold(20_000, 50, 1_000)
