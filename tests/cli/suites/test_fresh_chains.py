"""Every case has its own chain, store, ledgers and limits."""

from __future__ import annotations

from pathlib import Path

import pytest

from pratique_cli.suites.cases import CaseStatus
from support.policy_suites import HEAD, case, run

POD = (
    "{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: shop},"
    " spec: {containers: [{name: web, image: web, resources: {requests: {cpu: 1}}}]}}"
)
QUOTA = (
    "{apiVersion: v1, kind: ResourceQuota, metadata: {name: one, namespace: shop}, spec: {hard: {pods: 1}}}"
)
LIMIT = """\
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Server, qps: 1, burst: 1}]
"""
EVENT = (
    "{apiVersion: v1, kind: Event, metadata: {name: e, namespace: shop}, involvedObject: {namespace: shop}}"
)


def with_flags(flags: str, cluster: str = "") -> str:
    lines = [line for line in HEAD.splitlines() if not line.startswith(("flags:", "config:"))]
    return "\n".join([*lines[:3], f"flags: {flags}", cluster, *lines[3:], ""])


def endings(folder: Path, text: str) -> list[CaseStatus]:
    return [result.status for result in run(folder, text)]


def test_quota_charged_by_one_case_does_not_count_in_another(tmp_path: Path) -> None:
    shop = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"
    head = with_flags("{admission-control: [ResourceQuota]}", f"cluster: [{shop}, {QUOTA}]")
    cases = [case("{allowed: true}", name=f"pod {i}", manifest=POD % f"p{i}") for i in range(3)]
    assert endings(tmp_path, head + "".join(cases)) == [CaseStatus.PASSED] * 3


def test_a_case_still_charges_its_own_quota(tmp_path: Path) -> None:
    shop = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"
    used = QUOTA.removesuffix("}") + ", status: {hard: {pods: 1}, used: {pods: 1}}}"
    head = with_flags("{admission-control: [ResourceQuota]}", f"cluster: [{shop}]")
    full = case("{allowed: false, message: exceeded quota}", manifest=POD % "p", further=f"cluster: [{used}]")
    assert endings(tmp_path, head + full) == [CaseStatus.PASSED]


def test_rate_limits_start_afresh_for_each_case(tmp_path: Path) -> None:
    (tmp_path / "limits.yaml").write_text(LIMIT)
    head = with_flags("{admission-control: [EventRateLimit], admission-control-config-file: limits.yaml}")
    cases = [case("{allowed: true}", name=f"event {i}", manifest=EVENT) for i in range(3)]
    assert endings(tmp_path, head + "".join(cases)) == [CaseStatus.PASSED] * 3


def test_objects_created_by_one_case_are_invisible_to_another(tmp_path: Path) -> None:
    head = with_flags("{admission-control: [NamespaceLifecycle]}", "cluster: []")
    made = case(
        "{allowed: true}", name="a", manifest="{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"
    )
    missed = case("{allowed: false, code: 404}", name="b", manifest=POD % "p")
    assert endings(tmp_path, head + made + missed) == [CaseStatus.PASSED] * 2


def test_objects_of_the_suite_and_of_the_case_are_both_in_the_cluster(tmp_path: Path) -> None:
    (tmp_path / "shop.yaml").write_text("{apiVersion: v1, kind: Namespace, metadata: {name: shop}}")
    head = with_flags("{admission-control: [ServiceAccount]}", "cluster: [shop.yaml]")
    account = "{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: shop}}"
    there = case("{allowed: true}", name="a", manifest=POD % "p", further=f"cluster: [{account}]")
    missing = case("{allowed: false}", name="b", manifest=POD % "p")
    assert endings(tmp_path, head + there + missing) == [CaseStatus.PASSED] * 2


def test_a_duplicate_cluster_object_is_reported_with_its_location(tmp_path: Path) -> None:
    shop = "{apiVersion: v1, kind: Namespace, metadata: {name: shop}}"
    head = with_flags("{admission-control: [AlwaysAdmit]}", f"cluster: [{shop}, {shop}]")
    (result,) = run(tmp_path, head + case("{allowed: true}"))
    assert result.status is CaseStatus.UNREADABLE
    assert "line 5" in str(result.error)
    assert "is there twice" in str(result.error)


def test_an_invalid_configuration_fails_only_the_cases_that_use_it(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("{apiVersion: v1, kind: Pod, metadata: {name: p}}")
    cases = case("{allowed: true}", name="a", further="config: [bad.yaml]") + case(
        "{allowed: true}", name="b"
    )
    assert endings(tmp_path, HEAD + cases) == [CaseStatus.UNREADABLE, CaseStatus.PASSED]


def test_flags_come_from_the_suite_and_not_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PRATIQUE_DISABLE_ADMISSION_PLUGINS", "ServiceAccount")
    head = with_flags("{}", "cluster: [{apiVersion: v1, kind: Namespace, metadata: {name: shop}}]")
    (result,) = run(tmp_path, head + case("{steps: [{controller: ServiceAccount}]}", manifest=POD % "p"))
    assert result.status is CaseStatus.PASSED
