"""Services with third-party controllers, which run in separate processes by default."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from pathlib import Path
from typing import Any

import grpc
import pytest

from pratique.admission.results import Allowed, Denied, Failed, FailureKind, Outcome
from pratique.admission.reviews import Call
from support.controller_packages import lay_out
from support.pods import pod
from support.services import hostile_controllers
from support.services.processes import Process, running
from support.services.reviews import review_of
from support.services.servers import KINDS, MUTATOR, VALIDATOR, Kind
from support.waiting import within

LEAST_BESIDE = 10
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
    async def run() -> tuple[list[float], list[float], Outcome]:
        async with service(VALIDATOR) as process, grpc.aio.insecure_channel(process.address) as channel:
            idle: asyncio.Future[object] = asyncio.get_running_loop().create_future()
            before = await _latencies(channel, idle)
            spinning = asyncio.ensure_future(ask(VALIDATOR, channel, "SpinAsync", seconds=5))
            during = await _latencies(channel, spinning)
            [outcome] = await spinning
            return before, during, outcome

    before, during, outcome = asyncio.run(run())
    assert len(during) >= LEAST_BESIDE
    assert outcome.decision == Failed(FailureKind.TIMEOUT, "context deadline exceeded")
    print(f"p99 of others {p99(before):.1f} ms, while one spins {p99(during):.1f} ms")  # noqa: T201


def p99(latencies: list[float]) -> float:
    return latencies[-1 - len(latencies) // 100] * 1000


async def _latencies(channel: grpc.aio.Channel, until: asyncio.Future[Any]) -> list[float]:
    """How long reviews take that are answered before ``until`` is done: 400, or as many as a slow machine has."""
    latencies: list[float] = []
    while len(latencies) < 400:
        began = time.perf_counter()
        [denied] = await ask(VALIDATOR, channel, "DenyIt")
        assert isinstance(denied.decision, Denied)
        if until.done():
            break
        latencies.append(time.perf_counter() - began)
    return sorted(latencies)


@pytest.mark.parametrize(("isolation", "own"), [("process", False), ("thread", True)])
def test_a_flag_sets_where_third_party_controllers_run(isolation: str, *, own: bool) -> None:
    async def run() -> tuple[int, int]:
        flags = ("--isolation", isolation)
        async with service(MUTATOR, *flags) as process, grpc.aio.insecure_channel(process.address) as channel:
            [outcome] = await ask(MUTATOR, channel, "SayPid")
            return int(outcome.warnings[0]), process.pid

    pid, service_pid = asyncio.run(run())
    assert (pid == service_pid) is own


def test_no_process_outlives_a_service_that_is_killed() -> None:
    async def run() -> int:
        async with service(VALIDATOR) as process, grpc.aio.insecure_channel(process.address) as channel:
            [outcome] = await ask(VALIDATOR, channel, "SayPid")
            spinning = asyncio.ensure_future(ask(VALIDATOR, channel, "SpinAsync", seconds=20))
            await asyncio.sleep(0.3)
            process.signal(signal.SIGKILL)
            await process.ended()
            with pytest.raises(grpc.aio.AioRpcError):
                await spinning
            return int(outcome.warnings[0])

    pid = asyncio.run(run())
    assert within(120, lambda: not Path(f"/proc/{pid}").exists())
