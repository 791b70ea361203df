"""Hedged calls: one that takes long is also made on another replica, and the first answer counts."""

from __future__ import annotations

import asyncio
import contextlib
import time

import pytest

from pratique.admission.results import ALLOWED, Outcome
from pratique.admission.reviews import Call, Deadline
from pratique.apimachinery.errors import CallTimeoutError
from pratique_frontdoor.settings import NEVER_HEDGED, HedgeDelay
from pratique_frontdoor.transports import grpc as grpc_transports
from pratique_frontdoor.transports.grpc import GrpcTransport
from pratique_frontdoor.transports.hedging import HedgeResult, Hedging
from support.chains import pod_review
from support.services.delayed_validators import DelayedValidator, calling

SOON = HedgeDelay(0.05)
STUCK = 60.0
PLAIN = Call("c")
both_ways = pytest.mark.parametrize("streams", [True, False], ids=["stream", "unary"])


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give no call up because it is late: an answer that comes is that of a copy."""
    monkeypatch.setattr(grpc_transports, "LATE_SECONDS", 1000.0)


async def ask(
    client: GrpcTransport, call: Call = PLAIN, *, seconds: float = 30, expected: float = 0.0
) -> Outcome:
    deadline = Deadline.after(seconds)
    [outcome] = await client.validate(pod_review(), [call], deadline, expected_seconds=expected)
    return outcome


def got(*validators: DelayedValidator) -> int:
    return sum(len(validator.reviews) for validator in validators)


@both_ways
def test_a_call_that_takes_long_is_answered_by_another_replica(*, streams: bool) -> None:
    async def run() -> None:
        stuck, quick = DelayedValidator(STUCK), DelayedValidator()
        async with calling(stuck, quick, streams=streams, hedge_delay=SOON) as client:
            while not stuck.first_attempts:
                outcome = await ask(client)
                assert (outcome.decision, outcome.endpoint) == (ALLOWED, quick.endpoint)
            await asyncio.wait_for(stuck.cancelled.wait(), 120)
            assert client.hedges[HedgeResult.WON] == 1
            assert any(review.is_retry for review in quick.reviews)

    asyncio.run(run())


def test_a_replica_that_another_one_outruns_is_avoided() -> None:
    async def run() -> int:
        stuck, quick = DelayedValidator(STUCK), DelayedValidator()
        async with calling(stuck, quick, hedge_delay=SOON) as client:
            while not stuck.first_attempts:
                await ask(client)
            for _ in range(30):
                await ask(client)
            return stuck.first_attempts

    assert asyncio.run(run()) == 1


def test_copies_are_at_most_ten_and_a_tenth_of_the_calls() -> None:
    async def run() -> tuple[int, dict[HedgeResult, int]]:
        slow = [DelayedValidator(0.3), DelayedValidator(0.3), DelayedValidator(0.3)]
        async with calling(*slow, hedge_delay=HedgeDelay(0.001)) as client:
            for _ in range(2):
                await asyncio.gather(*(ask(client) for _ in range(50)))
            return got(*slow), dict(client.hedges)

    calls, results = asyncio.run(run())
    assert 100 < calls <= 100 + 10 + 10
    assert results[HedgeResult.OVER_BUDGET] >= 80
    assert sum(results.values()) == 100


@pytest.mark.parametrize(
    ("call", "expected", "delay"),
    [
        (Call("c", commits_quota=True), 0.0, SOON),
        (Call("c", asked_once=True), 0.0, SOON),
        (PLAIN, 10.0, SOON),
        (PLAIN, 0.0, NEVER_HEDGED),
        (PLAIN, 0.0, HedgeDelay(None)),
    ],
    ids=["charges quota", "is asked once", "usually takes long", "hedging is off", "too few calls for p95"],
)
def test_a_call_is_made_once(call: Call, expected: float, delay: HedgeDelay) -> None:
    async def run() -> int:
        slow = [DelayedValidator(0.4), DelayedValidator(0.4)]
        async with calling(*slow, hedge_delay=delay) as client:
            assert (await ask(client, call, expected=expected)).decision == ALLOWED
        return got(*slow)

    assert asyncio.run(run()) == 1


def test_a_single_replica_is_called_once() -> None:
    async def run() -> int:
        slow = DelayedValidator(0.3)
        async with calling(slow, hedge_delay=SOON) as client:
            await ask(client)
        return got(slow)

    assert asyncio.run(run()) == 1


def test_a_slow_answer_counts_if_the_copy_is_slower() -> None:
    async def run() -> tuple[str, str, int]:
        slow, stuck = DelayedValidator(1.0), DelayedValidator(STUCK)
        async with calling(slow, stuck, hedge_delay=SOON) as client:
            outcome = await ask(client)
            return outcome.endpoint, slow.endpoint, sum(client.hedges.values())

    endpoint, slow_endpoint, hedged = asyncio.run(run())
    assert (endpoint, hedged) == (slow_endpoint, 1)


def test_a_call_without_any_answer_fails_as_it_would_alone() -> None:
    async def run() -> tuple[int, int]:
        stuck = [DelayedValidator(STUCK), DelayedValidator(STUCK)]
        async with calling(*stuck, hedge_delay=SOON) as client:
            with contextlib.suppress(CallTimeoutError):
                outcome = await ask(client, seconds=3)
                assert outcome.decision != ALLOWED
            return got(*stuck), client.hedges[HedgeResult.WON]

    calls, won = asyncio.run(run())
    assert calls == 2
    assert won in {0, 1}  # a service answers for a controller that took too long, if there is time to


def test_calls_are_hedged_when_they_take_longer_than_ninety_five_of_a_hundred() -> None:
    async def run() -> None:
        first, second = DelayedValidator(), DelayedValidator()
        async with calling(first, second, hedge_delay=HedgeDelay(None)) as client:
            # As many as it takes, and no more: a busy machine might use up its copies for further ones.
            for _ in range(64):
                await ask(client)
            first.seconds = STUCK
            before, won_before = got(first), client.hedges[HedgeResult.WON]  # some, where a machine is busy
            while got(first) == before:
                assert (await ask(client)).decision == ALLOWED
            assert client.hedges[HedgeResult.WON] > won_before

    asyncio.run(run())


def test_a_pause_of_the_front_door_makes_no_copies() -> None:
    async def run() -> int:
        hedging = Hedging(SOON)
        answers: asyncio.Future[str] = asyncio.get_running_loop().create_future()

        async def first() -> str:
            asyncio.get_running_loop().call_soon(
                time.sleep, 0.3
            )  # the loop pauses while the answer is under way
            asyncio.get_running_loop().call_later(0.02, lambda: asyncio.ensure_future(arrive()))
            return await answers

        async def arrive() -> None:
            for _ in range(5):  # an answer passes several callbacks until it is read
                await asyncio.sleep(0)
            answers.set_result("first")

        async def copy() -> str:
            return "copy"

        answered, by_copy = await hedging.race(first(), copy, 0.0)
        assert (answered, by_copy) == ("first", False)
        return sum(hedging.results.values())

    assert asyncio.run(run()) == 0
