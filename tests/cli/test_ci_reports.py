"""Reports for CI systems on other people's manifests, read by the libraries that consumers use."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from support.ci_reports import read_junit, read_sarif

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"
Run: TypeAlias = "Callable[[str], subprocess.CompletedProcess[str]]"

MANIFESTS = Path(__file__).parents[1] / "data" / "manifests"


@pytest.fixture
def review(pratique: Program, tmp_path: Path) -> Run:
    """Review all manifests in a cluster whose default namespace is restricted, in a format."""
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default", "labels": labels}}
    account = {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": "default"},
    }
    cluster = [namespace, account]
    (tmp_path / "cluster.yaml").write_text(yaml.safe_dump_all(cluster))
    return lambda name: pratique("review", "--cluster", "cluster.yaml", "-o", name, MANIFESTS)


def denials(decision: dict[str, Any]) -> int:
    return sum(not item["allowed"] for item in (decision, *decision["expanded"]))


def test_every_document_is_a_junit_case(review: Run) -> None:
    decisions = [json.loads(line) for line in review("jsonl").stdout.splitlines()]
    ran = review("junit")
    report = read_junit(ran.stdout)
    files = sorted({case.classname for suite in report for case in suite})
    unread = [
        case for suite in report for case in suite if case.result and case.result[0].type == "unreadable"
    ]
    denied = [case for suite in report for case in suite if case.is_failure]
    assert files == [str(path) for path in sorted(MANIFESTS.glob("*.yaml"))]
    assert sum(suite.tests for suite in report) == len(decisions) + len(unread)
    problems = [line for line in ran.stderr.splitlines() if not line.startswith("pratique: note: ")]
    assert len(unread) == len(problems) == sum(suite.errors for suite in report)
    assert (
        len(denied)
        == sum(denials(decision) > 0 for decision in decisions)
        == sum(s.failures for s in report)
        > 10
    )
    assert {case.name for case in denied} >= {"Deployment default/frontend", "Deployment default/cartservice"}


def test_a_failure_gives_location_and_reason(review: Run) -> None:
    report = read_junit(review("junit").stdout)
    (case,) = [case for suite in report for case in suite if case.name == "Deployment default/frontend"]
    (failure,) = case.result
    assert failure.type == "Forbidden"
    assert failure.message.startswith(
        'pods is forbidden: violates PodSecurity "restricted:latest": seccompProfile'
    )
    (place,) = re.findall(r"^(\S+):(\d+): PodSecurity: ", failure.text)
    file, line = place
    assert file == str(MANIFESTS / "online-boutique.yaml")
    assert "securityContext:" in Path(file).read_text().splitlines()[int(line) - 1]


def test_every_denial_is_a_valid_sarif_result(review: Run) -> None:
    decisions = [json.loads(line) for line in review("jsonl").stdout.splitlines()]
    run = read_sarif(review("sarif").stdout)
    results = [result for result in run["results"] if result["level"] == "error"]
    assert len(results) >= sum(map(denials, decisions)) > 10
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert {"PodSecurity"} <= {rules[item["ruleIndex"]] for item in results}
    assert not run["invocations"][0]["executionSuccessful"]


@pytest.mark.parametrize("wrong", [{"level": "fatal"}, {"place": 3}, {"message": {}}, {"ruleIndex": "0"}])
def test_the_schema_rejects_an_invalid_log(review: Run, wrong: dict[str, Any]) -> None:
    log = json.loads(review("sarif").stdout)
    log["runs"][0]["results"][0] |= wrong
    with pytest.raises(AssertionError):
        read_sarif(json.dumps(log))


def test_the_catalogue_can_be_written_as_a_report(pratique: Program) -> None:
    names = [item["name"] for item in json.loads(pratique("plugins", "-o", "json").stdout)]
    (suite,) = read_junit(pratique("plugins", "-o", "junit").stdout)
    assert [case.name for case in suite] == names
    assert all(case.is_passed and case.system_out for case in suite)
    run = read_sarif(pratique("plugins", "-o", "sarif").stdout)
    assert [rule["id"] for rule in run["tool"]["driver"]["rules"]] == names
    reported = pratique("plugins", "-o", "github").stdout.splitlines()
    assert [line.removeprefix("::notice title=").partition("::")[0] for line in reported] == names
