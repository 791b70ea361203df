"""Start-up: whole commands, and the stack until it takes reviews."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Callable

from measures import HERE, Effort, Section, tell

from processes import installed, process

REVIEW_ONE, VERSION, UP = "pratique review, one manifest", "pratique version", "pratique up, until ready"
_CLI = ("-m", "pratique_cli")


def measure_startups(effort: Effort) -> Section:
    """Median wall seconds."""
    manifest = str(HERE / "pod.yaml")
    return {
        VERSION: _timed(lambda: _run("version"), effort),
        REVIEW_ONE: _timed(lambda: _run("review", "-o", "jsonl", manifest), effort),
        UP: _timed(_until_ready, effort),
    }


def _timed(start: Callable[[], float], effort: Effort) -> dict[str, dict[str, float]]:
    tell("start-up")
    times = [start() for _ in range(effort.rounds + 1)][1:]  # the first one writes the bytecode
    return {"whole": {"p50": statistics.median(times)}}


def _run(*arguments: str) -> float:
    begun = time.perf_counter()
    command = [sys.executable, *_CLI, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=installed())
    return time.perf_counter() - begun


def _until_ready() -> float:
    begun = time.perf_counter()
    with process(*_CLI, "up", "--port", "0"):
        return time.perf_counter() - begun
