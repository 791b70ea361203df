"""How many of our modules one review passes through, counted in every process of a stack."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.front_doors.reviews import review_document
from support.local_stacks import Stack, running

MOST_MODULES = 30
WATCHDOG = {"pratique.telemetry.loop_watchdog"}
"""It looks at the event loop twenty times a second, whatever that does."""
WARM_UP_REVIEWS = 5
REVIEWS = 10
ROUNDS = 5
SETTLE_SECONDS = 0.03
"""How long a service may work on a review after its answer has arrived: it still counts and observes it."""
ENTRIES = {
    "frontdoor": "pratique_frontdoor.http.endpoints",
    "mutator": "pratique.rpc.handlers",
    "validator": "pratique.rpc.handlers",
}
"""A module in each service that every review passes through."""
HOOK = '''
"""Every Python process imports this at start. On SIGUSR1 it writes which of our modules were called since the last."""

import os
import pathlib
import signal
import sys
import threading

called = set()


def record(frame, event, argument):
    if event == "call":
        called.add(frame.f_globals.get("__name__", ""))


def write(number, frame):
    names = sorted(name for name in called if name.startswith("pratique"))
    called.clear()
    unfinished = pathlib.Path(os.environ["CALLED_MODULES"], f"{os.getpid()}.unfinished")
    unfinished.write_text("\\n".join(names))
    unfinished.rename(unfinished.with_suffix(""))


signal.signal(signal.SIGUSR1, write)
threading.setprofile(record)
sys.setprofile(record)
'''


@pytest.fixture
def stack(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    """A stack whose chain is one controller, and whose processes record the modules that they call."""
    for folder in ("hook", "called"):
        (tmp_path / folder).mkdir()
    (tmp_path / "hook" / "sitecustomize.py").write_text(HOOK)
    monkeypatch.setenv("CALLED_MODULES", str(tmp_path / "called"))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "hook"), prepend=os.pathsep)
    flags = ("--validators", "1", "--admission-control", "AlwaysPullImages")
    with running(*flags, forked=False) as stack:  # a fork would not import the hook
        yield stack


def called_modules(folder: Path, pid: int) -> frozenset[str]:
    """The modules that a process has called since the last call of this function."""
    names = folder / str(pid)
    os.kill(pid, signal.SIGUSR1)
    while not names.exists():
        time.sleep(0.001)
    called = frozenset(names.read_text().split())
    names.unlink()
    return called


def modules_of_reviews(stack: Stack, folder: Path, reviews: int) -> list[str]:
    """The modules that every one of these reviews has called, in any of the processes."""
    document = review_document()
    pids = {service: stack.pids(service)[0] for service in ENTRIES}
    windows: dict[str, list[frozenset[str]]] = {service: [] for service in ENTRIES}
    with contextlib.closing(stack.connect()) as connection:
        for _ in range(reviews):
            for pid in pids.values():
                called_modules(folder, pid)
            assert "patch" in stack.post("/admit", document, connection)["response"]
            time.sleep(SETTLE_SECONDS)
            for service, pid in pids.items():
                windows[service].append(called_modules(folder, pid))
    # What only some windows have is the work of timers, not of the review; the watchdog's is in all long ones.
    paths = {service: frozenset.intersection(*found) - WATCHDOG for service, found in windows.items()}
    assert all(entry in paths[service] for service, entry in ENTRIES.items())
    return sorted(frozenset.union(*paths.values()))


def test_a_review_passes_through_few_modules(stack: Stack, tmp_path: Path) -> None:
    folder = tmp_path / "called"
    modules_of_reviews(stack, folder, WARM_UP_REVIEWS)
    for _ in range(ROUNDS):  # on a busy machine, reviews take so long that each sees the work of timers
        modules = modules_of_reviews(stack, folder, REVIEWS)
        if len(modules) <= MOST_MODULES:
            return
    pytest.fail("\n".join(modules))
