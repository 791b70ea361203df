"""Where usage is charged by default: in a file that outlives a validator, and in memory in offline runs."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from support import forked_commands
from support.forked_commands import PROGRAM
from support.pods import pod
from support.services.quota_validators import quota_validator

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


def test_a_single_validator_keeps_charges_in_the_state_folder(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    monkeypatch.setenv("STATE_DIRECTORY", str(state))

    async def run() -> str:
        async with quota_validator(cluster) as validator:
            assert not state.exists()
            assert await validator.refusal("one") == ""
        assert (state / "pratique" / "quotas.sqlite").is_file()
        async with quota_validator(cluster) as validator:
            assert await validator.refusal("two") == ""
            return await validator.refusal("three")

    assert "exceeded quota: quota" in asyncio.run(run())


def test_a_validator_that_cannot_write_its_ledger_denies_and_keeps_running(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("STATE_DIRECTORY", str(tmp_path / "file"))

    async def run() -> list[str]:
        async with quota_validator(cluster) as validator:
            return [await validator.refusal(name) for name in ("one", "two")]

    assert all("the quota ledger is unavailable" in refusal for refusal in asyncio.run(run()))


def test_an_offline_run_always_counts_in_memory(cluster: Path, tmp_path: Path) -> None:
    pods = tmp_path / "pods.json"
    pods.write_text("\n".join(f"---\n{json.dumps(pod(name=name))}" for name in ("one", "two", "three")))
    ledger = tmp_path / "quotas.sqlite"
    flags = [f"--cluster={cluster}", "--admission-control=ResourceQuota", f"--resource-quota-ledger={ledger}"]
    for _ in range(2):
        ran = forked_commands.run([PROGRAM, "review", *flags, "-o", "jsonl", pods])
        decisions = [json.loads(line)["allowed"] for line in ran.stdout.splitlines()]
        assert (ran.returncode, decisions) == (1, [True, True, False])
    assert not ledger.exists()
