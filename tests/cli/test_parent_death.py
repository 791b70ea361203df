from __future__ import annotations

import subprocess
import sys

import pytest

CHILD = """
import signal, sys, time
from pratique_cli import supervisor
supervisor.ORPHAN_GRACE_SECONDS = 0.2
{handler}
supervisor.stop_when_stdin_closes()
print("up", flush=True)
time.sleep(60)
"""


def child(handler: str = "") -> subprocess.Popen[str]:
    code = CHILD.format(handler=handler)
    started = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert started.stdout is not None
    assert started.stdout.readline() == "up\n"
    return started


def test_a_service_drains_when_its_stdin_closes() -> None:
    process = child("signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))")
    process.communicate(timeout=120)
    assert process.returncode == 7


def test_a_service_that_does_not_drain_is_killed() -> None:
    process = child("signal.signal(signal.SIGTERM, signal.SIG_IGN)")
    process.communicate(timeout=120)
    assert process.returncode == -9


def test_input_on_stdin_does_not_stop_a_service() -> None:
    process = child()
    assert process.stdin is not None
    process.stdin.write("more\n")
    process.stdin.flush()
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=0.3)
    process.communicate(timeout=120)
    assert process.returncode == -15
