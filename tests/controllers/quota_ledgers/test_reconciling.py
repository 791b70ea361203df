"""Reconciliation: what is deleted or refused elsewhere comes back, what is on its way is not forgotten."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import Cluster, ObjectStore, ReloadableCluster
from pratique.controllers.quota.ledger import Charge, Usage, open_ledger, reconcile_every
from pratique.controllers.quota.sql_ledger import SQLLedger
from support.quota_ledgers import account, admitted, charge, plus, pod, pods_used, quota, sizes_of_pods, up_to

NOT_YET = 3600.0
"""A time that no test outlives."""
AT_ONCE = 0.0
NEVER_DUE = 1.0
"""A period in which the first look reconciles nothing."""


def reconciled(
    url: str,
    *objects: JSONObject,
    before: Sequence[JSONObject] = (),
    charges: dict[Charge, str] | None = None,
    start: str = "0",
    wait_seconds: float = NOT_YET,
) -> str:
    """How many Pods a quota has after charges, once a cluster of ``before`` has become one of ``objects``."""

    async def scenario() -> str:
        ledger = SQLLedger(url, wait_seconds=wait_seconds)
        for each, amount in (charges or {charge("web"): "1"}).items():
            await ledger.charge([account(pods=start)], each, plus(amount))
        await ledger.reconcile(ObjectStore([quota(), *before]), AT_ONCE, sizes_of_pods)
        assert await ledger.reconcile(ObjectStore([quota(), *objects]), AT_ONCE, sizes_of_pods)
        [used] = await pods_used(ledger, account())
        await ledger.close()
        return used

    return asyncio.run(scenario())


def test_what_was_deleted_comes_back(url: str) -> None:
    assert reconciled(url, pod("web"), pod("api"), start="10") == "2"


def test_what_is_charged_and_not_there_yet_is_kept(url: str) -> None:
    assert reconciled(url, pod("api"), start="1") == "2"


def test_what_has_arrived_is_counted_once(url: str) -> None:
    assert reconciled(url, pod("web")) == "1"


def test_what_did_not_arrive_in_time_comes_back(url: str) -> None:
    assert reconciled(url, pod("api"), start="1", wait_seconds=AT_ONCE) == "1"


def test_charges_without_a_name_wait_for_their_time() -> None:
    assert reconciled("", pod("web"), charges={charge(""): "1"}) == "2"


@pytest.mark.parametrize(("uid", "used"), [("new", "1"), ("", "1"), ("old", "2")])
def test_a_predecessor_of_the_same_name_is_another_object(uid: str, used: str) -> None:
    assert reconciled("", pod("web", uid=uid), charges={charge("web", uid="new"): "1"}) == used


@pytest.mark.parametrize(
    ("old", "now", "used"),
    [
        ("7", "7", "13"),  # as it was: 10, and 3 more on their way
        ("7", "8", "10"),
        ("9", "10", "10"),
        ("10", "9", "13"),  # seen from further behind
        ("", "", "13"),  # nobody can tell
        ("a", "b", "13"),
    ],
)
def test_an_update_has_arrived_once_the_object_is_a_later_one(old: str, now: str, used: str) -> None:
    update = charge("web", old_resource_version=old)
    assert reconciled("", pod("web", version=now, size=10), charges={update: "3"}, start="10") == used


def test_what_an_update_gives_back_counts_when_it_has_arrived() -> None:
    update = charge("web", old_resource_version="7")
    assert reconciled("", pod("web", version="7", size=10), charges={update: "-3"}, start="10") == "10"


def test_several_charges_that_are_on_their_way_add_up(url: str) -> None:
    charges = {charge("web"): "1500m", charge("api"): "2500m"}
    assert reconciled(url, pod("db", size=5), charges=charges) == "9"


def test_never_more_than_hard_because_of_reconciliation(shared_url: str) -> None:
    """Two services reconcile all the time with clusters that lag behind each other, while both charge."""
    seen, late = ReloadableCluster(ObjectStore([quota()])), ReloadableCluster(ObjectStore([quota()]))

    async def reconcile(ledger: SQLLedger, cluster: Cluster, ended: asyncio.Event) -> None:
        while not ended.is_set():
            await ledger.reconcile(cluster, AT_ONCE, sizes_of_pods)
            await asyncio.sleep(0)  # before the first charge there is nothing to wait for

    async def scenario() -> None:
        one, other = (SQLLedger(shared_url, wait_seconds=NOT_YET) for _ in range(2))
        ended = asyncio.Event()
        both = (reconcile(one, seen, ended), reconcile(other, late, ended))
        reconciling = [asyncio.create_task(each) for each in both]
        stored: list[str] = []
        for step in range(10):
            for ledger in (one, other):
                names = [f"{ledger is one}-{step}-{number}" for number in range(8)]
                stored += await admitted(ledger, [account()], names, up_to(100))
            late.swap(seen.current)
            seen.swap(ObjectStore([quota(), *map(pod, stored)]))
        ended.set()
        await asyncio.gather(*reconciling)
        assert len(stored) == 100
        late.swap(seen.current)
        await other.reconcile(late, AT_ONCE, sizes_of_pods)
        assert await pods_used(one, account()) == ["100"]
        await asyncio.gather(one.close(), other.close())

    asyncio.run(scenario())


def test_one_of_several_services_reconciles_in_a_period(shared_url: str) -> None:
    async def scenario() -> None:
        ledgers = [open_ledger(shared_url) for _ in range(4)]
        await ledgers[0].charge([account()], charge(), plus())
        for expected in ([False] * 4, [False, False, False, True], [False, False, False, True]):
            # the first time nobody knows whether another has just done so
            each = [ledger.reconcile(ObjectStore([quota()]), 3600, sizes_of_pods) for ledger in ledgers]
            assert sorted(await asyncio.gather(*each)) == expected
        await asyncio.gather(*(ledger.close() for ledger in ledgers))

    asyncio.run(scenario())


@pytest.mark.parametrize(("wait_seconds", "start"), [(AT_ONCE, "5"), (NOT_YET, "1")])
def test_the_account_of_a_deleted_quota_goes_when_nobody_charges_it_any_more(
    url: str, wait_seconds: float, start: str
) -> None:
    async def scenario() -> None:
        ledger = SQLLedger(url, wait_seconds=wait_seconds)
        await ledger.charge([account()], charge(), plus())
        await ledger.reconcile(ObjectStore([quota()]), AT_ONCE, sizes_of_pods)
        await ledger.reconcile(ObjectStore([quota(uid="2")]), AT_ONCE, sizes_of_pods)
        assert await pods_used(ledger, account(pods="5")) == [start]
        await ledger.close()

    asyncio.run(scenario())


def test_a_charge_finds_its_account_again_that_went_meanwhile() -> None:
    async def scenario() -> None:
        ledger = SQLLedger("", wait_seconds=AT_ONCE)
        await ledger.charge([account(pods="5")], charge(), plus())
        await ledger.reconcile(ObjectStore([quota()]), AT_ONCE, sizes_of_pods)
        await ledger.reconcile(ObjectStore(), AT_ONCE, sizes_of_pods)
        await ledger.charge([account(pods="3")], charge(), plus())
        assert await pods_used(ledger, account()) == ["4"]
        await ledger.close()

    asyncio.run(scenario())


def test_a_quota_that_cannot_be_counted_stays_as_it_is_and_stops_no_other(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def usage_of(document: JSONObject, cluster: Cluster) -> Usage:
        if document["metadata"]["name"] == "bad":
            raise ValueError("a secret of the object")
        return sizes_of_pods(document, cluster)

    async def scenario() -> None:
        ledger = SQLLedger("", wait_seconds=AT_ONCE)
        both = [account("bad", pods="7"), account("good", pods="7")]
        await ledger.charge(both, charge(), plus())
        await ledger.reconcile(ObjectStore(), NEVER_DUE, usage_of)
        await ledger.reconcile(ObjectStore([quota("bad"), quota("good")]), AT_ONCE, usage_of)
        assert await pods_used(ledger, *both) == ["8", "0"]
        await ledger.close()

    asyncio.run(scenario())
    [record] = caplog.records
    assert vars(record)["quota"] == "shop/bad"
    assert "secret" not in str(vars(record))


def test_reconciliation_makes_no_file_that_no_charge_has_made(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = open_ledger(str(tmp_path / "quotas.sqlite"))
        assert not await ledger.reconcile(ObjectStore([quota()]), AT_ONCE, sizes_of_pods)
        await ledger.close()

    asyncio.run(scenario())
    assert list(tmp_path.iterdir()) == []


def test_reconciliation_goes_on_until_it_is_cancelled(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Also where the ledger cannot be asked for a while."""
    file = tmp_path / "folder" / "quotas.sqlite"
    tmp_path.joinpath("folder").mkdir()
    file.mkdir()

    async def scenario() -> None:
        ledger = SQLLedger(str(file), wait_seconds=AT_ONCE)
        cluster = ReloadableCluster(ObjectStore([quota()]))
        following = asyncio.create_task(reconcile_every(ledger, cluster, 0.02, sizes_of_pods))
        while not caplog.records:  # noqa: ASYNC110 - the log is no event that could be waited for
            await asyncio.sleep(0.01)
        file.rmdir()
        await ledger.charge([account(pods="5")], charge(), plus())
        while await pods_used(ledger, account()) != ["0"]:
            cluster.swap(ObjectStore([quota()]))
            await asyncio.sleep(0.05)
        following.cancel()
        await asyncio.wait([following])
        assert following.cancelled()
        await ledger.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(scenario(), 60))
    assert "quotas were not reconciled" in caplog.messages


def test_refused_charges_leave_nothing_to_reconcile(url: str) -> None:
    async def scenario() -> None:
        ledger = SQLLedger(url, wait_seconds=NOT_YET)
        with pytest.raises(RefusalError):
            await ledger.charge([account(pods="3")], charge(), up_to(3))
        assert await ledger.reconcile(ObjectStore([quota()]), AT_ONCE, sizes_of_pods)
        assert await pods_used(ledger, account()) == ["0"]
        await ledger.close()

    asyncio.run(scenario())
