"""Reconciliation: deleted and never stored objects are given back, pending ones are kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from pathlib import Path

import pytest

from pratique.apimachinery import statuses
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import Cluster, ObjectStore, ReloadableCluster
from pratique.controllers.quota.ledger import Charge, Usage, open_ledger, reconcile_every
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

NOT_YET = 3600.0
"""Longer than any test."""
AT_ONCE = 0.0
NEVER_DUE = 1.0
"""A period after which the first look reconciles nothing."""


def reconciled(
    url: str,
    *objects: JSONObject,
    before: Sequence[JSONObject] = (),
    charges: dict[Charge, str] | None = None,
    start: str = "0",
    wait_seconds: float = NOT_YET,
) -> str:
    """How many Pods a quota uses after charges, once a cluster of ``before`` has become one of ``objects``."""

    async def scenario() -> str:
        ledger = SQLLedger(url, wait_seconds=wait_seconds)
        for pending, amount in (charges or {charge("web"): "1"}).items():
            await ledger.charge([account(pods=start)], pending, plus(amount))
        await ledger.reconcile(ObjectStore([quota(), *before]), AT_ONCE, sizes_of_pods)
        assert await ledger.reconcile(ObjectStore([quota(), *objects]), AT_ONCE, sizes_of_pods)
        [used] = await pods_used(ledger, account())
        await ledger.close()
        return used

    return asyncio.run(scenario())


def test_usage_of_deleted_objects_is_given_back(url: str) -> None:
    assert reconciled(url, stored_pod("web"), stored_pod("api"), start="10") == "2"


def test_a_charge_is_kept_until_its_object_arrives(url: str) -> None:
    assert reconciled(url, stored_pod("api"), start="1") == "2"


def test_an_object_that_has_arrived_is_counted_once(url: str) -> None:
    assert reconciled(url, stored_pod("web")) == "1"


def test_a_charge_is_given_back_if_its_object_does_not_arrive_in_time(url: str) -> None:
    assert reconciled(url, stored_pod("api"), start="1", wait_seconds=AT_ONCE) == "1"


def test_charges_without_a_name_are_kept_for_the_waiting_time() -> None:
    assert reconciled("", stored_pod("web"), charges={charge(""): "1"}) == "2"


@pytest.mark.parametrize(("uid", "used"), [("new", "1"), ("", "1"), ("old", "2")])
def test_an_earlier_object_of_the_same_name_is_another_object(uid: str, used: str) -> None:
    assert reconciled("", stored_pod("web", uid=uid), charges={charge("web", uid="new"): "1"}) == used


@pytest.mark.parametrize(
    ("old", "now", "used"),
    [
        ("7", "7", "13"),  # as before: 10, and 3 pending
        ("7", "8", "10"),
        ("9", "10", "10"),
        ("10", "9", "13"),  # an older state
        ("", "", "13"),  # undecidable
        ("a", "b", "13"),
    ],
)
def test_an_update_has_arrived_once_the_object_has_a_later_version(old: str, now: str, used: str) -> None:
    update = charge("web", old_resource_version=old)
    assert reconciled("", stored_pod("web", version=now, size=10), charges={update: "3"}, start="10") == used


def test_a_decrease_counts_once_the_update_has_arrived() -> None:
    update = charge("web", old_resource_version="7")
    assert reconciled("", stored_pod("web", version="7", size=10), charges={update: "-3"}, start="10") == "10"


def test_several_pending_charges_add_up(url: str) -> None:
    charges = {charge("web"): "1500m", charge("api"): "2500m"}
    assert reconciled(url, stored_pod("db", size=5), charges=charges) == "9"


def test_reconciliation_never_lets_usage_exceed_hard(shared_url: str) -> None:
    """Two services reconcile all the time with clusters that lag behind each other, while both charge."""
    seen, late = ReloadableCluster(ObjectStore([quota()])), ReloadableCluster(ObjectStore([quota()]))

    async def reconcile(ledger: SQLLedger, cluster: Cluster, ended: asyncio.Event) -> None:
        while not ended.is_set():
            await ledger.reconcile(cluster, AT_ONCE, sizes_of_pods)
            await asyncio.sleep(0)  # before the first charge there is nothing to wait for

    async def scenario() -> None:
        first, second = (SQLLedger(shared_url, wait_seconds=NOT_YET) for _ in range(2))
        ended = asyncio.Event()
        both = (reconcile(first, seen, ended), reconcile(second, late, ended))
        reconciling = [asyncio.create_task(task) for task in both]
        stored: list[str] = []
        for step in range(10):
            for ledger in (first, second):
                names = [f"{ledger is first}-{step}-{number}" for number in range(8)]
                stored += await admitted(ledger, [account()], names, up_to(100))
            late.swap(seen.current)
            seen.swap(ObjectStore([quota(), *map(stored_pod, stored)]))
        ended.set()
        await asyncio.gather(*reconciling)
        assert len(stored) == 100
        late.swap(seen.current)
        await second.reconcile(late, AT_ONCE, sizes_of_pods)
        assert await pods_used(first, account()) == ["100"]
        await asyncio.gather(first.close(), second.close())

    asyncio.run(scenario())


def test_one_service_reconciles_per_period(shared_url: str) -> None:
    async def scenario() -> None:
        ledgers = [open_ledger(shared_url) for _ in range(4)]
        await ledgers[0].charge([account()], charge(), plus())
        for expected in ([False] * 4, [False, False, False, True], [False, False, False, True]):
            # at first, nobody knows whether another service has just reconciled
            reconciling = [
                ledger.reconcile(ObjectStore([quota()]), 3600, sizes_of_pods) for ledger in ledgers
            ]
            assert sorted(await asyncio.gather(*reconciling)) == expected
        await asyncio.gather(*(ledger.close() for ledger in ledgers))

    asyncio.run(scenario())


@pytest.mark.parametrize(("wait_seconds", "start"), [(AT_ONCE, "5"), (NOT_YET, "1")])
def test_the_account_of_a_deleted_quota_is_deleted_without_pending_charges(
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


def test_a_charge_recreates_an_account_that_was_deleted_meanwhile() -> None:
    async def scenario() -> None:
        ledger = SQLLedger("", wait_seconds=AT_ONCE)
        await ledger.charge([account(pods="5")], charge(), plus())
        await ledger.reconcile(ObjectStore([quota()]), AT_ONCE, sizes_of_pods)
        await ledger.reconcile(ObjectStore(), AT_ONCE, sizes_of_pods)
        await ledger.charge([account(pods="3")], charge(), plus())
        assert await pods_used(ledger, account()) == ["4"]
        await ledger.close()

    asyncio.run(scenario())


def test_a_quota_that_cannot_be_counted_stays_and_does_not_stop_others(
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


def test_reconciliation_creates_no_file(tmp_path: Path) -> None:
    async def scenario() -> None:
        ledger = open_ledger(str(tmp_path / "quotas.sqlite"))
        assert not await ledger.reconcile(ObjectStore([quota()]), AT_ONCE, sizes_of_pods)
        await ledger.close()

    asyncio.run(scenario())
    assert list(tmp_path.iterdir()) == []


def test_reconciliation_repeats_until_it_is_cancelled(
    caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    """Even if the ledger is unavailable for a while."""
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
        asyncio.run(asyncio.wait_for(scenario(), 120))
    assert "quotas were not reconciled" in caplog.messages


class StaleStore(ObjectStore):
    """Objects of a live cluster that have not been confirmed."""

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        raise RefusalError(statuses.service_unavailable("not confirmed"))


def test_reconciliation_goes_on_once_a_live_cluster_is_confirmed_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def scenario() -> None:
        ledger = SQLLedger("", wait_seconds=AT_ONCE)
        await ledger.charge([account(pods="5")], charge(), plus())
        cluster = ReloadableCluster(StaleStore([quota()]))
        following = asyncio.create_task(reconcile_every(ledger, cluster, 0.02, sizes_of_pods))
        while not caplog.records:  # noqa: ASYNC110 - the log is no event that could be waited for
            await asyncio.sleep(0.01)
        assert await pods_used(ledger, account()) == ["6"]
        while await pods_used(ledger, account()) != ["0"]:
            cluster.swap(ObjectStore([quota()]))
            await asyncio.sleep(0.05)
        following.cancel()
        await ledger.close()

    with caplog.at_level(logging.WARNING):
        asyncio.run(asyncio.wait_for(scenario(), 120))


def test_refused_charges_leave_nothing_to_reconcile(url: str) -> None:
    async def scenario() -> None:
        ledger = SQLLedger(url, wait_seconds=NOT_YET)
        with pytest.raises(RefusalError):
            await ledger.charge([account(pods="3")], charge(), up_to(3))
        assert await ledger.reconcile(ObjectStore([quota()]), AT_ONCE, sizes_of_pods)
        assert await pods_used(ledger, account()) == ["0"]
        await ledger.close()

    asyncio.run(scenario())
