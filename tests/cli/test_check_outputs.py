"""``pratique check -o``: every finding with its place, in the formats that CI reads."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import jsonschema
import junitparser
import pytest
import yaml

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

SLOW = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: a.example.com
  clientConfig: {url: "https://hooks.example.com"}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [services]}]
  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}
  timeoutSeconds: 29
  sideEffects: None
  admissionReviewVersions: [v1]
"""
INVALID = SLOW.replace("timeoutSeconds: 29", "timeoutSeconds: 31")
SCHEMA = Path(__file__).parents[1] / "data" / "sarif" / "sarif-2.1.0-rtm.5.json"
RULES = ("--rules", "timeout-too-long")


@pytest.fixture(name="check")
def _check(pratique: Program, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    (tmp_path / "hooks.yaml").write_text(SLOW)
    (tmp_path / "invalid.yaml").write_text(INVALID)

    def run(output: str, file: str = "hooks.yaml", *flags: str) -> subprocess.CompletedProcess[str]:
        return pratique("check", "-o", output, *RULES, *flags, file)

    return run


def test_messages_do_not_say_again_where_it_is(check: Program) -> None:
    ran = check("json", "invalid.yaml")
    (found,) = json.loads(ran.stdout)
    assert (ran.returncode, found["file"], found["line"]) == (2, "invalid.yaml", 9)
    assert found["message"].startswith('ValidatingWebhookConfiguration "hooks": ')


def parsed(output: str, text: str) -> Any:
    if output == "jsonl":
        return [json.loads(line) for line in text.splitlines()]
    return json.loads(text) if output == "json" else yaml.safe_load(text)


@pytest.mark.parametrize("output", ["json", "jsonl", "yaml"])
def test_documents_have_file_line_rule_and_fix(check: Program, output: str) -> None:
    ran = check(output)
    assert (ran.returncode, ran.stderr) == (0, "")
    (found,) = parsed(output, ran.stdout)
    assert (found["level"], found["rule"], found["file"]) == ("warning", "timeout-too-long", "hooks.yaml")
    assert found["line"] == 1 + SLOW[: SLOW.index("timeoutSeconds")].count("\n")
    assert found["fix"]
    assert 'webhook "a.example.com"' in found["subject"]


@pytest.mark.parametrize("output", ["json", "table", "junit", "sarif", "github"])
def test_what_an_api_server_would_refuse_is_in_every_format(check: Program, output: str) -> None:
    ran = check(output, "invalid.yaml")
    assert (ran.returncode, ran.stderr) == (2, "")
    assert "the timeout value must be between 1 and 30 seconds" in ran.stdout
    assert "invalid.yaml" in ran.stdout


@pytest.mark.parametrize("file", ["hooks.yaml", "invalid.yaml"])
def test_sarif_is_a_log_whose_results_all_have_a_place(check: Program, file: str) -> None:
    log = json.loads(check("sarif", file).stdout)
    jsonschema.Draft7Validator(json.loads(SCHEMA.read_text())).validate(log)
    (result,) = log["runs"][0]["results"]
    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == file
    assert result["locations"][0]["physicalLocation"]["region"]["startLine"] > 1


def test_github_shows_a_warning_at_its_line(check: Program) -> None:
    (line,) = check("github").stdout.splitlines()
    assert line.startswith("::warning file=hooks.yaml,line=9,col=3,title=timeout-too-long::")


def test_junit_has_a_failed_case_or_one_that_passes(check: Program) -> None:
    (bad,) = junitparser.JUnitXml.fromstring(check("junit").stdout)
    assert [case.name.partition(":")[0] for case in bad] == ["timeout-too-long"]
    assert bad.failures == 1
    (good,) = junitparser.JUnitXml.fromstring(
        check("junit", "hooks.yaml", "--disable-rules", RULES[1]).stdout
    )
    assert (good.failures, good.tests) == (0, 1)


@pytest.mark.parametrize("output", ["json", "sarif"])
def test_strict_exits_alike_in_every_format(check: Program, output: str) -> None:
    assert check(output, "hooks.yaml", "--strict").returncode == 1
