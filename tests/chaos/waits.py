"""Waits: how long the front door, a mutator and the clients could not do what was due."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path

from chaos.evidence import WAIT_SECONDS
from chaos.histories import History, Waited


@contextlib.asynccontextmanager
async def watching(
    door: Callable[[], int], history: History, mutators: Callable[[], Sequence[int]] = tuple
) -> AsyncIterator[None]:
    """Write down how long the front door, a mutator and this process waited, one after another.

    Of the services, whose processes ``door`` and ``mutators`` tell, that is for a processor alone. What else keeps them
    busy is their own doing, and late answers are. Of several mutators the one that waited longest counts.
    """
    task = asyncio.ensure_future(_watch(door, mutators, history))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def _watch(door: Callable[[], int], mutators: Callable[[], Sequence[int]], history: History) -> None:
    clock = asyncio.get_running_loop().time
    known: dict[int, float] = {}
    due = clock()
    while True:
        late = max(0.0, clock() - due)
        mutating = mutators()
        pids = (door(), *mutating, os.getpid())
        now = {pid: delay for pid in pids if (delay := run_delay(pid)) is not None}
        waited = {pid: now[pid] - known.get(pid, now[pid]) for pid in now}
        # Clients, and the links to all nodes, share a loop. Where it is behind, they are, and what waits in front of
        # them is late; that it had to wait for a processor may be a part of it.
        behind = max(late, waited.pop(os.getpid(), 0.0))
        mutator = max((waited.pop(pid, 0.0) for pid in mutating), default=0.0)
        history.add(Waited(history.now(), sum(waited.values()) + mutator + behind))
        known, due = now, clock() + WAIT_SECONDS
        await asyncio.sleep(WAIT_SECONDS)


def run_delay(pid: int) -> float | None:
    """Seconds that a process's main thread was ready to run and did not; None if the kernel does not count them."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return None
