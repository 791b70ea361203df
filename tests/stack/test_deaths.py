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
from support.chains import pod_review
from support.services.processes import Process, running
from support.waiting import streams_to, until
from support.webhook_servers import closed_port

CALLERS = 4
"""For each way of calling."""
PAUSE_SECONDS = 0.01
"""Between two calls of a caller: leaves the processors to those that start."""
CALL_SECONDS = 25.0
"""How long a call may take: far longer than until clients notice what is wrong with a replica."""
PATIENCE_SECONDS = 120
MOST_STUTTERS = 60
"""A call is slow beside the longest call of the others within the last 60 s, so a machine that paused once may need
as many stutters, each longer than the one before up to a second; others need fewer than ten."""
NAME = "LimitPodHardAntiAffinityTopology"


def validator(port: int) -> contextlib.AbstractAsyncContextManager[Process]:
    arguments = (
        "--port",
        str(port),
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

    async def start(self) -> None:
        self.process = await self._stack.enter_async_context(validator(self._port))

    async def replace(self, number: signal.Signals) -> None:
        """End the process by a signal, and start another."""
        self.process.signal(number)
        await self.process.ended()
        await self.start()


STREAMED: dict[str, Any] = {"streamed": Phase.VALIDATE}
WAYS: dict[str, dict[str, Any]] = {"unary": {}, "on a stream": STREAMED}
"""How replicas are called."""


class Load:
    """Calls of two replicas in every way at once, none of which may fail."""

    def __init__(self, replicas: list[Replica]) -> None:
        self.replicas = replicas
        target = grpc_target([replica.endpoint.removeprefix("grpc://") for replica in replicas])
        self.transports = {name: GrpcTransport(target, **options) for name, options in WAYS.items()}
        self.streamed = {name: self.transports[name] for name, options in WAYS.items() if options}
        self.answers: collections.Counter[tuple[str, str]] = collections.Counter()
        """How many calls came through, by way and endpoint."""
        self.longest = 0.0
        """What the longest took, in seconds."""

    def done(self, way: str) -> int:
        """How many calls in a way came through."""
        return sum(number for (name, _), number in self.answers.items() if name == way)

    async def call(self, way: str, calls: int, harming: asyncio.Future[None]) -> None:
        """Call until there were so many calls and the harm is done."""
        asked = self.transports[way]
        while self.done(way) < calls or not harming.done():
            began = time.monotonic()
            [outcome] = await asked.validate(pod_review(), [Call(NAME)], Deadline.after(CALL_SECONDS))
            assert isinstance(outcome.decision, Allowed)
            self.longest = max(self.longest, time.monotonic() - began)
            self.answers[way, outcome.endpoint] += 1
            await asyncio.sleep(PAUSE_SECONDS)

    async def go_on(self) -> None:
        """Wait until each way has got an answer that it did not have before."""
        before = {way: self.done(way) for way in self.transports}

        async def answered() -> bool:
            return all(self.done(way) > number for way, number in before.items())

        await until(PATIENCE_SECONDS, answered)

    async def find(self, replica: Replica) -> None:
        """Wait until all ways with streams, which are to all replicas, have found the process that is there now."""
        keys = [(way, replica.endpoint) for way in self.streamed]
        before = {key: self.answers[key] for key in keys}

        async def found() -> bool:
            return all(self.answers[key] > before[key] for key in keys)

        await until(PATIENCE_SECONDS, found)


async def load(calls: int, nemesis: Callable[[Load], Awaitable[None]]) -> str:
    """Call two replicas in each way until there were so many calls and the nemesis is done.

    Returns:
        How many calls came through, which is all or a test that failed, and what the longest took.
    """
    async with contextlib.AsyncExitStack() as stack:
        with closed_port() as first, closed_port() as second:
            replicas = [Replica(port, stack) for port in (first, second)]
        await asyncio.gather(*(replica.start() for replica in replicas))
        made = Load(replicas)
        for transport in made.transports.values():
            stack.push_async_callback(transport.close)
        for transport in made.streamed.values():
            await streams_to(transport, len(replicas))
        harming = asyncio.ensure_future(nemesis(made))
        await asyncio.gather(
            harming, *(made.call(way, calls, harming) for way in WAYS for _ in range(CALLERS))
        )
    return f"{made.answers.total()} calls, 0 lost; the longest took {made.longest:.3f} s"


@pytest.mark.parametrize("kills", [2, pytest.param(5, marks=pytest.mark.long)])
def test_killing_validators_loses_no_review(kills: int) -> None:
    async def kill(load: Load) -> None:
        for number in range(kills):
            replica = load.replicas[number % 2]
            await replica.replace(signal.SIGKILL)
            await load.find(replica)  # or the next kill would leave nobody to ask
            await load.go_on()  # unary calls stay with the replica that they have, as long as that is there

    print(f"{kills} kills: {asyncio.run(load(350 * kills, kill))}")  # noqa: T201 - the figure


def test_replacing_validators_loses_no_review() -> None:
    async def replace(load: Load) -> None:
        await load.replicas[0].replace(signal.SIGTERM)

    print(asyncio.run(load(700, replace)))  # noqa: T201 - the figure


def test_a_frozen_validator_loses_no_review_and_is_excluded() -> None:
    async def freeze(load: Load) -> None:
        await load.go_on()
        load.replicas[0].process.signal(signal.SIGSTOP)
        try:
            # Clients notice within 7 s. Unary calls have one replica, be it this one, which they leave then.
            for transport in load.streamed.values():
                await streams_to(transport, 1)
            await load.go_on()
        finally:
            load.replicas[0].process.signal(signal.SIGCONT)

    print(asyncio.run(load(100, freeze)))  # noqa: T201 - the figure


def excluded(caplog: pytest.LogCaptureFixture) -> set[str]:
    """The addresses of replicas that were excluded because they are much slower than others."""
    return {
        record.__dict__["address"].removeprefix("grpc://")
        for record in caplog.records
        if record.getMessage().startswith("a replica is excluded")
    }


def test_a_stuttering_validator_loses_no_review_is_excluded_and_returns(
    caplog: pytest.LogCaptureFixture,
) -> None:
    # It answers pings whenever it runs, for a few milliseconds at a time: as one that swaps, or has no processor time.
    got: collections.Counter[str] = collections.Counter()

    async def run() -> bool:
        async with contextlib.AsyncExitStack() as stack:
            with closed_port() as first, closed_port() as second:
                ports = [first, second]
            replicas = [Replica(port, stack) for port in ports]
            await asyncio.gather(*(replica.start() for replica in replicas))
            target = grpc_target([f"127.0.0.1:{port}" for port in ports])
            asked = GrpcTransport(target, slow_seconds=0.5, **STREAMED)
            stack.push_async_callback(asked.close)
            await streams_to(asked, 2)
            stutters = asyncio.Event()

            async def caller() -> None:
                while not stutters.is_set():
                    [outcome] = await asked.validate(pod_review(), [Call(NAME)], Deadline.after(CALL_SECONDS))
                    assert isinstance(outcome.decision, Allowed)
                    got[outcome.endpoint] += 1
                    await asyncio.sleep(PAUSE_SECONDS)

            callers = [asyncio.ensure_future(caller()) for _ in range(CALLERS)]
            for number in range(MOST_STUTTERS):
                replicas[0].process.signal(signal.SIGSTOP)
                await asyncio.sleep(min(1.0, 0.3 + 0.1 * number))
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
