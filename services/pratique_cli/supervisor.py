"""Services in processes of their own: started, restarted when they end, and stopped when ``pratique up`` ends."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from pratique.apimachinery.patterns import pattern
from pratique_cli.options import flag

ORPHAN_GRACE_SECONDS = 10.0
"""How long a service may drain after its parent has died: as long as the front door drains."""


def until_stdin_closes_flag(callback: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--until-stdin-closes`` to a command, without changing its parameters."""

    @functools.wraps(callback)
    def watched(*, until_stdin_closes: bool, **values: Any) -> Any:
        if until_stdin_closes:
            stop_when_stdin_closes()
        return callback(**values)

    return flag(
        "--until-stdin-closes",
        is_flag=True,
        help="Stop when standard input closes, so that the process does not outlive its parent.",
    )(watched)


def stop_when_stdin_closes() -> None:
    """Start a thread that sends SIGTERM when standard input closes, and SIGKILL if draining takes too long."""
    threading.Thread(target=_stop_at_end_of_stdin, name="lifeline", daemon=True).start()


def _stop_at_end_of_stdin() -> None:
    while _read_stdin():
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(ORPHAN_GRACE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


def _read_stdin() -> bytes:
    try:
        return os.read(0, 1024)
    except OSError:
        return b""


_READY = pattern(rb"pratique: \w+ ready on \S*:(\d+)")
_CHUNK_BYTES = 1 << 16  # what a pipe holds


class ServiceCommand(msgspec.Struct, frozen=True):
    """A service to run as a process."""

    name: str
    """The name in messages, such as ``validator-2``."""
    arguments: tuple[str, ...]
    """The arguments after ``pratique serve``, without the port."""
    variables: Mapping[str, str] = msgspec.field(default_factory=dict)
    """Flags that the process list must not show, as environment variables."""


class ServiceProcess:
    """A running service process, which announces its port and whose output is forwarded."""

    def __init__(
        self, service: ServiceCommand, process: asyncio.subprocess.Process, tell: Callable[[str], None]
    ) -> None:
        """Use :func:`start_service`."""
        self.service = service
        self._process = process
        self._port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._ended = asyncio.create_task(self._follow(tell))

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def port(self) -> int | None:
        """Wait until the service is ready, and return its port; None if it ended before."""
        await asyncio.wait({self._port, self._ended}, return_when=asyncio.FIRST_COMPLETED)
        return self._port.result() if self._port.done() else None

    async def ended(self) -> int:
        """Wait for the end of the process and its output; return the exit code, or minus the signal."""
        return await asyncio.shield(self._ended)

    def kill(self) -> None:
        """Kill the process."""
        self._send(signal.SIGKILL)

    async def stop(self, grace_seconds: float) -> None:
        """Let the process drain, and kill it after ``grace_seconds``."""
        self._send(signal.SIGTERM)
        try:
            async with asyncio.timeout(grace_seconds):
                await self.ended()
        except TimeoutError:
            self.kill()
            await self.ended()

    def _send(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def _follow(self, tell: Callable[[str], None]) -> int:
        await asyncio.gather(
            self._forward(self._process.stdout, tell), self._forward(self._process.stderr, tell)
        )
        return await self._process.wait()

    async def _forward(self, stream: asyncio.StreamReader | None, tell: Callable[[str], None]) -> None:
        rest = b""
        while stream is not None and (chunk := await stream.read(_CHUNK_BYTES)):
            *lines, rest = (rest + chunk).split(b"\n")
            if len(rest) > _CHUNK_BYTES:
                lines, rest = [*lines, rest], b""
            for line in lines:
                self._look_for_port(line)
                tell(line.decode(errors="backslashreplace"))
        if rest:
            tell(rest.decode(errors="backslashreplace"))

    def _look_for_port(self, line: bytes) -> None:
        found = _READY.match(line)
        if found and not self._port.done():
            self._port.set_result(int(found[1]))


async def start_service(service: ServiceCommand, port: int, tell: Callable[[str], None]) -> ServiceProcess:
    """Start a service on ``port`` (0: a free one); ``tell`` gets each line of its output."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        # -P: not with the modules of whatever folder this runs in
        *(
            "-P",
            "-m",
            "pratique_cli",
            "serve",
            *service.arguments,
            "--port",
            str(port),
            "--until-stdin-closes",
        ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**_environment_without_flags(), **service.variables},
        # Its own process group, because Ctrl-C is for the parent, which drains its services in order.
        process_group=0,
    )
    return ServiceProcess(service, process, tell)


def _environment_without_flags() -> dict[str, str]:
    """The environment without flags, because the parent has read them and passes flags on explicitly."""
    kept = {"PRATIQUE_DEBUG"}
    return {key: value for key, value in os.environ.items() if not key.startswith("PRATIQUE_") or key in kept}


def exit_text(code: int) -> str:
    """Describe how a process ended: ``exited with 2``, ``was killed by SIGKILL``."""
    if code >= 0:
        return f"exited with {code}"
    return f"was killed by {signal.Signals(-code).name}"


FIRST_PAUSE_SECONDS = 0.1
"""The pause before the first restart; each further restart doubles it."""
LONGEST_PAUSE_SECONDS = 10.0
"""The longest pause. A service that ran longer than this restarts with the first pause again."""
DRAIN_SECONDS = 30.0
"""How long a service may drain: the longest timeout of a review."""


class StartError(Exception):
    """A service ended before it was ready; ``code`` is its exit code, or minus the signal."""

    def __init__(self, service: ServiceCommand, code: int) -> None:
        """Name the service, and how it ended."""
        super().__init__(f"{service.name} {exit_text(code)} before it was ready; its output is above")
        self.code = code


class Supervisor:
    """Keeps one service running: restarts it on the same port whenever it exits by itself."""

    def __init__(self, service: ServiceCommand, port: int, tell: Callable[[str, str], None]) -> None:
        """Listen on ``port`` (0: a free one). ``tell`` gets the name of a speaker and one line of text."""
        self._service = service
        self._port = port
        self._tell = tell
        self._child: ServiceProcess | None = None
        self._restarting: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int:
        """The id of the current process; 0 before the first start."""
        return 0 if self._child is None else self._child.pid

    async def start(self) -> int:
        """Start the service, wait until it is ready, and return its port.

        Raises:
            StartError: it ended before.
        """
        child = await self._spawn()
        port = await child.port()
        if port is None:
            raise StartError(self._service, await child.ended())
        self._port = port
        self._announce(f"is process {child.pid}, ready on port {port}")
        self._restarting = asyncio.create_task(self._restart_when_ended(child))
        return port

    async def stop(self) -> None:
        """Let the service drain, and do not restart it."""
        await self._cancel_restarts()
        if self._child is not None:
            await self._child.stop(DRAIN_SECONDS)

    async def kill(self) -> None:
        """Kill the service, and do not restart it."""
        if self._child is not None:
            self._child.kill()
        await self._cancel_restarts()
        if self._child is not None:
            self._child.kill()
            await self._child.ended()

    async def _cancel_restarts(self) -> None:
        if self._restarting is not None:
            self._restarting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._restarting

    async def _spawn(self) -> ServiceProcess:
        # Shielded, because a cancellation must not lose track of a process that has started.
        starting = asyncio.ensure_future(start_service(self._service, self._port, self._forward))
        try:
            await asyncio.shield(starting)
        finally:
            self._child = await starting
        return self._child

    async def _restart_when_ended(self, child: ServiceProcess) -> None:
        pause = FIRST_PAUSE_SECONDS
        clock = asyncio.get_running_loop().time
        while True:
            started = clock()
            code = await child.ended()
            if clock() - started > LONGEST_PAUSE_SECONDS:
                pause = FIRST_PAUSE_SECONDS
            self._announce(f"{exit_text(code)}; restarting in {pause:g} s")
            await asyncio.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)
            child = await self._spawn()
            if await child.port() is not None:
                self._announce(f"is process {child.pid}, ready again on port {self._port}")

    def _announce(self, event: str) -> None:
        self._tell("pratique", f"{self._service.name} {event}")

    def _forward(self, line: str) -> None:
        self._tell(self._service.name, line)
