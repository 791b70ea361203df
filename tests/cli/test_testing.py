"""``pratique test``: its output, its exit codes, and which cases it runs."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from pratique_cli.options import REVIEW_FORMATS
from support.ci_reports import read_junit, read_sarif
from support.policy_suites import HEAD, case, deployment, write_suite

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

PASSES = case("{allowed: true}", name="three are few")
FAILS = case("{allowed: true}", name="nine are many", manifest=deployment(9))
UNREADABLE = case("{alowed: true}", name="a typing mistake")
UNRUNNABLE = case("{allowed: true}", name="no such kind", manifest="{apiVersion: v1, kind: Pot}")


@pytest.mark.parametrize(
    ("cases", "code"),
    [
        (PASSES, 0),
        (PASSES + FAILS, 1),
        (PASSES + UNRUNNABLE, 2),
        (FAILS + UNRUNNABLE, 2),
        (UNREADABLE + PASSES, 2),
    ],
)
@pytest.mark.parametrize("output", ["text", "json"])
def test_the_exit_code_is_that_of_the_worst_case(
    pratique: Program, tmp_path: Path, cases: str, code: int, output: str
) -> None:
    write_suite(tmp_path, HEAD + cases)
    assert pratique("test", "-o", output, ".").returncode == code


def test_a_problem_is_reported_once_and_the_other_cases_run(pratique: Program, tmp_path: Path) -> None:
    write_suite(tmp_path, f"{HEAD}{PASSES}---\n{HEAD}{UNREADABLE}")
    ran = pratique("test", "-o", "text", ".")
    assert "✓ passed  replicas/three are few  (suite.yaml:7)" in ran.stdout
    (line,) = ran.stderr.splitlines()
    assert line.startswith("pratique: suite.yaml: document 2, line ")
    assert line.endswith('unknown field "cases[0].expect.alowed"; did you mean "allowed"?')
    assert ran.stdout.endswith("1 run, 1 passed, 0 failed, 1 unreadable\n")


def test_a_failed_case_shows_the_line_of_the_expectation(pratique: Program, tmp_path: Path) -> None:
    write_suite(tmp_path, HEAD + FAILS)
    lines = pratique("test", "-o", "text", "--no-coverage", "suite.yaml").stdout.splitlines()
    assert lines[:3] == [
        "✗ failed  replicas/nine are many  (suite.yaml:7)",
        "    → suite.yaml:9  expect.allowed",
        "        expected  the request to be admitted",
    ]
    assert lines[3].startswith("        got       it was denied: 422 Invalid ")
    assert lines[4:] == ["1 run, 0 passed, 1 failed"]


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("few", ["three are few"]),
        ("^replicas/n", ["nine are many"]),
        ("are", ["three are few", "nine are many"]),
    ],
)
def test_cases_are_selected_by_suite_and_name(
    pratique: Program, tmp_path: Path, pattern: str, names: list[str]
) -> None:
    write_suite(tmp_path, HEAD + PASSES + FAILS)
    ran = pratique("test", "-o", "json", "--run", pattern, ".")
    assert [result["name"] for result in json.loads(ran.stdout)["results"]] == names


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--run", "nothing", "."], "no case matches 'nothing'; see --list"),
        (["--run", "a(", "."], "error parsing regexp: missing closing ): `a(`"),
        (["--coverage-threshold", "101", "."], "'101' is not a number from 0 to 100"),
        (["nowhere"], "Path 'nowhere' does not exist"),
        ([], "Missing argument 'PATH...'"),
    ],
)
def test_wrong_usage_runs_nothing(pratique: Program, tmp_path: Path, arguments: list[str], line: str) -> None:
    write_suite(tmp_path, HEAD + PASSES)
    ran = pratique("test", *arguments)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert line in ran.stderr


def test_a_folder_without_suites_ends_with_2(pratique: Program) -> None:
    ran = pratique("test", "-o", "text", ".")
    assert (ran.returncode, ran.stdout) == (2, "0 run, 0 passed, 0 failed, 1 unreadable\n")
    assert ".: holds no suite" in ran.stderr


def test_listing_cases_runs_none(pratique: Program, tmp_path: Path) -> None:
    write_suite(tmp_path, HEAD + PASSES + FAILS)
    ran = pratique("test", "--list", ".")
    assert ran.returncode == 0
    assert ran.stdout == "replicas/three are few  (suite.yaml:7)\nreplicas/nine are many  (suite.yaml:10)\n"


def test_fail_fast_stops_at_the_first_failure(pratique: Program, tmp_path: Path) -> None:
    write_suite(tmp_path, HEAD + FAILS + PASSES)
    ran = pratique("test", "-o", "text", "-x", ".")
    assert ran.returncode == 1
    assert ran.stdout.endswith("1 run, 0 passed, 1 failed, 1 not run\n")


def test_low_coverage_is_reported_and_exits_with_1(pratique: Program, tmp_path: Path) -> None:
    write_suite(tmp_path, HEAD + PASSES)
    ran = pratique("test", "-o", "json", "--fail-under", "50", ".")
    assert ran.returncode == 1
    assert ran.stderr == "pratique: coverage is 33.3 %, but must be at least 50 %\n"
    assert json.loads(ran.stdout)["coverage"]["percent"] == 33.3


@pytest.mark.parametrize("name", REVIEW_FORMATS)
def test_every_format_can_be_written(pratique: Program, tmp_path: Path, name: str) -> None:
    write_suite(tmp_path, HEAD + PASSES + FAILS + UNRUNNABLE)
    ran = pratique("test", "-o", name, ".")
    assert ran.returncode == 2
    assert "nine are many" in ran.stdout
    assert "no such kind" in ran.stdout


def test_json_has_results_problems_and_coverage(pratique: Program, tmp_path: Path) -> None:
    write_suite(tmp_path, HEAD + PASSES + FAILS + UNREADABLE.replace("alowed: true", "message: '('"))
    report = json.loads(pratique("test", "-o", "json", ".").stdout)
    assert report.keys() == {"results", "problems", "summary", "coverage"}
    passed, failed = report["results"]
    assert (passed["outcome"], passed["mismatches"], passed["decision"]) == ("passed", [], None)
    (mismatch,) = failed["mismatches"]
    assert (mismatch["member"], mismatch["line"], mismatch["column"]) == ("expect.allowed", 12, 12)
    assert failed["decision"]["allowed"] is False
    assert [(problem["line"], problem["file"]) for problem in report["problems"]] == [(15, "suite.yaml")]
    summary = {"passed": 1, "failed": 1, "unreadable": 1, "undecided": 0, "notRun": 0}
    assert report["summary"] == summary
    assert {entry["kind"] for entry in report["coverage"]["entries"]} == {
        "MutatingAdmissionPolicy",
        "MutatingAdmissionPolicyBinding",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "validation",
    }


def test_json_is_well_formed_without_any_case(pratique: Program) -> None:
    report = json.loads(pratique("test", "-o", "json", ".").stdout)
    assert report["results"] == []
    assert len(report["problems"]) == 1


def test_jsonl_has_a_line_for_each_case_and_a_summary(pratique: Program, tmp_path: Path) -> None:
    write_suite(tmp_path, HEAD + PASSES + FAILS)
    *cases, last = map(json.loads, pratique("test", "-o", "jsonl", ".").stdout.splitlines())
    assert [item["outcome"] for item in cases] == ["passed", "failed"]
    assert last.keys() == {"summary", "problems", "coverage"}


def test_junit_has_a_suite_for_each_file(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    write_suite(tmp_path, HEAD + PASSES + FAILS + UNRUNNABLE)
    write_suite(tmp_path / "other", HEAD + PASSES)
    first, second = read_junit(pratique("test", "-o", "junit", ".").stdout)
    # Files and folders come in the order of their names, as with kubectl.
    assert (first.name, first.tests, first.failures, first.errors) == ("other/suite.yaml", 1, 0, 0)
    assert (second.name, second.tests, second.failures, second.errors) == ("suite.yaml", 3, 1, 1)
    assert [item.classname for item in second] == ["replicas"] * 3


def test_sarif_has_a_result_for_each_mismatch(pratique: Program, tmp_path: Path) -> None:
    write_suite(tmp_path, HEAD + PASSES + FAILS + UNRUNNABLE)
    run = read_sarif(pratique("test", "-o", "sarif", ".").stdout)
    (result,) = run["results"]
    assert result["ruleId"] == "replicas/nine are many"
    place = result["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "suite.yaml"
    assert place["region"] == {"startLine": 12, "startColumn": 12}
    (invocation,) = run["invocations"]
    assert not invocation["executionSuccessful"]
    assert len(invocation["toolExecutionNotifications"]) == 1


def test_github_shows_failures_and_what_is_not_covered(pratique: Program, tmp_path: Path) -> None:
    write_suite(tmp_path, HEAD + FAILS)
    lines = pratique("test", "-o", "github", ".").stdout.splitlines()
    assert lines[0].startswith(
        "::error file=suite.yaml,line=9,col=12,title=replicas/nine are many::expect.allowed"
    )
    title = "not covered%3A validation replicas validations[1]"
    place = "file=policies.yaml,line=10,col=5"
    assert lines[1:] == [f"::notice {place},title={title}::it matches cases, but has no effect in any"]


def test_a_terminal_shows_colours(on_terminal: Callable[..., str], tmp_path: Path) -> None:
    write_suite(tmp_path, HEAD + PASSES)
    assert "\x1b[32m\x1b[1m✓ passed\x1b[0m" in on_terminal("test", ".")
    assert "\x1b" not in on_terminal("test", "--no-color", ".")


def test_hostile_names_cannot_control_the_terminal(pratique: Program, tmp_path: Path) -> None:
    write_suite(tmp_path, HEAD + PASSES.replace("three are few", '"\\e[31mred"'))
    assert "replicas/\\x1b[31mred" in pratique("test", "-o", "text", ".").stdout


def test_progress_is_shown_on_a_terminal(errors_on_terminal: Callable[..., str], tmp_path: Path) -> None:
    write_suite(tmp_path, HEAD + FAILS)
    assert "1 run, 1 failed" in errors_on_terminal("test", ".")


def test_suites_can_lie_beside_policies_and_cluster_files(pratique: Program, tmp_path: Path) -> None:
    namespace = "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"
    for folder in ("cluster", "policies"):
        (tmp_path / folder).mkdir()
    write_suite(tmp_path / "policies", HEAD.replace("[policies.yaml]", "[.]\ncluster: [../cluster]") + PASSES)
    (tmp_path / "cluster" / "suite.yaml").write_text(HEAD + PASSES.replace("few", "fewer") + namespace)
    assert pratique("test", "policies/suite.yaml").returncode == 0
    assert pratique("check", "policies").returncode == 0
