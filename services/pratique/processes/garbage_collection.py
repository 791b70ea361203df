"""When Python looks for garbage in a process that serves."""

from __future__ import annotations

import gc


def collect_less_often() -> None:
    """Leave what is loaded out of all later collections, and make these rare; call it once all is loaded.

    What is loaded stays: collections that walk it add 16 ms to the slowest answers. With higher thresholds, too,
    mutations at 16 connections take 0.83 of the CPU.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 50, 1_000)
