"""Services as processes of their own, for tests that send signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import IO, TypeVar

from support.forked_commands import ForkedCommand

T = TypeVar("T")

PATIENCE_SECONDS = 120
"""What a busy machine may need; nothing here takes that long."""

_READY = re.compile(r"pratique: (\w+) ready on (127\.0\.0\.1:\d+)\n")


class Process:
    """A service that runs, and what it says."""

    def __init__(self, process: subprocess.Popen[str], address: str) -> None:
        """Use :func:`running`."""
        self._process = process
        self.address = address

    async def line(self) -> str:
        """The next line of its standard output."""
        return await _line(self._process.stdout)

    async def log(self) -> str:
        """The next line of its log."""
        return await _line(self._process.stderr)

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    async def ended(self) -> tuple[int, str]:
        """Wait until it has ended; its exit code, or minus the signal, and the rest of its log."""
        assert self._process.stderr is not None
        log = await _patiently(self._process.stderr.read)
        return await _patiently(self._process.wait), log


@contextlib.asynccontextmanager
async def running(name: str, *arguments: str) -> AsyncIterator[Process]:
    """Run Python with ``arguments``, and wait until it says that the service ``name`` is ready."""
    path = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    pipe = subprocess.PIPE
    with ForkedCommand(
        [sys.executable, *arguments], stdout=pipe, stderr=pipe, text=True, env=environment
    ) as process:
        try:
            line = await _line(process.stdout)
            ready = _READY.fullmatch(line)
            assert ready, (line, process.communicate())
            assert ready[1] == name
            yield Process(process, ready[2])
        finally:
            process.kill()


async def _line(stream: IO[str] | None) -> str:
    assert stream is not None
    return await _patiently(stream.readline)


async def _patiently(blocking: Callable[[], T]) -> T:
    return await asyncio.wait_for(asyncio.to_thread(blocking), PATIENCE_SECONDS)
