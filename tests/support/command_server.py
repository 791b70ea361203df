"""The process that commands are forked from, which has imported and tried what they need.

:mod:`support.forked_commands` runs it with the number of a socket. Each message on that socket brings the streams of a
new command and a socket of the command's own: there the fork reads what it shall be, and the server writes the fork's
process id and, once it has ended, its status. The server ends with the other end of the first socket.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib
import io
import json
import os
import pkgutil
import resource
import runpy
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, TextIO, TypeAlias

from support.forked_commands import ForkedService

Main: TypeAlias = "Callable[..., NoReturn]"

ROOMS = ("pratique", "pratique_cli", "pratique_frontdoor", "pratique_mutator", "pratique_validator")
STARTING_SERVICES = (["up"], ["record"])
ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
CEL = EXAMPLES / "04-cel-policies"
TRIALS: dict[str, list[tuple[object, ...]]] = {
    "review": [
        ("--config", CEL / "policies.yaml", "--cluster", CEL / "cluster.yaml", CEL / "input.yaml"),
        ("-o", "yaml", CEL / "input.yaml"),
    ],
    "check": [(CEL / "policies.yaml",)],
    "test": [(EXAMPLES / "05-policy-tests",)],
    "prove": [("--examples", "5", EXAMPLES / "06-prove" / "good")],
}
"""What the server runs itself before it forks such a command: it reads tables, compiles, and imports what is left."""
PATH = sys.path[1:]
"""Where Python looks for modules, but for those of whatever it runs."""
_PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 15, 36
"""``linux/prctl.h``."""
_STANDARD_ERROR = 2
STREAMS = [(stream.name, stream.encoding, stream.errors) for stream in (sys.stdin, sys.stdout, sys.stderr)]
"""The standard streams as Python has opened them, before anything has configured them anew."""


class Ending:
    """Ends a fork as Python does, but for taking its modules apart, which costs more than most commands."""

    def __init__(self) -> None:
        """To be called before anything else registers what is called at the end of a process, and after this."""
        self._code: int | None = None
        atexit.register(self._end)

    def run(self, main: Main) -> NoReturn:
        """Run the command, and remember its code if Python would print nothing about it."""
        try:
            main()
        except SystemExit as ended:
            self._code = ended.code if isinstance(ended.code, int) else None
            raise

    def _end(self) -> None:
        if self._code is not None:
            with contextlib.suppress(OSError):  # about which Python prints something, and changes the code
                for stream in (sys.stdout, sys.stderr):
                    if not stream.closed:
                        stream.flush()
                os._exit(self._code & 0xFF)


class CommandServer:
    """Forks commands, and tells how they end."""

    def __init__(self, requests: socket.socket, *, for_parent: bool = False) -> None:
        """Serve one socket; ``for_parent`` leaves the forks to the parent process, which waits for them itself."""
        self._requests = requests
        self._for_parent = for_parent
        self._running: dict[int, tuple[int, socket.socket]] = {}
        self._trials = {} if for_parent else dict(TRIALS)

    def serve(self) -> tuple[socket.socket, list[int]]:
        """Fork for each request; return in the fork, with its socket and streams, and nothing else that is open."""
        while True:
            ready = select.select([self._requests.fileno(), *self._running], [], [])[0]
            for descriptor in self._running.keys() & ready:
                self._end(descriptor)
            if self._requests.fileno() in ready:
                name, descriptors, _, _ = socket.recv_fds(self._requests, 100, 4)
                if not name:
                    self._kill_all()
                    os._exit(0)
                self._try(name.decode())
                if is_fork := self._fork(socket.socket(fileno=descriptors[0]), descriptors[1:]):
                    return is_fork

    def _try(self, name: str) -> None:
        """Run a command here, the first time that it is asked for."""
        if trials := self._trials.pop(name, None):
            if name == "prove":
                _find_constants()
            main = importlib.import_module("pratique_cli.main").main
            with Path(os.devnull).open("w") as nowhere, contextlib.redirect_stderr(nowhere):
                for arguments in trials:
                    with contextlib.suppress(SystemExit):
                        main([name, *map(str, arguments)])
            _keep_all()

    def _fork(self, command: socket.socket, streams: list[int]) -> tuple[socket.socket, list[int]] | None:
        if not (process := os.fork()):
            if self._for_parent:
                _leave_to_parent()
            self._requests.close()
            for descriptor, (_, other) in self._running.items():
                os.close(descriptor)
                other.close()
            _tell(command, os.getpid())
            return command, streams
        for stream in streams:
            os.close(stream)
        if self._for_parent:
            command.close()
            os.waitpid(process, 0)
        else:
            self._running[os.pidfd_open(process)] = process, command
        return None

    def _end(self, descriptor: int) -> None:
        process, command = self._running.pop(descriptor)
        with command:
            _tell(command, os.waitpid(process, 0)[1])
        os.close(descriptor)

    def _kill_all(self) -> None:
        for process, _ in self._running.values():
            os.kill(process, signal.SIGKILL)


def _leave_to_parent() -> None:
    """Go on in a fork whose parent has ended, and which the next of the parents that adopt, therefore, has adopted."""
    between = os.getpid()
    if os.fork():
        os._exit(0)
    while os.getppid() == between:
        time.sleep(0.001)


def _find_constants() -> None:
    """Draw numbers, before which hypothesis looks for constants in all code that is here, or where it has kept them.

    ``prove`` keeps nothing, and would look at all of it for some seconds in each fork.
    """
    hypothesis = importlib.import_module("hypothesis")
    numbers = hypothesis.strategies.lists(hypothesis.strategies.integers(), min_size=100)
    settings = hypothesis.settings(
        max_examples=5, deadline=None, database=None, suppress_health_check=list(hypothesis.HealthCheck)
    )
    settings(hypothesis.given(numbers)(lambda _: None))()


def _keep_all() -> None:
    """Let the collector of a fork not look at, and so copy, what is here; what is free is no memory of a fork."""
    gc.collect()
    gc.freeze()
    importlib.import_module("pratique_frontdoor.http.servers").trim_memory()


def _tell(command: socket.socket, number: int) -> None:
    """Tell whoever has started a command, unless they are gone."""
    with contextlib.suppress(OSError):
        command.sendall(number.to_bytes(4))


def become(command: socket.socket, streams: list[int]) -> None:
    """Make this fork the process that was asked for, as if Python had just started in it."""
    with command, command.makefile() as file:
        asked: dict[str, Any] = json.load(file)
    if asked["start_new_session"]:
        os.setsid()
    if asked["process_group"] != -1:
        os.setpgid(0, asked["process_group"])
    resource.setrlimit(resource.RLIMIT_NOFILE, asked["open_files"])
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    time.tzset()
    sys.argv[:] = asked["arguments"]
    ctypes.CDLL(None).prctl(_PR_SET_NAME, " ".join(sys.argv[1:3]).encode()[:15])
    path = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[:] = [*asked["path"], *filter(None, path), *PATH]
    importlib.invalidate_caches()
    # for multiprocessing, whose processes load what this one runs
    vars(sys.modules["__main__"]).update(__file__=sys.argv[0], __spec__=None)
    for number, given in enumerate(streams):
        os.dup2(given, number)
        os.close(given)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        stream = open_stream(number)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def open_stream(number: int) -> TextIO:
    """Open a standard stream as Python does at its start.

    Source: ``create_stdio`` of CPython's ``Python/pylifecycle.c``.
    """
    name, encoding, errors = STREAMS[number]
    mode, unbuffered = ("w" if number else "r"), bool(os.environ.get("PYTHONUNBUFFERED"))
    is_raw = bool(unbuffered and number)
    buffer: Any = os.fdopen(number, f"{mode}b", 0 if is_raw else -1, closefd=False)
    raw = buffer if is_raw else buffer.raw
    raw.name = name
    by_lines = not unbuffered and (number == _STANDARD_ERROR or raw.isatty())
    stream = io.TextIOWrapper(
        buffer, encoding, errors, "\n", line_buffering=by_lines, write_through=unbuffered
    )
    vars(stream)["mode"] = mode
    return stream


def import_all() -> None:
    """Import every module that a command may import, and let none of them wait long for files to be whole."""
    for room in map(importlib.import_module, ROOMS):
        for module in pkgutil.walk_packages(room.__path__, f"{room.__name__}."):
            if not module.name.endswith(".__main__"):
                importlib.import_module(module.name)
    vars(sys.modules["pratique.telemetry.reloading_files"]).update(SUSPECT_SECONDS=0.5)
    _keep_all()


def fork_services() -> None:
    """Let the services that this command starts be forks as well, and yet its own children."""
    requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    if os.fork():
        theirs.close()
        ForkedService.requests = requests
        subprocess.Popen = ForkedService  # type: ignore[misc]
    else:
        requests.close()
        become(*CommandServer(theirs, for_parent=True).serve())


def run_module() -> NoReturn:
    """Do what ``python -m`` does."""
    runpy.run_module(sys.argv.pop(1), run_name="__main__", alter_sys=True)
    sys.exit()


def main() -> NoReturn:
    """Serve, and be a command in each fork."""
    ending = Ending()
    # Ctrl-C at the terminal of a suite is for the suite, and ends this process with it.
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    os.chdir(ROOT)
    import_all()
    become(*CommandServer(socket.socket(fileno=int(sys.argv[1]))).serve())
    if sys.argv[1:2] in STARTING_SERVICES:
        fork_services()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    is_module = sys.argv[0] == "-m"
    ending.run(run_module if is_module else importlib.import_module("pratique_cli.main").main)


if __name__ == "__main__":
    main()
