"""A quota is kept to the object, however many validators charge it and however often they die."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from pratique.cluster.store import ObjectStore
from pratique.controllers.quota.checks import usage_of
from pratique.controllers.quota.ledger import open_ledger
from pratique.controllers.quota.sql_ledger import SQLLedger
from support import postgres
from support.local_stacks import Stack, kill, running, running_alone
from support.quota_ledgers import account, pods_used
from support.services.quota_validators import quota_validator
from support.waiting import until, within

CALLERS = 32
CREATES, MANY_CREATES = 1_000, 5_000
KILLS, MANY_KILLS = 2, 8
CREATES_FOR_EACH_KILL = 300
OUTAGE_SECONDS, PATIENCE_SECONDS = 30.0, 120.0
RARELY = "--resource-quota-sync-period=1h"
"""No cluster has the admitted objects, so reconciliation would take them for denied elsewhere."""


def hard(creates: int) -> int:
    """How many of so many Pods a quota allows."""
    return creates // 5 * 2


def quota(pods: int, namespace: str = "shop") -> dict[str, Any]:
    metadata = {"name": "quota", "namespace": namespace, "uid": "1"}
    amounts = {"hard": {"pods": str(pods)}}
    status = amounts | {"used": {"pods": "0"}}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": amounts,
        "status": status,
    }


def create(name: str, namespace: str = "shop") -> dict[str, Any]:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-of-{name}"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    }
    request = {
        "uid": f"create-{name}",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": name,
        "namespace": namespace,
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def write(folder: Path, *objects: Any) -> None:
    """Put objects in a cluster's file, all at once."""
    fresh = folder.with_name("fresh")
    fresh.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    fresh.replace(folder / "objects.json")


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Path:
    folder = tmp_path / "cluster"
    folder.mkdir()
    write(folder, quota(10))
    return folder


@pytest.fixture(name="database", scope="module")
def _database() -> Iterator[postgres.Server]:
    with postgres.running() as server:
        yield server


@contextlib.contextmanager
def stack_of(cluster: Path, *flags: str, validators: int, forked: bool = True) -> Iterator[Stack]:
    """Run validators that charge quotas."""
    shared = ("--validators", str(validators), "--admission-control", "ResourceQuota")
    with running(*shared, "--cluster", str(cluster), *flags, forked=forked) as stack:
        yield stack


@pytest.fixture(name="url", scope="module")
def _url(database: postgres.Server) -> str:
    return database.database()


