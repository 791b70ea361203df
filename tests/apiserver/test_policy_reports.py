"""The reports of ``pratique review -o policyreport`` in an API server: it takes them, and again after the next run."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.api_servers import ApiServer
from support.forked_commands import PROGRAM, run

DEFINITIONS = Path(__file__).parents[1] / "data" / "policy_reports"
NAMESPACE = "reports"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: bad, namespace: reports}
spec:
  hostNetwork: true
  containers: [{name: a, image: "a:1"}]
---
apiVersion: v1
kind: Namespace
metadata: {name: reports}
"""


@pytest.fixture(name="defined", scope="module")
def _defined(api_server: ApiServer) -> Iterator[ApiServer]:
    api_server.create_namespace(NAMESPACE)
    files = [word for file in sorted(DEFINITIONS.glob("*.yaml")) for word in ("-f", str(file))]
    assert api_server.kubectl("apply", "--server-side", *files).returncode == 0
    waited = api_server.kubectl("wait", "--for=condition=Established", "--timeout=60s", *files)
    assert waited.returncode == 0, waited.stderr
    yield api_server
    api_server.kubectl("delete", *files)


@pytest.mark.parametrize(("output", "kind"), [("policyreport", "policyreports"), ("openreports", "reports")])
def test_an_api_server_takes_the_reports(defined: ApiServer, output: str, kind: str) -> None:
    command = [PROGRAM, "review", "--pod-security", "baseline", "-o", output, "-"]
    for text in (POD, POD.replace("hostNetwork: true", "hostNetwork: false")):
        ran = run(command, input=text)
        applied = defined.kubectl("apply", "--server-side", "--validate=strict", "-f", "-", stdin=ran.stdout)
        assert (applied.returncode, applied.stdout.count("serverside-applied")) == (0, 2), applied.stderr
        group = "wgpolicyk8s.io" if output == "policyreport" else "openreports.io"
        got = defined.kubectl("get", f"{kind}.{group}", "pratique", "-n", NAMESPACE, "-o", "json")
        stored = json.loads(got.stdout)
        expected = "fail" if ran.returncode else "pass"
        assert stored["summary"][expected] == 1
        assert [result["result"] for result in stored["results"]] == [expected]
