"""Measure ``pratique review`` offline: manifests a second, their CPU time, peak memory, and what starting takes.

CPU seconds of the whole command are counted, start-up and the processes that read ahead included: a machine that does
other things as well takes longer, but not more of them. The time on the clock stands beside it, and means something on
a machine that does nothing else. In the same rounds runs the floor: libyaml's own loader in C (``CSafeLoader``) and
msgspec read the same files, and do nothing else.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from manifests import write_manifests
from processes import installed

HERE = Path(__file__).parent
COUNT = 10_000
FEW = 1_000
TARGET_RATE = 3_000.0
TARGET_START_SECONDS = 0.35
FLOOR = """
import sys
from pathlib import Path
import msgspec, yaml
for file in sorted(Path(sys.argv[1]).iterdir()):
    raw = file.read_bytes()
    value = msgspec.json.decode(raw) if file.suffix == ".json" else list(yaml.load_all(raw, yaml.CSafeLoader))
"""
"""A program of its own, so that it pays for its start, too."""
PEAK = """
import resource, subprocess, sys
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""
"""A program of its own, because the peak of all children is the peak of the largest one."""

Figures = dict[str, float]


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (default 5)")
    parser.add_argument("--count", type=int, default=COUNT, help=f"manifests (default {COUNT})")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        results = measure(Path(folder), options.count, options.rounds)
    show(results)
    kept = HERE / "results"
    kept.mkdir(exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    (kept / f"offline-{stamp}.json").write_text(json.dumps(results, indent=2) + "\n")


def measure(folder: Path, count: int, rounds: int) -> dict[str, object]:
    """Write the manifests, and give all figures: medians of rounds in which each contender runs once."""
    written = write_manifests(folder / "many", count)
    write_manifests(folder / "few", min(FEW, count))
    environment = {**installed(), "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}
    cli = (sys.executable, "-m", "pratique_cli")
    review = (*cli, "review", "-o", "jsonl")
    contenders = {
        "review": (*review, str(folder / "many")),
        "review without object validation": (*review, "--object-validation", "off", str(folder / "many")),
        "floor": (sys.executable, "-c", FLOOR, str(folder / "many")),
        "review of one": (*review, str(HERE / "pod.yaml")),
        "version": (*cli, "version"),
    }
    cpu, wall = _interleaved(contenders, rounds, environment)
    peaks = {name: _peak_mebibytes((*review, str(folder / name)), environment) for name in ("few", "many")}
    return {
        "manifests": written | {"count": count},
        "cpu_seconds": cpu,
        "wall_seconds": wall,
        "manifests_per_cpu_second": {name: count / cpu[name] for name in ("review", "floor")},
        "manifests_per_second": {name: count / wall[name] for name in ("review", "floor")},
        "ratio_to_floor": cpu["review"] / cpu["floor"],
        "ratio_to_no_validation": cpu["review"] / cpu["review without object validation"],
        "peak_mebibytes": peaks,
        "kibibytes_per_manifest": (peaks["many"] - peaks["few"]) * 1024 / max(1, count - FEW),
    }


def _interleaved(
    contenders: dict[str, tuple[str, ...]], rounds: int, environment: dict[str, str]
) -> tuple[Figures, Figures]:
    """CPU seconds and seconds on the clock of each; the first round only warms up, and writes the bytecode."""
    cpu: dict[str, list[float]] = {name: [] for name in contenders}
    wall: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(-1, rounds):
        for name, command in contenders.items():
            begun, before = time.perf_counter(), _children_seconds()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
            if number >= 0:
                cpu[name].append(_children_seconds() - before)
                wall[name].append(time.perf_counter() - begun)
    return _medians(cpu), _medians(wall)


def _medians(times: dict[str, list[float]]) -> Figures:
    return {name: statistics.median(all_rounds) for name, all_rounds in times.items()}


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _peak_mebibytes(command: tuple[str, ...], environment: dict[str, str]) -> float:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, *command], check=True, capture_output=True, text=True, env=environment
    )
    # Linux counts in KiB, macOS in bytes.
    return int(done.stdout) / (1024 * 1024 if sys.platform == "darwin" else 1024)


def show(results: dict[str, object]) -> None:
    """Print the figures, each beside its target."""
    rates: Figures = results["manifests_per_cpu_second"]  # type: ignore[assignment]  # built by measure()
    on_the_clock: Figures = results["manifests_per_second"]  # type: ignore[assignment]  # likewise
    cpu: Figures = results["cpu_seconds"]  # type: ignore[assignment]  # likewise
    wall: Figures = results["wall_seconds"]  # type: ignore[assignment]  # likewise
    peaks: Figures = results["peak_mebibytes"]  # type: ignore[assignment]  # likewise
    print(
        f"offline: {on_the_clock['review']:.0f} manifests per second on the clock, target {TARGET_RATE:.0f};"
        f" {rates['review']:.0f} per CPU second of all its processes; reading alone, by libyaml's loader:"
        f" {rates['floor']:.0f}, a ratio of {results['ratio_to_floor']:.2f}; object validation takes"
        f" {results['ratio_to_no_validation']:.2f} times the CPU time of leaving it out"
    )
    for name in ("version", "review of one"):
        print(
            f"start-up, {name}: {cpu[name]:.2f} s of CPU, {wall[name]:.2f} s on the clock,"
            f" target {TARGET_START_SECONDS:g} s"
        )
    print(
        f"peak memory: {peaks['few']:.0f} MiB for the first, {peaks['many']:.0f} MiB for all:"
        f" {results['kibibytes_per_manifest']:.1f} KiB a manifest"
    )


if __name__ == "__main__":
    main()
