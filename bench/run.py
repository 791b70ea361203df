"""Measure Pratique against its floor: ``make bench``.

Every figure is the median of several rounds; within a round each contender is measured once, in turn, so that a
machine whose speed drifts slows all of them alike.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from stacks import process, resident_mebibytes

HERE = Path(__file__).parent
REVIEW = HERE / "review.json"
CONNECTIONS = (1, 16)

Figures = dict[str, float]


def load(kind: str, port: int, connections: int, seconds: float, path: str = "") -> Figures:
    """Run the load generator once."""
    task = {
        "kind": kind,
        "port": port,
        "path": path,
        "connections": connections,
        "seconds": seconds,
        "body": str(REVIEW),
    }
    done = subprocess.run(
        [sys.executable, str(HERE / "loads.py")],
        input=json.dumps(task),
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stdout))


def medians(rounds: list[Figures]) -> Figures:
    """The median of each figure over all rounds."""
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]}


def start_up(*command: str, runs: int) -> float:
    """Median wall seconds of a whole command."""
    times = []
    for _ in range(runs):
        begun = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


def measure(rounds: int, seconds: float) -> dict[str, object]:
    """Start everything, measure in turn, and give all figures."""
    with contextlib.ExitStack() as running:
        _, http_port = running.enter_context(process(str(HERE / "floors.py"), "http"))
        _, grpc_port = running.enter_context(process(str(HERE / "floors.py"), "grpc"))
        mutator, mutator_port = running.enter_context(
            process("-m", "pratique_cli", "serve", "mutator", "--port", "0", *CHAIN)
        )
        validator, validator_port = running.enter_context(
            process("-m", "pratique_cli", "serve", "validator", "--port", "0", *CHAIN)
        )
        frontdoor, port = running.enter_context(
            process(
                "-m", "pratique_cli", "serve", "frontdoor", "--port", "0", *CHAIN,
                "--mutator", f"127.0.0.1:{mutator_port}", "--validator", f"127.0.0.1:{validator_port}",
            )
        )  # fmt: skip
        contenders = {
            "Starlette echo": ("http", http_port, "/echo"),
            "grpc.aio echo": ("grpc", grpc_port, ""),
            "/validate": ("http", port, "/validate"),
            "/admit": ("http", port, "/admit"),
        }
        figures = _interleaved(contenders, rounds, seconds)
        services = {"frontdoor": frontdoor, "mutator": mutator, "validator": validator}
        memory = {name: resident_mebibytes(service.pid) for name, service in services.items()}
    return {"paths": figures, "memory_mib": memory}


CHAIN = (
    "--admission-control",
    "NamespaceLifecycle,DefaultTolerationSeconds,LimitPodHardAntiAffinityTopology",
)
"""Two mutating controllers, one of which changes the Pod, and a validating one, so that each path makes its hops."""


def _interleaved(
    contenders: dict[str, tuple[str, int, str]], rounds: int, seconds: float
) -> dict[str, dict[str, Figures]]:
    figures: dict[str, dict[str, Figures]] = {name: {} for name in contenders}
    for connections in CONNECTIONS:
        runs: dict[str, list[Figures]] = {name: [] for name in contenders}
        for number in range(-1, rounds):  # the first round warms up
            for name, (kind, port, path) in contenders.items():
                _progress(f"{connections} connections, round {number + 1} of {rounds}: {name}")
                result = load(kind, port, connections, seconds if number >= 0 else 0.5, path)
                if number >= 0:
                    runs[name].append(result)
        for name, all_rounds in runs.items():
            figures[name][str(connections)] = medians(all_rounds)
    _progress("")
    return figures


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r{text:<70}\r", end="", file=sys.stderr, flush=True)


def with_ratios(results: dict[str, object]) -> dict[str, object]:
    """Add what matters: each path against the echoes that it is made of."""
    paths: dict[str, dict[str, Figures]] = results["paths"]  # type: ignore[assignment]  # built by measure()
    ratios: dict[str, dict[str, Figures]] = {}
    for path, hops in (("/validate", 1), ("/admit", 2)):
        ratios[path] = {}
        for connections in map(str, CONNECTIONS):
            http, grpc = paths["Starlette echo"][connections], paths["grpc.aio echo"][connections]
            ours = paths[path][connections]
            floor_rate = 1 / (1 / http["rate"] + hops / grpc["rate"])
            ratios[path][connections] = {
                "p50": ours["p50"] / (http["p50"] + hops * grpc["p50"]),
                "p99": ours["p99"] / (http["p99"] + hops * grpc["p99"]),
                "rate": ours["rate"] / floor_rate,
            }
    return results | {"ratios_to_floor": ratios}


def show(results: dict[str, object]) -> None:
    """Print the tables."""
    paths: dict[str, dict[str, Figures]] = results["paths"]  # type: ignore[assignment]  # built by measure()
    ratios: dict[str, dict[str, Figures]] = results["ratios_to_floor"]  # type: ignore[assignment]  # likewise
    print(
        f"{'path':<16}{'connections':>12}{'p50 ms':>9}{'p99 ms':>9}{'req/s':>9}   ratio to floor: p50, p99, req/s"
    )
    for name, by_connections in paths.items():
        for connections, figures in by_connections.items():
            p50, p99 = figures["p50"] * 1e3, figures["p99"] * 1e3
            line = f"{name:<16}{connections:>12}{p50:>9.2f}{p99:>9.2f}{figures['rate']:>9.0f}"
            if name in ratios:
                ratio = ratios[name][connections]
                line += f"   {ratio['p50']:.2f}, {ratio['p99']:.2f}, {ratio['rate']:.2f}"
            print(line)
    for title, key, unit in (("resident memory", "memory_mib", "MiB"), ("start-up", "start_up_seconds", "s")):
        values: Figures = results[key]  # type: ignore[assignment]  # built by main()
        print(f"{title}: " + ", ".join(f"{name} {value:.2f} {unit}" for name, value in values.items()))


def main() -> None:
    """Measure, print, and write the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5, help="counted rounds (default 5)")
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one measurement (default 2)")
    options = parser.parse_args()
    results = with_ratios(measure(options.rounds, options.seconds))
    cli = [sys.executable, "-m", "pratique_cli"]
    manifest = str(HERE / "pod.yaml")
    results["start_up_seconds"] = {
        "pratique version": start_up(*cli, "version", runs=options.rounds),
        "pratique review, one manifest": start_up(
            *cli, "review", "-o", "jsonl", manifest, runs=options.rounds
        ),
    }
    show(results)
    folder = HERE / "results"
    folder.mkdir(exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H%M%SZ")
    (folder / f"{stamp}.json").write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
