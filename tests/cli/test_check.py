from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from pratique.lint.registry import LINT_RULES

Program: TypeAlias = "Callable[..., subprocess.CompletedProcess[str]]"

HOOK = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: a.example.com
  clientConfig: {url: "https://hooks.example.com"}
  rules: [{operations: [CREATE], apiGroups: [""], apiVersions: [v1], resources: [services]}]
  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}
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
BINDING = """\
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: few-replicas}
spec: {policyName: few-replicas.example.com, validationActions: [Deny]}
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


def test_a_good_configuration_has_no_problems(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "hooks.yaml").write_text(HOOK)
    ran = pratique("check", "hooks.yaml", "--enable-admission-plugins", "AlwaysPullImages")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "no problems found\n", "")


def test_standard_input_can_be_checked(pratique: Program) -> None:
    assert pratique("check", "-", stdin=HOOK).returncode == 0
    assert pratique("check", "-", stdin=HOOK.replace("None", "Some")).returncode == 2


def test_every_problem_is_one_line(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "hooks.yaml").write_text(HOOK.replace("sideEffects: None", "sideEffects: Some"))
    (tmp_path / "cluster.yaml").write_text("apiVersion: v1\nkind: Podd\nmetadata: {name: a}\n")
    flags = ("--cluster", "cluster.yaml", "--enable-admission-plugins", "AlwaysDny")
    ran = pratique("check", "hooks.yaml", *flags)
    assert ran.returncode == 2
    assert ran.stdout == ""
    lines = ran.stderr.splitlines()
    assert all(line.startswith("pratique: ") for line in lines)
    for reported in ("hooks.yaml: document 1", "cluster.yaml: document 1", '"AlwaysDny" is unknown'):
        assert [line for line in lines if reported in line]


def test_configurations_named_only_by_flags_can_be_checked(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "cluster.yaml").write_text("apiVersion: v1\nkind: Namespace\nmetadata: {name: a}\n")
    assert pratique("check", "--cluster", "cluster.yaml").returncode == 0
    assert pratique("check", PRATIQUE_CLUSTER="cluster.yaml").returncode == 0


def test_type_errors_in_expressions_are_warnings(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "policy.yaml").write_text(POLICY + BINDING)
    ran = pratique("check", "policy.yaml")
    assert (ran.returncode, ran.stdout) == (0, "valid, with 2 warnings, 1 info\n")
    place = "pratique: policy.yaml: document 1, line"
    assert ran.stderr.startswith(
        f"""\
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
    assert "info: scale-uncovered: " in ran.stderr


def test_the_cluster_brings_the_schemas_of_custom_resources(pratique: Program, tmp_path: Path) -> None:
    widgets = POLICY.replace("[apps]", "[example.com]").replace("[replicasets, deployments]", "[widgets]")
    (tmp_path / "policy.yaml").write_text(widgets.partition("  - expression: object.replicas")[0] + BINDING)
    (tmp_path / "cluster.yaml").write_text(WIDGETS)
    assert pratique("check", "policy.yaml").stdout == "valid, with 1 warning\n"
    ran = pratique("check", "policy.yaml", "--cluster", "cluster.yaml")
    assert (ran.returncode, ran.stdout) == (0, "valid, with 1 warning\n")
    assert "    example.com/v1, Kind=Widget: ERROR: <input>:1:7: undefined field 'spec'\n" in ran.stderr


def test_the_lines_of_an_error_of_cel_belong_together(pratique: Program) -> None:
    wrong = POLICY.replace("object.replicas > 1", '"object.("')
    ran = pratique("check", "-", stdin=wrong)
    lines = ran.stderr.splitlines()
    assert " | object.(" in lines
    assert not [line for line in lines if line.startswith("pratique:  ")]
    found = json.loads(pratique("check", "-", "-o", "json", stdin=wrong).stdout)
    assert not [finding for finding in found if finding["message"].startswith(" ")]


