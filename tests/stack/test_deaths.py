"""Validators that die, freeze or are replaced under load take no review with them."""

from __future__ import annotations

import asyncio
import collections
import contextlib
import signal
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from pratique.admission.controllers import Phase
from pratique.admission.results import Allowed
from pratique.admission.reviews import Call, Deadline
from pratique_frontdoor.transports.channels import grpc_target
from pratique_frontdoor.transports.grpc import GrpcTransport
from pratique_frontdoor.transports.loop_streams import StreamConnector
from support.chains import pod_review
from support.services.processes import Process, running
from support.waiting import streams_to
from support.webhook_servers import closed_port

CALLERS = 8
CALL_SECONDS = 25.0
"""How long a call may take: far longer than until clients notice what is wrong with a replica."""
PATIENCE_SECONDS = 120
MOST_STUTTERS = 60
"""A call is slow beside the longest call of the others within the last 60 s, so a machine that paused once may need
as many stutters of a second each; others need fewer than ten."""
NAME = "LimitPodHardAntiAffinityTopology"


def validator(port: int) -> contextlib.AbstractAsyncContextManager[Process]:
    arguments = (
        "--port",
        str(port),
        "--stream-port",
        "0",
        "--admission-control",
        NAME,
        "--drain-seconds",
        "0.2",
    )
    return running("validator", "-m", "pratique_cli", "serve", "validator", *arguments)


class Replica:
    """A validator at one address, with another process there whenever the one before has ended."""

    def __init__(self, port: int, stack: contextlib.AsyncExitStack) -> None:
        self._port = port
        self._stack = stack
        self.endpoint = f"grpc://127.0.0.1:{port}"
        self.answers = 0
        """How many reviews it has decided, whichever process was there."""

    async def start(self) -> None:
        self.process = await self._stack.enter_async_context(validator(self._port))

    async def replace(self, number: signal.Signals) -> None:
        """End the process by a signal, and start another."""
        self.process.signal(number)
        await self.process.ended()
        await self.start()

    async def be_found(self) -> None:
        """Wait until clients with streams have found the process that is there now."""
        before = self.answers
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.answers == before:  # noqa: ASYNC110 - a count is no event
                await asyncio.sleep(0.05)


CARRIERS: dict[str, dict[str, Any]] = {
    "unary": {},
    "grpcio": {"streamed": Phase.VALIDATE},
    "event loop": {"streamed": Phase.VALIDATE, "connector": StreamConnector(None, "", None)},
}
"""How replicas are called."""
every_carrier = pytest.mark.parametrize("carrier", CARRIERS)


async def load(
    calls: int, nemesis: Callable[[list[Replica]], Awaitable[None]], carrier: str
) -> tuple[int, float]:
    """Call two replicas until there were so many calls and the nemesis is done.

    Returns:
        How many calls came through, which is all or a test that failed, and what the longest took, in seconds.
    """
    done, longest = 0, 0.0
    async with contextlib.AsyncExitStack() as stack:
        with closed_port() as first, closed_port() as second:
            ports = [first, second]
        replicas = [Replica(port, stack) for port in ports]
        await asyncio.gather(*(replica.start() for replica in replicas))
        target = grpc_target([f"127.0.0.1:{port}" for port in ports])
        asked = GrpcTransport(target, **CARRIERS[carrier])
        stack.push_async_callback(asked.close)
        harming = asyncio.ensure_future(nemesis(replicas))

        async def caller() -> None:
            nonlocal done, longest
            while done < calls or not harming.done():
                began = time.monotonic()
                [outcome] = await asked.validate(pod_review(), [Call(NAME)], Deadline.after(CALL_SECONDS))
                assert isinstance(outcome.decision, Allowed)
                longest = max(longest, time.monotonic() - began)
                for replica in replicas:
                    replica.answers += outcome.endpoint == replica.endpoint
                done += 1
                await asyncio.sleep(0.002)  # leaves the processors to those that start

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        await harming
    return done, longest


