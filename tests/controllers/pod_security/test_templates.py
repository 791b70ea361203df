"""Workloads, by the cases of Kubernetes' ``admission/admission_test.go`` and more."""

from __future__ import annotations

import pytest

from pratique.admission.results import Deny
from pratique.admission.rules import compile_rules
from pratique.apimachinery.json_values import JSONObject
from pratique.controllers.pod_security import CONTROLLER
from support.admissions import answer_of, review_of
from support.pod_security_cases import deployment_request
from support.pod_security_reviews import (
    EXEMPTING,
    NAMESPACES,
    PRIVILEGED,
    ROOT,
    SANDBOXED,
    VALIDATE,
    WOULD_BASELINE,
    WOULD_RESTRICTED,
    answer,
    audited,
    workload,
)

IN_SPEC = {"spec": {"template": PRIVILEGED}}
WORKLOADS = [
    ("PodTemplate", "", "podtemplates", {"template": PRIVILEGED}),
    ("ReplicationController", "", "replicationcontrollers", IN_SPEC),
    ("ReplicaSet", "apps", "replicasets", IN_SPEC),
    ("Deployment", "apps", "deployments", IN_SPEC),
    ("StatefulSet", "apps", "statefulsets", IN_SPEC),
    ("DaemonSet", "apps", "daemonsets", IN_SPEC),
    ("Job", "batch", "jobs", IN_SPEC),
    ("CronJob", "batch", "cronjobs", {"spec": {"jobTemplate": IN_SPEC}}),
]


@pytest.mark.parametrize("parts", WORKLOADS, ids=lambda parts: parts[0])
@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
def test_users_are_warned_about_workloads(parts: tuple[str, str, str, JSONObject], operation: str) -> None:
    request = {**workload(*parts, "restricted"), "operation": operation}
    review = review_of(request, NAMESPACES)
    assert compile_rules(CONTROLLER.rules).matches(review)
    found = answer_of(VALIDATE, review)
    assert not isinstance(found, Deny)
    assert found.warnings == (WOULD_RESTRICTED,)
    assert found.audit_annotations == audited(audit_violations=WOULD_RESTRICTED)


@pytest.mark.parametrize(
    ("namespace", "members", "expected"),
    [
        ("exempt", {}, audited(exempt="namespace")),
        ("restricted", ROOT, audited(exempt="user")),
        ("restricted", {"subResource": "scale"}, {}),
        ("privileged", {}, {}),
        ("implicit", {}, {}),
        (
            "missing",
            {},
            audited(error='failed to lookup namespace "missing": namespaces "missing" not found'),
        ),
        ("restricted", {"object": {"kind": "Deployment"}}, {}),
        ("restricted", {"object": {"kind": "Deployment", "spec": {"template": None}}}, {}),
        ("restricted", {"object": None}, audited(error="failed to decode object: unexpected type <nil>")),
        (
            "restricted",
            {"object": {"apiVersion": "v1", "kind": "Namespace"}},
            audited(error="failed to decode object: unexpected type *core.Namespace"),
        ),
        (
            "restricted",
            {"object": {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}},
            audited(error="failed to decode object: unexpected type *rbac.Role"),
        ),
        (
            "restricted",
            {"object": {"spec": []}},
            audited(
                error="failed to decode object: json: cannot unmarshal array into Go struct field spec of type object"
            ),
        ),
        ("baseline-audit", {}, audited(audit_violations=WOULD_BASELINE)),
    ],
)
def test_exempt_and_allowed_workloads_cause_no_warning(
    namespace: str, members: JSONObject, expected: dict[str, str]
) -> None:
    found = answer(deployment_request(PRIVILEGED, namespace, **members), NAMESPACES, EXEMPTING)
    assert not isinstance(found, Deny)
    assert (found.warnings, found.audit_annotations) == ((), expected)


def test_an_exempt_runtime_class_exempts_workloads() -> None:
    found = answer(deployment_request(SANDBOXED, "restricted"), NAMESPACES, EXEMPTING)
    assert found.audit_annotations == audited(exempt="runtimeClass")


def test_a_workload_in_a_namespace_with_invalid_labels_is_evaluated() -> None:
    found = answer(deployment_request(PRIVILEGED, "invalid"), NAMESPACES)
    assert not isinstance(found, Deny)
    assert found.warnings == ()
    assert found.audit_annotations.keys() == audited(error="").keys()