def test_problems_and_warnings_are_reported_together(pratique: Program) -> None:
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


SLOW = HOOK + "  timeoutSeconds: 20\n"
OPEN = HOOK + "  failurePolicy: Ignore\n"


def test_bad_practice_is_reported_with_a_fix(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "hooks.yaml").write_text(SLOW)
    ran = pratique("check", "hooks.yaml")
    assert (ran.returncode, ran.stdout) == (0, "valid, with 1 warning\n")
    reported, fix = ran.stderr.splitlines()
    assert reported.startswith(
        "pratique: hooks.yaml: document 1, line 11, column 3: warning: timeout-too-long: webhook"
    )
    assert fix.startswith("    fix: ")


@pytest.mark.parametrize(
    ("text", "code", "summary"),
    [
        (SLOW, 1, "valid, with 1 warning"),
        (OPEN, 0, "valid, with 1 info"),
        (OPEN + "  timeoutSeconds: 20\n  matchPolicy: Exact\n", 1, "valid, with 2 warnings, 1 info"),
        (POLICY + BINDING, 1, "valid, with 2 warnings, 1 info"),
        (HOOK, 0, "no problems found"),
        (HOOK.replace("None", "Some"), 2, None),
    ],
)
def test_strict_mode_fails_on_warnings(pratique: Program, text: str, code: int, summary: str | None) -> None:
    ran = pratique("check", "-", "--strict", stdin=text)
    assert (ran.returncode, ran.stdout) == (code, "" if summary is None else f"{summary}\n")
    assert pratique("check", "-", stdin=text, PRATIQUE_STRICT="1").returncode == code


@pytest.mark.parametrize(
    "flags",
    [
        ("--disable-rules", "timeout-too-long"),
        ("--disable-rules", "wildcard-rules, timeout-too-long"),
        ("--rules", "wildcard-rules", "--rules", "policy-unbound"),
        ("--rules", "timeout-too-long", "--disable-rules", "timeout-too-long"),
    ],
)
def test_rules_can_be_switched_off(pratique: Program, flags: tuple[str, ...]) -> None:
    ran = pratique("check", "-", *flags, stdin=SLOW)
    assert (ran.stdout, ran.stderr) == ("no problems found\n", "")


def test_a_comment_switches_a_rule_off(pratique: Program) -> None:
    text = SLOW.replace("  timeout", "  # pratique: disable=timeout-too-long\n  timeout")
    assert pratique("check", "-", "--strict", stdin=text).stdout == "no problems found\n"


@pytest.mark.parametrize("flag", ["--rules", "--disable-rules"])
def test_an_unknown_rule_is_a_usage_error(pratique: Program, flag: str) -> None:
    ran = pratique("check", "-", flag, "timeout-to-long", stdin=HOOK)
    assert ran.returncode == 2
    assert f"{flag}: 'timeout-to-long' is not a rule; did you mean 'timeout-too-long'?" in ran.stderr
    assert "see --list-rules" in pratique("check", "-", flag, "xyz", stdin=HOOK).stderr


def test_bad_practice_is_reported_beside_other_problems(pratique: Program) -> None:
    ran = pratique("check", "-", "--enable-admission-plugins", "AlwaysDny", stdin=SLOW)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "timeout-too-long" in ran.stderr


def test_the_rules_are_listed(pratique: Program) -> None:
    ran = pratique("check", "--list-rules")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout.count("\n    fix: ") == len(LINT_RULES)
    assert ran.stdout.startswith("timeout-too-long (warning)\n    While a webhook does not answer, ")


BLOCKING = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: a.example.com
  clientConfig: {service: {namespace: hooks, name: hook}}
  rules:
  - operations: [CREATE, UPDATE]
    apiGroups: [""]
    apiVersions: [v1]
    resources: [pods, pods/ephemeralcontainers, pods/resize]
  namespaceSelector: {matchExpressions: [{key: kubernetes.io/metadata.name, operator: NotIn, values: [kube-system]}]}
  sideEffects: None
  admissionReviewVersions: [v1]
