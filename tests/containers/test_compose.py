"""The stack of compose.yaml, as it is run: three validators, one ledger, and what happens when one of them dies.

Skipped, and said so, where no Docker engine or Compose 2 is there, or one of the two images is not.
"""

from __future__ import annotations

import contextlib
import dataclasses
import http.client
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.docker_engine import IMAGE, LEDGER_IMAGE, compose, why_not
from support.free_ports import free_port

COMPOSE_FILE = Path(__file__).parents[2] / "compose.yaml"
VALIDATORS, CALLERS, HARD = 3, 8, 100
SHOPS = ("tried", "killed", "stopped")
"""A namespace for each test that charges, with a quota of its own."""

NO_COMPOSE = "no Compose 2.20 is installed; make compose builds one"
WHY_NOT = why_not(IMAGE, LEDGER_IMAGE) or ("" if compose() else NO_COMPOSE)
pytestmark = [
    pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "there is all it needs"),
]


@dataclasses.dataclass(frozen=True, slots=True)
class Composed:
    """A project of ``docker compose``, and the port of its front door."""

    port: int
    environment: dict[str, str]

    def compose(self, *words: str) -> str:
        """Run a command of compose, and give what it prints."""
        command = [
            *compose(),
            "--project-name",
            "pratique-test",
            "--file",
            str(COMPOSE_FILE),
            *words,
        ]
        done = subprocess.run(
            command,
            env=self.environment,
            text=True,
            capture_output=True,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def up(self) -> None:
        self.compose("up", "--detach", "--wait", "--no-build", "--scale", f"validator={VALIDATORS}")

    def containers(self, service: str) -> list[dict[str, Any]]:
        """What the engine knows of a service's containers."""
        names = self.compose("ps", "--all", "--quiet", service).split()
        found: list[dict[str, Any]] = json.loads(docker("inspect", *names))
        return found

    def used(self, shop: str) -> int:
        """How many Pods the ledger has for a namespace."""
        query = f"select used from pratique_quota_accounts where namespace = '{shop}'"
        psql = ("exec", "-T", "ledger", "psql", "-U", "pratique", "-Atc", query)
        _checksum, brace, usage = self.compose(*psql).partition("{")
        return int(json.loads(brace + usage)["pods"])


def docker(*words: str) -> str:
    return subprocess.run(["docker", *words], text=True, stdout=subprocess.PIPE, check=True).stdout


def quota(shop: str, hard: int) -> dict[str, Any]:
    metadata = {"name": "quota", "namespace": shop, "uid": f"quota-of-{shop}"}
    return {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": metadata,
        "spec": {"hard": {"pods": str(hard)}},
    }


@pytest.fixture(name="stack", scope="module")
def _stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Composed]:
    cluster = tmp_path_factory.mktemp("cluster")
    cluster.chmod(0o755)  # who reads it in the container is nobody
    for shop in SHOPS:
        hard = 10**6 if shop == "stopped" else HARD
        (cluster / f"{shop}.json").write_text(json.dumps(quota(shop, hard)))
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PRATIQUE_")}
    port = free_port()
    own = {
        "PORT": str(port),
        "IMAGE": IMAGE,
        "LEDGER_IMAGE": LEDGER_IMAGE,
        "PRATIQUE_CLUSTER": str(cluster),
        "PRATIQUE_ADMISSION_CONTROL": "ResourceQuota",
        # no cluster learns what was admitted here, so that reconciliation would take it for refused elsewhere
        "PRATIQUE_RESOURCE_QUOTA_SYNC_PERIOD": "1h",
    }
    stack = Composed(port, inherited | own)
    try:
        stack.up()
        yield stack
    finally:
        stack.compose("down", "--volumes", "--timeout", "1")


