"""The balancer: which replica gets a call, which is excluded, and that no client can exclude others."""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from pratique_frontdoor.transports.balancing import Balancer, ReplicaCallStatus
from pratique_frontdoor.transports.replicas import ReplicaLoad

SECONDS = 10.0
LONGEST = 8 * SECONDS + 1e-6
"""How long a replica is excluded, and the tolerance for sums of floats."""
FAST, SLOW = 0.01, 2.0


class Replica:
    """Whatever has a load."""

    def __init__(self, load: ReplicaLoad) -> None:
        self.load = load
        self.queued = 0


class World:
    """Replicas, a clock that the test moves, and repeatable randomness."""

    def __init__(self, replicas: int, seconds: float = SECONDS, seed: int = 0) -> None:
        self.now = 0.0
        self.changes: list[tuple[str, bool]] = []
        self.balancer = Balancer(
            seconds,
            clock=lambda: self.now,
            chance=random.Random(seed).random,
            on_change=lambda load: self.changes.append((load.name, load.excluded)),
        )
        self.replicas = [Replica(self.balancer.add(str(number))) for number in range(replicas)]

    def call(
        self, seconds: Callable[[int], float], ending: ReplicaCallStatus = ReplicaCallStatus.ANSWERED
    ) -> int:
        """Make one call from start to end, and return its replica."""
        chosen, ticket = self.balancer.choose(self.replicas)
        number = self.replicas.index(chosen)
        self.now += seconds(number)
        self.balancer.end(chosen.load, ticket, seconds(number), ending)
        return number

    def excluded(self) -> list[int]:
        return [number for number, replica in enumerate(self.replicas) if replica.load.excluded]

    def work(
        self, callers: int, calls: int, seconds: Callable[[int, int], float], pause: float = 0.001
    ) -> list[int]:
        """Let callers make calls, each one after another; how many each replica got.

        ``seconds`` is given the caller and the replica.
        """
        got, order, begun = [0] * len(self.replicas), itertools.count(), 0
        events: list[tuple[float, int, int, tuple[Replica, int, float] | None]] = [
            (self.now, next(order), caller, None) for caller in range(callers)
        ]
        while events:
            self.now, _, caller, made = heapq.heappop(events)
            if made is not None:
                chosen, ticket, took = made
                chosen.load.in_flight -= 1
                self.balancer.end(chosen.load, ticket, took, ReplicaCallStatus.ANSWERED)
                heapq.heappush(events, (self.now + pause, next(order), caller, None))
            elif begun < calls:
                begun += 1
                chosen, ticket = self.balancer.choose(self.replicas)
                number = self.replicas.index(chosen)
                chosen.load.in_flight += 1
                got[number] += 1
                took = seconds(caller, number)
                heapq.heappush(events, (self.now + took, next(order), caller, (chosen, ticket, took)))
        return got


def only(slow: int) -> Callable[[int], float]:
    return lambda number: SLOW if number == slow else FAST


def with_one_left_out(replicas: int = 2, seconds: float = SECONDS) -> World:
    world = World(replicas, seconds)
    for _ in range(40 * replicas):
        world.call(only(0))
        if world.excluded():
            break
    assert world.excluded() == [0]
    return world


def test_a_call_goes_to_the_replica_with_the_fewest_calls() -> None:
    world = World(3)
    for item, in_flight in zip(world.replicas, (9, 2, 5), strict=True):
        item.load.in_flight = in_flight
    # It was no chance, so that its time says nothing about the others.
    assert {world.balancer.choose(world.replicas) for _ in range(50)} == {(world.replicas[1], 0)}


@pytest.mark.parametrize("replicas", [2, 3, 5])
def test_idle_replicas_share_calls_evenly(replicas: int) -> None:
    world = World(replicas)
    got = [world.call(lambda _: FAST) for _ in range(10_000)]
    assert all(0.9 <= got.count(number) * replicas / 10_000 <= 1.1 for number in range(replicas))