"""


def test_a_webhook_that_cannot_start_again_is_an_error(pratique: Program) -> None:
    ran = pratique("check", "-", "--strict", stdin=BLOCKING)
    assert (ran.returncode, ran.stdout) == (1, "valid, with 1 error\n")
    assert "error: deadlock: webhook" in ran.stderr
    assert 'CREATE of pods in namespace hooks for Deployment "hook"' in ran.stderr
    off = pratique("check", "-", "--strict", "--disable-rules", "deadlock", stdin=BLOCKING)
    assert (off.returncode, off.stderr) == (0, "")


def test_deadlocks_follow_the_chain_flags(pratique: Program) -> None:
    flags = ("--disable-admission-plugins", "ValidatingAdmissionWebhook")
    off = pratique("check", "-", *flags, stdin=BLOCKING)
    assert "deadlock" not in off.stderr
    assert "admission plugin ValidatingAdmissionWebhook is disabled: it does nothing" in off.stderr
    ran = pratique("check", "-", "--enable-admission-plugins", "AlwaysDny", stdin=BLOCKING)
    assert ran.returncode == 2
    assert "error: deadlock: webhook" in ran.stderr


QUOTAS = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: ResourceQuota
  configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: ResourceQuotaConfiguration, limitedResources: []}
"""
OFF = ("--disable-admission-plugins", "ResourceQuota", "--admission-control-config-file", "admission.yaml")
MISSPELT = HOOK.replace("resources: [services]", "resources: [service]")


def test_a_rule_that_matches_nothing_is_an_error_with_a_suggestion(pratique: Program) -> None:
    ran = pratique("check", "-", "--strict", stdin=MISSPELT)
    assert (ran.returncode, ran.stdout) == (1, "valid, with 1 error\n")
    assert 'error: matches-nothing: webhook "a.example.com"' in ran.stderr
    assert 'no kind is called "service"; did you mean "services"?' in ran.stderr


def test_settings_for_a_disabled_plugin_are_reported(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "admission.yaml").write_text(QUOTAS)
    reported = "admission plugin ResourceQuota is disabled: its configuration does nothing"
    ran = pratique("check", "-", *OFF, stdin=HOOK)
    assert (ran.returncode, ran.stdout) == (0, "valid, with 1 warning\n")
    assert ran.stderr == f"pratique: admission.yaml: warning: {reported}\n"
    assert pratique("check", "-", *OFF[2:], stdin=HOOK).stderr == ""


def test_a_review_warns_of_settings_without_effect(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "admission.yaml").write_text(QUOTAS)
    (tmp_path / "hooks.yaml").write_text(MISSPELT)
    secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\n"
    ran = pratique("review", "-o", "jsonl", "--config", "hooks.yaml", *OFF, "-", stdin=secret)
    assert ran.returncode == 0
    quota, rule = ran.stderr.splitlines()
    assert quota.startswith("pratique: warning: admission plugin ResourceQuota is disabled")
    assert rule.startswith("pratique: hooks.yaml: document 1, line 7, ")
    assert "warning: matches-nothing: " in rule
    off = pratique(
        *("review", "-o", "jsonl", "--config", "hooks.yaml", "-"),
        *("--disable-admission-plugins", "ValidatingAdmissionWebhook"),
        stdin=secret,
    )
    assert "admission plugin ValidatingAdmissionWebhook is disabled: it does nothing" in off.stderr


POD = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\n"
VALUES = "replicas: 3\n"


