"""Results: all figures of a run, kept as JSON, with what they were measured by and on."""

from __future__ import annotations

import os
import platform
from collections import Counter
from collections.abc import Collection
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias, TypeVar

import msgspec
from measures import HERE, Effort, Section

_Value = TypeVar("_Value")

FOLDER = HERE / "results"
COMMITTED = FOLDER / "committed.json"
"""The results that docs/performance.md shows, and that later runs are compared with."""

NOT_ASKED_FOR = "not asked for in this run"
"""Why there is no figure, where nobody wanted one."""

Circumstances: TypeAlias = dict[str, str | int | float | bool]
"""When, on what, beside what else, and with how much effort."""


class Reached(msgspec.Struct, frozen=True, kw_only=True):
    """A goal, the figure that was measured, and whether it is good enough."""

    goal: str
    wanted: str
    """Empty where nothing is: the figure is shown beside the others."""
    figure: float | None
    """None where it was not measured."""
    reached: bool | None
    """None where nothing is wanted, or it was not measured."""
    missed_by: float | None = None
    """By what part of what is wanted, where it was not reached: 0.31 is 31 % too much, or too little."""
    note: str = ""
    """Why it was not measured, or what has to be known of the figure."""


class Results(msgspec.Struct, frozen=True, kw_only=True):
    """A whole run; or what of several runs was measured last, section by section."""

    measured: dict[str, Circumstances]
    """Of each section."""
    sections: dict[str, Section]
    left_out: dict[str, str] = msgspec.field(default_factory=dict)
    """Sections and peers that were not measured, and why."""
    goals: tuple[Reached, ...] = ()

    def figure(self, section: str, target: str, shape: str, name: str) -> float | None:
        """One figure; None where it was not measured."""
        return self.sections.get(section, {}).get(target, {}).get(shape, {}).get(name)

    def usual_circumstances(self) -> Circumstances:
        """Those of most sections."""
        found = Counter(map(msgspec.json.encode, self.measured.values()))
        return msgspec.json.decode(found.most_common(1)[0][0]) if found else {}


def merged(before: Results, now: Results, known: Collection[str], peers: Collection[str]) -> Results:
    """The sections of a run in place of the same ones before it; goals are yet to be judged.

    Args:
        before: What was kept.
        now: The run.
        known: The sections that there are; others are dropped.
        peers: Names in ``left_out`` that are no sections, but contenders of the section ``peers``.
    """
    told = now.sections.keys() | now.left_out.keys()
    stale = told | (set(peers) if "peers" in now.sections else set())
    sections = _of(known, {**_without(before.sections, now.left_out), **now.sections})
    return Results(
        measured=_of(list(sections), {**before.measured, **now.measured}),
        sections=sections,
        left_out={**_without(before.left_out, stale), **now.left_out},
    )


def _of(known: Collection[str], values: dict[str, _Value]) -> dict[str, _Value]:
    """Those of known names, in that order."""
    return {name: values[name] for name in known if name in values}


def _without(values: dict[str, _Value], names: Collection[str]) -> dict[str, _Value]:
    return {name: value for name, value in values.items() if name not in names}


def circumstances(effort: Effort) -> Circumstances:
    """When and on what this is measured, and how busy the machine is before anything is."""
    return {
        "at": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "cores": os.cpu_count() or 1,
        "processor": _processor(),
        "load": round(os.getloadavg()[0], 1),
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
