"""Suites written into a folder beside policies, then read and run as ``pratique test`` does."""

from __future__ import annotations

import asyncio
from pathlib import Path

from pratique.apimachinery.errors import InputError
from pratique_cli.suites.cases import Case, CaseResult
from pratique_cli.suites.reading import find_suites, read_cases
from pratique_cli.suites.running import CaseChains, CaseRunner

POLICIES = """\
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: replicas}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}
  validations:
  - {expression: object.spec.replicas <= 5, message: at most 5 replicas}
  - {expression: object.spec.replicas > 0, message: at least 1 replica}
  auditAnnotations:
  - {key: replicas, valueExpression: string(object.spec.replicas)}
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicas-everywhere}
spec: {policyName: replicas, validationActions: [Deny]}
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicy
metadata: {name: owner}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [apps], apiVersions: [v1], operations: [CREATE], resources: [deployments]}
  failurePolicy: Fail
  reinvocationPolicy: Never
  mutations:
  - patchType: ApplyConfiguration
    applyConfiguration:
      expression: 'Object{metadata: Object.metadata{labels: {"owner": request.userInfo.username}}}'
---
apiVersion: admissionregistration.k8s.io/v1
kind: MutatingAdmissionPolicyBinding
metadata: {name: owner-everywhere}
spec: {policyName: owner}
"""
"""At most five replicas and at least one; the owner is the user."""

HEAD = """\
apiVersion: test.pratique/v1
kind: TestSuite
metadata: {name: replicas}
config: [policies.yaml]
flags: {admission-control: [MutatingAdmissionPolicy, ValidatingAdmissionPolicy]}
cases:
"""
"""The start of a suite, up to its cases."""


def deployment(replicas: int = 3, name: str = "web") -> str:
    """A Deployment, as a flow mapping of YAML."""
    return (
        f"{{apiVersion: apps/v1, kind: Deployment, metadata: {{name: {name}, namespace: shop}},"
        f" spec: {{replicas: {replicas}, selector: {{matchLabels: {{app: web}}}},"
        " template: {metadata: {labels: {app: web}}, spec: {containers: [{name: web, image: web}]}}}}"
    )


def case(expect: str, *, name: str = "a case", manifest: str = "", further: str = "") -> str:
    """One case; ``expect`` is a flow mapping, ``further`` lines of other members."""
    lines = [f"- name: {name}", f"  manifest: {manifest or deployment()}", f"  expect: {expect}"]
    return "\n".join([*lines, *(f"  {line}" for line in further.splitlines()), ""])


def write_suite(folder: Path, text: str) -> Path:
    """Write a suite and the policies beside it."""
    (folder / "policies.yaml").write_text(POLICIES)
    file = folder / "suite.yaml"
    file.write_text(text)
    return file


def read(folder: Path, text: str) -> tuple[list[Case], list[InputError]]:
    """Write a suite, and read its cases and problems."""
    problems: list[InputError] = []
    documents = list(find_suites([write_suite(folder, text)], problems))
    return list(read_cases(documents, problems)), problems


def run(folder: Path, text: str) -> list[CaseResult]:
    """Write a valid suite, and run its cases."""
    cases, problems = read(folder, text)
    assert not problems

    async def run_all() -> list[CaseResult]:
        runner = CaseRunner(CaseChains(), timeout_seconds=30)
        return [await runner.run(each) for each in cases]

    return asyncio.run(run_all())


def differences(folder: Path, text: str) -> list[tuple[str, str, str]]:
    """Run a suite of one case, and return member, expected and got of each mismatch."""
    (result,) = run(folder, text)
    assert result.error is None
    start = len(result.case.path)
    return [(".".join(map(str, each.path[start:])), each.expected, each.got) for each in result.mismatches]
