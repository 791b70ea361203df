"""Services as processes of their own, for tests that send signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

PATIENCE_SECONDS = 120
"""What a busy machine may need; nothing here takes that long."""

_READY = re.compile(r"pratique: (\w+) ready on (127\.0\.0\.1:\d+)\n")


class Process:
    """A service that runs, and what it says."""

    def __init__(self, process: asyncio.subprocess.Process, address: str) -> None:
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
        return self._process.returncode is None

    def signal(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send it a signal."""
        self._process.send_signal(number)

    async def ended(self) -> tuple[int, str]:
        """Wait until it has ended; its exit code, or minus the signal, and the rest of its log."""
        _, log = await asyncio.wait_for(self._process.communicate(), PATIENCE_SECONDS)
        return self._process.returncode or 0, log.decode()


@contextlib.asynccontextmanager
async def running(name: str, *arguments: str) -> AsyncIterator[Process]:
    """Run Python with ``arguments``, and wait until it says that the service ``name`` is ready."""
    path = [str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path)}
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable, *arguments, stdout=pipe, stderr=pipe, env=environment
    )
    try:
        line = await _line(process.stdout)
        ready = _READY.fullmatch(line)
        assert ready, (line, await process.communicate())
        assert ready[1] == name
        yield Process(process, ready[2])
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()


async def _line(stream: asyncio.StreamReader | None) -> str:
    assert stream is not None
    return (await asyncio.wait_for(stream.readline(), PATIENCE_SECONDS)).decode()
