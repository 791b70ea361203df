"""Workers that are killed, as the kernel does where memory runs out, while their service asks them on its own loop."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import uvloop

from pratique.admission.controllers import Phase
from pratique.admission.results import Allowed, Failed, FailureKind, Outcome
from pratique.configuration.settings import ChainSettings, Isolation
from pratique.hosting.running import ValidatorHost
from pratique.hosting.services import host_chain
from support.isolated_hosts import Host, hostile_package

KILLS = 2
CALLS = 40
"""After each kill; most of them come before it is noticed, or while it is."""
ENDED = Failed(FailureKind.ERROR, "its process ended")


@pytest.fixture(name="package", autouse=True)
def _package(tmp_path: Path) -> Iterator[None]:
    with hostile_package(tmp_path / "hostile"):
        yield


async def outcomes() -> list[Outcome]:
    """Kill whoever answers, and go on asking, one call after another and none of them waiting for those before."""
    found: list[Outcome] = []
    async with host_chain(
        ChainSettings(admission_control=("SayPid",)), Phase.VALIDATE, ValidatorHost, Isolation.PROCESS
    ) as hosted:
        host = Host(asyncio.get_running_loop(), ValidatorHost(hosted.controllers, hosted.cluster))
        for _ in range(KILLS):
            [first] = await host.validate("SayPid")
            os.kill(int(first.warnings[0]), signal.SIGKILL)
            asking = []
            for _ in range(CALLS):
                asking.append(asyncio.ensure_future(host.validate("SayPid")))
                await asyncio.sleep(0.0002)
            found += [first, *(outcome for outcomes in await asyncio.gather(*asking) for outcome in outcomes)]
    return found


def test_calls_to_a_killed_worker_wait_for_its_replacement() -> None:
    decisions = [outcome.decision for outcome in uvloop.run(outcomes())]
    lost = [decision for decision in decisions if not isinstance(decision, Allowed)]
    assert set(lost) <= {ENDED}  # who was alone in it
    assert len(lost) <= KILLS
