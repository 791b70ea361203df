"""PodSecurity: Kubernetes' conformance, ``test/run.go``, in a namespace of every level and version."""

from __future__ import annotations

import pytest

from pratique.admission.results import Deny
from pratique.admission.rules import compile_rules
from pratique.apimachinery.json_values import JSONObject
from pratique.controllers.pod_security import CONTROLLER
from support.admissions import admit, review_of
from support.pod_security_cases import cases, cluster, deployment_request, namespace_of, pod_request, title
from support.pod_security_reviews import PRIVILEGED, answer, workload

FIXTURES = cases("fixtures.jsonl")


@pytest.mark.parametrize("case", FIXTURES, ids=title)
def test_pods_are_admitted_or_denied_as_in_kubernetes(case: JSONObject) -> None:
    for minor in range(case["from"], case["to"] + 1):
        found = answer(pod_request(case["pod"], namespace_of(case["level"], minor)), cluster())
        policy = f"{case['level']}:v1.{minor}"
        assert found.audit_annotations == {"pod-security.kubernetes.io/enforce-policy": policy}
        assert found.warnings == ()
        if "detail" not in case:
            assert not isinstance(found, Deny)
            continue
        assert isinstance(found, Deny)
        assert found.status is not None
        assert (found.status.code, found.status.reason) == (403, "Forbidden")
        assert found.status.message == (
            f'pods "test" is forbidden: violates PodSecurity "{policy}": {case["detail"]}'
        )


@pytest.mark.parametrize("case", FIXTURES, ids=title)
def test_deployments_are_admitted_with_warnings_as_in_kubernetes(case: JSONObject) -> None:
    for minor in range(case["from"], case["to"] + 1):
        found = answer(deployment_request(case["pod"], namespace_of(case["level"], minor)), cluster())
        policy = f"{case['level']}:v1.{minor}"
        warnings = (f'would violate PodSecurity "{policy}": {case["detail"]}',) if "detail" in case else ()
        assert not isinstance(found, Deny)
        assert (found.warnings, found.audit_annotations) == (warnings, {})


@pytest.mark.parametrize(
    ("resource", "group", "operation", "wanted"),
    [
        ("pods", "", "CREATE", True),
        ("pods", "", "DELETE", False),
        ("pods", "", "CONNECT", False),
        ("namespaces", "", "UPDATE", True),
        ("namespaces", "", "DELETE", False),
        ("services", "", "CREATE", False),
        ("deployments", "extensions", "CREATE", False),
        ("foobars", "apps", "CREATE", False),
    ],
)
def test_its_rules_match_pods_workloads_and_namespaces(
    resource: str, group: str, operation: str, *, wanted: bool
) -> None:
    request = workload("Kind", group, resource, {}, "shop") | {"operation": operation}
    assert compile_rules(CONTROLLER.rules).matches(review_of(request)) is wanted


def test_without_cluster_files_no_namespace_restricts_pods() -> None:
    assert admit(CONTROLLER, review_of(pod_request(PRIVILEGED, "anywhere"))).allowed
