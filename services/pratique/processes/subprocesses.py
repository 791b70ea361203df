"""Starting and ending child processes of a service that uses gRPC.

The event loops start children with ``fork``, where gRPC's fork handlers may crash the child before it executes the
new program. ``subprocess`` uses ``vfork`` where it can, which runs no handlers.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading

_STANDARD_ERROR = 2


def start_child(module: str, descriptor: int) -> subprocess.Popen[bytes]:
    """Run a module in a new interpreter and process group, with one inherited file and without PRATIQUE_ variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
    return subprocess.Popen(  # noqa: S603 - this interpreter and one of our modules
        (sys.executable, "-P", "-m", module, str(descriptor)),
        stdin=subprocess.PIPE,  # closes when this process ends, see parent_death
        stdout=_STANDARD_ERROR,  # whatever starts the service parses the service's own standard output
        env=environment,
        pass_fds=(descriptor,),
        start_new_session=True,  # Ctrl-C goes to the service alone, which drains
    )


def end_child(process: subprocess.Popen[bytes]) -> None:
    """Kill a child and its own children."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


class ChildProcess:
    """A child process in its own process group, awaitable from an event loop."""

    def __init__(self, module: str, descriptor: int) -> None:
        """Run a module as :func:`start_child` does."""
        self._process = start_child(module, descriptor)
        loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[int] = loop.create_future()
        waiting = threading.Thread(
            target=self._wait, args=(loop,), name=f"wait-{self._process.pid}", daemon=True
        )
        waiting.start()

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        code = self._process.wait()
        with contextlib.suppress(RuntimeError):  # the loop has closed
            loop.call_soon_threadsafe(self._ended.set_result, code)

    async def wait(self) -> int:
        """Wait for the process to end; return its exit code, or minus the signal that ended it."""
        code = await asyncio.shield(self._ended)
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code

    def kill(self) -> None:
        """Kill the process and its own children."""
        end_child(self._process)
