"""Nemeses: the faults of the system. Each takes its time, and has repaired its damage when it is done."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from chaos.histories import History, Struck
from chaos.schedules import Strike
from chaos.systems import System

Nemesis: TypeAlias = "Callable[[System, Strike], Awaitable[str | None]]"


async def _swap_configuration(system: System, strike: Strike) -> None:
    """Move another configuration to where all read it."""
    system.swap(strike.target)


async def _renew_certificates(system: System, _strike: Strike) -> None:
    """Give the front door, the mutators and the validators other certificates."""
    await system.renew()


async def _kill(system: System, strike: Strike) -> str:
    """End a process as the kernel does where memory runs out, and start another."""
    return await system.nodes[strike.target].restart(signal.SIGKILL)


async def _terminate(system: System, strike: Strike) -> str:
    """Stop a process, and start another."""
    return await system.nodes[strike.target].restart(signal.SIGTERM)


async def _pause(system: System, strike: Strike) -> None:
    """Freeze a process."""
    node = system.nodes[strike.target]
    node.send(signal.SIGSTOP)
    try:
        await asyncio.sleep(strike.seconds)
    finally:
        node.send(signal.SIGCONT)


async def _black_hole(system: System, strike: Strike) -> None:
    """Let nothing pass to a service, or from it."""
    with system.links[strike.target].deaf():
        await asyncio.sleep(strike.seconds)


async def _latency(system: System, strike: Strike) -> None:
    """Let everything to and from a service take longer."""
    with system.links[strike.target].slow(strike.amount):
        await asyncio.sleep(strike.seconds)
    await asyncio.sleep(strike.amount)  # what is still on its way


async def _truncate(system: System, strike: Strike) -> None:
    """Cut data after some bytes: answers if their number is even, otherwise requests."""
    after = int(strike.amount)
    with system.links[strike.target].cutting(after, answers=after % 2 == 0):
        await asyncio.sleep(strike.seconds)


async def _fill_the_disk(system: System, strike: Strike) -> None:
    """Leave no room on the disk with logs and recording."""
    with system.disk.full():
        await asyncio.sleep(strike.seconds)


async def _kill_a_worker(system: System, strike: Strike) -> None:
    """Kill the processes in which a service runs third-party controllers and parses large texts."""
    for pid in system.nodes[strike.target].workers():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


NEMESES: dict[str, Nemesis] = {
    "swap configuration": _swap_configuration,
    "renew certificates": _renew_certificates,
    "kill": _kill,
    "terminate": _terminate,
    "pause": _pause,
    "black hole": _black_hole,
    "latency": _latency,
    "truncate": _truncate,
    "fill the disk": _fill_the_disk,
    "kill a worker": _kill_a_worker,
}
"""By the names that schedules know."""


class Nemeses:
    """All nemeses of a run, each at its time; two never hurt the same process or link at once."""

    def __init__(self, system: System, history: History) -> None:
        """Strike a system, and record it."""
        self._system = system
        self._history = history
        self._turns: dict[str, asyncio.Lock] = {}

    async def follow(self, strikes: list[Strike]) -> None:
        """Carry out a schedule, beginning now; ends when all is mended."""
        async with asyncio.TaskGroup() as group:
            for strike in strikes:
                group.create_task(self._strike(strike))

    async def _strike(self, strike: Strike) -> None:
        await asyncio.sleep(strike.at)
        async with self._turns.setdefault(strike.target, asyncio.Lock()):
            began = self._history.now()
            complaint = await NEMESES[strike.nemesis](self._system, strike)
            ended = self._history.now()
            self._history.add(Struck(began, ended, strike.nemesis, strike.target, complaint or ""))
