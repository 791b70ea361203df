"""Commands without the price of their imports: forks of a process that has imported the whole command line.

:class:`ForkedCommand` is a ``subprocess.Popen`` of ``pratique``, and :func:`run` what ``subprocess.run`` is of it: each
command is a process with streams, folder, environment, group and session of its own, and ends as others do. What it
does not show, a test has to start: an import that is missing, options of the interpreter, another seed of hashes.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, AnyStr

PROGRAM = Path(sys.executable).with_name("pratique")
_SERVER = Path(__file__).with_name("command_server.py")
_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "GRPC_", "MALLOC_")
"""How variables begin that take effect where a process starts or imports; forks see to ``PYTHONPATH``."""


_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(("PRATIQUE_", "PYTHONPATH"))
}


class ForkedCommand(subprocess.Popen[AnyStr]):
    """A ``pratique`` that runs, for tests that talk to it: ``ForkedCommand([PROGRAM, "up"], stdin=PIPE, text=True)``.

    It starts, and is no fork, if its environment differs from the suite's in what a start depends on, and where
    the system has no file descriptors of processes.
    """

    _server: socket.socket | None = None
    """Where the server tells its process id and, at its end, its status."""

    def _execute_child(self, *given: Any) -> None:
        """Ask for a fork; the signature is that of ``subprocess``."""
        start = super()._execute_child  # type: ignore[misc]  # typeshed lacks it
        asked = inspect.signature(start).bind(*given).arguments
        asked["env"] = dict(os.environ if asked["env"] is None else asked["env"])
        if sys.platform != "linux" or _at_start(asked["env"]) != _at_start(_ENVIRONMENT):
            start(*given)
            return
        self._waiting = threading.Lock()
        self._server = _ask_for_fork(asked)
        close_pipes = self._close_pipe_fds  # type: ignore[attr-defined]  # likewise
        close_pipes(*(asked[name] for name in inspect.signature(close_pipes).parameters))
        self.pid = _next_number(self._server)

    def poll(self) -> int | None:
        """Tell how it has ended, if it has."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended, and tell how."""
        if self._server is None:
            return super().wait(timeout)
        with self._waiting:
            if self.returncode is None:
                self._server.settimeout(timeout and max(timeout, 0))
                try:
                    self.returncode = os.waitstatus_to_exitcode(_next_number(self._server))
                except (BlockingIOError, TimeoutError) as error:
                    raise subprocess.TimeoutExpired(self.args, timeout or 0) from error
                self._server.close()
        return self.returncode


def run(
    command: Sequence[object],
    *,
    input: str = "",  # noqa: A002 - as subprocess.run has it
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    timeout: float = 300,
) -> subprocess.CompletedProcess[str]:
    """Run ``command``, which begins with :data:`PROGRAM`, to its end; return its code and all that it wrote.

    Raises:
        TimeoutExpired: it took longer than ``timeout`` seconds, and was killed.
    """
    pipe = subprocess.PIPE
    arguments = list(map(str, command))
    with ForkedCommand(
        arguments, stdin=pipe, stdout=pipe, stderr=pipe, text=True, cwd=cwd, env=env
    ) as process:
        try:
            out, err = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(arguments, process.returncode, out, err)


def _ask_for_fork(asked: Mapping[str, Any]) -> socket.socket:
    """Ask for what ``subprocess`` is asked for; return where the server tells how it goes."""
    assert Path(asked["args"][0]) == PROGRAM, asked["args"]
    assert not any(asked[name] for name in ("preexec_fn", "pass_fds", "shell"))
    arguments = [os.fspath(argument) for argument in asked["args"]]
    streams = (asked["p2cread"], asked["c2pwrite"], asked["errwrite"])
    given = [inherited if stream == -1 else stream for inherited, stream in enumerate(streams)]
    process = {
        "arguments": arguments,
        "environment": asked["env"],
        "folder": str(Path(asked["cwd"] or ".").absolute()),
        "process_group": asked["process_group"],
        "start_new_session": asked["start_new_session"],
    }
    server, theirs = socket.socketpair()
    with theirs:
        name = "".join(arguments[1:2]) or "--help"
        socket.send_fds(_requests(), [name.encode()[:100]], [theirs.fileno(), *given])
    server.sendall(json.dumps(process).encode())
    server.shutdown(socket.SHUT_WR)
    return server


def _at_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(_AT_START) and name != "PYTHONPATH"
    }


def _next_number(server: socket.socket) -> int:
    number = server.recv(4, socket.MSG_WAITALL)
    assert number, "the process that commands are forked from has ended"
    return int.from_bytes(number)


@functools.cache
def _requests() -> socket.socket:
    """Start the process that commands are forked from, which ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, _SERVER, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=_SERVER.parents[2],
            env=_ENVIRONMENT,
        )
    atexit.register(server.wait)
    atexit.register(ours.close)
    return ours
