"""SecurityContextDeny."""

from __future__ import annotations

import pytest
from hypothesis import given

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.security_context_deny import CONTROLLER
from support import vector_cases
from support.admissions import admit, pod_review, review_of
from support.expectations import check
from support.pods import container, pod
from support.strategies.pods import pods


@pytest.mark.parametrize("case", vector_cases.plugin("SecurityContextDeny"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    check(admit(CONTROLLER, review_of(case["request"])), case["expected"])


def pod_with_contexts(context: JSON = None, **containers: JSONObject) -> JSONObject:
    spec: JSONObject = {
        field: [container("a"), container("b", securityContext=context_)]
        for field, context_ in containers.items()
    }
    return pod(**spec, securityContext=context)


def message(reviewed: JSON, operation: str = "CREATE") -> str:
    status = admit(CONTROLLER, pod_review(reviewed, operation=operation, old=reviewed)).status
    assert status is not None
    assert (status.code, status.reason) == (403, "Forbidden")
    return status.message


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize(
    ("reviewed", "field"),
    [
        (pod_with_contexts({"supplementalGroups": [1]}), "pod.Spec.SecurityContext.SupplementalGroups"),
        (pod_with_contexts({"supplementalGroups": []}), "pod.Spec.SecurityContext.SupplementalGroups"),
        (pod_with_contexts({"seLinuxOptions": {}}), "pod.Spec.SecurityContext.SELinuxOptions"),
        (pod_with_contexts({"runAsUser": 0}), "pod.Spec.SecurityContext.RunAsUser"),
        (pod_with_contexts({"fsGroup": 0}), "pod.Spec.SecurityContext.FSGroup"),
        (pod_with_contexts({"fsGroup": 1, "runAsUser": 1}), "pod.Spec.SecurityContext.RunAsUser"),
        (
            pod_with_contexts({"runAsUser": 1, "seLinuxOptions": {}}),
            "pod.Spec.SecurityContext.SELinuxOptions",
        ),
        (pod_with_contexts(containers={"seLinuxOptions": {}}), "SecurityContext.SELinuxOptions"),
        (pod_with_contexts(containers={"runAsUser": 0}), "SecurityContext.RunAsUser"),
        (pod_with_contexts(initContainers={"runAsUser": 1000}), "SecurityContext.RunAsUser"),
        (
            pod_with_contexts(containers={"seLinuxOptions": {}}, initContainers={"runAsUser": 1}),
            "SecurityContext.RunAsUser",
        ),
        (pod_with_contexts({"fsGroup": 1}, containers={"runAsUser": 1}), "pod.Spec.SecurityContext.FSGroup"),
    ],
)
def test_the_first_field_that_is_set_is_denied(reviewed: JSON, field: str, operation: str) -> None:
    assert message(reviewed, operation) == f'pods "web" is forbidden: {field} is forbidden'


@pytest.mark.parametrize(
    "reviewed",
    [
        pod_with_contexts(),
        pod_with_contexts({}),
        pod_with_contexts({"runAsUser": None, "runAsNonRoot": True, "runAsGroup": 1}),
        pod_with_contexts(containers={"privileged": True, "capabilities": {"add": ["ALL"]}, "runAsGroup": 1}),
        pod_with_contexts(containers={"fsGroup": 1, "supplementalGroups": [1]}),
        pod_with_contexts(ephemeralContainers={"runAsUser": 0}),
        {"kind": "Pod", "spec": {"securityContext": "x", "containers": [None]}},
    ],
)
def test_all_other_fields_are_ignored(reviewed: JSON) -> None:
    assert admit(CONTROLLER, pod_review(reviewed)).allowed


@pytest.mark.parametrize("metadata", [{"generateName": "web-"}, {}, None])
def test_the_denial_of_a_pod_without_a_name_has_no_name(metadata: JSON) -> None:
    reviewed = {**pod_with_contexts({"runAsUser": 1}), "metadata": metadata}
    assert message(reviewed) == "pods is forbidden: pod.Spec.SecurityContext.RunAsUser is forbidden"


@pytest.mark.parametrize("reviewed", [{"kind": "Service"}, None, []])
def test_an_object_other_than_a_pod_is_a_bad_request(reviewed: JSON) -> None:
    status = admit(CONTROLLER, pod_review(reviewed)).status
    assert status is not None
    assert (status.code, status.reason) == (400, "BadRequest")
    assert status.message == "Resource was marked with kind Pod but was unable to be converted"


def test_subresources_are_ignored() -> None:
    assert admit(CONTROLLER, pod_review(pod_with_contexts({"runAsUser": 1}), subresource="status")).allowed


@given(pods())
def test_a_pod_that_sets_none_of_the_fields_is_admitted(reviewed: JSON) -> None:
    assert admit(CONTROLLER, pod_review(reviewed)).allowed
