"""A quota is kept to the object, however many validators charge it and however often they die."""

from __future__ import annotations

import asyncio
import contextlib
import http
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.cluster.store import ObjectStore
from pratique.controllers.quota.checks import usage_of
from pratique.controllers.quota.ledger import open_ledger
from pratique.controllers.quota.sql_ledger import SQLLedger
from support import postgres
from support.local_stacks import Stack, kill, running
from support.quota_ledgers import account, pods_used

HARD, CREATES, CALLERS = 1000, 5000, 32
KILL_SECONDS, KILLS = 1.0, 8
OUTAGE_SECONDS = 30.0
RARELY = "--resource-quota-sync-period=1h"
"""No cluster has the admitted objects, so reconciliation would take them for denied elsewhere."""


@pytest.fixture(name="database", scope="module")
def _database() -> Iterator[postgres.Server]:
    with postgres.running() as server:
        yield server


def quota(hard: int = HARD) -> dict[str, Any]:
    metadata = {"name": "quota", "namespace": "shop", "uid": "1"}
    amounts = {"hard": {"pods": str(hard)}}
    status = amounts | {"used": {"pods": "0"}}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": amounts,
        "status": status,
    }


def create(name: str) -> dict[str, Any]:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop", "uid": f"uid-of-{name}"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    }
    request = {
        "uid": f"create-{name}",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": name,
        "namespace": "shop",
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def write(folder: Path, *objects: dict[str, Any]) -> None:
    """Put objects in a cluster's file, all at once."""
    fresh = folder.with_name("fresh")
    fresh.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    fresh.replace(folder / "objects.json")


@contextlib.contextmanager
def stack_of(cluster: Path, *flags: str, validators: int = 4) -> Iterator[Stack]:
    """Run validators that charge quotas."""
    shared = ("--validators", str(validators), "--admission-control", "ResourceQuota")
    with running(*shared, "--cluster", str(cluster), *flags) as stack:
        yield stack


def call(stack: Stack, names: list[str], answers: dict[str, Any]) -> None:
    """Request Pods; where no validator can be asked, as on a busy machine that has to start all of them, ask again."""
    connection = stack.connect()
    for name in names:
        code, answer = stack.ask("/validate", create(name), connection)
        until = time.monotonic() + OUTAGE_SECONDS
        while code == http.HTTPStatus.SERVICE_UNAVAILABLE and time.monotonic() < until:
            time.sleep(0.1)
            code, answer = stack.ask("/validate", create(name), connection)
        assert code == http.HTTPStatus.OK, (code, answer)
        answers[name] = answer["response"]
    connection.close()


def call_all(stack: Stack, answers: dict[str, Any], creates: int = CREATES) -> list[threading.Thread]:
    """Start to request all Pods concurrently."""
    names = [f"pod-{number}" for number in range(creates)]
    callers = [
        threading.Thread(target=call, args=(stack, names[first::CALLERS], answers))
        for first in range(CALLERS)
    ]
    for caller in callers:
        caller.start()
    return callers


def allowed(answers: dict[str, Any]) -> list[str]:
    return [name for name, response in answers.items() if response["allowed"]]


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Path:
    folder = tmp_path / "cluster"
    folder.mkdir()
    write(folder, quota())
    return folder


def test_four_validators_admit_exactly_a_thousand_of_five_thousand(
    cluster: Path, database: postgres.Server
) -> None:
    answers: dict[str, Any] = {}
    with stack_of(cluster, "--resource-quota-ledger", database.database(), RARELY) as stack:
        for caller in call_all(stack, answers):
            caller.join()
    assert len(answers) == CREATES
    assert len(allowed(answers)) == HARD
    refusals = {response["status"]["message"] for response in answers.values() if not response["allowed"]}
    assert all(
        "exceeded quota: quota, requested: pods=1, used: pods=1k, limited: pods=1k" in refusal
        for refusal in refusals
    )


def test_usage_equals_admissions_while_a_validator_is_killed_every_second(
    cluster: Path, database: postgres.Server
) -> None:
    answers: dict[str, Any] = {}
    url = database.database()
    with stack_of(cluster, "--resource-quota-ledger", url, RARELY) as stack:
        callers = call_all(stack, answers, CREATES // 2)  # starting validators again takes its time, too
        killed = kill_until_done(stack, callers)
        there = allowed(answers)
        assert len(answers) == CREATES // 2
        assert killed > 0
        print(f"{len(there)} of {len(answers)} admitted over {killed} kills")  # noqa: T201 - numbers to keep an eye on
        assert len(there) <= HARD
        store = ObjectStore([quota(), *(create(name)["request"]["object"] for name in there)])
        assert asyncio.run(used_after_reconciliation(url, store)) == len(there)
        more: dict[str, Any] = {}
        call(stack, [f"more-{number}" for number in range(HARD - len(there) + 5)], more)
        assert len(there) + len(allowed(more)) == HARD


def kill_until_done(stack: Stack, callers: list[threading.Thread]) -> int:
    """Kill one validator after the other while there are callers; gives how many."""
    killed = 0
    while any(caller.is_alive() for caller in callers) and killed < KILLS:
        time.sleep(KILL_SECONDS)
        running_now = stack.pids("validator")
        if running_now:
            kill(running_now[0])  # the oldest; the one started last has not had its share yet
            killed += 1
    for caller in callers:
        caller.join()
    return killed


async def used_after_reconciliation(url: str, store: ObjectStore) -> int:
    """The usage once nothing is in flight any more."""
    ledger = SQLLedger(url, wait_seconds=0)
    await ledger.reconcile(ObjectStore([quota()]), 0, usage_of)
    assert await ledger.reconcile(store, 0, usage_of)
    [used] = await ledger.usage([account()])
    await ledger.close()
    amount = used["pods"].as_integer()
    assert amount is not None
    return amount


def test_the_validators_of_a_stack_share_a_ledger_that_is_deleted_with_it(cluster: Path) -> None:
    write(cluster, quota(hard=10))
    answers: dict[str, Any] = {}
    with stack_of(cluster, validators=2) as stack:
        for caller in call_all(stack, answers, creates=64):
            caller.join()
        ledger = ledger_of(stack)
        assert ledger.is_file()
    assert len(allowed(answers)) == 10
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
    write(cluster, counted(quota(hard=3), used=3), *pods)
    ledger = str(tmp_path / "quotas.sqlite")
    with stack_of(
        cluster, "--resource-quota-ledger", ledger, "--resource-quota-sync-period", "200ms"
    ) as stack:
        assert not stack.post("/validate", create("new"))["response"]["allowed"]
        write(cluster, counted(quota(hard=3), used=3), *pods[1:])
        until = time.monotonic() + 120
        while not stack.post("/validate", create("new"))["response"]["allowed"]:
            assert time.monotonic() < until
            time.sleep(0.1)
        assert not stack.post("/validate", create("another"))["response"]["allowed"]


def counted(document: dict[str, Any], used: int) -> dict[str, Any]:
    return document | {"status": document["status"] | {"used": {"pods": str(used)}}}


def test_nothing_is_allowed_while_the_ledger_is_unavailable(cluster: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with stack_of(
        cluster, "--resource-quota-ledger", f"{tmp_path}/file/quotas.sqlite", validators=1
    ) as stack:
        response = stack.post("/validate", create("web"))["response"]
    assert (response["allowed"], response["status"]["code"]) == (False, 500)
    assert "the quota ledger is unavailable" in response["status"]["message"]


def test_running_and_new_validators_notice_a_removed_ledger(cluster: Path, tmp_path: Path) -> None:
    ledger = tmp_path / "quotas.sqlite"
    flag = f"--resource-quota-ledger={ledger}"
    with stack_of(cluster, flag, RARELY, validators=2) as stack:
        assert stack.post("/validate", create("one"))["response"]["allowed"]
        ledger.unlink()
        missed = [stack.post("/validate", create(f"next-{number}"))["response"] for number in range(6)]
    with stack_of(cluster, flag, RARELY, validators=1) as stack:
        missed.append(stack.post("/validate", create("last"))["response"])
    assert {response["status"]["code"] for response in missed} == {500}
    assert all(str(ledger) in response["status"]["message"] for response in missed)
    assert not ledger.exists()


def test_a_restarted_database_server_is_found_again(cluster: Path) -> None:
    with postgres.running() as server:
        url = server.database()
        with stack_of(cluster, "--resource-quota-ledger", url, validators=1) as stack:
            assert stack.post("/validate", create("one"))["response"]["allowed"]
            server.stop()
            refused = stack.post("/validate", create("two"))["response"]
            assert (refused["allowed"], refused["status"]["code"]) == (False, 500)
            server.start()
            assert stack.post("/validate", create("three"))["response"]["allowed"]
        assert asyncio.run(used(url)) == ["2"]


async def used(url: str) -> list[str]:
    ledger = open_ledger(url)
    pods = await pods_used(ledger, account())
    await ledger.close()
    return pods