def create(shop: str, name: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": shop, "uid": f"uid-of-{name}"}
    request = {
        "uid": f"create-{name}",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "name": name,
        "namespace": shop,
        "object": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {"containers": [{"name": "app", "image": "app:1"}]},
        },
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def call(port: int, shop: str, names: list[str], answers: dict[str, bool]) -> None:
    """Ask for Pods, one after the other, until the front door is gone."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    with contextlib.closing(connection), contextlib.suppress(OSError, http.client.HTTPException):
        for name in names:
            content = json.dumps(create(shop, name))
            connection.request("POST", "/admit", content, {"Content-Type": "application/json"})
            with connection.getresponse() as answer:
                answers[name] = json.loads(answer.read())["response"]["allowed"]


def call_all(
    port: int, shop: str, answers: dict[str, bool], creates: int = 3 * HARD
) -> list[threading.Thread]:
    """Begin to ask for Pods from many sides."""
    names = [f"{shop}-{number}" for number in range(creates)]
    callers = [
        threading.Thread(target=call, args=(port, shop, names[first::CALLERS], answers))
        for first in range(CALLERS)
    ]
    for caller in callers:
        caller.start()
    return callers


def wait_for(answers: dict[str, bool], number: int) -> None:
    until = time.monotonic() + 120
    while len(answers) < number:
        assert time.monotonic() < until, f"{len(answers)} answers"
        time.sleep(0.01)


def test_three_validators_admit_exactly_what_the_quota_has(stack: Composed) -> None:
    answers: dict[str, bool] = {}
    for caller in call_all(stack.port, "tried", answers):
        caller.join()
    assert len(answers) == 3 * HARD
    assert (sum(answers.values()), stack.used("tried")) == (HARD, HARD)


def test_every_validator_has_charged(stack: Composed) -> None:
    """Each has connections to the ledger, which it makes with its first charge."""
    query = "select count(distinct client_addr) from pg_stat_activity where datname = 'pratique'"
    assert stack.compose("exec", "-T", "ledger", "psql", "-U", "pratique", "-Atc", query).split() == [
        str(VALIDATORS)
    ]


def test_a_validator_killed_under_load_loses_nothing_and_lets_nothing_through(stack: Composed) -> None:
    answers: dict[str, bool] = {}
    callers = call_all(stack.port, "killed", answers)
    wait_for(answers, HARD // 2)
    docker("kill", "--signal", "KILL", stack.containers("validator")[0]["Id"])
    for caller in callers:
        caller.join()
    stack.up()
    assert len(answers) == 3 * HARD
    assert (sum(answers.values()), stack.used("killed")) == (HARD, HARD)


@pytest.mark.parametrize("service", ["frontdoor", "mutator", "validator", "ledger"])
def test_a_process_is_nobody_who_may_do_nothing(stack: Composed, service: str) -> None:
    text = stack.compose("exec", "-T", service, "cat", "/proc/1/status")
    status = dict(line.split(":\t", 1) for line in text.splitlines() if ":\t" in line)
    assert "0" not in status["Uid"].split()
    assert {status[name] for name in ("CapPrm", "CapEff", "CapBnd")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    root = stack.compose("exec", "-T", service, "cat", "/proc/1/mounts").splitlines()[0].split()
    assert root[1] == "/"
    assert "ro" in root[3].split(",")


@pytest.mark.parametrize(
    ("service", "finds"), [("frontdoor", "False"), ("mutator", "False"), ("validator", "True")]
)
def test_only_validators_find_the_ledger(stack: Composed, service: str, finds: str) -> None:
    find = "import socket\ntry: print(bool(socket.gethostbyname('ledger')))\nexcept OSError: print(False)"
    assert stack.compose("exec", "-T", service, "python", "-c", find).split() == [finds]


def test_a_stack_that_is_stopped_under_load_has_answered_all_that_it_charged(stack: Composed) -> None:
    answers: dict[str, bool] = {}
    callers = call_all(stack.port, "stopped", answers, 20_000)
    wait_for(answers, HARD)
    stack.compose("stop")
    for caller in callers:
        caller.join()
    assert all(answers.values())
    codes = {
        each["State"]["ExitCode"]
        for service in ("frontdoor", "mutator", "validator", "ledger")
        for each in stack.containers(service)
    }
    assert codes == {0}
    stack.compose("up", "--detach", "--wait", "--no-build", "ledger")
    assert stack.used("stopped") == len(answers)