@pytest.mark.parametrize("replicas", [2, 3, 5])
@pytest.mark.parametrize("callers", [1, 8])
@pytest.mark.parametrize("took", [0.3, 10.0])
def test_a_slow_replica_is_excluded_and_gets_few_calls_before(
    replicas: int, callers: int, took: float
) -> None:
    world = World(replicas)
    got = world.work(callers, 30_000, lambda _, number: took if number == 0 else 0.001, pause=0.1)
    assert got[0] < 200
    assert ("0", True) in world.changes
    assert {name for name, excluded in world.changes if excluded} <= {"0"}


def test_an_excluded_replica_gets_one_trial_call_when_its_time_is_up() -> None:
    world = with_one_left_out()
    began = world.now
    got = []
    while world.now < began + SECONDS:
        got.append(world.call(only(0)))
    assert set(got) == {1}
    trial, ticket = world.balancer.choose(world.replicas)
    assert trial is world.replicas[0]
    assert [world.balancer.choose(world.replicas)[0] for _ in range(20)] == [world.replicas[1]] * 20
    world.balancer.end(trial.load, ticket, FAST, ReplicaCallStatus.ANSWERED)
    assert world.excluded() == []
    assert world.changes == [("0", True), ("0", False)]


def test_each_slow_trial_doubles_the_exclusion_up_to_eight_times() -> None:
    world = with_one_left_out()
    waits = []
    for _ in range(6):
        waits.append(round(world.replicas[0].load.until - world.now))
        world.now = world.replicas[0].load.until
        for _ in range(8):  # others to compare with, whatever is forgotten by then
            chosen, ticket = world.balancer.choose([world.replicas[1]])
            world.balancer.end(chosen.load, ticket, FAST, ReplicaCallStatus.ANSWERED)
        chosen, ticket = world.balancer.choose(world.replicas)
        world.balancer.end(chosen.load, ticket, SLOW, ReplicaCallStatus.ANSWERED)
    assert waits == [10, 20, 40, 80, 80, 80]
    assert world.changes == [("0", True)]  # one line, not one for each trial


@pytest.mark.parametrize("ending", [ReplicaCallStatus.REFUSED, ReplicaCallStatus.GIVEN_UP])
def test_an_inconclusive_trial_is_repeated(ending: ReplicaCallStatus) -> None:
    world = with_one_left_out()
    world.now += SECONDS
    for _ in range(3):
        trial, ticket = world.balancer.choose(world.replicas)
        assert trial is world.replicas[0]
        world.balancer.end(trial.load, ticket, FAST, ending)
    assert world.excluded() == [0]


def test_an_excluded_replica_is_used_when_no_other_is_available() -> None:
    world = with_one_left_out()
    slow = world.replicas[0]
    assert world.balancer.choose([slow])[0] is slow


def test_incomparable_calls_are_neither_trials_nor_counted() -> None:
    world = with_one_left_out()
    world.now += SECONDS
    assert world.balancer.choose(world.replicas, comparable=False) == (world.replicas[1], 0)


def test_zero_seconds_exclude_no_replica() -> None:
    world = World(2, seconds=0)
    assert sum(world.call(only(0)) for _ in range(1_000)) in range(400, 600)
    assert world.changes == []


def test_a_replica_returns_when_more_than_half_would_be_excluded() -> None:
    world = with_one_left_out(3)
    world.balancer.remove(world.replicas[2].load)
    assert world.excluded() == [0]
    world.balancer.remove(world.replicas[1].load)
    assert world.excluded() == []


def test_calls_of_a_removed_replica_do_not_count() -> None:
    world = World(3)
    begun = [world.balancer.choose(world.replicas[:1]) for _ in range(100)]
    for _ in range(50):
        world.call(lambda _: FAST)
    world.balancer.remove(world.replicas[0].load)
    for chosen, ticket in begun:
        world.balancer.end(chosen.load, ticket, SLOW, ReplicaCallStatus.ANSWERED)
    assert world.changes == []


@given(
    endings=st.lists(st.tuples(st.booleans(), st.floats(0, 100)), min_size=30, max_size=200),
    seed=st.integers(0, 1000),
)
def test_failures_that_may_be_the_requests_fault_exclude_no_replica(
    endings: list[tuple[bool, float]], seed: int
) -> None:
    world = World(2, seed=seed)
    for _ in range(50):
        world.call(lambda _: FAST)
    for _, seconds in endings:
        world.call(lambda number, seconds=seconds: seconds if number == 0 else 0, ReplicaCallStatus.REFUSED)  # type: ignore[misc]  # its default
    assert world.changes == []


