"""Processes under measurement: started, asked for their memory and their CPU time, stopped."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

_READY = re.compile(r"(?:ready|console) on (?:\S*:)?(\d+)")
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_STOPPING_SECONDS = 30
"""A service of ours goes on answering for ten seconds after it was told to stop; a second signal ends it."""


def installed() -> dict[str, str]:
    """The environment in which programs run as they are installed: with their bytecode, which the first start writes.

    A source tree that may not write any compiles every module at every start, which nobody waits for who installs.
    """
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def cores() -> frozenset[int]:
    """Those that this process may use."""
    return frozenset(os.sched_getaffinity(0))


@contextlib.contextmanager
def on_cores(wanted: Iterable[int]) -> Iterator[None]:
    """Have processes that the block starts run on these cores alone."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, set(wanted))  # children inherit it
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run ``python <arguments>`` until the block ends; gives the process and the port from its ready line.

    Raises:
        RuntimeError: it ended before it was ready.
    """
    command = [sys.executable, *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=installed()
    ) as running:
        try:
            yield running, _port(running)
        finally:
            stop(running)


@contextlib.contextmanager
def command(
    *arguments: str, folder: Path, environment: Mapping[str, str]
) -> Iterator[subprocess.Popen[bytes]]:
    """Run somebody else's program in a folder until the block ends; what it says is lost.

    Somebody else's log goes where ours goes, which is nowhere: it costs its writer the same, and no disk.
    """
    with subprocess.Popen(
        arguments,
        cwd=folder,
        env={**installed(), **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as running:
        try:
            yield running
        finally:
            stop(running)


def stop(running: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Tell a process to stop, twice: nothing that is measured has work in flight any more."""
    running.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        running.wait(timeout=0.5)
        return
    running.terminate()
    try:
        running.wait(timeout=_STOPPING_SECONDS)
    except subprocess.TimeoutExpired:
        running.kill()
        running.wait()


def _port(running: subprocess.Popen[str]) -> int:
    assert running.stdout is not None
    for line in running.stdout:
        if found := _READY.search(line):
            return int(found.group(1))
    raise RuntimeError(f"{running.args!r} ended before it was ready")


def family(pid: int) -> list[int]:
    """A process and all that it started, and what those started."""
    found = [pid]
    for each in found:
        for thread in Path(f"/proc/{each}/task").glob("*/children"):
            with contextlib.suppress(OSError):  # a thread that has ended meanwhile
                found += [int(child) for child in thread.read_text().split()]
    return found


def resident_mebibytes(pid: int) -> float:
    """Resident memory of a process in MiB, shared pages counted."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found.group(1)) / 1024


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time that processes have taken, user's and system's, in steps of the kernel's tick (10 ms)."""
    ticks = 0
    for pid in pids:
        # the second field is the program's name in brackets, which may hold spaces
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / _TICKS_PER_SECOND
