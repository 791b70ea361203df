"""What ``offline.py`` measures, as a section beside the others."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import cast

import offline
from measures import Effort, Section, tell

REVIEW, FLOOR = "pratique review", "reading the files alone"
_FEW = 500
"""Manifests, where little trouble is taken: start-up is most of what they take, and the figure says nothing."""


def measure_offline(effort: Effort) -> Section:
    """Manifests a second of CPU time, of ``pratique review`` and of its floor."""
    tell("offline")
    count = offline.COUNT if effort.seconds >= 1 else _FEW
    with tempfile.TemporaryDirectory() as folder:
        found = offline.measure(Path(folder), count, effort.rounds)
    rates = cast("dict[str, float]", found["manifests_per_cpu_second"])
    return {
        name: {"whole": {"rate": rates[key], "reviews": count}}
        for name, key in ((REVIEW, "review"), (FLOOR, "floor"))
    }
