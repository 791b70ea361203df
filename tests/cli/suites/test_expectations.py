"""A case compares its expectations with the decision, and reports the mismatches."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.policy_suites import HEAD, case, deployment, differences, run

MET = [
    "{allowed: true}",
    "{allowed: true, warnings: []}",
    "{auditAnnotations: {replicas/replicas: '3'}}",
    "{contains: {metadata: {labels: {owner: kubernetes-admin}}}}",
    "{contains: {spec: {template: {spec: {containers: [{name: web}]}}}}}",
    "{patch: [{op: add, path: /metadata/labels, value: {owner: kubernetes-admin}}]}",
    "{unchanged: false}",
    "{fixedPoint: true}",
    "{steps: [{controller: MutatingAdmissionPolicy, name: owner, configuration: owner-everywhere, round: 0}]}",
    "{steps: [{phase: mutate, outcome: mutated}, {phase: validate, outcome: allowed}]}",
    "{expanded: [{allowed: true, unchanged: true, fixedPoint: true}]}",
]
REFUSED_MET = [
    "{allowed: false, code: 422, reason: Invalid, message: 'at most [0-9] replicas$'}",
    "{steps: [{name: replicas, outcome: denied, reason: at most}]}",
]
UNMET = [
    ("{allowed: false}", "allowed", "the request to be denied", "it was admitted"),
    ("{code: 422}", "code", "code 422", "it was admitted"),
    ("{message: x}", "message", 'a message that matches "x"', "it was admitted"),
    ("{warnings: [x]}", "warnings.0", 'a warning that matches "x"', "no warning"),
    ("{contains: {spec: {replicas: 4}}}", "contains.spec.replicas", "spec.replicas 4", "3"),
    ("{contains: {spec: {paused: true}}}", "contains.spec.paused", "spec.paused true", "nothing there"),
    ("{unchanged: true}", "unchanged", "the object to stay as it is", "changes at /metadata/labels"),
    ("{expanded: []}", "expanded", "0 Pods to be made", "1 Pod"),
    (
        "{expanded: [{allowed: false}]}",
        "expanded.0.allowed",
        "the request to be denied",
        "it was admitted",
    ),
    (
        "{fixedPoint: false}",
        "fixedPoint",
        "a second mutating phase to change the object",
        "it unchanged",
    ),
    (
        "{contains: {spec: {template: {spec: {containers: []}}}}}",
        "contains.spec.template.spec.containers",
        "spec.template.spec.containers to be a list of 0, not of 1",
        '[{"name":"web","image":"web"}]',
    ),
    (
        "{steps: [{phase: validate}, {phase: mutate}]}",
        "steps.1",
        "a step (phase mutate)",
        (
            "it only before the step that matched the previous expectation: ValidatingAdmissionPolicy replicas"
            " (replicas-everywhere) validate allowed"
        ),
    ),
    (
        "{steps: [{controller: PodSecurity}]}",
        "steps.0",
        "a step (controller PodSecurity)",
        "no similar step",
    ),
]

COUNTING = """\
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: count}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: >-
        Object{metadata: Object.metadata{annotations: {
          "count": object.metadata.?annotations["count"].orValue("") + "x"}}}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: count}
spec: {policyName: count}
"""
"""Every time it sees an object, it counts on."""


@pytest.mark.parametrize("expect", MET)
def test_a_case_with_the_expected_result_passes(tmp_path: Path, expect: str) -> None:
    assert differences(tmp_path, HEAD + case(expect)) == []


@pytest.mark.parametrize("expect", REFUSED_MET)
def test_an_expected_denial_passes(tmp_path: Path, expect: str) -> None:
    assert differences(tmp_path, HEAD + case(expect, manifest=deployment(9))) == []


@pytest.mark.parametrize(("expect", "member", "expected", "got"), UNMET)
def test_each_mismatch_names_the_expected_and_the_actual_value(
    tmp_path: Path, expect: str, member: str, expected: str, got: str
) -> None:
    assert differences(tmp_path, HEAD + case(expect)) == [(f"expect.{member}", expected, got)]


def test_an_unexpected_denial_is_reported_in_full(tmp_path: Path) -> None:
    mismatch_text = differences(tmp_path, HEAD + case("{allowed: true, code: 500}", manifest=deployment(9)))
    assert [member for member, _, _ in mismatch_text] == ["expect.allowed", "expect.code"]
    assert mismatch_text[0][2].startswith("it was denied: 422 Invalid ")
    assert "at most 5 replicas" in mismatch_text[0][2]


def test_all_mismatches_of_a_case_are_reported(tmp_path: Path) -> None:
    expect = "{allowed: false, code: 403, contains: {spec: {replicas: 4, paused: true}}}"
    members = [member for member, _, _ in differences(tmp_path, HEAD + case(expect))]
    places = ["allowed", "code", "contains.spec.replicas", "contains.spec.paused"]
    assert members == [f"expect.{place}" for place in places]


def test_an_unexpected_warning_is_a_mismatch(tmp_path: Path) -> None:
    (tmp_path / "warn.yaml").write_text(
        "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicyBinding\n"
        "metadata: {name: warn}\nspec: {policyName: replicas, validationActions: [Warn]}\n"
    )
    text = HEAD + case("{warnings: []}", manifest=deployment(9), further="config: [warn.yaml]")
    ((member, expected, got),) = differences(tmp_path, text)
    assert (member, expected) == ("expect.warnings", "no warning")
    assert "binding 'warn': at most 5 replicas" in got


def test_an_expected_object_is_compared_in_full(tmp_path: Path) -> None:
    whole = deployment().replace("namespace: shop", "namespace: shop, labels: {owner: kubernetes-admin}")
    assert differences(tmp_path, HEAD + case(f"{{object: {whole}}}")) == []


def test_the_diff_shows_expected_and_actual_objects(tmp_path: Path) -> None:
    whole = deployment(4).replace("namespace: shop", "namespace: shop, labels: {owner: kubernetes-admin}")
    (result,) = run(tmp_path, HEAD + case(f"{{object: {whole}}}"))
    (mismatch,) = result.mismatches
    changed = [line for line in mismatch.difference if line.startswith(("-", "+"))]
    assert changed == ["-  replicas: 4", "+  replicas: 3"]


def test_the_contents_of_a_secret_are_hidden(tmp_path: Path) -> None:
    secret = "{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {key: c2VjcmV0}}"
    expect = f"{{contains: {{data: {{key: b3RoZXI=}}}}, object: {secret.replace('c2VjcmV0', 'b3RoZXI=')}}}"
    (result,) = run(tmp_path, HEAD + case(expect, manifest=secret))
    assert len(result.mismatches) == 2
    mismatch_text = "".join(mismatch.text + "".join(mismatch.difference) for mismatch in result.mismatches)
    assert "c2VjcmV0" not in mismatch_text
    assert "b3RoZXI" not in mismatch_text


def test_a_policy_that_changes_its_own_output_has_no_fixed_point(tmp_path: Path) -> None:
    (tmp_path / "count.yaml").write_text(COUNTING)
    (result,) = run(tmp_path, HEAD.replace("policies.yaml", "count.yaml") + case("{fixedPoint: true}"))
    (mismatch,) = result.mismatches
    assert mismatch.expected == "a second mutating phase to change nothing"
    changed = [line.strip() for line in mismatch.difference if line.startswith(("-", "+"))]
    assert changed == ["-    count: x", "+    count: xx"]
