"""The watchdog of an event loop."""

from __future__ import annotations

import asyncio
import io
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from pratique.telemetry.logs import MAX_STACK_LENGTH, configure_logging
from pratique.telemetry.loop_watchdog import LONG_GAP_SECONDS, LoopWatchdog
from support.waiting import until, within

PATIENCE_SECONDS = 60
SECRET = "kept-from-all-logs"


class Log(io.StringIO):
    """What a service would write to standard error."""

    def entries(self, message: str) -> list[dict[str, Any]]:
        """The lines with that message."""
        lines = map(json.loads, self.getvalue().splitlines())
        return [line for line in lines if line["message"] == message]

    def held(self) -> list[dict[str, Any]]:
        """The gaps that were logged."""
        return self.entries("the event loop does not run")


@pytest.fixture
def log() -> Iterator[Log]:
    """The log of this process; pytest's own handlers come back with the next test."""
    written = Log()
    configure_logging("validator", stream=written)
    yield written
    configure_logging("tests")


def samples(watchdog: LoopWatchdog) -> dict[str, float]:
    """The histogram by the bounds of its buckets, and ``sum``."""
    (family,) = watchdog.collect()
    return {sample.labels.get("le", sample.name[-3:]): sample.value for sample in family.samples}


def hold_loop(log: Log, secret: str, depth: int = 0) -> None:
    """Keep the event loop from running until the log says so; nested calls have places of their own."""
    if depth:
        hold_loop(log, secret, depth - 1)
        return
    assert within(PATIENCE_SECONDS, lambda: len(log.held()) > 0), secret


def test_a_long_gap_is_logged_with_the_stack_while_it_lasts_and_counted_afterwards(log: Log) -> None:
    async def run() -> dict[str, float]:
        with LoopWatchdog() as watchdog:
            hold_loop(log, SECRET)
            await until(PATIENCE_SECONDS, lambda: _said(log, "the event loop runs again"))
            return samples(watchdog)

    counted = asyncio.run(run())
    (held,), (ended,) = log.held(), log.entries("the event loop runs again")
    assert (held["level"], held["service"]) == ("warning", "validator")
    assert " < hold_loop (telemetry/test_loop_watchdog.py:" in held["stack"]
    assert SECRET not in log.getvalue()
    assert ended["duration_ms"] >= LONG_GAP_SECONDS * 1000
    assert counted["+Inf"] - counted["0.25"] == 1
    assert counted["sum"] >= LONG_GAP_SECONDS


async def _said(log: Log, message: str) -> bool:
    return bool(log.entries(message))


def test_a_deep_stack_has_its_innermost_places(log: Log) -> None:
    async def run() -> None:
        with LoopWatchdog():
            hold_loop(log, SECRET, depth=100)

    asyncio.run(run())
    stack = log.held()[0]["stack"]
    assert stack.count("hold_loop") > 5
    assert len(stack) <= MAX_STACK_LENGTH


def test_a_loop_that_waits_has_no_long_gap(log: Log) -> None:
    async def run() -> dict[str, float]:
        with LoopWatchdog() as watchdog:
            await until(PATIENCE_SECONDS, lambda: _beats(watchdog, 3))
            return samples(watchdog)

    counted = asyncio.run(run())
    # The machine itself may stop for so long, but not each time.
    assert counted["0.25"] > 0
    assert len(log.held()) <= counted["+Inf"] - counted["0.25"]


async def _beats(watchdog: LoopWatchdog, number: int) -> bool:
    return samples(watchdog).get("+Inf", 0) >= number


def test_the_watchdog_ends_with_its_block() -> None:
    before = threading.active_count()

    async def run() -> None:
        with LoopWatchdog():
            assert threading.active_count() == before + 1
        await asyncio.sleep(0)

    asyncio.run(run())
    assert within(PATIENCE_SECONDS, lambda: threading.active_count() == before)
