"""``pratique quotas``, and quota that ``pratique review`` releases."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from pratique.controllers.quota.ledger import open_ledger
from support.pods import container, pod
from support.quota_ledgers import account, charge, plus

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

AMOUNTS = {"pods": "2", "requests.cpu": "1"}


def quota(name: str, uid: str, used: dict[str, str] | None) -> dict[str, Any]:
    document = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": name, "namespace": "shop", "uid": uid},
        "spec": {"hard": AMOUNTS},
    }
    return document if used is None else {**document, "status": {"hard": AMOUNTS, "used": used}}


def pod_requesting_cpu(name: str) -> dict[str, Any]:
    return pod(container(resources={"requests": {"cpu": "250m"}}), name=name)


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.json"
    said = quota("said", "2", {"pods": "1", "requests.cpu": "0"})
    items = [
        quota("charged", "1", {"pods": "0", "requests.cpu": "0"}),
        said,
        quota("new", "3", None),
        pod_requesting_cpu("web"),
    ]
    file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return file


@pytest.fixture(name="ledger")
def _ledger(tmp_path: Path) -> Path:
    file = tmp_path / "quotas.sqlite"

    async def scenario() -> None:
        ledger = open_ledger(str(file))
        await ledger.charge([account("charged"), account("gone", uid="9", pods="4")], charge(), plus())
        await ledger.close()

    asyncio.run(scenario())
    return file


ROWS = [
    ("charged", "pods", "1", "2", "ledger"),
    ("charged", "requests.cpu", "0", "1", "ledger"),
    ("new", "pods", "1", "2", "counted"),
    ("new", "requests.cpu", "250m", "1", "counted"),
    ("said", "pods", "1", "2", "status"),
    ("said", "requests.cpu", "0", "1", "status"),
    ("gone", "pods", "5", None, "ledger"),
]


def test_quotas_are_shown_with_usage_and_its_source(pratique: Program, cluster: Path, ledger: Path) -> None:
    flags = ("quotas", f"--cluster={cluster}", f"--resource-quota-ledger={ledger}")
    shown = json.loads(pratique(*flags, "-o", "json").stdout)
    fields = ("quota", "resource", "used", "hard", "source")
    assert [tuple(row[field] for field in fields) for row in shown] == ROWS
    assert {row["namespace"] for row in shown} == {"shop"}
    assert yaml.safe_load(pratique(*flags, "-o", "yaml").stdout) == shown
    assert [json.loads(line) for line in pratique(*flags, "-o", "jsonl").stdout.splitlines()] == shown
    lines = pratique(*flags, "-o", "text").stdout.splitlines()
    assert lines[0].split() == ["NAMESPACE", "QUOTA", "RESOURCE", "USED", "HARD", "SOURCE"]
    assert [line.split() for line in lines[1:]] == [["shop", *(cell or "-" for cell in row)] for row in ROWS]


def test_showing_quotas_creates_no_ledger(pratique: Program, cluster: Path, tmp_path: Path) -> None:
    before = set(tmp_path.iterdir())
    shown = pratique("quotas", f"--cluster={cluster}", f"--resource-quota-ledger={tmp_path / 'no.sqlite'}")
    assert shown.returncode == 0
    assert set(tmp_path.iterdir()) == before


def test_a_ledger_and_a_cluster_without_quotas_are_told(pratique: Program) -> None:
    ran = pratique("quotas", "--resource-quota-ledger", "none.sqlite")
    assert (ran.returncode, ran.stdout.splitlines()[1:]) == (0, [])
    assert ran.stderr.startswith(
        "pratique: note: there is no ResourceQuota, and nothing in the ledger: name files by"
    )


def test_an_unreadable_ledger_is_one_clear_error(pratique: Program, ledger: Path) -> None:
    ledger.unlink()
    shown = pratique("quotas", f"--resource-quota-ledger={ledger}")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert f"{ledger} is gone, and its charges with it" in shown.stderr


def request(operation: str, name: str, new: Any, old: Any = None) -> str:
    asked = {
        "uid": f"{operation}-{name}",
        "operation": operation,
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": name,
        "namespace": "shop",
        "object": new,
        "oldObject": old,
    }
    return json.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": asked})


def test_deleting_an_object_releases_its_quota_within_a_run(pratique: Program, tmp_path: Path) -> None:
    cluster, reviews = tmp_path / "quota.json", tmp_path / "reviews.jsonl"
    cluster.write_text(json.dumps(quota("quota", "1", {"pods": "1", "requests.cpu": "0"})))
    lines = [
        request("CREATE", "one", pod_requesting_cpu("one")),
        request("CREATE", "two", pod_requesting_cpu("two")),
        request("DELETE", "one", None, pod_requesting_cpu("one")),
        request("CREATE", "three", pod_requesting_cpu("three")),
        request("CREATE", "four", pod_requesting_cpu("four")),
    ]
    reviews.write_text("\n".join(lines))
    flags = ("--admission-control=ResourceQuota", f"--cluster={cluster}", "-o", "jsonl")
    shown = pratique("review", *flags, str(reviews)).stdout.splitlines()
    assert [json.loads(line)["allowed"] for line in shown] == [True, False, True, True, False]
