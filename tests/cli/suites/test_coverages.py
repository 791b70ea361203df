"""Coverage counts how cases use every policy, validation, binding and webhook."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pratique.apimachinery.errors import InputError
from pratique_cli.exit_codes import ExitCode
from pratique_cli.progress import Progress
from pratique_cli.suites.cases import CaseResult, SuiteCounts
from pratique_cli.suites.coverage import Coverage, coverage_lines
from pratique_cli.suites.running import SuiteRun
from pratique_cli.terminal import Palette
from support.policy_suites import HEAD, POLICIES, case, deployment, read

WEBHOOK = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingWebhookConfiguration
metadata: {name: hooks}
webhooks:
- name: gone.example.com
  clientConfig: {url: "https://127.0.0.1:1/"}
  rules:
  - {operations: [CREATE], apiGroups: [apps], apiVersions: [v1], resources: [deployments]}
  failurePolicy: %s
  sideEffects: None
  admissionReviewVersions: [v1]
"""


class Kept:
    """An output that keeps everything it gets."""

    def __init__(self) -> None:
        self.results: list[CaseResult] = []
        self.coverage: Coverage | None = None

    def write(self, result: CaseResult) -> None:
        self.results.append(result)

    def write_problem(self, error: InputError) -> None:
        raise AssertionError(error)

    def finish(self, score: SuiteCounts, coverage: Coverage | None) -> None:
        assert score.run == len(self.results)
        self.coverage = coverage


def covered(folder: Path, text: str, threshold: float | None = None) -> tuple[Coverage, ExitCode]:
    cases, problems = read(folder, text)
    kept = Kept()
    run = SuiteRun(
        timeout_seconds=30,
        output=kept,
        report_problem=lambda _: None,
        progress=Progress(None),
        coverage_threshold=threshold,
    )
    code = asyncio.run(run.run(cases, problems))
    assert kept.coverage is not None
    return kept.coverage, code


def counts(coverage: Coverage) -> dict[str, tuple[int, int, int, int, int]]:
    return {
        f"{entry.kind} {entry.name}": (
            entry.matched,
            entry.denied,
            entry.mutated,
            entry.warned,
            entry.audited,
        )
        for entry in coverage.entries
    }


def test_policies_that_no_case_touches_are_listed_as_never_matched(tmp_path: Path) -> None:
    pod = "{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}"
    coverage, _ = covered(tmp_path, HEAD + case("{allowed: true}", manifest=pod))
    assert set(counts(coverage).values()) == {(0, 0, 0, 0, 0)}
    assert coverage.percent == 0


def test_each_validation_of_a_policy_is_counted_separately(tmp_path: Path) -> None:
    cases = [case("{code: 422}", name=f"{n} replicas", manifest=deployment(n)) for n in (6, 7)]
    coverage, _ = covered(tmp_path, HEAD + "".join(cases) + case("{allowed: true}"))
    assert counts(coverage) == {
        "ValidatingAdmissionPolicy replicas": (3, 2, 0, 0, 0),
        "validation replicas validations[0]": (3, 2, 0, 0, 0),
        "validation replicas validations[1]": (3, 0, 0, 0, 0),
        "ValidatingAdmissionPolicyBinding replicas-everywhere": (3, 2, 0, 0, 0),
        "MutatingAdmissionPolicy owner": (3, 0, 3, 0, 0),
        "MutatingAdmissionPolicyBinding owner-everywhere": (3, 0, 3, 0, 0),
    }


def test_bindings_that_only_warn_or_audit_count_as_used(tmp_path: Path) -> None:
    for action in ("Warn", "Audit"):
        (tmp_path / f"{action}.yaml").write_text(POLICIES.replace("[Deny]", f"[{action}]"))
        text = HEAD.replace("policies.yaml", f"{action}.yaml") + case(
            "{allowed: true}", manifest=deployment(9)
        )
        coverage, _ = covered(tmp_path, text)
        expected = (1, 0, 0, 1, 0) if action == "Warn" else (1, 0, 0, 0, 1)
        assert counts(coverage)["validation replicas validations[0]"] == expected
        assert counts(coverage)["ValidatingAdmissionPolicyBinding replicas-everywhere"] == expected


def test_an_expression_that_fails_to_evaluate_does_not_count_as_false(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text(
        POLICIES.replace("object.spec.replicas <= 5", "object.spec.none <= 5")
    )
    text = HEAD.replace("policies.yaml", "broken.yaml") + case("{allowed: false}")
    coverage, _ = covered(tmp_path, text)
    assert counts(coverage)["ValidatingAdmissionPolicy replicas"][:2] == (1, 1)
    assert counts(coverage)["validation replicas validations[0]"][:2] == (1, 0)


def test_webhooks_are_counted_by_their_effect(tmp_path: Path) -> None:
    for policy, expected in (("Fail", (1, 1, 0, 0, 0)), ("Ignore", (1, 0, 0, 0, 0))):
        (tmp_path / "hooks.yaml").write_text(WEBHOOK % policy)
        head = HEAD.replace("policies.yaml", "hooks.yaml").replace(
            "[MutatingAdmissionPolicy, ValidatingAdmissionPolicy]", "[ValidatingAdmissionWebhook]"
        )
        allowed = "true" if policy == "Ignore" else "false"
        coverage, code = covered(tmp_path, head + case(f"{{allowed: {allowed}}}"))
        assert counts(coverage) == {"webhook hooks/gone.example.com": expected}
        assert code is ExitCode.ADMITTED


def test_pods_with_expectations_count_towards_coverage(tmp_path: Path) -> None:
    pods = (
        POLICIES.replace("[apps]", '[""]')
        .replace("[deployments]", "[pods]")
        .replace("object.spec.replicas", "1")
    )
    (tmp_path / "pods.yaml").write_text(pods)
    head = HEAD.replace("policies.yaml", "pods.yaml")
    looked_at, _ = covered(tmp_path, head + case("{expanded: [{allowed: true}]}"))
    assert counts(looked_at)["MutatingAdmissionPolicy owner"] == (1, 0, 1, 0, 0)
    left_alone, _ = covered(tmp_path, head + case("{allowed: true}"))
    assert counts(left_alone)["MutatingAdmissionPolicy owner"] == (0, 0, 0, 0, 0)


def test_suites_that_share_a_file_share_its_coverage(tmp_path: Path) -> None:
    other = HEAD.replace("name: replicas", "name: other").replace("[Mut", "[AlwaysAdmit, Mut")
    text = HEAD + case("{allowed: true}") + "---\n" + other + case("{allowed: true}")
    coverage, _ = covered(tmp_path, text)
    assert counts(coverage)["ValidatingAdmissionPolicy replicas"][0] == 2


def test_coverage_below_the_threshold_exits_with_1(tmp_path: Path) -> None:
    text = HEAD + case("{code: 422}", manifest=deployment(9))
    assert covered(tmp_path, text, threshold=100)[1] is ExitCode.DENIED
    assert covered(tmp_path, text, threshold=80)[1] is ExitCode.ADMITTED


def test_the_table_lists_unused_entries_with_their_location(tmp_path: Path) -> None:
    coverage, _ = covered(tmp_path, HEAD + case("{code: 422}", manifest=deployment(9)))
    lines = list(coverage_lines(coverage, Palette()))
    assert lines[-3:] == [
        "matched, but never did anything:",
        f"  validation replicas validations[1]  ({tmp_path / 'policies.yaml'}:10)",
        "5 of 6 did something (83.3 %)",
    ]
