"""The console's views of 10,000 decisions: the first time that each is asked for, and later."""

from __future__ import annotations

import contextlib
import http.client
import json
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from measures import REVIEW, Effort, Figures, Section, tell

from processes import process

DECISIONS = 10_000
FIRST, LATER = "first", "later"
"""The first answer reads what the view is about; later ones may have kept it."""
_SECONDS = 900
"""How long a replay of all decisions may take before measuring it has failed: forty times as long as on two cores."""
_KEPT_SECONDS = 1.0
"""How long a front door keeps the state that it shows, so that asking sooner would measure nothing."""
_POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: names}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  validations: [{expression: "!object.metadata.name.endsWith('7')", message: "ends with 7"}]
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: names}
spec: {policyName: names, validationActions: [Deny]}
"""
"""Denies a tenth of the Pods."""


def measure_consoles(effort: Effort) -> Section:
    """Wall seconds of each view, by ``first`` and ``later``."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recording, policy = folder / "reviews.jsonl", folder / "policies.yaml"
        policy.write_text(_POLICY)
        flags = (
            "--admission-control",
            "NamespaceLifecycle,DefaultTolerationSeconds,ValidatingAdmissionPolicy",
        )
        recorded = ("--console", "--record", str(recording), "--record-max-bytes", "1GiB")
        tell(f"console, {DECISIONS:,} decisions")
        with _connected(
            "serve", "all", "--port", "0", *flags, "--config", str(policy), *recorded
        ) as front_door:
            _decide(front_door)
            live = ("/console/", "/console/state", f"/console/decisions/{DECISIONS}")
            section = _timed(front_door, effort, *live, pause=_KEPT_SECONDS)
        with _connected("console", "--port", "0", "--record", str(recording)) as console:
            last = f"/recording?page={DECISIONS // 50}"
            section |= _timed(console, effort, "/recording", last, f"/recording/{DECISIONS // 2}")
            _replay(console)
            return section | _timed(console, effort, "/replay", "/replay/state")


@contextlib.contextmanager
def _connected(*arguments: str) -> Iterator[http.client.HTTPConnection]:
    with process("-m", "pratique_cli", *arguments) as (_, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        try:
            yield connection
        finally:
            connection.close()


def _decide(front_door: http.client.HTTPConnection) -> None:
    """Have it decide Pods of different names, which it records."""
    review = json.loads(REVIEW.read_text())
    for number in range(DECISIONS):
        review["request"]["uid"] = f"{number}"
        review["request"]["name"] = review["request"]["object"]["metadata"]["name"] = f"web-{number}"
        _ask(front_door, "/admit", json.dumps(review))


def _replay(console: http.client.HTTPConnection) -> None:
    """Begin a replay, and wait for its end."""
    _ask(console, "/replay", "")
    waited_until = time.monotonic() + _SECONDS
    while _ask(console, "/replay/state").headers["Replay-Status"] == "running":
        if time.monotonic() > waited_until:
            raise RuntimeError(f"a replay of {DECISIONS:,} decisions takes more than {_SECONDS} s")
        time.sleep(0.5)


def _timed(
    connection: http.client.HTTPConnection, effort: Effort, *views: str, pause: float = 0.0
) -> Section:
    return {view: _times(connection, view, 1 + 2 * effort.rounds, pause) for view in views}


def _times(connection: http.client.HTTPConnection, view: str, count: int, pause: float) -> dict[str, Figures]:
    first, *later = (_seconds(connection, view, pause) for _ in range(count))
    return {FIRST: {"p50": first}, LATER: {"p50": statistics.median(later)}}


def _seconds(connection: http.client.HTTPConnection, view: str, pause: float) -> float:
    time.sleep(pause)
    begun = time.perf_counter()
    _ask(connection, view)
    return time.perf_counter() - begun


def _ask(
    connection: http.client.HTTPConnection, path: str, body: str | None = None
) -> http.client.HTTPResponse:
    """Read an answer whole.

    Raises:
        RuntimeError: it is not one of success.
    """
    headers = {"Content-Type": "application/json", "Origin": f"http://127.0.0.1:{connection.port}"}
    connection.request("GET" if body is None else "POST", path, body, headers)
    response = connection.getresponse()
    response.read()
    if response.status != http.client.OK:
        raise RuntimeError(f"{path} was answered with {response.status}")
    return response
