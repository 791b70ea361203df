"""Storms: a complete run: the system, the clients, the nemeses, and the verdict."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from pathlib import Path

from chaos.checkers import availability, violations
from chaos.clients import Client, asking
from chaos.evidence import RECOVERY_SECONDS, Evidence
from chaos.growths import growth
from chaos.histories import Began, Counted, History, read_history
from chaos.nemeses import Nemeses
from chaos.oracles import open_oracle
from chaos.schedules import schedule
from chaos.systems import System, system
from chaos.waits import watching
from chaos.workloads import Workload

SEED = "PRATIQUE_CHAOS_SEED"
SECONDS = "PRATIQUE_CHAOS_SECONDS"
WARM_SECONDS = 3.0
"""How long requests are sent before the first count of processes, so that their caches are filled."""
CALM_SECONDS = 3.0
"""How long everything must be right after the time for recovery."""
SETTLING_SECONDS = 10


@dataclasses.dataclass(frozen=True, slots=True)
class Storm:
    """How long, how hard."""

    seed: int
    seconds: float
    every: float = 5.0
    per_second: float = 25.0
    available: float = 0.0
    """The share of requests that have to be answered rightly while one replica at most is hurt."""

    def command(self) -> str:
        """How to have the same again."""
        return f"{SEED}={self.seed} {SECONDS}={self.seconds:g} .venv/bin/pytest tests/chaos/test_storms.py"


async def rage(storm: Storm, folder: Path) -> Path:
    """Run it; gives the history."""
    history = History(folder / "history.jsonl")
    history.add(Began(storm.seed, storm.seconds, storm.per_second))
    workload = Workload(storm.seed)
    try:
        async with system(folder) as running:
            client = Client(running.url, running.client_tls(), workload, history)
            async with (
                client,
                asking(client, storm.per_second),
                watching(running.door, history, running.mutators),
            ):
                await asyncio.sleep(WARM_SECONDS)
                first = await count(running, history)
                await Nemeses(running, history).follow(schedule(storm.seed, storm.seconds, storm.every))
                await asyncio.sleep(RECOVERY_SECONDS + CALM_SECONDS)
            await settle(running, history, first)
    finally:
        history.close()
    return history.path


async def count(running: System, history: History) -> dict[str, Counted]:
    """Count and record what all processes hold."""
    counts = {name: await node.count(history.now()) for name, node in running.nodes.items()}
    for item in counts.values():
        history.add(item)
    return counts


async def settle(running: System, history: History, first: dict[str, Counted]) -> None:
    """Count again, once connections and temporary processes have ended, or after a time limit."""
    for _ in range(SETTLING_SECONDS):
        counts = {name: await node.count(history.now()) for name, node in running.nodes.items()}
        survivors = [(first[name], last) for name, last in counts.items() if last.pid == first[name].pid]
        if not any(problem for before, last in survivors for problem in growth(before, last)):
            break
        await asyncio.sleep(1)
    for item in counts.values():
        history.add(item)


def survive(storm: Storm, folder: Path) -> Evidence:
    """Run and check a storm; failures report what was wrong and how to repeat it."""
    history = asyncio.run(rage(storm, folder))
    with open_oracle(folder / "oracle") as oracle:
        evidence = Evidence(read_history(history), oracle)
        wrong = violations(evidence)
        print(summary(storm, evidence))  # noqa: T201 - the figures, and the seed
        listed = "\n".join(f"({item.invariant}) {item.text}" for item in wrong[:20])
        assert not wrong, f"{len(wrong)} violations; history: {history}\nagain: {storm.command()}\n{listed}"
        available = availability(evidence)
        assert available.share >= storm.available, f"available: {available}\nagain: {storm.command()}"
    return evidence


def summary(storm: Storm, evidence: Evidence) -> str:
    """The result in one line."""
    available = availability(evidence)
    right = sum(map(evidence.is_right, evidence.cases))
    return (
        f"seed {storm.seed}: {len(evidence.cases)} requests, {right} answered rightly; "
        f"{len(evidence.strikes)} strikes; {available.right} of {available.due} rightly while one replica at most "
        f"was hurt ({available.share:.2%})"
    )


def seed_of(default: int) -> int:
    """The requested seed."""
    return int(os.environ.get(SEED, default))


def seconds_of(default: float) -> float:
    """The requested duration."""
    return float(os.environ.get(SECONDS, default))
