"""Programs as processes of a test, which end with it even if it is killed; commands of Pratique are forks."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from support.forked_commands import PROGRAM, ForkedCommand

_BIND = """
import os, sys
if sys.platform == "linux":
    import ctypes, signal
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
    if os.getppid() != int(sys.argv[1]):
        sys.exit("the parent has ended")
os.execv(sys.argv[2], sys.argv[2:])
"""
"""Becomes a program that the kernel kills once the thread that started it has ended, as only Linux can."""


@contextlib.contextmanager
def bound_process(
    command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a program until the block ends, and kill it then; what it prints goes into ``log``."""
    program: Callable[..., subprocess.Popen[bytes]] = ForkedCommand
    if command[0] != str(PROGRAM):
        program = subprocess.Popen
        command = [sys.executable, "-I", "-S", "-c", _BIND, str(os.getpid()), *command]
    with (
        log.open("wb") as output,
        program(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment) as process,
    ):
        try:
            yield process
        finally:
            process.kill()
