"""What a stack shows once everything that services count has been counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.controller_packages import lay_out
from support.front_doors.reviews import review_document
from support.observed_stacks import observed_stack
from support.services import hostile_controllers

BAD_POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: {kind}
metadata: {{name: p}}
spec:
  failurePolicy: Ignore
  matchConstraints:
    resourceRules: [{{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}}]
  {body}
---
apiVersion: admissionregistration.k8s.io/v1
kind: {kind}Binding
metadata: {{name: b}}
spec: {{policyName: p{actions}}}
"""
WEBHOOKS = """
apiVersion: admissionregistration.k8s.io/v1
kind: {kind}WebhookConfiguration
metadata: {{name: hooks}}
webhooks:
- &hook
  name: false.example.com
  admissionReviewVersions: [v1]
  sideEffects: None
  failurePolicy: Ignore
  rules: [{{operations: ["*"], apiGroups: ["*"], apiVersions: ["*"], resources: ["*"]}}]
  matchConditions: [{{name: never, expression: "false"}}]
  clientConfig: {{url: "https://127.0.0.1:1"}}
- <<: *hook
  name: broken.example.com
  matchConditions: [{{name: broken, expression: "object.nowhere.at.all == 1"}}]
- <<: *hook
  name: open.example.com
  matchConditions: []
- <<: *hook
  name: closed.example.com
  failurePolicy: Fail
  matchConditions: []
"""


@pytest.fixture(scope="session")
def shown(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The metrics of each service of a complete stack."""
    folder = tmp_path_factory.mktemp("metrics")
    package = lay_out(folder / "package", "acme_hostile", hostile_controllers.PACKAGE, all="CONTROLLERS")
    broken = """reinvocationPolicy: Never
  mutations:
  - patchType: JSONPatch
    jsonPatch:
      expression: '[JSONPatch{op: "add", path: "/metadata/x", value: object.nowhere.at.all}]'
"""
    texts = [
        BAD_POLICY.format(
            kind="ValidatingAdmissionPolicy",
            body="validations: [{expression: object.nowhere.at.all == 1}]",
            actions=", validationActions: [Deny]",
        ),
        BAD_POLICY.format(kind="MutatingAdmissionPolicy", body=broken, actions=""),
        WEBHOOKS.format(kind="Mutating"),
        WEBHOOKS.format(kind="Validating"),
    ]
    (folder / "config.yaml").write_text("---\n".join(texts), "utf-8")
    flags = (
        *("--enable-admission-plugins", "DenyIt,MutatingAdmissionPolicy"),
        *("--config", str(folder / "config.yaml")),
        *("--record", str(folder / "r.jsonl"), "--decision-log", str(folder / "d.jsonl")),
        *("--webhook-breaker-failures", "5"),
    )
    with observed_stack(*flags, PYTHONPATH=f"{package}:{Path(__file__).parents[2]}") as stack:
        for path in ("/mutate", "/validate"):
            assert stack.post(path, review_document())[0] == 200
        return stack.metrics()
