"""Soaks: the same system for a long time under part of its capacity, undisturbed."""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import statistics
import time
from pathlib import Path

from chaos.clients import Client, asking
from chaos.histories import Began, Counted, History
from chaos.storms import count
from chaos.systems import System, system
from chaos.waits import watching
from chaos.workloads import Workload

SHARE = 0.3
"""The share of the system's measured capacity."""
CALLERS = 8
"""And connections: each costs a front door the buffers of TLS, so that their number must not change."""
MEASURING_SECONDS = 5.0
WARMING_SECONDS = 30.0
"""At the load of the soak, before anything is counted: caches fill, pools get their threads."""
SAMPLE_SECONDS = 2.0
REST_SECONDS = 3.0
_HOUR = 3600


@dataclasses.dataclass(frozen=True)
class Soaked:
    """The measurements of one process."""

    node: str
    before: Counted
    """At rest, after warming up."""
    after: Counted
    """At rest, at the end."""
    samples: list[Counted]
    """Under load."""

    @property
    def kib_per_hour(self) -> float:
        """The growth of its memory between the medians of the first and last third, so that short peaks do not
        count."""
        third = len(self.samples) // 3
        first, last = self.samples[:third], self.samples[-third:]
        grown = statistics.median(item.resident_kib for item in last) - statistics.median(
            item.resident_kib for item in first
        )
        between = statistics.median(item.at for item in last) - statistics.median(item.at for item in first)
        return grown * _HOUR / between

    def line(self) -> str:
        """For people."""
        before, after = self.before, self.after
        return (
            f"{self.node}: {before.resident_kib} -> {after.resident_kib} KiB, {self.kib_per_hour:+.0f} KiB/h, "
            f"{before.descriptors} -> {after.descriptors} descriptors, {before.tasks} -> {after.tasks} tasks, "
            f"{before.threads} -> {after.threads} threads, {before.children} -> {after.children} workers"
        )


async def soak(seconds: float, folder: Path, seed: int) -> tuple[Path, list[Soaked]]:
    """Send requests for a time; return the history and what each process held."""
    history, unjudged = History(folder / "history.jsonl"), History(folder / "warming.jsonl")
    workload = Workload(seed)
    try:
        async with system(folder) as running:
            per_second = SHARE * await capacity(running, workload, unjudged)
            await _ask(running, workload, unjudged, per_second, WARMING_SECONDS)
            history.add(Began(seed, seconds, per_second))
            before = await count(running, history)
            samples = await _ask(running, workload, history, per_second, seconds)
            after = await count(running, history)
    finally:
        history.close()
        unjudged.close()
    return history.path, [Soaked(name, before[name], after[name], samples[name]) for name in running.nodes]


async def capacity(running: System, workload: Workload, history: History) -> float:
    """Requests per second when some callers send without pauses."""
    client = Client(running.url, running.client_tls(), workload, history, connections=CALLERS)
    ending = time.monotonic() + MEASURING_SECONDS
    numbers = iter(range(10**9))

    async def caller() -> int:
        done = 0
        while time.monotonic() < ending:
            await client.ask(workload.request(next(numbers)))
            done += 1
        return done

    async with client:
        done = await asyncio.gather(*(caller() for _ in range(CALLERS)))
    return sum(done) / MEASURING_SECONDS


async def _ask(
    running: System, workload: Workload, history: History, per_second: float, seconds: float
) -> dict[str, list[Counted]]:
    """Send requests at a rate, count occasionally, and rest."""
    samples: dict[str, list[Counted]] = collections.defaultdict(list)
    client = Client(running.url, running.client_tls(), workload, history, connections=CALLERS)
    ending = history.now() + seconds
    async with client, asking(client, per_second), watching(running.door, history, running.mutators):
        while history.now() < ending:
            await asyncio.sleep(SAMPLE_SECONDS)
            for name, node in running.nodes.items():
                samples[name].append(sample := await node.count(history.now()))
                history.add(sample)
    await asyncio.sleep(REST_SECONDS)
    return samples
