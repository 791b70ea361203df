"""Where usage is charged by default: in a file that outlives a validator, and in memory in offline runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pratique.admission.results import Denied
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation
from pratique_frontdoor.transports.grpc import GrpcTransport
from support.pods import pod

PROGRAM = Path(sys.executable).with_name("pratique")
AMOUNTS = {"hard": {"pods": "2"}}
QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "quota", "namespace": "shop"},
    "spec": AMOUNTS,
    "status": AMOUNTS | {"used": {"pods": "0"}},
}


@pytest.fixture(name="cluster")
def _cluster(tmp_path: Path) -> Path:
    file = tmp_path / "cluster.json"
    file.write_text(json.dumps(QUOTA))
    return file


@contextlib.contextmanager
def validator(cluster: Path, state: str) -> Iterator[str]:
    """A validator without ledger settings; yields its address."""
    command = [
        str(PROGRAM),
        "serve",
        "validator",
        "--port=0",
        f"--cluster={cluster}",
        "--admission-control=ResourceQuota",
    ]
    environment = os.environ | {"STATE_DIRECTORY": state}
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=environment, text=True) as process:
        try:
            assert process.stdout is not None
            ready = re.search(r"ready on (\S+)", process.stdout.readline())
            assert ready is not None
            yield ready[1]
        finally:
            process.terminate()
            process.communicate(timeout=120)


def refused(address: str, name: str) -> str:
    """Request a Pod, and return the message of the denial; empty without one."""
    review = Review(
        uid=name,
        operation=Operation.CREATE,
        kind=GroupVersionKind("", "v1", "Pod"),
        resource=GroupVersionResource("", "v1", "pods"),
        name=name,
        namespace="shop",
        object_document=Document(json.dumps(pod(name=name)).encode()),
    )

    async def ask() -> str:
        transport = GrpcTransport(address)
        try:
            [outcome] = await transport.validate(review, [Call("ResourceQuota")], Deadline.after(20))
        finally:
            await transport.close()
        return outcome.decision.status.message if isinstance(outcome.decision, Denied) else ""

    return asyncio.run(ask())


def test_a_single_validator_keeps_charges_in_the_state_folder(cluster: Path, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with validator(cluster, str(state)) as address:
        assert not state.exists()
        assert refused(address, "one") == ""
    assert (state / "pratique" / "quotas.sqlite").is_file()
    with validator(cluster, str(state)) as address:
        assert refused(address, "two") == ""
        assert "exceeded quota: quota" in refused(address, "three")


def test_a_validator_that_cannot_write_its_ledger_denies_and_keeps_running(
    cluster: Path, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    with validator(cluster, str(tmp_path / "file")) as address:
        for name in ("one", "two"):
            assert "the quota ledger is unavailable" in refused(address, name)


def test_an_offline_run_always_counts_in_memory(cluster: Path, tmp_path: Path) -> None:
    pods = tmp_path / "pods.json"
    pods.write_text("\n".join(f"---\n{json.dumps(pod(name=name))}" for name in ("one", "two", "three")))
    ledger = tmp_path / "quotas.sqlite"
    flags = [f"--cluster={cluster}", "--admission-control=ResourceQuota", f"--resource-quota-ledger={ledger}"]
    for _ in range(2):
        ran = subprocess.run(
            [PROGRAM, "review", *flags, "-o", "jsonl", pods], stdout=subprocess.PIPE, text=True, check=False
        )
        decisions = [json.loads(line)["allowed"] for line in ran.stdout.splitlines()]
        assert (ran.returncode, decisions) == (1, [True, True, False])
    assert not ledger.exists()
