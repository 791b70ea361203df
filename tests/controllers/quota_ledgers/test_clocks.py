"""Clocks: a charge is given back because the cluster was observed later, never because a clock says so."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore, ReloadableCluster
from pratique.controllers.quota.sql_database import METADATA
from pratique.controllers.quota.sql_ledger import SQLLedger
from support.quota_ledgers import (
    account,
    admitted,
    charge,
    plus,
    pods_used,
    quota,
    sizes_of_pods,
    stored_pod,
    up_to,
)

WAIT, PERIOD = 100.0, 10.0
DAY = 86400.0
HARD = 3


@dataclasses.dataclass
class Clock:
    """A clock that moves on command."""

    seconds: float = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_no_table_of_a_ledger_holds_a_time() -> None:
    columns = {column.name for table in METADATA.sorted_tables for column in table.columns}
    assert not {name for name in columns if name.endswith(("_at", "_time", "_seconds", "_until"))}


@pytest.mark.parametrize("jump", [300.0, DAY, -DAY])
@pytest.mark.parametrize("when", ["at start", "between two reviews", "on one of two"])
def test_a_clock_change_gives_nothing_back(jump: float, when: str, shared_url: str) -> None:
    """Not even a monotonic clock that jumps gives back, unless the cluster was observed again."""
    clocks = [Clock(), Clock(jump if when == "at start" else 0)]

    async def scenario() -> None:
        first, second = (SQLLedger(shared_url, wait_seconds=WAIT, clock=clock) for clock in clocks)
        cluster = ReloadableCluster(ObjectStore([quota()]))
        assert len(await admitted(first, [account()], "abc", up_to(HARD))) == HARD
        await reconcile_both(first, second)(cluster)
        if when != "at start":
            for clock in clocks[:1] if when == "on one of two" else clocks:
                clock.seconds += jump
        for _ in range(3):
            await reconcile_both(first, second)(cluster)
            for ledger in (first, second):
                assert await admitted(ledger, [account()], "def", up_to(HARD)) == []
        await asyncio.gather(first.close(), second.close())

    asyncio.run(scenario())


def reconcile_both(
    first: SQLLedger, second: SQLLedger
) -> Callable[[ReloadableCluster], asyncio.Future[list[bool]]]:
    return lambda cluster: asyncio.gather(
        *(ledger.reconcile(cluster, PERIOD, sizes_of_pods) for ledger in (first, second))
    )


def after(url: str, *states: tuple[float, list[JSONObject]], restarted: bool = False) -> str:
    """How many Pods are used after one charge, and after the cluster's states at these times."""
    clock = Clock()

    async def scenario() -> str:
        ledger = SQLLedger(url, wait_seconds=WAIT, clock=clock)
        cluster = ReloadableCluster(ObjectStore([quota()]))
        await ledger.charge([account()], charge("web", uid="7"), plus())
        for _ in range(2):
            await ledger.reconcile(cluster, PERIOD, sizes_of_pods)
        if restarted:
            await ledger.close()
            ledger = SQLLedger(url, wait_seconds=WAIT, clock=clock)
            await ledger.reconcile(cluster, PERIOD, sizes_of_pods)
        for seconds, objects in states:
            while clock.seconds < seconds:
                clock.seconds += PERIOD
                await ledger.reconcile(cluster, PERIOD, sizes_of_pods)
            cluster.swap(ObjectStore([quota(), *objects]))
            for _ in range(2):
                clock.seconds += 1
                await ledger.reconcile(cluster, PERIOD, sizes_of_pods)
        [used] = await pods_used(ledger, account())
        await ledger.close()
        return used

    return asyncio.run(scenario())


WEB, OTHER = stored_pod("web", uid="7"), stored_pod("other")


@pytest.mark.parametrize(
    ("states", "used"),
    [
        ([], "1"),
        ([(50.0, [])], "1"),  # too early to tell
        ([(50.0, []), (90.0, [])], "1"),
        ([(150.0, [])], "0"),  # long after the charge, and it is missing
        ([(150.0, [WEB])], "1"),
        ([(10.0, [WEB]), (150.0, [WEB])], "1"),
        ([(10.0, [WEB]), (20.0, [])], "0"),  # it was there, and has left
        ([(10.0, [OTHER]), (20.0, [])], "1"),  # that was another Pod
        ([(10.0, [WEB]), (20.0, [stored_pod("web", uid="8")])], "1"),  # a later Pod of the same name
    ],
)
def test_a_newer_state_of_the_cluster_gives_back(
    states: list[tuple[float, list[JSONObject]]], used: str, url: str
) -> None:
    assert after(url, *states) == used


@pytest.mark.parametrize(("seconds", "used"), [(50.0, "1"), (150.0, "0")])
def test_a_restarted_service_waits_just_as_long(seconds: float, used: str, shared_url: str) -> None:
    assert after(shared_url, (seconds, []), restarted=True) == used


