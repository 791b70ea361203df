"""``pratique prove``: the six examples of Kubernetes' good practices, its flags and its output."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from pratique_cli.main import main
from support.controller_packages import lay_out

Pratique: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

EXAMPLE = Path(__file__).parents[2] / "examples" / "06-prove"
GOOD, BAD = EXAMPLE / "good" / "policies.yaml", EXAMPLE / "bad" / "policies.yaml"
ENTRY_POINTS = tomllib.loads((EXAMPLE / "pyproject.toml").read_text())["project"]["entry-points"]
IDEMPOTENT = ("RunAsNonRoot", "DefaultLimits", "SidecarOnce")
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "web"}]},
}
GIVEN = (EXAMPLE / "good" / "pod.yaml", "--examples", 0)
"""One object, and no generated ones, because importing the generator takes time."""
POLICIES = "--admission-control=MutatingAdmissionPolicy,ValidatingAdmissionPolicy"


@pytest.fixture
def packages(tmp_path: Path) -> str:
    """Where the example's package is installed."""
    targets = ENTRY_POINTS["pratique.controllers"]
    names = {name: target.partition(":")[2] for name, target in targets.items()}
    code = (EXAMPLE / "sidecar_mutators.py").read_text()
    return str(lay_out(tmp_path / "packages", "sidecar_mutators", code, **names))


def report_of(ran: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert ran.stderr == ""
    report: dict[str, Any] = json.loads(ran.stdout)
    return report


@pytest.mark.parametrize("name", IDEMPOTENT)
def test_an_idempotent_mutator_passes(pratique: Pratique, packages: str, name: str) -> None:
    ran = pratique("prove", "-o", "jsonl", "--admission-control", name, "--examples", 20, PYTHONPATH=packages)
    report = report_of(ran)
    (mutator,) = report["mutators"]
    assert (ran.returncode, report["holds"], report["findings"]) == (0, True, [])
    assert (mutator["idempotent"], mutator["deterministic"]) == (True, True)
    assert mutator["acted"] > 0


@pytest.mark.parametrize(
    ("name", "defects"),
    [
        ("SidecarByTime", {"notIdempotent", "notDeterministic"}),
        ("EnvOrNothing", {"refusesOwnOutput"}),
        ("SidecarBlindly", {"notIdempotent"}),
    ],
)
def test_a_mutator_that_is_not_idempotent_is_found(
    pratique: Pratique, packages: str, name: str, defects: set[str]
) -> None:
    ran = pratique("prove", "-o", "jsonl", "--admission-control", name, "--examples", 10, PYTHONPATH=packages)
    report = report_of(ran)
    assert (ran.returncode, report["holds"]) == (1, False)
    assert {finding["defect"] for finding in report["findings"]} == defects
    smallest = {"name": "made"}, {"containers": [{"name": "a"}]}
    assert all(
        (item["object"]["metadata"], item["object"]["spec"]) == smallest for item in report["findings"]
    )


def test_cel_policies_are_checked_in_the_same_way(pratique: Pratique) -> None:
    assert pratique("prove", "-o", "jsonl", POLICIES, GOOD, "--examples", 20).returncode == 0
    ran = pratique("prove", "-o", "jsonl", POLICIES, BAD, "--examples", 5)
    assert ran.returncode == 1
    (finding,) = report_of(ran)["findings"]
    assert finding["mutators"] == [
        {"controller": "MutatingAdmissionPolicy", "name": "sidecar-blindly", "configuration": "everywhere"}
    ]
    assert (finding["defect"], finding["growth"]) == ("notIdempotent", True)


def test_the_written_suite_fails(pratique: Pratique, tmp_path: Path) -> None:
    ran = pratique("prove", POLICIES, BAD, *GIVEN, "--write", "found.yaml")
    assert ran.returncode == 1
    failing = pratique("test", "-o", "text", "found.yaml")
    assert failing.returncode == 1, failing.stderr
    assert "expect.fixedPoint" in failing.stdout
    suite = yaml.safe_load((tmp_path / "found.yaml").read_text())
    suite["config"] = [str(GOOD)]
    (tmp_path / "found.yaml").write_text(yaml.safe_dump(suite))
    mended = pratique("test", "-o", "text", "found.yaml")
    assert mended.returncode == 0, mended.stdout


def test_the_written_suite_keeps_the_chain(pratique: Pratique, packages: str) -> None:
    flags = ("--admission-control", "EnvOrNothing,SidecarBlindly")
    pratique("prove", *flags, *GIVEN, "--write", "found.yaml", PYTHONPATH=packages)
    failing = pratique("test", "-o", "text", "found.yaml", PYTHONPATH=packages)
    assert failing.returncode == 1, failing.stderr
    assert "2 failed" in failing.stdout


def test_without_findings_no_suite_is_written(pratique: Pratique, tmp_path: Path) -> None:
    ran = pratique("prove", POLICIES, GOOD, *GIVEN, "--write", "found.yaml")
    assert ran.returncode == 0
    assert ran.stderr == "pratique: no finding can be written as a test; found.yaml is not written\n"
    assert not (tmp_path / "found.yaml").exists()


def test_a_folder_can_hold_policies_manifests_and_suites(pratique: Pratique, tmp_path: Path) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    (folder / "policies.yaml").write_text(BAD.read_text())
    (folder / "pod.json").write_text(json.dumps(POD))
    pratique("prove", "-o", "jsonl", POLICIES, "all", "--examples", 0, "--write", "all/suite.yaml")
    report = report_of(pratique("prove", "-o", "jsonl", POLICIES, "all", "--examples", 0))
    assert report["objects"] == {"tried": 1, "given": 1, "generated": {}, "refused": 0}
    assert report["findings"][0]["given"] == {"file": "all/pod.json", "line": 1}


def test_a_recorded_review_is_run_as_recorded(pratique: Pratique) -> None:
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "resource": {"group": "", "version": "v1", "resource": "pods"},
            "operation": "UPDATE",
            "name": "web",
            "namespace": "shop",
            "userInfo": {"username": "jane"},
            "object": POD | {"metadata": {"name": "web", "namespace": "shop"}},
            "oldObject": POD | {"metadata": {"name": "web", "namespace": "shop"}},
        },
    }
    ran = pratique("prove", "-o", "jsonl", POLICIES, BAD, "-", "--examples", 0, stdin=json.dumps(review))
    assert report_of(ran)["holds"]  # the policy is for those that are created
    assert report_of(ran)["mutators"][0]["acted"] == 0