@pytest.fixture(name="four", scope="module")
def _four(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Four validators with one ledger, and a quota in a namespace for each test."""
    folder = tmp_path_factory.mktemp("quotas") / "cluster"
    folder.mkdir()
    namespaces = {f"creates-{creates}": creates for creates in (CREATES, MANY_CREATES)} | {
        f"kills-{kills}": kills * CREATES_FOR_EACH_KILL for kills in (KILLS, MANY_KILLS)
    }
    write(folder, *(quota(hard(creates), namespace) for namespace, creates in namespaces.items()))
    with stack_of(folder, "--resource-quota-ledger", url, RARELY, validators=4) as stack:
        yield stack


@dataclasses.dataclass
class Creations:
    """Requests for Pods by several callers at once."""

    stack: Stack
    namespace: str
    answers: dict[str, Any] = dataclasses.field(default_factory=dict)

    def call(self, names: list[str]) -> None:
        """Request Pods; where no validator can be asked, as on a busy machine that starts all of them, ask again."""
        with contextlib.closing(self.stack.connect()) as connection:
            for name in names:
                document = create(name, self.namespace)
                code, answer = self.stack.ask("/validate", document, connection)
                end = time.monotonic() + OUTAGE_SECONDS
                while code == http.HTTPStatus.SERVICE_UNAVAILABLE and time.monotonic() < end:
                    time.sleep(0.1)
                    code, answer = self.stack.ask("/validate", document, connection)
                assert code == http.HTTPStatus.OK, (code, answer)
                self.answers[name] = answer["response"]

    @contextlib.contextmanager
    def calling(self, creates: int) -> Iterator[None]:
        """Request so many Pods at once beside the block, and all of them before it ends."""
        names = [f"pod-{number}" for number in range(creates)]
        callers = [threading.Thread(target=self.call, args=(names[n::CALLERS],)) for n in range(CALLERS)]
        for caller in callers:
            caller.start()
        try:
            yield
        finally:
            for caller in callers:
                caller.join()
        assert len(self.answers) == creates

    def answered(self, creates: int) -> bool:
        """Wait for so many answers."""
        return within(PATIENCE_SECONDS, lambda: len(self.answers) >= creates)

    @property
    def allowed(self) -> list[str]:
        """The Pods that were let in."""
        return [name for name, response in self.answers.items() if response["allowed"]]

    @property
    def refusals(self) -> set[str]:
        """The messages to all others."""
        return {
            response["status"]["message"] for response in self.answers.values() if not response["allowed"]
        }


@pytest.mark.parametrize("creates", [CREATES, pytest.param(MANY_CREATES, marks=pytest.mark.long)])
def test_four_validators_admit_exactly_as_many_as_a_quota_allows(four: Stack, creates: int) -> None:
    creations = Creations(four, f"creates-{creates}")
    with creations.calling(creates):
        pass
    most = hard(creates)
    assert len(creations.allowed) == most
    shown = f"{most // 1000}k" if most % 1000 == 0 else f"{most}"
    assert all(
        f"exceeded quota: quota, requested: pods=1, used: pods={shown}, limited: pods={shown}" in refusal
        for refusal in creations.refusals
    )


@pytest.mark.parametrize("kills", [KILLS, pytest.param(MANY_KILLS, marks=pytest.mark.long)])
def test_usage_equals_admissions_while_validators_are_killed(four: Stack, url: str, kills: int) -> None:
    namespace = f"kills-{kills}"
    creations = Creations(four, namespace)
    creates = kills * CREATES_FOR_EACH_KILL
    with creations.calling(creates):
        for number in range(1, kills + 1):
            assert creations.answered(number * creates // (kills + 1))
            kill(four.pids("validator")[0])  # the oldest; the one started last has not had its share yet
    there, most = creations.allowed, hard(creates)
    print(f"{len(there)} of {creates} admitted over {kills} kills")  # noqa: T201 - numbers to keep an eye on
    assert len(there) <= most
    allowing = quota(most, namespace)
    store = ObjectStore([allowing, *(create(name, namespace)["request"]["object"] for name in there)])
    assert asyncio.run(used_after_reconciliation(url, allowing, store)) == len(there)
    more = Creations(four, namespace)
    more.call([f"more-{number}" for number in range(most - len(there) + 5)])
    assert len(there) + len(more.allowed) == most


async def used_after_reconciliation(url: str, allowing: Any, store: ObjectStore) -> int:
    """The usage once nothing is in flight any more."""
    ledger = SQLLedger(url, wait_seconds=0)
    await ledger.reconcile(ObjectStore([allowing]), 0, usage_of)
    assert await ledger.reconcile(store, 0, usage_of)
    charged = msgspec.structs.replace(account(), namespace=allowing["metadata"]["namespace"])
    [used] = await ledger.usage([charged])
    await ledger.close()
    amount = used["pods"].as_integer()
    assert amount is not None
    return amount


def test_the_validators_of_a_stack_share_a_ledger_that_is_deleted_with_it(cluster: Path) -> None:
    with stack_of(cluster, validators=2, forked=False) as stack:
        creations = Creations(stack, "shop")
        with creations.calling(64):
            pass
        ledger = ledger_of(stack)
        assert ledger.is_file()
    assert len(creations.allowed) == 10
    assert not ledger.parent.exists()


def ledger_of(stack: Stack) -> Path:
    """The ledger that the stack's validators use."""
    process = Path(f"/proc/{stack.pids('validator')[0]}")
    assert "ledger" not in (process / "cmdline").read_text()
    variables = dict(entry.split("=", 1) for entry in (process / "environ").read_text().split("\0") if entry)
    return Path(variables["PRATIQUE_RESOURCE_QUOTA_LEDGER"])


def test_deleting_an_object_releases_its_usage(cluster: Path, tmp_path: Path) -> None:
    """By itself, within periods of reconciliation."""
    pods = [create(f"old-{number}")["request"]["object"] for number in range(3)]
    write(cluster, counted(quota(3), used=3), *pods)
    flags = (f"--resource-quota-ledger={tmp_path / 'quotas.sqlite'}", "--resource-quota-sync-period=50ms")

    async def run() -> None:
        async with quota_validator(cluster, *flags) as validator:

            async def fits() -> bool:
                return not await validator.refusal("new")

            assert not await fits()
            write(cluster, counted(quota(3), used=3), *pods[1:])
            await until(PATIENCE_SECONDS, fits)
            assert await validator.refusal("another")

    asyncio.run(run())


def counted(document: dict[str, Any], used: int) -> dict[str, Any]:
    return document | {"status": document["status"] | {"used": {"pods": str(used)}}}


def test_nothing_is_allowed_while_the_ledger_is_unavailable(cluster: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ledger = f"--resource-quota-ledger={tmp_path}/file/quotas.sqlite"
    with running_alone("--admission-control", "ResourceQuota", "--cluster", str(cluster), ledger) as stack:
        response = stack.post("/validate", create("web"))["response"]
    assert (response["allowed"], response["status"]["code"]) == (False, 500)
    assert "the quota ledger is unavailable" in response["status"]["message"]


def test_running_and_new_validators_notice_a_removed_ledger(cluster: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "quotas.sqlite"
    flags = (f"--resource-quota-ledger={ledger}", RARELY)

    async def run() -> list[str]:
        async with quota_validator(cluster, *flags) as first, quota_validator(cluster, *flags) as second:
            assert await first.refusal("one") == ""
            ledger.unlink()
            missed = [await validator.refusal("two") for validator in (first, second)]
        async with quota_validator(cluster, *flags) as new:
            return [*missed, await new.refusal("three")]

    assert all(f"the quota ledger is unavailable: {ledger}" in message for message in asyncio.run(run()))
    assert not ledger.exists()


def test_a_restarted_database_server_is_found_again(cluster: Path, database: postgres.Server) -> None:
    url = database.database()

    async def run() -> None:
        async with quota_validator(cluster, "--resource-quota-ledger", url) as validator:
            assert await validator.refusal("one") == ""
            await asyncio.to_thread(database.stop)
            try:
                assert "the quota ledger is unavailable" in await validator.refusal("two")
            finally:
                await asyncio.to_thread(database.start)
            assert await validator.refusal("three") == ""

    asyncio.run(run())
    assert asyncio.run(used(url)) == ["2"]


async def used(url: str) -> list[str]:
    ledger = open_ledger(url)
    pods = await pods_used(ledger, account())
    await ledger.close()
    return pods
