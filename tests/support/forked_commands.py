"""Commands without the price of their imports: forks of a process that has imported the whole command line.

:class:`ForkedCommand` is a ``subprocess.Popen`` of ``pratique``, and :func:`run` what ``subprocess.run`` is of it: each
command is a process with streams, folder, environment, group and session of its own, and ends as others do. What it
does not show, a test has to start: an import that is missing, options of the interpreter, another seed of hashes, and
how long a file has to rest that may be half written, which is half a second in a fork.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import inspect
import json
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, AnyStr, ClassVar

import pratique_cli

PROGRAM = Path(sys.executable).with_name("pratique")
_TESTS = Path(__file__).parents[1]
_SERVICE = (sys.executable, "-P", "-m", "pratique_cli")
"""How ``pratique up`` starts its services."""
_MAIN = Path(pratique_cli.__file__).with_name("__main__.py")
_AT_START = ("PYTHON", "LANG", "LC_", "LD_", "GRPC_", "MALLOC_")
"""How variables begin that take effect where a process starts or imports; forks see to ``PYTHONPATH``."""


_ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(("PRATIQUE_", "PYTHONPATH"))
}


class _Fork(subprocess.Popen[AnyStr]):
    """A process that is forked where that makes no difference, and started otherwise."""

    def _execute_child(self, *given: Any) -> None:
        """Fork or start; the signature is that of ``subprocess``."""
        start: Callable[..., None] = super()._execute_child  # type: ignore[misc]  # typeshed lacks it
        close_pipes: Callable[..., None] = self._close_pipe_fds  # type: ignore[attr-defined]  # likewise
        asked: dict[str, Any] = inspect.signature(start).bind(*given).arguments
        asked["env"] = dict(os.environ if asked["env"] is None else asked["env"])
        if (
            sys.platform == "linux"
            and _at_start(asked["env"]) == _at_start(_ENVIRONMENT)
            and self._fork(asked)
        ):
            close_pipes(*(asked[name] for name in inspect.signature(close_pipes).parameters))
        else:
            start(*given)

    def _fork(self, asked: Mapping[str, Any]) -> bool:
        """Fork, and tell whether this is a process that can be forked."""
        raise NotImplementedError


class ForkedCommand(_Fork[AnyStr]):
    """A ``pratique`` that runs, for tests that talk to it: ``ForkedCommand([PROGRAM, "up"], stdin=PIPE, text=True)``.

    It may also be ``[sys.executable, "-m", "pratique_cli"]``, or a module of the tests that uses Pratique.
    It starts, and is no fork, if its environment differs from the suite's in what a start depends on, and where
    the system has no file descriptors of processes.
    """

    _server: socket.socket | None = None
    """Where the server tells its process id and, at its end, its status."""

    def _fork(self, asked: Mapping[str, Any]) -> bool:
        program, *arguments = asked["args"]
        self._waiting: threading.Lock = threading.Lock()
        path = PROGRAM.parent
        if arguments[:1] == ["-m"]:
            assert program == sys.executable, asked["args"]
            path = Path(asked["cwd"] or ".").absolute()
            given = [_MAIN, *arguments[2:]] if arguments[1] == "pratique_cli" else arguments
        else:
            assert Path(program) == PROGRAM, asked["args"]
            given = [program, *arguments]
        self._server = _ask_for_fork(_requests(), asked, given, path)
        self.pid = _next_number(self._server)
        return True

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


class ForkedService(_Fork[AnyStr]):
    """What a forked command starts: if it is a service, a fork as well, and a child of the command."""

    requests: ClassVar[socket.socket]
    """Where to ask for one."""

    def _fork(self, asked: Mapping[str, Any]) -> bool:
        command: tuple[Any, ...] = tuple(asked["args"])
        if command[:4] != _SERVICE:
            return False
        with _ask_for_fork(self.requests, asked, [_MAIN, *command[4:]]) as server:
            self.pid = _next_number(server)
        self._child_created = True
        return True


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


def _ask_for_fork(
    requests: socket.socket, asked: Mapping[str, Any], arguments: Sequence[Any], *path: Path
) -> socket.socket:
    """Ask for a process that ``subprocess`` is asked for; return where it is told how that goes.

    The arguments and the path are those that Python would have, where it has started.
    """
    assert not any(asked[name] for name in ("preexec_fn", "pass_fds", "shell"))
    streams = (asked["p2cread"], asked["c2pwrite"], asked["errwrite"])
    given = [inherited if stream == -1 else stream for inherited, stream in enumerate(streams)]
    process = {
        "arguments": [os.fspath(argument) for argument in arguments],
        "environment": asked["env"],
        "folder": str(Path(asked["cwd"] or ".").absolute()),
        "open_files": resource.getrlimit(resource.RLIMIT_NOFILE),
        "path": list(map(str, path)),
        "process_group": asked["process_group"],
        "start_new_session": asked["start_new_session"],
    }
    server, theirs = socket.socketpair()
    with theirs:
        name = "".join(process["arguments"][1:2]) or "--help"
        socket.send_fds(requests, [name.encode()[:100]], [theirs.fileno(), *given])
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
    assert number, "the process that forks has ended"
    return int.from_bytes(number)


@functools.cache
def _requests() -> socket.socket:
    """Start the process that commands are forked from, which ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        server = subprocess.Popen(
            [sys.executable, "-m", "support.command_server", str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            cwd=_TESTS,
            env=_ENVIRONMENT,
        )
    atexit.register(server.wait)
    atexit.register(ours.close)
    return ours
