"""The tail of latencies at half the highest rate: an open loop, which goes on sending while it waits.

The generator has a core of its own, and the suite the others: where they take turns on one, the generator sends late,
and counts that as the suite's time.
"""

from __future__ import annotations

from deployments import deployed
from measures import Effort, Section, Shape, interleaved
from paths import PATHS, counted

from processes import cores, on_cores

SHARE = 0.5
HALF = "half the highest rate"
_HIGHEST_FROM = 16
"""Connections of the closed loop that finds the highest rate: enough to keep every process busy."""
_CONNECTIONS = 64
"""Of the open loop: more than are ever in flight at half the rate, so that none waits for a connection."""


def measure_tails(effort: Effort) -> Section:
    """Each path at its highest rate, and at half of it; figures say how many cores the suite has, and the generator."""
    section: Section = {}
    generators, suites = divided(cores())
    highest_from = counted(_HIGHEST_FROM, "connection")
    with on_cores(suites), deployed() as ours:
        for path in PATHS:
            target = {path: ours.target(path)}
            fast = {highest_from: Shape(_HIGHEST_FROM, core=generators)}
            highest = interleaved(target, fast, effort)[path]
            rate = highest[highest_from]["rate"] * SHARE
            half = {HALF: Shape(_CONNECTIONS, rate=rate, core=generators)}
            section[path] = highest | interleaved(target, half, effort)[path]
    alone = {"suite_cores": len(suites), "generator_cores": 0 if generators is None else 1}
    return {
        path: {shape: figures | alone for shape, figures in shapes.items()}
        for path, shapes in section.items()
    }


def divided(available: frozenset[int]) -> tuple[int | None, frozenset[int]]:
    """The generator's core and the suite's: the last one and the others, where there are two or more."""
    if len(available) < 2:
        return None, available
    generators = max(available)
    return generators, available - {generators}
