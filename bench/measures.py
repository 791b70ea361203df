"""How a thing is measured: who is measured, by which load, and in which order.

Every figure is the median of several rounds; within a round each target is measured once, in turn, so that a machine
whose speed drifts slows all of them alike.
"""

from __future__ import annotations

import dataclasses
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from processes import cpu_seconds

HERE = Path(__file__).parent
REVIEW = HERE / "review.json"
"""The review that is sent where nothing else is said: a Pod of two containers, 2 KB."""

Figures: TypeAlias = dict[str, float]
"""``p50`` and ``p99`` in seconds, ``rate`` a second, and CPU seconds a review: ``cpu`` and ``generator_cpu``."""

Section: TypeAlias = dict[str, dict[str, Figures]]
"""Figures by target and by shape of the load."""


@dataclasses.dataclass(frozen=True, slots=True)
class Effort:
    """How much trouble is taken."""

    rounds: int = 5
    seconds: float = 2.0
    """Of one measurement."""
    warm_up_seconds: float = 0.5
    long: bool = False
    """Whether what takes long is done at length: memory after 100,000 reviews."""


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """What is measured: an address, and the processes whose CPU time a request takes."""

    kind: str
    """``http``, ``https``, ``grpc``, ``frames`` or ``unix``."""
    port: int
    path: str = ""
    """Of the URL, or of the Unix socket."""
    pids: tuple[int, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Shape:
    """What is sent, over how many connections; at a fixed rate, where there is one."""

    connections: int = 1
    body: Path = REVIEW
    rate: float = 0
    core: int | None = None
    """The one that the load generator has to itself, where it has one."""


def load(target: Target, shape: Shape, *, seconds: float = 0, count: int = 0) -> Figures:
    """Run the load generator once, for some seconds or some requests."""
    task = {
        "kind": target.kind,
        "port": target.port,
        "path": target.path,
        "connections": shape.connections,
        "rate": shape.rate,
        "body": str(shape.body),
        "core": shape.core,
        "seconds": seconds,
        "count": count,
    }
    before = cpu_seconds(target.pids)
    done = subprocess.run(
        [sys.executable, str(HERE / "loads.py")],
        input=json.dumps(task),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    figures: Figures = json.loads(done.stdout)
    return {**figures, "cpu": (cpu_seconds(target.pids) - before) / figures["count"]}


def medians(rounds: Sequence[Figures]) -> Figures:
    """The median of each figure over all rounds."""
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def interleaved(targets: Mapping[str, Target], shapes: Mapping[str, Shape], effort: Effort) -> Section:
    """Each target under each shape, the targets in turn."""
    section: Section = {name: {} for name in targets}
    for title, shape in shapes.items():
        runs: dict[str, list[Figures]] = {name: [] for name in targets}
        for number in range(effort.rounds + 1):  # the first one warms up
            for name, target in targets.items():
                tell(f"{title}, round {number} of {effort.rounds}: {name}")
                seconds = effort.seconds if number else effort.warm_up_seconds
                figures = load(target, shape, seconds=seconds)
                if number:
                    runs[name].append(figures)
        for name, all_rounds in runs.items():
            section[name][title] = medians(all_rounds)
    tell("")
    return section


def tell(text: str) -> None:
    """Say what is done at the moment, where somebody watches."""
    if sys.stderr.isatty():
        print(f"\r{text:<90}\r", end="", file=sys.stderr, flush=True)
