"""Child processes of a service that speaks gRPC.

The event loops' own ways to start one fork, and gRPC's handlers for forks may crash the child before it is another
program. ``subprocess`` uses ``vfork`` where it can, which runs no handlers.
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
    """Run a module in an interpreter and a group of its own, with one more file and without the service's variables."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
    return subprocess.Popen(  # noqa: S603 - this interpreter, and a module of ours
        (sys.executable, "-P", "-m", module, str(descriptor)),
        stdin=subprocess.PIPE,  # its lifeline
        stdout=_STANDARD_ERROR,  # what starts a service reads the service's own words on standard output
        env=environment,
        pass_fds=(descriptor,),
        start_new_session=True,  # Ctrl-C is for the service, which drains
    )


def end_child(process: subprocess.Popen[bytes]) -> None:
    """End it at once, and what it has itself started with it."""
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)


class ChildProcess:
    """A worker's process, in a group of its own."""

    def __init__(self, module: str, descriptor: int) -> None:
        """Run a module, as :func:`start_child`."""
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
        """Its exit code, or minus the signal that ended it, once it has ended."""
        code = await asyncio.shield(self._ended)
        if self._process.stdin is not None:
            self._process.stdin.close()
        return code

    def kill(self) -> None:
        """End it at once, and what it has itself started with it."""
        end_child(self._process)
