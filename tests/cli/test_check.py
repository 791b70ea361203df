from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    Program: TypeAlias = Callable[..., subprocess.CompletedProcess[str]]

HOOK = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: a.example.com
  clientConfig: {url: "https://127.0.0.1:1"}
  sideEffects: None
  admissionReviewVersions: [v1]
"""

POLICY = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: few-replicas.example.com}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [replicasets, deployments]}
  validations:
  - expression: object.spec.replicas <= 5
  - expression: object.replicas > 1
    messageExpression: "'have ' + object.nothing"
"""
WIDGETS = """\
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, kind: Widget}
  versions:
  - name: v1
    served: true
    schema: {openAPIV3Schema: {type: object, properties: {size: {type: string}}}}
"""


def test_good_configuration_has_no_problems(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "hooks.yaml").write_text(HOOK)
    ran = pratique("check", "hooks.yaml", "--enable-admission-plugins", "AlwaysDeny")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "no problems found\n", "")


def test_standard_input_is_checked_too(pratique: Program) -> None:
    assert pratique("check", "-", stdin=HOOK).returncode == 0
    assert pratique("check", "-", stdin=HOOK.replace("None", "Some")).returncode == 2


def test_every_problem_is_a_line(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "hooks.yaml").write_text(HOOK.replace("sideEffects: None", "sideEffects: Some"))
    (tmp_path / "cluster.yaml").write_text("apiVersion: v1\nkind: Podd\nmetadata: {name: a}\n")
    flags = ("--cluster", "cluster.yaml", "--enable-admission-plugins", "AlwaysDny")
    ran = pratique("check", "hooks.yaml", *flags)
    assert ran.returncode == 2
    assert ran.stdout == ""
    lines = ran.stderr.splitlines()
    assert all(line.startswith("pratique: ") for line in lines)
    for told in ("hooks.yaml: document 1", "cluster.yaml: document 1", '"AlwaysDny" is unknown'):
        assert [line for line in lines if told in line]


def test_what_only_a_flag_names_can_be_checked(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    assert pratique("check", "--cluster", "cluster.yaml").returncode == 0
    assert pratique("check", PRATIQUE_CLUSTER="cluster.yaml").returncode == 0


def test_types_that_do_not_fit_are_warnings(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY)
    ran = pratique("check", "policy.yaml")
    assert (ran.returncode, ran.stdout) == (0, "no problems found, 2 warnings\n")
    place = "pratique: policy.yaml: document 1, line"
    assert (
        ran.stderr
        == f"""\
{place} 10, column 5: warning: policy "few-replicas.example.com": spec.validations[1].expression:
    apps/v1, Kind=Deployment: ERROR: <input>:1:7: undefined field 'replicas'
     | object.replicas > 1
     | ......^
    apps/v1, Kind=ReplicaSet: ERROR: <input>:1:7: undefined field 'replicas'
     | object.replicas > 1
     | ......^
{place} 11, column 5: warning: policy "few-replicas.example.com": spec.validations[1].messageExpression:
    apps/v1, Kind=Deployment: ERROR: <input>:1:17: undefined field 'nothing'
     | 'have ' + object.nothing
     | ................^
    apps/v1, Kind=ReplicaSet: ERROR: <input>:1:17: undefined field 'nothing'
     | 'have ' + object.nothing
     | ................^
"""
    )


def test_the_cluster_brings_the_schemas_of_custom_resources(pratique: Program, tmp_path: Path) -> None:
    widgets = POLICY.replace("[apps]", "[example.com]").replace("[replicasets, deployments]", "[widgets]")
    (tmp_path / "policy.yaml").write_text(widgets.partition("  - expression: object.replicas")[0])
    (tmp_path / "cluster.yaml").write_text(WIDGETS)
    assert pratique("check", "policy.yaml").stdout == "no problems found\n"
    ran = pratique("check", "policy.yaml", "--cluster", "cluster.yaml")
    assert (ran.returncode, ran.stdout) == (0, "no problems found, 1 warning\n")
    assert "    example.com/v1, Kind=Widget: ERROR: <input>:1:7: undefined field 'spec'\n" in ran.stderr


def test_problems_and_warnings_are_told_together(pratique: Program) -> None:
    ran = pratique("check", "-", "--enable-admission-plugins", "AlwaysDny", stdin=POLICY)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert '"AlwaysDny" is unknown' in ran.stderr
    assert 'pratique: standard input: document 1, line 10, column 5: warning: policy "few' in ran.stderr


def test_warnings_cannot_steer_the_terminal(pratique: Program) -> None:
    ran = pratique(
        "check", "-", stdin=POLICY.replace("object.replicas > 1", "\"object.replicas == '\\e[2J'\"")
    )
    assert "     | object.replicas == '\\x1b[2J'\n" in ran.stderr
    assert "\x1b" not in ran.stderr
