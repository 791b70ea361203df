"""Services with third-party controllers, which run in separate processes by default."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from pathlib import Path
from typing import Any

import grpc
import pytest

from pratique.admission.results import Allowed, Denied, Failed, FailureKind, Outcome
from pratique.admission.reviews import Call
from support.controller_packages import lay_out
from support.local_stacks import children
from support.pods import pod
from support.services import hostile_controllers
from support.services.processes import Process, running
from support.services.reviews import review_of
from support.services.servers import KINDS, MUTATOR, VALIDATOR, Kind
from support.waiting import until, within

SPIN_SECONDS = 2.0
LEAST_BESIDE = 5
"""Reviews that are answered while a controller spins: a service that waited for it would answer none."""
NAMES = ("AlwaysAdmit", "SpinAsync", "ExitAtOnce", "Segfault", "RaiseUnusual", "DenyIt", "SayPid")


@pytest.fixture(name="package", autouse=True)
def _package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = lay_out(tmp_path / "package", "acme_hostile", hostile_controllers.PACKAGE, all="CONTROLLERS")
    monkeypatch.setenv("PYTHONPATH", str(place))


def service(kind: Kind, *flags: str) -> contextlib.AbstractAsyncContextManager[Process]:
    arguments = ("serve", kind.name, "--port", "0", "--admission-control", ",".join(NAMES))
    return running(kind.name, "-m", "pratique_cli", *arguments, *flags)


async def ask(
    kind: Kind, channel: grpc.aio.Channel, *names: str, name: str = "bad", seconds: float = 20
) -> list[Outcome]:
    return await kind.ask(channel, review_of(pod(name=name)), [Call(item, seconds) for item in names], 30)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_service_survives_hostile_controllers(kind: Kind) -> None:
    async def run() -> list[Any]:
        async with service(kind) as process, grpc.aio.insecure_channel(process.address) as channel:
            decisions: list[Any] = []
            for name in ("ExitAtOnce", "Segfault", "RaiseUnusual"):
                decisions += [item.decision for item in await ask(kind, channel, name)]
                decisions += [item.decision for item in await ask(kind, channel, name, name="good")]
            process.signal(signal.SIGTERM)
            assert (await process.ended())[0] == 0
            return decisions

    ended = Failed(FailureKind.ERROR, "its process ended")
    raised = Failed(FailureKind.ERROR, "raised BaseException")
    assert asyncio.run(run()) == [ended, Allowed(), ended, Allowed(), raised, Allowed()]


def test_a_spinning_controller_does_not_delay_other_reviews() -> None:
    async def run() -> tuple[int, Outcome]:
        async with service(VALIDATOR) as process, grpc.aio.insecure_channel(process.address) as channel:
            spinning = asyncio.ensure_future(ask(VALIDATOR, channel, "SpinAsync", seconds=SPIN_SECONDS))
            beside = 0
            while not spinning.done():
                [denied] = await ask(VALIDATOR, channel, "DenyIt")
                assert isinstance(denied.decision, Denied)
                beside += not spinning.done()
                await asyncio.sleep(0.02)
            [outcome] = await spinning
            return beside, outcome

    beside, outcome = asyncio.run(run())
    assert beside >= LEAST_BESIDE
    assert outcome.decision == Failed(FailureKind.TIMEOUT, "context deadline exceeded")


def test_a_flag_lets_third_party_controllers_run_in_the_service() -> None:
    async def run() -> tuple[int, int]:
        flags = ("--isolation", "thread")
        async with service(MUTATOR, *flags) as process, grpc.aio.insecure_channel(process.address) as channel:
            return await pid_of_a_controller(MUTATOR, channel), process.pid

    pid, service_pid = asyncio.run(run())
    assert pid == service_pid


async def pid_of_a_controller(kind: Kind, channel: grpc.aio.Channel) -> int:
    [outcome] = await ask(kind, channel, "SayPid")
    return int(outcome.warnings[0])


def test_no_process_outlives_a_service_that_is_killed() -> None:
    async def run() -> list[int]:
        async with service(VALIDATOR) as process, grpc.aio.insecure_channel(process.address) as channel:
            assert await pid_of_a_controller(VALIDATOR, channel) in children(process.pid)
            idle = cpu_seconds(children(process.pid))
            spinning = asyncio.ensure_future(ask(VALIDATOR, channel, "SpinAsync", seconds=20))

            async def spins() -> bool:
                return cpu_seconds(children(process.pid)) > idle + 0.1

            await until(120, spins)
            workers = children(process.pid)
            process.signal(signal.SIGKILL)
            await process.ended()
            with pytest.raises(grpc.aio.AioRpcError):
                await spinning
            return workers

    workers = asyncio.run(run())
    assert within(120, lambda: not any(Path(f"/proc/{pid}").exists() for pid in workers))


def cpu_seconds(pids: list[int]) -> float:
    """How long processes have run."""
    fields = [Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in pids]
    return sum(int(item[11]) for item in fields) / os.sysconf("SC_CLK_TCK")
