"""``pratique serve all`` decides as the services do, in one process."""

from __future__ import annotations

import http.client
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from support.local_stacks import Stack, running, running_alone

REVIEWS = sorted((Path(__file__).parents[1] / "data" / "reviews").glob("*.json"))
QUOTA: JSONObject = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "quota", "namespace": "shop", "uid": "1"},
    "spec": {"hard": {"pods": "1"}},
    "status": {"hard": {"pods": "1"}, "used": {"pods": "0"}},
}
NAMESPACE: JSONObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}


@pytest.fixture(name="cluster", scope="module")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("cluster") / "cluster.yaml"
    file.write_text("\n---\n".join(map(json.dumps, (QUOTA, NAMESPACE))))
    return file


@pytest.fixture(name="alone", scope="module")
def _alone(cluster: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    ledger = tmp_path_factory.mktemp("ledger") / "quotas.sqlite"
    chain = "AlwaysPullImages,ResourceQuota"
    flags = ("--admission-control", chain, "--resource-quota-ledger", str(ledger))
    with running_alone("--cluster", str(cluster), *flags) as stack:
        yield stack


def create(name: str) -> JSONObject:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"containers": [{"name": "app", "image": "app:1"}]},
    }
    request = {
        "uid": name,
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "namespace": "shop",
        "name": name,
        "userInfo": {"username": "ann"},
        "object": pod,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def get(stack: Stack, path: str) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", stack.port, timeout=120)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


def comparable(document: Any) -> JSON:
    """A decision document without what differs between two runs: times and endpoints."""
    for step in document["steps"]:
        del step["durationMs"], step["endpoint"]
    return document


@pytest.mark.parametrize("file", REVIEWS, ids=lambda file: file.stem)
def test_one_process_decides_as_three_services_do(file: Path) -> None:
    review = json.loads(file.read_text())
    with running() as stack, running_alone() as alone:
        assert comparable(alone.post("/explain", review)) == comparable(stack.post("/explain", review))


def test_every_built_in_step_ran_in_this_process(alone: Stack) -> None:
    steps = alone.post("/explain", create("explained"))["steps"]
    endpoints = {step["endpoint"] for step in steps if step["outcome"] != "skipped"}
    assert endpoints == {"in-process"}
    assert "AlwaysPullImages" in {step["controller"] for step in steps if step["outcome"] == "mutated"}


def test_quota_is_charged(cluster: Path, tmp_path: Path) -> None:
    flags = (
        "--admission-control",
        "ResourceQuota",
        "--resource-quota-ledger",
        str(tmp_path / "quotas.sqlite"),
    )
    with running_alone("--cluster", str(cluster), *flags) as stack:
        answers = [stack.post("/admit", create(name))["response"] for name in ("first", "second")]
    assert [answer["allowed"] for answer in answers] == [True, False]
    assert "exceeded quota: quota" in answers[1]["status"]["message"]


def test_its_metrics_have_those_of_the_controllers(alone: Stack) -> None:
    alone.post("/admit", create("measured"))
    code, text = get(alone, "/metrics")
    assert code == 200
    for phase in ("mutate", "validate"):
        labels = rf'name="AlwaysPullImages",outcome="\w+",phase="{phase}"'
        assert re.search(
            rf"^pratique_controller_duration_seconds_count{{{labels}}} [1-9]", text, re.MULTILINE
        )


def test_it_is_ready_and_says_what_it_checked(alone: Stack) -> None:
    code, text = get(alone, "/readyz?verbose")
    assert code == 200
    assert "[+]chain ok" in text


def test_it_ends_on_sigterm() -> None:
    with running_alone() as stack:
        stack.process.send_signal(signal.SIGTERM)
        assert stack.process.wait(timeout=120) == 0


@pytest.mark.parametrize("flag", ["--mutator", "--validator", "--services-ca-file", "--calls"])
def test_it_has_no_flags_for_services(flag: str) -> None:
    command = [sys.executable, "-m", "pratique_cli", "serve", "all", flag, "x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert f"No such option: {flag}" in done.stderr or f"No such option '{flag}'" in done.stderr
