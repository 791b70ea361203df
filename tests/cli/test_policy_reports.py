"""``-o policyreport`` and ``-o openreports``: reports that a cluster stores."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
import yaml

from pratique_cli.outputs.policy_reports import MOST_RESULTS

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

DEFINITIONS = Path(__file__).parents[1] / "data" / "policy_reports"
PODS = """\
apiVersion: v1
kind: Pod
metadata: {name: bad, namespace: shop, uid: 0af1}
spec:
  hostNetwork: true
  containers: [{name: a, image: "a:1"}]
---
apiVersion: v1
kind: Pod
metadata: {name: good, namespace: shop}
spec: {containers: [{name: a, image: "a:1"}]}
---
apiVersion: v1
kind: Pod
metadata: {name: noted, namespace: blog}
spec: {containers: [{name: a, image: "a:1", env: [{name: A, value: "1"}, {name: A, value: "2"}]}]}
---
apiVersion: v1
kind: Namespace
metadata: {name: shop}
"""
FLAGS = ("review", "--pod-security", "baseline", "-")
KINDS = {
    "policyreport": ("wgpolicyk8s.io/v1alpha2", "PolicyReport", "ClusterPolicyReport"),
    "openreports": ("openreports.io/v1alpha1", "Report", "ClusterReport"),
}


def reports(text: str) -> list[Any]:
    return list(yaml.safe_load_all(text))


@pytest.mark.parametrize("output", KINDS)
def test_each_namespace_has_a_report_and_so_has_the_cluster(pratique: Program, output: str) -> None:
    version, namespaced, cluster = KINDS[output]
    ran = pratique(*FLAGS, "-o", output, stdin=PODS)
    assert ran.returncode == 1
    found = reports(ran.stdout)
    assert [(report["kind"], report["metadata"].get("namespace")) for report in found] == [
        (namespaced, "blog"),
        (namespaced, "shop"),
        (cluster, None),
    ]
    assert {report["apiVersion"] for report in found} == {version}
    counts = [{name: count for name, count in report["summary"].items() if count} for report in found]
    assert counts == [{"warn": 1}, {"pass": 1, "fail": 1}, {"pass": 1}]


def test_a_result_names_the_policy_the_object_and_the_reason(pratique: Program) -> None:
    _, shop, _ = reports(pratique(*FLAGS, "-o", "policyreport", stdin=PODS).stdout)
    failed, passed = shop["results"]
    assert (failed["policy"], failed["result"], failed["scored"]) == ("PodSecurity", "fail", True)
    assert "host namespaces (hostNetwork=true)" in failed["message"]
    assert failed["properties"] == {"field": "spec.hostNetwork"}
    pod = {"apiVersion": "v1", "kind": "Pod", "namespace": "shop"}
    assert failed["resources"] == [pod | {"name": "bad", "uid": "0af1"}]
    assert (passed["result"], passed["resources"]) == ("pass", [pod | {"name": "good"}])


@pytest.mark.parametrize("output", KINDS)
def test_the_reports_are_valid_by_the_schemas_of_their_kinds(
    pratique: Program, tmp_path: Path, output: str
) -> None:
    (tmp_path / "reports.yaml").write_text(pratique(*FLAGS, "-o", output, stdin=PODS).stdout)
    ran = pratique("review", "--crds", DEFINITIONS, "reports.yaml", "-o", "jsonl")
    assert (ran.returncode, ran.stderr, len(ran.stdout.splitlines())) == (0, "", 3)
    broken = (tmp_path / "reports.yaml").read_text().replace("result: fail", "result: failed")
    assert pratique("review", "--crds", DEFINITIONS, stdin=broken).returncode == 1


def test_a_policy_that_failed_says_nothing_about_the_object(pratique: Program, tmp_path: Path) -> None:
    hook = (
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingWebhookConfiguration\n"
        "metadata: {name: hooks}\nwebhooks:\n- name: a.example.com\n  sideEffects: None\n"
        "  admissionReviewVersions: [v1]\n  clientConfig: {url: 'https://127.0.0.1:1'}\n"
        "  rules: [{operations: [CREATE], apiGroups: [''], apiVersions: [v1], resources: [pods]}]\n"
    )
    (tmp_path / "hooks.yaml").write_text(hook)
    good = PODS.split("---\n")[1]
    (report,) = reports(
        pratique("review", "--config", "hooks.yaml", "-o", "policyreport", "-", stdin=good).stdout
    )
    (result,) = report["results"]
    assert (result["policy"], result["rule"], result["result"]) == ("hooks", "a.example.com", "error")


def test_many_results_are_divided_among_several_reports(pratique: Program) -> None:
    maps = "".join(
        f"---\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c{n}}}\n" for n in range(MOST_RESULTS + 1)
    )
    found = reports(
        pratique("review", "--admission-control", "AlwaysAdmit", "-o", "policyreport", stdin=maps).stdout
    )
    assert [report["metadata"]["name"] for report in found] == ["pratique", "pratique-2"]
    assert [len(report["results"]) for report in found] == [MOST_RESULTS, 1]


def test_what_is_selected_is_what_is_reported(pratique: Program, tmp_path: Path) -> None:
    ran = pratique(*FLAGS, "-o", "text", "-o", "policyreport=out.yaml", "--only", "denied", stdin=PODS)
    assert ran.returncode == 1
    (report,) = reports((tmp_path / "out.yaml").read_text())
    assert [result["result"] for result in report["results"]] == ["fail"]
