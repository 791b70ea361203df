"""Front doors that are replaced break no client's connection, and configurations that change fail no review."""

from __future__ import annotations

import concurrent.futures
import contextlib
import http.client
import itertools
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.front_doors.reviews import review_body
from support.front_doors.running import JSON_TYPE, DoorProcess, exchange, open_door_process
from support.local_stacks import running

CLIENTS = 25
LAG_SECONDS = 0.3
"""How long clients still connect to a stopping front door, as kube-proxy does."""
DRAIN_SECONDS = 3
"""Far longer than that, and than any client of a busy machine takes from one request to the next."""


class Doors:
    """Two front doors, and which of them new connections go to."""

    def __init__(self, stack: contextlib.ExitStack) -> None:
        self._stack = stack
        self.known: list[DoorProcess] = []

    def start(self) -> None:
        door = self._stack.enter_context(open_door_process("AllowingEngine", drain_seconds=DRAIN_SECONDS))
        self.known = [*self.known, door]

    def replace(self) -> int:
        """Start another front door, stop the oldest as Kubernetes does, and return its exit code."""
        self.start()
        leaving = self.known[0]
        leaving.process.terminate()
        time.sleep(LAG_SECONDS)
        self.known = self.known[1:]
        code, _ = leaving.wait()
        return code


def keep_asking(doors: Doors, end: threading.Event) -> tuple[int, list[str]]:
    """Send requests on one connection after another, each used as long as possible; return answers and errors."""
    answers, errors = 0, []
    choice = itertools.count()
    while not end.is_set():
        known = doors.known
        with contextlib.closing(known[next(choice) % len(known)].door.connect()) as connection:
            for _ in range(200):
                try:
                    answer = exchange(connection, "POST", "/validate", review_body(), JSON_TYPE)
                except (OSError, http.client.HTTPException) as error:
                    errors.append(type(error).__name__)
                    break
                answers += answer.code == 200
                if answer.headers["Connection"] == "close" or end.is_set():
                    break
                time.sleep(0.1)
    return answers, errors


@pytest.mark.parametrize("restarts", [2, pytest.param(20, marks=pytest.mark.long)])
def test_clients_with_open_connections_notice_no_restart(restarts: int) -> None:
    end = threading.Event()
    with contextlib.ExitStack() as stack, concurrent.futures.ThreadPoolExecutor(CLIENTS) as pool:
        doors = Doors(stack)
        doors.start()
        doors.start()
        stack.callback(end.set)
        asking = [pool.submit(keep_asking, doors, end) for _ in range(CLIENTS)]
        codes = [doors.replace() for _ in range(restarts)]
        end.set()
        results = [item.result() for item in asking]
    answers = sum(result[0] for result in results)
    print(f"{answers} answers over {restarts} restarts")  # noqa: T201 - the figure
    assert codes == [0] * restarts
    assert [error for _, errors in results for error in errors] == []
    assert answers > CLIENTS


POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {{name: tests}}
spec:
  matchConstraints:
    resourceRules: [{{operations: ["*"], apiGroups: [""], apiVersions: ["*"], resources: [pods]}}]
  validations: [{{expression: "true || {number} == 0"}}]
  auditAnnotations: [{{key: number, valueExpression: "'{number}'"}}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {{name: tests}}
spec: {{policyName: tests, validationActions: [Deny]}}
"""
REVIEW = json.loads((Path(__file__).parents[2] / "bench" / "review.json").read_text())


@contextlib.contextmanager
def swapping(file: Path) -> Iterator[None]:
    """Change a configuration again and again, once in a while to one that cannot be used."""
    end = threading.Event()

    def swap() -> None:
        for number in itertools.count(1):
            fresh = file.with_suffix(".new")
            fresh.write_text("kind: Nonsense" if number % 5 == 0 else POLICY.format(number=number))
            fresh.rename(file)
            if end.wait(0.3):
                return

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        yield
    finally:
        end.set()
        thread.join()


@pytest.mark.parametrize("reviews", [300, pytest.param(2_000, marks=pytest.mark.long)])
def test_reviews_are_answered_while_configurations_change(tmp_path: Path, reviews: int) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(POLICY.format(number=0))
    callers = 4
    flags = ("--validators", "2", "--config", str(file), "--admission-control", "ValidatingAdmissionPolicy")
    with running(*flags) as stack, concurrent.futures.ThreadPoolExecutor(callers) as pool:

        def ask(_: int) -> set[str]:
            seen: set[str] = set()
            with contextlib.closing(stack.connect()) as connection:
                for asked in itertools.count(1):
                    response = stack.post("/validate", REVIEW, connection)["response"]
                    assert response["allowed"], response
                    seen.update(response.get("auditAnnotations", {}).values())
                    if asked >= reviews // callers and len(seen) > 1:
                        break
                    time.sleep(0.01)
            return seen

        with swapping(file):
            seen = set().union(*pool.map(ask, range(callers)))
    print(f"{reviews} reviews over {len(seen)} configurations")  # noqa: T201 - the figure
    assert len(seen) > 1