def test_other_objects_beside_configurations_are_left_out_and_told(pratique: Program, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed"
    mixed.mkdir()
    (mixed / "binding.yaml").write_text(f"{HOOK}---\n{POD}")
    (mixed / "pods.yaml").write_text(f"{POD}---\n{POD.replace('web', 'other')}")
    (mixed / "values.yaml").write_text(f"{VALUES}---\n{VALUES}")
    ran = pratique("check", "mixed")
    assert ran.returncode == 0
    note = "pratique: note: left out what is no configuration: 3 Pod, 2 objects without a kind\n"
    assert ran.stderr.startswith(note)
    assert pratique("check", "-", stdin=f"{HOOK}---\n{POD}").returncode == 0


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("list.json", "[1, 2]", "1 list"),
        ("playbook.yaml", "- hosts: all\n", "1 list"),
        ("note.yaml", "just text\n", "1 string"),
        ("package.json", '{"name": "web"}', "1 object without a kind"),
    ],
)
def test_files_of_a_folder_that_hold_no_objects_are_left_out_and_told(
    pratique: Program, tmp_path: Path, name: str, content: str, told: str
) -> None:
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "hooks.yaml").write_text(HOOK)
    (tmp_path / "mixed" / name).write_text(content)
    ran = pratique("check", "mixed")
    assert ran.returncode == 0
    assert ran.stderr.startswith(f"pratique: note: left out what is no configuration: {told}\n")
    assert pratique("check", "mixed/hooks.yaml", f"mixed/{name}").returncode == 2


@pytest.mark.parametrize(
    "content",
    ["- hosts: all\n---\n" + HOOK, "- kind: ValidatingWebhookConfiguration\n", "a: [", "just\n---\ntext\n"],
)
def test_a_file_that_may_hide_a_configuration_is_a_problem(
    pratique: Program, tmp_path: Path, content: str
) -> None:
    (tmp_path / "mixed").mkdir()
    (tmp_path / "mixed" / "hooks.yaml").write_text(HOOK)
    (tmp_path / "mixed" / "other.yaml").write_text(content)
    ran = pratique("check", "mixed")
    assert ran.returncode == 2
    assert ran.stderr.count("mixed/other.yaml: document 1, line") == 1
    assert ran.stderr.endswith("leave it out: --exclude NAME\n")
    assert pratique("check", "mixed", "--exclude", "other.yaml").returncode == 0


def test_a_template_is_to_be_rendered_first(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "hooks.yaml").write_text(f"{{{{- if .Values.enabled }}}}\n{HOOK}")
    ran = pratique("check", "hooks.yaml")
    assert ran.returncode == 2
    assert "if it is a template, render it first, as helm template does" in ran.stderr


def test_a_file_that_is_no_text_is_not_taken_for_a_template(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "picture.yaml").write_bytes(b"\x89PNG{{\xff")
    ran = pratique("check", "picture.yaml")
    assert ran.returncode == 2
    assert "the text must be UTF-8" in ran.stderr
    assert "template" not in ran.stderr


def test_a_path_without_any_configuration_is_a_problem(pratique: Program, tmp_path: Path) -> None:
    (tmp_path / "pod.yaml").write_text(POD)
    ran = pratique("check", "pod.yaml")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "pod.yaml: holds no webhook configuration and no policy, but 1 Pod" in ran.stderr
    allowed = pratique("check", "--allow-none", "pod.yaml")
    assert (allowed.returncode, allowed.stderr) == (
        0,
        "pratique: note: left out what is no configuration: 1 Pod\n",
    )


@pytest.mark.parametrize(
    "spoilt",
    [
        HOOK.replace("WebhookConfiguration", "WebhookConfig"),
        HOOK.replace("admissionregistration.k8s.io", "admissionregistration.k8s"),
    ],
)
def test_a_configuration_with_a_wrong_kind_or_group_is_not_left_out(
    pratique: Program, tmp_path: Path, spoilt: str
) -> None:
    (tmp_path / "all.yaml").write_text(f"{HOOK}---\n{spoilt}")
    ran = pratique("check", "all.yaml")
    assert ran.returncode == 2
    assert "document 2" in ran.stderr