@pytest.mark.parametrize("output", ["text", "json", "jsonl", "yaml"])
def test_every_format_reports_the_findings(pratique: Pratique, output: str) -> None:
    ran = pratique("prove", POLICIES, BAD, *GIVEN, "-o", output)
    assert (ran.returncode, ran.stderr) == (1, "")
    assert "sidecar-blindly" in ran.stdout


def test_the_contents_of_secrets_are_hidden(pratique: Pratique, tmp_path: Path) -> None:
    policy = yaml.safe_load_all(BAD.read_text())
    mutating, bound = policy
    mutating["spec"]["matchConstraints"]["resourceRules"][0]["resources"] = ["secrets"]
    mutating["spec"]["mutations"] = [
        {
            "patchType": "ApplyConfiguration",
            "applyConfiguration": {
                "expression": 'Object{stringData: {"a": object.stringData.a + "hunter2"}}'
            },
        }
    ]
    (tmp_path / "policies.yaml").write_text(yaml.safe_dump_all([mutating, bound]))
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"a": "hunter1"}}
    (tmp_path / "secret.json").write_text(json.dumps(secret))
    ran = pratique("prove", POLICIES, "policies.yaml", "secret.json", "--examples", 0, "-o", "text")
    assert ran.returncode == 1
    assert "stringData" in ran.stdout
    assert "hunter1" not in ran.stdout
    assert "hunter2hunter2" not in ran.stdout


def test_an_unreachable_webhook_is_an_error(pratique: Pratique, tmp_path: Path) -> None:
    webhook = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "hooks"},
        "webhooks": [
            {
                "name": "hook.example.com",
                "clientConfig": {"url": "https://127.0.0.1:1/"},
                "rules": [
                    {
                        "apiGroups": [""],
                        "apiVersions": ["v1"],
                        "operations": ["CREATE"],
                        "resources": ["pods"],
                    }
                ],
                "sideEffects": "None",
                "admissionReviewVersions": ["v1"],
            }
        ],
    }
    (tmp_path / "hooks.json").write_text(json.dumps(webhook))
    ran = pratique("prove", "hooks.json", "--examples", 2, "-o", "text")
    assert ran.returncode == 3
    assert 'failed calling webhook "hook.example.com"' in ran.stderr
    assert "held" not in ran.stdout


def test_a_file_cannot_mix_configurations_and_objects(pratique: Pratique, tmp_path: Path) -> None:
    (tmp_path / "both.yaml").write_text(BAD.read_text() + "---\n" + json.dumps(POD))
    ran = pratique("prove", "both.yaml")
    assert ran.returncode == 2
    assert ran.stderr.startswith("pratique: both.yaml: document 3, line ")
    assert ran.stderr.endswith("is in a file of configurations; put objects into a separate file\n")


def test_without_input_the_command_explains_its_usage(pratique: Pratique) -> None:
    ran = pratique("prove")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "name configurations, manifests, or chain flags" in ran.stderr


def test_no_files_are_left_behind(pratique: Pratique, tmp_path: Path) -> None:
    pratique("prove", POLICIES, BAD, "--examples", 5)
    assert list(tmp_path.iterdir()) == []


def test_without_hypothesis_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)
    with pytest.raises(SystemExit) as ended:
        main(["prove", "--admission-control", "AlwaysPullImages", "--examples", "5"])
    assert ended.value.code == 2
    output = capsys.readouterr()
    assert "pip install 'pratique[prove]'" in output.err
    assert "Traceback" not in output.err