@given(
    base=st.floats(0, 30),
    factors=st.lists(st.floats(1, 3), min_size=50, max_size=300),
    replicas=st.integers(1, 5),
    given_up=st.booleans(),
)
def test_equally_slow_replicas_all_get_calls(
    base: float, factors: list[float], replicas: int, *, given_up: bool
) -> None:
    world = World(replicas)
    for factor in factors:
        ending = ReplicaCallStatus.GIVEN_UP if given_up else ReplicaCallStatus.ANSWERED
        world.call(lambda _, factor=factor: base * factor, ending)  # type: ignore[misc]  # its default
    assert world.changes == []


@pytest.mark.parametrize("callers", [1, 4, 16, 100])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("who", ["each caller", "some callers"])
def test_a_client_with_slow_reviews_cannot_exclude_a_replica(callers: int, share: float, who: str) -> None:
    # The same review takes as long at each replica. With one caller a call always finds all of them idle; with many,
    # the replicas that are busy with slow reviews get fewer of the others.
    dice = random.Random(callers)
    for replicas in (2, 3, 5):
        world = World(replicas, seed=replicas)
        if who == "each caller":
            world.work(callers, 3_000, lambda _c, _r: 1.0 if dice.random() < share else 0.001)
        else:
            world.work(callers, 3_000, lambda caller, _: 1.0 if caller < share * callers else 0.001)
        assert world.changes == []


class Balancing(RuleBasedStateMachine):
    """Whatever happens to replicas and calls, most replicas always get calls."""

    @initialize(replicas=st.integers(1, 6), seed=st.integers(0, 1000))
    def begin(self, replicas: int, seed: int) -> None:
        self.world = World(replicas, seed=seed)
        self.under_way: list[tuple[Replica, int]] = []
        self.slow: set[Replica] = set()

    @rule(which=st.integers(0, 5))
    def turn(self, which: int) -> None:
        """Make one slow, or fast again."""
        self.slow ^= {self.world.replicas[which % len(self.world.replicas)]}

    @rule(calls=st.integers(1, 60))
    def call(self, calls: int) -> None:
        for _ in range(calls):
            self.world.call(lambda number: SLOW if self.world.replicas[number] in self.slow else FAST)

    @rule(comparable=st.booleans())
    def start(self, *, comparable: bool) -> None:
        chosen, ticket = self.world.balancer.choose(self.world.replicas, comparable=comparable)
        chosen.load.in_flight += 1
        self.under_way.append((chosen, ticket))

    @precondition(lambda self: self.under_way)
    @rule(ending=st.sampled_from(ReplicaCallStatus), seconds=st.floats(0, 30))
    def end(self, ending: ReplicaCallStatus, seconds: float) -> None:
        chosen, ticket = self.under_way.pop(0)
        chosen.load.in_flight -= 1
        self.world.balancer.end(chosen.load, ticket, seconds, ending)

    @rule(seconds=st.floats(0, 200))
    def wait(self, seconds: float) -> None:
        self.world.now += seconds

    @rule()
    def come(self) -> None:
        self.world.replicas.append(Replica(self.world.balancer.add("new")))

    @precondition(lambda self: len(self.world.replicas) > 1)
    @rule(which=st.integers(0, 5))
    def go(self, which: int) -> None:
        gone = self.world.replicas.pop(which % len(self.world.replicas))
        self.world.balancer.remove(gone.load)

    @invariant()
    def at_most_half_are_left_out(self) -> None:
        excluded = self.world.excluded()
        assert len(excluded) <= len(self.world.replicas) // 2
        for number in excluded:
            load = self.world.replicas[number].load
            assert load.until - self.world.now <= LONGEST

    def teardown(self) -> None:
        """Once all replicas are healthy and calls in flight have ended, all return."""
        if not hasattr(self, "world"):
            return
        for chosen, ticket in self.under_way:
            chosen.load.in_flight -= 1
            self.world.balancer.end(chosen.load, ticket, FAST, ReplicaCallStatus.ANSWERED)
        self.world.now += LONGEST
        for _ in range(20):
            self.world.call(lambda _: FAST)
        assert self.world.excluded() == []


