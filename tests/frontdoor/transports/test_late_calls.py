"""Late calls: one that a replica does not answer in time is made again on another, once."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import AsyncIterator
from typing import Any

import pytest

from chaos.links import Link, linked
from pratique.admission.controllers import Phase
from pratique.admission.results import ALLOWED, Failed, FailureKind, Outcome
from pratique.admission.reviews import Call, Deadline
from pratique.apimachinery.errors import CallTimeoutError, UnreachableError
from pratique.rpc import handlers
from pratique_frontdoor.transports import balancing
from pratique_frontdoor.transports import grpc as grpc_transports
from pratique_frontdoor.transports.channels import grpc_target
from pratique_frontdoor.transports.grpc import GrpcTransport
from support.chains import pod_review
from support.services.delayed_validators import DelayedValidator, calling
from support.waiting import streams_to, until

# What links held is delivered at the end of a test, to services that stop in the middle of it.
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <coroutine object DelayedValidator:pytest.PytestUnraisableExceptionWarning"
)

both_ways = pytest.mark.parametrize("streams", [True, False], ids=["stream", "unary"])


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_transports, "LATE_SECONDS", 0.2)


@contextlib.asynccontextmanager
async def linked_validators(replicas: int, **options: Any) -> AsyncIterator[tuple[GrpcTransport, list[Link]]]:
    """The way to validators, and the links on it."""
    async with contextlib.AsyncExitStack() as open_:
        links = []
        for _ in range(replicas):
            address = await open_.enter_async_context(DelayedValidator().serving())
            links.append(await open_.enter_async_context(linked(int(address.rpartition(":")[2]))))
        target = grpc_target([f"127.0.0.1:{link.port}" for link in links])
        client = GrpcTransport(target, streamed=Phase.VALIDATE, **options)
        open_.push_async_callback(client.close)
        await streams_to(client, replicas)
        yield client, links


@contextlib.asynccontextmanager
async def silent(replicas: int, **options: Any) -> AsyncIterator[GrpcTransport]:
    """The way to validators that are connected, and from which nothing comes any more."""
    async with linked_validators(replicas, **options) as (client, links):
        with contextlib.ExitStack() as deaf:
            for link in links:
                deaf.enter_context(link.deaf())
            yield client


async def ask(client: GrpcTransport, call: Call = Call("c"), expected: float = 0.0) -> Outcome:  # noqa: B008 - frozen
    [outcome] = await client.validate(pod_review(), [call], Deadline.after(30), expected_seconds=expected)
    return outcome


@both_ways
def test_a_late_call_is_made_again_on_another_replica(*, streams: bool) -> None:
    async def run() -> None:
        stuck, quick = DelayedValidator(60), [DelayedValidator(), DelayedValidator()]
        async with calling(stuck, *quick, streams=streams) as client:
            while not stuck.first_attempts:
                assert (await ask(client)).decision == ALLOWED
            assert any(review.is_retry for validator in quick for review in validator.reviews)
            await asyncio.wait_for(stuck.cancelled.wait(), 120)

    asyncio.run(run())


def test_a_replica_with_a_late_call_is_avoided() -> None:
    async def run() -> int:
        stuck = DelayedValidator(60)
        async with calling(stuck, DelayedValidator(), DelayedValidator()) as client:
            while not stuck.first_attempts:
                await ask(client)
            for _ in range(30):
                await ask(client)
            return stuck.first_attempts

    assert asyncio.run(run()) == 1


def test_the_last_ready_replica_never_gets_a_late_call() -> None:
    async def run() -> int:
        validators = [DelayedValidator(3), DelayedValidator(3)]
        async with calling(*validators) as client:
            assert (await ask(client)).decision == ALLOWED
        return sum(len(validator.reviews) for validator in validators)

    assert asyncio.run(run()) == 1


def test_the_second_of_two_replicas_gets_the_calls_of_a_frozen_one() -> None:
    async def run() -> None:
        async with linked_validators(2) as (client, links):
            with links[0].deaf():
                for _ in range(10):
                    assert (await ask(client)).decision == ALLOWED

    asyncio.run(run())


async def is_late(client: GrpcTransport) -> bool:
    return any(replica.load.late for replica in client.replicas)


def test_one_of_two_replicas_that_is_late_is_avoided_while_its_call_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(balancing, "_LATE_SECONDS", 60)

    async def run() -> int:
        stuck = DelayedValidator(60)
        async with calling(stuck, DelayedValidator()) as client:
            asked = {asyncio.ensure_future(ask(client))}
            while not stuck.reviews:
                await asyncio.sleep(0.01)
                asked.add(asyncio.ensure_future(ask(client)))
            await until(60, functools.partial(is_late, client))
            for _ in range(30):
                await ask(client)
            _, waiting = await asyncio.wait(asked, timeout=0.1)
            for call in waiting:
                call.cancel()
            assert len(waiting) == len(stuck.reviews)
        return stuck.first_attempts

    assert asyncio.run(run())


def test_a_review_that_was_late_twice_fails_at_once_the_third_time_whatever_its_uid() -> None:
    async def run() -> list[int]:
        calls = []
        async with silent(1) as client:
            for asked in (*(pod_review(uid=uid) for uid in "abc"), pod_review(name="other")):
                with pytest.raises(CallTimeoutError):
                    await client.validate(asked, [Call("c")], Deadline.after(0.6))
                calls.append(sum(replica.load.ended for replica in client.replicas))
        return calls

    assert asyncio.run(run()) == [1, 2, 2, 3]


def test_a_call_in_flight_when_replicas_die_is_made_twice_and_its_review_fails_at_once_from_then_on() -> None:
    async def run() -> int:
        async with linked_validators(4) as (client, links):
            loads = [replica.load for replica in client.replicas]
            with contextlib.ExitStack() as dying:
                for link in links:
                    dying.enter_context(link.cutting(10, answers=False))
                with pytest.raises(UnreachableError):
                    await ask(client)
            with pytest.raises(CallTimeoutError):
                await ask(client)
            return sum(load.ended for load in loads)

    assert asyncio.run(run()) == 2


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
        async with silent(3, timeout_seconds=1) as client:
            with pytest.raises(CallTimeoutError):
                await ask(client)
            loads = [replica.load for replica in client.replicas]
            return sum(load.ended for load in loads), sum(load.late for load in loads)

    assert asyncio.run(run()) == (2, 1)
