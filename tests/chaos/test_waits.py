"""The recorded waits, which the checker takes into account."""

from __future__ import annotations

import asyncio
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import chaos.waits
from chaos.evidence import WAIT_SECONDS
from chaos.histories import History, Waited, read_history
from chaos.waits import run_delay, watching
from support.waiting import within


def waited(folder: Path, busy_seconds: float) -> float:
    """Watch an event loop that is blocked for a time; return what was recorded."""
    history = History(folder / "history.jsonl")

    async def run() -> None:
        async with watching(os.getpid, history):
            await asyncio.sleep(0)
            time.sleep(busy_seconds)  # noqa: ASYNC251 - it is to be late
            await asyncio.sleep(WAIT_SECONDS)

    asyncio.run(run())
    history.close()
    return sum(event.seconds for event in read_history(history.path) if isinstance(event, Waited))


def test_the_lag_of_an_event_loop_is_recorded(tmp_path: Path) -> None:
    assert waited(tmp_path, WAIT_SECONDS + 0.5) >= 0.5


def test_the_wait_of_a_mutator_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waits = {1: itertools.count(), 2: itertools.count(step=5)}
    monkeypatch.setattr(chaos.waits, "run_delay", lambda pid: next(waits[pid]) if pid in waits else 0)
    history = History(tmp_path / "history.jsonl")

    async def run() -> None:
        async with watching(os.getpid, history, lambda: [1, 2]):
            await asyncio.sleep(2 * WAIT_SECONDS)

    asyncio.run(run())
    history.close()
    recorded = [event.seconds for event in read_history(history.path) if isinstance(event, Waited)]
    assert recorded[1] >= 5


def test_a_sleeping_process_has_not_waited_for_a_processor() -> None:
    script = "import time; print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert within(120, lambda: state(process.pid) == "S")  # until then it may wait for a processor
        before = run_delay(process.pid)
        time.sleep(WAIT_SECONDS)  # what is tested is that time passes
        after = run_delay(process.pid)
        process.kill()
    assert before is None or (after is not None and after - before < WAIT_SECONDS / 2)


def state(pid: int) -> str:
    """What a process does, as the kernel says in a letter."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]


def test_a_process_that_is_gone_has_no_wait() -> None:
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
    assert run_delay(process.pid) is None
