"""Objects that no API server could have read: that they break a controller of Kubernetes' own is their fault."""

from __future__ import annotations

import msgspec
import pytest

from fuzzing import clusters
from pratique.apimachinery.json_values import JSON, Document
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cluster.typed_decoding import type_fault
from pratique.hosting.catalogue import load_catalogue
from support.admissions import pod_review
from support.chains import decide

PRIORITY = [controller for controller in load_catalogue() if controller.name == "Priority"]


@pytest.mark.parametrize(
    ("pod", "fault"),
    [
        ({"spec": {"priorityClassName": {}}}, "spec.priorityClassName: expected string, got an object"),
        ({"spec": {"hostPID": 1}}, "spec.hostPID: expected boolean"),
        ({"spec": {"priority": True}}, "spec.priority: expected integer"),
        ({"spec": {"containers": {}}}, "spec.containers: expected list"),
        ({"spec": {"containers": ["a"]}}, "spec.containers[0]: expected object"),
        ({"metadata": {"labels": {"a": 1}}}, "metadata.labels.a: expected string"),
        ([], "expected object"),
    ],
)
def test_the_first_member_of_the_wrong_type_is_named(pod: JSON, fault: str) -> None:
    found = type_fault(pod_review(pod))
    assert found.startswith('Pod in version "v1" cannot be handled as a Pod: ')
    assert fault.removesuffix(", got an object") in found


@pytest.mark.parametrize(
    "pod",
    [
        None,
        {},
        {"spec": None, "unknown": 1},
        {"spec": {"containers": [{"ports": [{"containerPort": 1}], "resources": {"limits": {"cpu": 1.5}}}]}},
        {"spec": {"containers": [{"livenessProbe": {"httpGet": {"port": "web"}}}]}},
    ],
)
def test_a_readable_object_has_no_type_error(pod: JSON) -> None:
    assert type_fault(pod_review(pod)) == ""


def test_the_resource_determines_the_type_of_an_unknown_kind() -> None:
    review = msgspec.structs.replace(pod_review({"spec": []}), kind=GroupVersionKind("", "", ""))
    assert "cannot be handled as a Pod: spec: expected object" in type_fault(review)


def test_an_object_of_the_wrong_type_is_a_bad_request_and_not_a_controllers_failure() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"priorityClassName": {"a": "s"}},
    }
    review = msgspec.structs.replace(
        pod_review(pod), object_document=Document.from_data(pod), cluster=clusters.store()
    )
    decision = decide(review, PRIORITY)
    assert decision.status is not None
    assert (decision.status.code, decision.status.reason) == (400, "BadRequest")
    assert '"s"' not in decision.status.message