def test_a_service_with_an_older_cluster_does_not_count_by_it(shared_url: str) -> None:
    """Its files lag behind: a charge that they lack was given up by a service that saw its object arrive."""
    clock = Clock()

    async def scenario() -> None:
        fresh, late = (SQLLedger(shared_url, wait_seconds=WAIT, clock=clock) for _ in range(2))
        seen, old = ReloadableCluster(ObjectStore([quota()])), ReloadableCluster(ObjectStore([quota()]))
        await admitted(fresh, [account()], "abc", up_to(HARD))
        for _ in range(20):
            await fresh.reconcile(seen, PERIOD, sizes_of_pods)
            await late.reconcile(old, PERIOD, sizes_of_pods)
            clock.seconds += PERIOD
        seen.swap(ObjectStore([quota(), *map(stored_pod, "abc")]))
        for _ in range(3):
            await fresh.reconcile(seen, 0, sizes_of_pods)
            await late.reconcile(old, 0, sizes_of_pods)
            assert await pods_used(late, account()) == [str(HARD)]
        await asyncio.gather(fresh.close(), late.close())

    asyncio.run(scenario())


class Quotas(RuleBasedStateMachine):
    """A slow API server, two services with clocks and clusters of their own, and one ledger."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.clocks = [Clock(), Clock(12345.0)]
        self.now = 0.0
        self.numbers = iter(range(1_000_000))
        self.pending: dict[str, float] = {}
        """The deadlines of admitted objects that are not stored yet, and may never be."""
        self.stored: dict[str, JSONObject] = {}
        self.history: list[tuple[float, ObjectStore]] = [(0.0, ObjectStore([quota()]))]
        self.looks_at = [0, 0]
        self.clusters = [ReloadableCluster(self.history[0][1]) for _ in range(2)]
        self.ledgers: list[SQLLedger] = []

    @initialize(path=st.builds(object))
    def open(self, path: object) -> None:
        del path
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.ledgers = [self.opened(index) for index in range(2)]

    def opened(self, index: int) -> SQLLedger:
        return SQLLedger(f"{self.folder.name}/quotas.sqlite", wait_seconds=WAIT, clock=self.clocks[index])

    def run(self, job: object) -> object:
        return self.loop.run_until_complete(job)  # type: ignore[arg-type]  # a coroutine

    @rule(index=st.integers(0, 1))
    def admit(self, index: int) -> None:
        name = f"pod-{next(self.numbers)}"
        if self.run(admitted(self.ledgers[index], [account()], [name], up_to(HARD), uids=True)):
            self.pending[name] = self.now

    @rule(data=st.data())
    def store(self, data: st.DataObject) -> None:
        if self.pending:
            name = data.draw(st.sampled_from(sorted(self.pending)))
            del self.pending[name]
            self.stored[name] = stored_pod(name, uid=f"uid-{name}")
            self.changed()

    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        if self.stored:
            del self.stored[data.draw(st.sampled_from(sorted(self.stored)))]
            self.changed()

    def changed(self) -> None:
        self.history.append((self.now, ObjectStore([quota(), *self.stored.values()])))

    @rule(seconds=st.sampled_from([1.0, PERIOD, 45.0, WAIT]), data=st.data())
    def pass_time(self, seconds: float, data: st.DataObject) -> None:
        """Time passes for all; a service may measure less than that, but never more."""
        self.now += seconds
        for clock in self.clocks:
            clock.seconds += seconds * data.draw(st.sampled_from([0.0, 0.5, 1.0]))
        # an API server gives up after a minute
        self.pending = {name: at for name, at in self.pending.items() if self.now - at < 60}
        self.changed()

    @rule(index=st.integers(0, 1), behind=st.integers(0, 5))
    def follow(self, index: int, behind: int) -> None:
        """A service observes a state that is up to half a minute old, but never older than its last one."""
        young = [place for place, (_, _) in enumerate(self.history) if self.ended(place) > self.now - 30]
        place = max(self.looks_at[index], min(young, default=0), len(self.history) - 1 - behind)
        self.looks_at[index] = place
        self.clusters[index].swap(self.history[place][1])

    def ended(self, place: int) -> float:
        """When a state was last the newest one."""
        return self.history[place + 1][0] if place + 1 < len(self.history) else self.now

    @rule(index=st.integers(0, 1))
    def reconcile(self, index: int) -> None:
        self.run(self.ledgers[index].reconcile(self.clusters[index], 0, sizes_of_pods))

    @rule(index=st.integers(0, 1))
    def restart(self, index: int) -> None:
        self.run(self.ledgers[index].close())
        self.ledgers[index] = self.opened(index)

    @invariant()
    def no_more_than_hard(self) -> None:
        assert len(self.stored) + len(self.pending) <= HARD

    def teardown(self) -> None:
        for ledger in self.ledgers:
            self.run(ledger.close())
        self.loop.close()
        if self.ledgers:
            self.folder.cleanup()


TestQuotas = Quotas.TestCase
TestQuotas.settings = settings(max_examples=15, stateful_step_count=40, deadline=None)


@pytest.mark.long
class TestMoreQuotas(Quotas.TestCase):  # type: ignore[misc,valid-type]  # made by hypothesis
    settings = settings(max_examples=300, stateful_step_count=40, deadline=None)
