"""Late calls: one that a replica does not answer in time is made again on another, once."""

from __future__ import annotations

import asyncio
import contextlib

import pytest

from chaos.links import linked
from pratique.admission.controllers import Phase
from pratique.admission.results import ALLOWED, Failed, FailureKind, Outcome
from pratique.admission.reviews import Call, Deadline
from pratique.apimachinery.errors import CallTimeoutError
from pratique.rpc import handlers
from pratique_frontdoor.transports import grpc as grpc_transports
from pratique_frontdoor.transports.channels import grpc_target
from pratique_frontdoor.transports.grpc import GrpcTransport
from support.chains import pod_review
from support.services.delayed_validators import DelayedValidator, calling
from support.waiting import streams_to

both_ways = pytest.mark.parametrize("streams", [True, False], ids=["stream", "unary"])


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_transports, "LATE_SECONDS", 0.2)


async def ask(client: GrpcTransport, call: Call = Call("c"), expected: float = 0.0) -> Outcome:  # noqa: B008 - frozen
    [outcome] = await client.validate(pod_review(), [call], Deadline.after(30), expected_seconds=expected)
    return outcome


@both_ways
def test_a_late_call_is_made_again_on_another_replica(*, streams: bool) -> None:
    async def run() -> None:
        stuck, quick = DelayedValidator(60), DelayedValidator()
        async with calling(stuck, quick, streams=streams) as client:
            while not stuck.first_attempts:
                assert (await ask(client)).decision == ALLOWED
            assert quick.reviews
            assert any(review.is_retry for review in quick.reviews)
            await asyncio.wait_for(stuck.cancelled.wait(), 120)

    asyncio.run(run())


def test_a_replica_with_a_late_call_is_avoided() -> None:
    async def run() -> int:
        stuck, quick = DelayedValidator(60), DelayedValidator()
        async with calling(stuck, quick) as client:
            while not stuck.first_attempts:
                await ask(client)
            for _ in range(30):
                await ask(client)
            return stuck.first_attempts

    assert asyncio.run(run()) == 1


def test_a_single_replica_may_be_late() -> None:
    async def run() -> int:
        slow = DelayedValidator(0.6)
        async with calling(slow) as client:
            assert (await ask(client)).decision == ALLOWED
        return len(slow.reviews)

    assert asyncio.run(run()) == 1


def test_a_call_that_commits_quota_is_not_made_twice_at_a_time() -> None:
    async def run() -> int:
        slow = [DelayedValidator(0.6), DelayedValidator(0.6)]
        async with calling(*slow) as client:
            assert (await ask(client, Call("c", commits_quota=True))).decision == ALLOWED
        return sum(len(validator.reviews) for validator in slow)

    assert asyncio.run(run()) == 1


def test_a_call_that_usually_takes_long_is_not_late() -> None:
    async def run() -> int:
        slow = [DelayedValidator(0.6), DelayedValidator(0.6)]
        async with calling(*slow) as client:
            assert (await ask(client, expected=0.5)).decision == ALLOWED
        return sum(len(validator.reviews) for validator in slow)

    assert asyncio.run(run()) == 1


@both_ways
def test_a_time_limit_of_calls_is_kept_by_the_service(
    monkeypatch: pytest.MonkeyPatch, *, streams: bool
) -> None:
    # A tenth of the time for the answer of a busy machine, which 50 ms are not enough for.
    monkeypatch.setattr(handlers, "_MAX_MARGIN_SECONDS", 10)

    async def run() -> Outcome:
        async with calling(DelayedValidator(60), streams=streams, timeout_seconds=2.0) as client:
            return await ask(client)

    assert asyncio.run(run()).decision == Failed(FailureKind.TIMEOUT, "context deadline exceeded")


def test_a_call_to_silent_replicas_is_made_twice_within_its_time_limit() -> None:
    async def run() -> tuple[int, int]:
        validators = [DelayedValidator(), DelayedValidator(), DelayedValidator()]
        async with contextlib.AsyncExitStack() as open_:
            links = []
            for validator in validators:
                address = await open_.enter_async_context(validator.serving())
                links.append(await open_.enter_async_context(linked(int(address.rpartition(":")[2]))))
            target = grpc_target([f"127.0.0.1:{link.port}" for link in links])
            client = GrpcTransport(target, streamed=Phase.VALIDATE, timeout_seconds=1)
            open_.push_async_callback(client.close)
            await streams_to(client, 3)
            with contextlib.ExitStack() as silent:
                for link in links:
                    silent.enter_context(link.deaf())
                with pytest.raises(CallTimeoutError):
                    await ask(client)
            loads = [replica.load for replica in client.replicas]
            return sum(load.ended for load in loads), sum(load.late for load in loads)

    assert asyncio.run(run()) == (2, 1)
