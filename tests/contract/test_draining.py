"""The end of a service: what is in flight is finished, and nothing outlasts a second signal."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from contextlib import AbstractAsyncContextManager

import grpc
import pytest

from pratique.admission.results import Allowed, Outcome
from pratique.admission.reviews import Call
from support.services.processes import PATIENCE_SECONDS, Process, running
from support.services.reviews import review_of
from support.services.servers import KINDS, Kind

CALL_SECONDS = 300
"""As long as a call may take at most: longer than the patience with everything else."""
LATE_SECONDS = 2
"""As long as a call may take that is sent while the service begins to stop."""
MUTATOR, VALIDATOR = KINDS
"""They end by the same code: each test has one of them."""


def slow_service(kind: Kind, grace_seconds: float = 30) -> AbstractAsyncContextManager[Process]:
    return running(kind.name, "-m", "support.services.slow_services", kind.name, str(grace_seconds))


async def begin(
    kind: Kind, process: Process, channel: grpc.aio.Channel, controller: str, calls: int = 1
) -> asyncio.Future[list[list[Outcome]]]:
    """Send reviews to a controller, and wait until it has begun with all of them."""
    asking = [kind.ask(channel, review_of(), [Call(controller)], CALL_SECONDS) for _ in range(calls)]
    answers = asyncio.gather(*asking)
    for _ in range(calls):
        assert await process.line() == "began\n"
    return answers


@pytest.mark.parametrize(("kind", "number"), [(MUTATOR, signal.SIGTERM), (VALIDATOR, signal.SIGINT)], ids=str)
def test_calls_in_flight_are_finished_and_one_line_says_so(kind: Kind, number: signal.Signals) -> None:
    async def run() -> tuple[list[list[Outcome]], tuple[int, str]]:
        async with slow_service(kind) as process, grpc.aio.insecure_channel(process.address) as channel:
            answers = await begin(kind, process, channel, "slow", calls=20)
            process.signal(number)
            return await answers, await process.ended()

    answers, (code, log) = asyncio.run(run())
    assert [type(outcome.decision) for [outcome] in answers] == [Allowed] * 20
    assert code == 0
    assert [json.loads(line)["message"] for line in log.splitlines()] == ["draining"]


def test_a_draining_service_accepts_no_new_calls() -> None:
    async def run() -> None:
        async with slow_service(MUTATOR) as process, grpc.aio.insecure_channel(process.address) as channel:
            answers = await begin(MUTATOR, process, channel, "hanging")  # so that it goes on draining
            process.signal()
            assert json.loads(await process.log())["message"] == "draining"
            async with asyncio.timeout(PATIENCE_SECONDS):
                while await late_code(MUTATOR, process) is not grpc.StatusCode.UNAVAILABLE:
                    pass  # the drain has been told of, and is about to begin
            assert process.is_running
            process.signal()
            await process.ended()
            with pytest.raises(grpc.aio.AioRpcError):
                await answers

    asyncio.run(run())


async def late_code(kind: Kind, process: Process) -> grpc.StatusCode:
    """How a call on a connection of its own ends.

    gRPC's core cancels a call that reaches it while it begins to stop, or queues it and never looks at it again. Then
    its deadline ends it.
    """
    async with grpc.aio.insecure_channel(process.address) as late:
        try:
            await kind.ask(late, review_of(), [Call("slow")], LATE_SECONDS)
        except grpc.aio.AioRpcError as error:
            return error.code()
    return grpc.StatusCode.OK


@pytest.mark.parametrize("controller", ["hanging", "blocking"])
def test_a_hanging_controller_is_cut_off_after_the_grace_period(controller: str) -> None:
    async def run() -> tuple[int, str]:
        kind = VALIDATOR
        async with (
            slow_service(kind, grace_seconds=0.1) as process,
            grpc.aio.insecure_channel(process.address) as channel,
        ):
            answers = await begin(kind, process, channel, controller)
            process.signal()
            with pytest.raises(grpc.aio.AioRpcError):
                await answers
            return await process.ended()

    assert asyncio.run(run())[0] == 0


@pytest.mark.parametrize(("controller", "number"), [("hanging", signal.SIGTERM), ("blocking", signal.SIGINT)])
def test_a_second_signal_ends_a_service_at_once(controller: str, number: signal.Signals) -> None:
    async def run() -> int:
        kind = MUTATOR
        async with slow_service(kind) as process, grpc.aio.insecure_channel(process.address) as channel:
            answers = await begin(kind, process, channel, controller)
            process.signal(signal.SIGTERM)
            await process.log()
            process.signal(number)
            code, _ = await process.ended()
            with pytest.raises(grpc.aio.AioRpcError):
                await answers
            return code

    assert asyncio.run(run()) == -number


def test_a_second_signal_ends_a_service_that_is_busy() -> None:
    async def run() -> int:
        kind = MUTATOR
        async with slow_service(kind) as process, grpc.aio.insecure_channel(process.address) as channel:
            answers = await begin(kind, process, channel, "busy")
            ending = asyncio.ensure_future(process.ended())
            while not ending.done():
                with contextlib.suppress(ProcessLookupError):
                    process.signal()
                await asyncio.wait(
                    [ending], timeout=0.2
                )  # nothing tells that one has arrived: the loop is busy
            code, _ = await ending
            with pytest.raises(grpc.aio.AioRpcError):
                await answers
            return code

    assert asyncio.run(run()) == -signal.SIGTERM
