"""The tail of latencies at half the highest rate: an open loop, which goes on sending while it waits."""

from __future__ import annotations

from deployments import deployed
from measures import Effort, Section, Shape, interleaved
from paths import PATHS, connections

SHARE = 0.5
HALF = "half the highest rate"
_HIGHEST_FROM = 16
"""Connections of the closed loop that finds the highest rate: enough to keep every process busy."""
_CONNECTIONS = 64
"""Of the open loop: more than are ever in flight at half the rate, so that none waits for a connection."""


def measure_tails(effort: Effort) -> Section:
    """Each path at its highest rate, and at half of it."""
    section: Section = {}
    with deployed() as ours:
        for path in PATHS:
            target = {path: ours.target(path)}
            highest = interleaved(target, connections(_HIGHEST_FROM), effort)[path]
            (figures,) = highest.values()
            half = {HALF: Shape(_CONNECTIONS, rate=figures["rate"] * SHARE)}
            section[path] = highest | interleaved(target, half, effort)[path]
    return section
