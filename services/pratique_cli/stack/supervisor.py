"""Keepers: whoever keeps a service running, on one port, through all its ends."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from pratique_cli.stack.subprocesses import ServiceProcess, ServiceCommand, exit_text, start_service

if TYPE_CHECKING:
    from collections.abc import Callable

FIRST_PAUSE_SECONDS = 0.1
"""Pause before the first new start; each further one doubles it."""
LONGEST_PAUSE_SECONDS = 10.0
"""The longest pause; also how long a service must have run for the next pause to be the first one again."""
DRAIN_SECONDS = 30.0
"""How long a service may drain: the longest time that a review may take."""


class StartError(Exception):
    """A service ended before it was ready. ``code`` is its exit code, or minus the signal."""

    def __init__(self, service: ServiceCommand, code: int) -> None:
        """Say which, and how."""
        super().__init__(f"{service.name} {exit_text(code)} before it was ready; what it said is above")
        self.code = code


class Supervisor:
    """Keeps one service running: starts it again, on the port that others know, whenever it ends unasked."""

    def __init__(self, service: ServiceCommand, port: int, tell: Callable[[str, str], None]) -> None:
        """Listen on ``port`` (0: a free one). ``tell`` takes a name and a line about, or by, the service."""
        self._service = service
        self._port = port
        self._tell = tell
        self._child: ServiceProcess | None = None
        self._keeping: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The id of the process that runs now; 0 before the first."""
        return 0 if self._child is None else self._child.pid

    async def start(self) -> int:
        """Start the service and wait until it is ready; gives the port.

        Raises:
            StartError: it ended before.
        """
        child = await self._spawn()
        port = await child.port()
        if port is None:
            raise StartError(self._service, await child.ended())
        self._port = port
        self._say(f"is process {child.pid}, ready on port {port}")
        self._keeping = asyncio.create_task(self._keep(child))
        return port

    async def stop(self) -> None:
        """Let the service drain, and keep it no longer."""
        await self._let_go()
        if self._child is not None:
            await self._child.stop(DRAIN_SECONDS)

    async def kill(self) -> None:
        """End the service at once, and keep it no longer."""
        if self._child is not None:
            self._child.kill()
        await self._let_go()
        if self._child is not None:
            self._child.kill()
            await self._child.ended()

    async def _let_go(self) -> None:
        if self._keeping is not None:
            self._keeping.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeping

    async def _spawn(self) -> ServiceProcess:
        # Shielded: a process that was started must not be forgotten because of a cancellation meanwhile.
        starting = asyncio.ensure_future(start_service(self._service, self._port, self._pass_on))
        try:
            await asyncio.shield(starting)
        finally:
            self._child = await starting
        return self._child

    async def _keep(self, child: ServiceProcess) -> None:
        pause = FIRST_PAUSE_SECONDS
        clock = asyncio.get_running_loop().time
        while True:
            started = clock()
            code = await child.ended()
            if clock() - started > LONGEST_PAUSE_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            self._say(f"{exit_text(code)}; starting it again in {pause:g} s")
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            child = await self._spawn()
            if await child.port() is not None:
                self._say(f"is process {child.pid}, ready again on port {self._port}")

    def _say(self, event: str) -> None:
        self._tell("pratique", f"{self._service.name} {event}")

    def _pass_on(self, line: str) -> None:
        self._tell(self._service.name, line)
