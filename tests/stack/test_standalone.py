"""``pratique serve all`` decides as the services do, in one process."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique_cli.main import main
from support.local_stacks import Stack, running, running_alone

REVIEWS = sorted((Path(__file__).parents[1] / "data" / "reviews").glob("*.json"))
CHAIN = ("--admission-control", "AlwaysPullImages,ResourceQuota")


def quota(namespace: str, pods: int) -> JSONObject:
    hard = {"hard": {"pods": str(pods)}}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "quota", "namespace": namespace, "uid": "1"},
        "spec": hard,
        "status": {**hard, "used": {"pods": "0"}},
    }


@pytest.fixture(name="alone", scope="module")
def _alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    folder = tmp_path_factory.mktemp("alone")
    (folder / "cluster.yaml").write_text(
        "\n---\n".join(map(json.dumps, (quota("shop", 1), quota("market", 10))))
    )
    files = (
        "--cluster",
        str(folder / "cluster.yaml"),
        "--resource-quota-ledger",
        str(folder / "quotas.sqlite"),
    )
    with running_alone(*CHAIN, *files) as stack:
        yield stack


def create(name: str, namespace: str = "market") -> JSONObject:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    }
    request = {
        "uid": name,
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": namespace,
        "name": name,
        "userInfo": {"username": "ann"},
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def comparable(document: Any) -> JSON:
    """A decision document without what differs between two runs: times and endpoints."""
    for step in document["steps"]:
        del step["durationMs"], step["endpoint"]
    return document


def test_one_process_decides_as_three_services_do() -> None:
    with running("--validators", "1") as stack, running_alone() as alone:
        for review in (json.loads(file.read_text()) for file in REVIEWS):
            assert comparable(alone.post("/explain", review)) == comparable(stack.post("/explain", review))


def test_every_built_in_step_ran_in_this_process(alone: Stack) -> None:
    steps = alone.post("/explain", create("explained"))["steps"]
    endpoints = {step["endpoint"] for step in steps if step["outcome"] != "skipped"}
    assert endpoints == {"in-process"}
    assert "AlwaysPullImages" in {step["controller"] for step in steps if step["outcome"] == "mutated"}


def test_quota_is_charged(alone: Stack) -> None:
    answers = [alone.post("/admit", create(name, "shop"))["response"] for name in ("first", "second")]
    assert [answer["allowed"] for answer in answers] == [True, False]
    assert "exceeded quota: quota" in answers[1]["status"]["message"]


def test_its_metrics_have_those_of_the_controllers(alone: Stack) -> None:
    alone.post("/admit", create("measured"))
    code, text = alone.get("/metrics")
    assert code == 200
    for phase in ("mutate", "validate"):
        labels = rf'name="AlwaysPullImages",outcome="\w+",phase="{phase}"'
        assert re.search(
            rf"^pratique_controller_duration_seconds_count{{{labels}}} [1-9]", text, re.MULTILINE
        )


def test_it_is_ready_and_says_what_it_checked(alone: Stack) -> None:
    code, text = alone.get("/readyz?verbose")
    assert code == 200
    assert "[+]chain ok" in text


def test_it_ends_on_sigterm() -> None:
    with running_alone(*CHAIN, "--drain-seconds", "0") as stack:
        stack.process.send_signal(signal.SIGTERM)
        assert stack.process.wait(timeout=120) == 0


@pytest.mark.parametrize("flag", ["--mutator", "--validator", "--services-ca-file", "--calls"])
def test_it_has_no_flags_for_services(flag: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["serve", "all", flag, "x"])
    said = capsys.readouterr().err
    assert f"No such option: {flag}" in said or f"No such option '{flag}'" in said