@pytest.mark.parametrize("kills", [2, pytest.param(5, marks=pytest.mark.long)])
@every_carrier
def test_killing_validators_loses_no_review(kills: int, carrier: str) -> None:
    async def kill(replicas: list[Replica]) -> None:
        for number in range(kills):
            await replicas[number % 2].replace(signal.SIGKILL)
            if carrier == "unary":  # which stays with the replica that it has, as long as that is there
                await asyncio.sleep(2.5)
            else:
                await replicas[number % 2].be_found()  # or the next kill would leave nobody to ask

    done, longest = asyncio.run(load(1_000 * kills, kill, carrier))
    print(f"{done} calls, {kills} kills, 0 lost; the longest took {longest:.3f} s")  # noqa: T201 - the figure


@every_carrier
def test_replacing_validators_loses_no_review(carrier: str) -> None:
    async def replace(replicas: list[Replica]) -> None:
        await replicas[0].replace(signal.SIGTERM)

    done, longest = asyncio.run(load(2_000, replace, carrier))
    print(f"{done} calls, 0 lost; the longest took {longest:.3f} s")  # noqa: T201 - the figure


@every_carrier
def test_a_frozen_validator_loses_no_review_and_is_excluded(carrier: str) -> None:
    async def freeze(replicas: list[Replica]) -> None:
        await asyncio.sleep(0.5)
        replicas[0].process.signal(signal.SIGSTOP)
        await asyncio.sleep(8)  # the 7 s in which clients notice, and some
        replicas[0].process.signal(signal.SIGCONT)

    done, longest = asyncio.run(load(500, freeze, carrier))
    print(f"{done} calls, 0 lost; the longest took {longest:.3f} s")  # noqa: T201 - the figure


def excluded(caplog: pytest.LogCaptureFixture) -> set[str]:
    """The addresses of replicas that were excluded because they are much slower than others."""
    return {
        record.__dict__["address"].removeprefix("grpc://")
        for record in caplog.records
        if record.getMessage().startswith("a replica is excluded")
    }


@pytest.mark.parametrize("carrier", ["grpcio", "event loop"])
def test_a_stuttering_validator_loses_no_review_is_excluded_and_returns(
    carrier: str, caplog: pytest.LogCaptureFixture
) -> None:
    # It answers pings whenever it runs, which is for 5 ms of each second: as one that swaps, or has no processor time.
    got: collections.Counter[str] = collections.Counter()

    async def run() -> bool:
        async with contextlib.AsyncExitStack() as stack:
            with closed_port() as first, closed_port() as second:
                ports = [first, second]
            replicas = [Replica(port, stack) for port in ports]
            await asyncio.gather(*(replica.start() for replica in replicas))
            target = grpc_target([f"127.0.0.1:{port}" for port in ports])
            asked = GrpcTransport(target, slow_seconds=0.5, **CARRIERS[carrier])
            stack.push_async_callback(asked.close)
            await streams_to(asked, 2)
            stutters = asyncio.Event()

            async def caller() -> None:
                while not stutters.is_set():
                    [outcome] = await asked.validate(pod_review(), [Call(NAME)], Deadline.after(CALL_SECONDS))
                    assert isinstance(outcome.decision, Allowed)
                    got[outcome.endpoint] += 1
                    await asyncio.sleep(0.002)

            callers = [asyncio.ensure_future(caller()) for _ in range(CALLERS)]
            for _ in range(MOST_STUTTERS):
                replicas[0].process.signal(signal.SIGSTOP)
                await asyncio.sleep(1)
                replicas[0].process.signal(signal.SIGCONT)
                await asyncio.sleep(0.005)
                if excluded(caplog):
                    break
            stutters.set()
            await asyncio.gather(*callers)
            slow, fast = (got[f"grpc://127.0.0.1:{port}"] for port in ports)
            print(f"{slow} calls of the one that stutters, {fast} of the other, 0 lost")  # noqa: T201 - the figure
            assert f"127.0.0.1:{ports[0]}" in excluded(caplog)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while True:
                    [outcome] = await asked.validate(pod_review(), [Call(NAME)], Deadline.after(CALL_SECONDS))
                    if outcome.endpoint == f"grpc://127.0.0.1:{first}":
                        return True

    assert asyncio.run(run())
