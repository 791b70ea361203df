"""Processes under measurement: started, asked for their memory, stopped."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_READY = re.compile(r"ready on (?:\S*:)?(\d+)")


@contextlib.contextmanager
def process(*arguments: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """Run ``python <arguments>`` until the block ends; gives the process and the port from its ready line."""
    with subprocess.Popen([sys.executable, *arguments], stdout=subprocess.PIPE, text=True) as running:
        try:
            yield running, _port(running)
        finally:
            running.terminate()
            running.wait(timeout=30)


def _port(running: subprocess.Popen[str]) -> int:
    assert running.stdout is not None
    for line in running.stdout:
        if found := _READY.search(line):
            return int(found.group(1))
    raise RuntimeError(f"{running.args} ended before it was ready")


def resident_mebibytes(pid: int) -> float:
    """Resident memory of a process in MiB, shared pages counted."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found.group(1)) / 1024