TestBalancing = Balancing.TestCase


def test_calls_fill_the_message_of_one_replica_before_the_next() -> None:
    world = World(4)
    sent: list[int] = []
    for _ in range(32):
        chosen, _ = world.balancer.choose(world.replicas, comparable=False, batch=8)
        chosen.load.in_flight += 1
        chosen.queued += 1
        sent.append(world.replicas.index(chosen))
    assert all(len(set(sent[first : first + 8])) == 1 for first in range(0, 32, 8))
    assert sorted(set(sent)) == [0, 1, 2, 3]


def test_a_replica_that_has_yet_to_answer_is_not_filled() -> None:
    world = World(2)
    world.replicas[0].load.in_flight, world.replicas[0].queued = 2, 1
    world.replicas[1].load.in_flight = 3
    chosen = [world.balancer.choose(world.replicas, comparable=False, batch=16)[0] for _ in range(100)]
    assert set(chosen) == set(world.replicas)


def test_calls_that_share_a_message_are_compared_as_its_first_one_is() -> None:
    world = World(2)
    tickets = []
    for _ in range(6):
        chosen, ticket = world.balancer.choose(world.replicas, batch=8)
        chosen.load.in_flight += 1
        chosen.queued += 1
        tickets.append(ticket)
    assert tickets == [1] * 6
    assert world.balancer.choose(world.replicas, comparable=False, batch=8)[1] == 0


def test_a_replica_that_answers_nothing_gets_calls_only_if_others_have_many_more() -> None:
    world = World(2)
    world.now = 1.0
    world.replicas[0].load.in_flight = 1
    world.replicas[1].load.in_flight = 6
    silent, busy = world.replicas
    busy.load.active_at = world.now
    assert {world.balancer.choose(world.replicas)[0] for _ in range(20)} == {busy}
    busy.load.in_flight = 20
    assert {world.balancer.choose(world.replicas)[0] for _ in range(20)} == {silent}


def test_calls_that_take_long_are_spread() -> None:
    world = World(4)
    for _ in range(32):
        chosen, _ = world.balancer.choose(world.replicas, batch=1)
        chosen.load.in_flight += 1
        chosen.queued += 1
    assert all(6 <= replica.load.in_flight <= 10 for replica in world.replicas)


def test_a_replica_with_a_late_call_is_avoided_until_it_answers_or_time_passes() -> None:
    world = World(2)
    world.balancer.late(world.replicas[0].load)
    assert {world.balancer.choose(world.replicas)[0] for _ in range(20)} == {world.replicas[1]}
    world.now += 2.1
    assert {world.balancer.choose(world.replicas)[0] for _ in range(50)} == set(world.replicas)


def test_late_replicas_are_used_if_there_are_no_others() -> None:
    world = World(2)
    for replica in world.replicas:
        world.balancer.late(replica.load)
    assert {world.balancer.choose(world.replicas)[0] for _ in range(50)} == set(world.replicas)


def test_a_replica_that_another_one_outran_is_avoided_until_it_answers_or_time_passes() -> None:
    world = World(2)
    first, second = (replica.load for replica in world.replicas)
    world.balancer.outrun(first)
    assert {world.balancer.choose(world.replicas)[0].load for _ in range(50)} == {second}
    world.now += 2.0
    assert {world.balancer.choose(world.replicas)[0].load for _ in range(50)} == {first, second}


def test_a_trial_that_another_replica_outran_has_failed() -> None:
    world = with_one_left_out()
    world.now = world.replicas[0].load.until
    trial, ticket = world.balancer.choose(world.replicas)
    assert trial.load.excluded
    world.balancer.end(trial.load, ticket, FAST, ReplicaCallStatus.GIVEN_UP)
    world.balancer.outrun(trial.load)
    assert world.replicas[0].load.until == pytest.approx(world.now + 2 * SECONDS)
    assert not world.balancer.choose(world.replicas)[0].load.excluded
