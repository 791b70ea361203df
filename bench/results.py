"""Results: all figures of a run, kept as JSON, with what they were measured by and on."""

from __future__ import annotations

import os
import platform
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from measures import HERE, Effort, Section

FOLDER = HERE / "results"
COMMITTED = FOLDER / "committed.json"
"""The results that docs/performance.md shows, and that later runs are compared with."""


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """A goal, the figure that was measured, and whether it is good enough; None of both where it was not measured."""

    goal: str
    wanted: str
    figure: float | None
    reached: bool | None


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run."""

    measured: dict[str, str | int | float | bool]
    """When, on what, and with how much effort."""
    sections: dict[str, Section]
    left_out: dict[str, str] = msgspec.field(default_factory=dict)
    """Peers that were not measured, and why."""
    goals: tuple[Reached, ...] = ()

    def figure(self, section: str, target: str, shape: str, name: str) -> float | None:
        """One figure; None where it was not measured."""
        return self.sections.get(section, {}).get(target, {}).get(shape, {}).get(name)


def circumstances(effort: Effort) -> dict[str, str | int | float | bool]:
    """When and on what this is measured."""
    return {
        "at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count() or 1,
        "processor": _processor(),
        "python": platform.python_version(),
        "rounds": effort.rounds,
        "seconds": effort.seconds,
        "long": effort.long,
    }


def _processor() -> str:
    told = Path("/proc/cpuinfo").read_text()
    names = [line.partition(": ")[2] for line in told.splitlines() if line.startswith("model name")]
    return names[0] if names else platform.machine()


def read(path: Path) -> Results:
    """Read results."""
    return msgspec.json.decode(path.read_bytes(), type=Results)


def write(results: Results, path: Path) -> None:
    """Write results so that a person can read them, too."""
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(results), indent=2) + b"\n")
