"""How controllers iterate over Pods."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON
from pratique.pods import pod_spec
from support.admissions import pod_review


def test_containers_come_in_kubernetes_order() -> None:
    spec = {
        "ephemeralContainers": [{"name": "e"}],
        "containers": [{"name": "a"}, {"name": "b"}],
        "initContainers": [{"name": "i"}],
    }
    assert list(pod_spec.iter_containers({"spec": spec})) == [
        ("initContainers", 0, {"name": "i"}),
        ("containers", 0, {"name": "a"}),
        ("containers", 1, {"name": "b"}),
        ("ephemeralContainers", 0, {"name": "e"}),
    ]


def test_items_that_are_not_objects_are_neither_containers_nor_volumes() -> None:
    pod = {"spec": {"containers": ["x", None, {"name": "a"}], "volumes": {"name": "v"}}}
    assert list(pod_spec.iter_containers(pod)) == [("containers", 2, {"name": "a"})]
    assert list(pod_spec.iter_volumes(pod)) == []


@pytest.mark.parametrize("spec", [None, 1, "x", []])
def test_a_pod_without_a_spec_has_neither(spec: JSON) -> None:
    assert list(pod_spec.iter_containers({"spec": spec})) == list(pod_spec.iter_volumes({"spec": spec})) == []


@pytest.mark.parametrize(
    ("document", "expected"),
    [({"kind": "Pod"}, True), ({}, True), ({"kind": "Service"}, False), (None, False), ([], False)],
)
def test_a_pod_is_recognised_by_its_kind(document: JSON, *, expected: bool) -> None:
    assert pod_spec.is_pod(document) is expected


def test_subresources_are_not_pods() -> None:
    assert pod_spec.is_pod_review(pod_review({}))
    assert not pod_spec.is_pod_review(pod_review({}, subresource="status"))
