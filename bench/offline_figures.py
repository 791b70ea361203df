"""What ``offline.py`` measures, as a section beside the others."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import cast

import offline
from measures import Effort, Section, tell

from processes import cores, on_cores

REVIEW, UNVALIDATED, FLOOR = (
    "pratique review",
    "pratique review --object-validation off",
    "reading the files alone",
)
_FEW = 500
"""Manifests, where little trouble is taken: start-up is most of what they take, and the figure says nothing."""
_CORES = 2
"""That the commands may use, as a small machine for CI has."""


def measure_offline(effort: Effort) -> Section:
    """Manifests a second and CPU time for each: `pratique review`, validating objects or not, and its floor."""
    tell("offline")
    count = offline.COUNT if effort.seconds >= 1 else _FEW
    with tempfile.TemporaryDirectory() as folder, on_cores(sorted(cores())[:_CORES]):
        found = offline.measure(Path(folder), count, effort.rounds)
    cpu, wall = (cast("dict[str, float]", found[name]) for name in ("cpu_seconds", "wall_seconds"))
    return {
        name: {"whole": {"rate": count / wall[key], "cpu": cpu[key] / count, "reviews": count}}
        for name, key in (
            (REVIEW, "review"),
            (UNVALIDATED, "review without object validation"),
            (FLOOR, "floor"),
        )
    }
