"""Nodes: services as processes at fixed ports, which can be hurt, and are started again when they end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from chaos.histories import Counted
from support.waiting import until

PATIENCE_SECONDS = 120.0
"""Seconds that a start may take on a busy machine; on an idle one it takes one."""
WORKERS_END_SECONDS = 10.0
"""Seconds that the workers of a stopped service may take to end; on an idle machine it takes milliseconds."""
_TESTS = Path(__file__).parent.parent
_READY = re.compile(rb"pratique: \w+ ready on (?:https://)?127\.0\.0\.1:(\d+)\n")


class Node:
    """One service: its process now, and the port that stays the same."""

    def __init__(self, name: str, arguments: Sequence[str], *, path: Path, log: Path, folder: Path) -> None:
        """Run ``pratique serve`` with arguments; log to a file, and let Python look for modules in ``path``, too."""
        self.name = name
        self.port = 0
        self.pids: list[int] = []
        self._arguments = arguments
        self._path = path
        self._log = log
        self._census = folder / f"{name}.tasks"
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The id of its process."""
        return self.pids[-1]

    async def start(self) -> None:
        """Start a process, and wait until it is ready."""
        command = ["-m", "chaos.census_takers", str(self._census), "serve", *self._arguments]
        log = await asyncio.to_thread(os.open, self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable, *command, "--port", str(self.port), "--until-stdin-closes",
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=self._environment(),
            )  # fmt: skip
        finally:
            os.close(log)
        self.pids.append(self._process.pid)
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE_SECONDS)
        ready = _READY.fullmatch(line)
        assert ready, (self.name, line, self._log.read_text()[-2000:] if self._log.is_file() else "")
        self.port = int(ready[1])

    def send(self, number: signal.Signals) -> None:
        """Send its process a signal."""
        assert self._process is not None
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def restart(self, number: signal.Signals) -> str:
        """End the process by a signal, and start another one in its place; gives a complaint, or nothing."""
        workers = self.workers()
        code = await self.stop(number)
        asked = 0 if number is signal.SIGTERM else -number
        wrong = [] if code == asked else [f"{self.name} ended with {code} on {number.name}"]

        async def gone() -> bool:
            return not any(map(_lives, workers))

        try:
            await until(WORKERS_END_SECONDS, gone)
        except TimeoutError:
            wrong.append(f"{self.name} left workers behind")
        await self.start()
        return "; ".join(wrong)

    async def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """End the process by a signal, or by SIGKILL where it does not end by that one; gives its exit code.

        One that had ended before, which nobody had asked for, has another.
        """
        if self._process is None or self._process.returncode is not None:
            return 0 if self._process is None else self._process.returncode or 255
        self.send(signal.SIGCONT)
        self.send(number)
        try:
            await asyncio.wait_for(self._process.wait(), PATIENCE_SECONDS)
        except TimeoutError:
            self.send(signal.SIGKILL)
            await self._process.wait()
        assert self._process.returncode is not None
        return self._process.returncode

    def workers(self) -> list[int]:
        """The processes that run other people's controllers for it, and that which reads large texts."""
        found: list[int] = []
        for thread in Path(f"/proc/{self.pid}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # a thread, or the process, has ended meanwhile
                found += map(int, thread.read_text().split())
        return sorted(found)

    async def count(self, at: float) -> Counted:
        """What its process holds now."""
        proc = Path(f"/proc/{self.pid}")
        status = dict(line.split(":\t", 1) for line in (proc / "status").read_text().splitlines())
        return Counted(
            at=at,
            node=self.name,
            pid=self.pid,
            descriptors=len(list((proc / "fd").iterdir())),
            threads=int(status["Threads"]),
            tasks=await self._tasks(),
            children=len(self.workers()),
            resident_kib=int(status["VmRSS"].split()[0]),
        )

    async def _tasks(self) -> int:
        self._census.unlink(missing_ok=True)
        self.send(signal.SIGUSR1)

        async def told() -> bool:
            return self._census.exists()

        await until(PATIENCE_SECONDS, told)
        return int(self._census.read_text())

    def _environment(self) -> Mapping[str, str]:
        path = os.pathsep.join([str(self._path), str(_TESTS)])
        return {key: value for key, value in os.environ.items() if not key.startswith("PRATIQUE_")} | {
            "PYTHONPATH": path
        }


def _lives(pid: int) -> bool:
    """Whether a process is there, and not merely not waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
