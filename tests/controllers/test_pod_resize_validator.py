"""PodResizeValidator."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.statuses import StatusCause
from pratique.cluster.store import ObjectStore
from pratique.controllers.pod_resize_validator import CONTROLLER
from support.admissions import Admission, admit, denial, forbidden_text, review_of
from support.pods import container, pod

LACKING = "node didn't have enough allocatable resources: "


def node(name: str = "n1", system: str | None = "linux", **allocatable: JSON) -> JSONObject:
    labels = {} if system is None else {"kubernetes.io/os": system}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "status": {"allocatable": allocatable},
    }


NODES = [
    node(cpu="4", memory="8Gi"),
    node("windows", "windows", cpu="4", memory="8Gi"),
    node("unlabelled", None, cpu="4", memory="8Gi"),
    node("silent"),
]


def requesting(cpu: JSON = None, memory: JSON = None, **fields: JSON) -> JSONObject:
    requests = {"cpu": cpu, "memory": memory}
    return container(
        resources={"requests": {name: amount for name, amount in requests.items() if amount is not None}},
        **fields,
    )


def resized(
    *containers: JSONObject, generation: JSON = 2, node_name: JSON = "n1", **spec: JSON
) -> JSONObject:
    metadata = {} if generation is None else {"generation": generation}
    return pod(*containers, metadata=metadata, nodeName=node_name, **spec)


STORED = resized(requesting("1", "1Gi"), generation=1)


def resize(new: JSON, old: JSON = STORED, **fields: JSON) -> Admission:
    request: JSONObject = {
        "operation": "UPDATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "subResource": "resize",
        "namespace": "shop",
        "name": "web",
        "object": new,
        "oldObject": old,
    }
    return admit(CONTROLLER, review_of(request | fields, ObjectStore(NODES)))


@pytest.mark.parametrize(
    ("new", "text"),
    [
        (resized(requesting("2", "1Gi")), ""),
        (resized(requesting("1", "2Gi")), ""),
        (resized(requesting("4", "8Gi")), ""),
        (resized(requesting("0", "0")), ""),
        (resized(requesting()), ""),
        (resized(requesting("10")), "cpu, requested: 10000, allocatable: 4000"),
        (resized(requesting("4001m")), "cpu, requested: 4001, allocatable: 4000"),
        (resized(requesting("4000.1m")), "cpu, requested: 4001, allocatable: 4000"),
        (resized(requesting(memory="10Gi")), "memory, requested: 10737418240, allocatable: 8589934592"),
        (
            resized(requesting(memory="8589934592500m")),
            "memory, requested: 8589934593, allocatable: 8589934592",
        ),
        (
            resized(requesting("5", "9Gi")),
            "cpu, requested: 5000, allocatable: 4000; memory, requested: 9663676416, allocatable: 8589934592",
        ),
        (resized(requesting("3"), requesting("2")), "cpu, requested: 5000, allocatable: 4000"),
        (resized(requesting("3"), initContainers=[requesting("4")]), ""),
        (
            resized(requesting("1"), initContainers=[requesting("5")]),
            "cpu, requested: 5000, allocatable: 4000",
        ),
        (
            resized(requesting("2"), initContainers=[requesting("3", restartPolicy="Always")]),
            "cpu, requested: 5000, allocatable: 4000",
        ),
        (resized(requesting("3"), overhead={"cpu": "1"}), ""),
        (resized(requesting("4"), overhead={"cpu": "1m"}), "cpu, requested: 4001, allocatable: 4000"),
        (resized(overhead={"cpu": "5"}), "cpu, requested: 5000, allocatable: 4000"),
        (resized(requesting("9"), resources={"requests": {"cpu": "1"}}), ""),
        (
            resized(requesting("1"), resources={"requests": {"cpu": "5"}}, overhead={"cpu": "1"}),
            "cpu, requested: 6000, allocatable: 4000",
        ),
        (
            resized(requesting("1", "9Gi"), resources={"requests": {"cpu": "1"}}),
            "memory, requested: 9663676416, allocatable: 8589934592",
        ),
        (resized(container(resources={"limits": {"cpu": "9"}})), ""),
        (resized(requesting("1m"), node_name="silent"), "cpu, requested: 1, allocatable: 0"),
        (resized(requesting(), node_name="silent"), ""),
        (resized(requesting("5"), node_name="unlabelled"), "cpu, requested: 5000, allocatable: 4000"),
        (resized(requesting("1"), node_name="unlabelled"), ""),
    ],
)
def test_a_pod_must_fit_its_node(new: JSONObject, text: str) -> None:
    found = resize(new)
    if not text:
        assert found.allowed
        return
    assert forbidden_text(found) == LACKING + text
    assert causes(found) == ("NodeCapacity",)


def causes(found: Admission) -> tuple[str, ...]:
    assert found.status is not None
    assert found.status.details is not None
    assert all(cause == StatusCause(reason=cause.reason) for cause in found.status.details.causes)
    return tuple(cause.reason for cause in found.status.details.causes)


def test_pods_on_other_systems_than_linux_are_not_resized() -> None:
    found = resize(resized(requesting("1"), node_name="windows"))
    assert forbidden_text(found) == (
        'pod resize is only supported on linux nodes, node "windows" is "windows"'
    )
    assert causes(found) == ("UnsupportedPlatform",)


def test_the_node_must_exist() -> None:
    found = resize(resized(requesting("1"), node_name="gone"))
    assert forbidden_text(found) == 'node "gone" not found'
    assert causes(found) == ()


@pytest.mark.parametrize(
    ("new", "old"),
    [
        (resized(requesting("9"), node_name=None), STORED),
        (resized(requesting("9"), node_name=""), STORED),
        (resized(requesting("9"), generation=1), STORED),
        (resized(requesting("9"), generation=None), resized(generation=0)),
        (resized(requesting("9"), generation=None), resized(generation=None)),
        (resized(requesting("9"), node_name="gone", generation=1), STORED),
    ],
)
def test_unbound_pods_and_unchanged_specifications_are_not_checked(new: JSONObject, old: JSONObject) -> None:
    assert resize(new, old).allowed


@pytest.mark.parametrize(
    "fields",
    [
        {"subResource": ""},
        {"subResource": "status"},
        {"subResource": "ephemeralcontainers"},
        {"operation": "CREATE"},
    ],
)
def test_other_requests_are_ignored(fields: JSONObject) -> None:
    assert resize(resized(requesting("9")), **fields).allowed


def test_another_type_is_a_bad_request() -> None:
    other: JSONObject = {"apiVersion": "v1", "kind": "Service"}
    assert denial(resize(other)) == (400, "BadRequest", "expected a pod but got a *core.Service")
    assert denial(resize(resized(), other)) == (
        400,
        "BadRequest",
        "expected an old pod but got a *core.Service",
    )
    assert denial(resize(None)) == (400, "BadRequest", "expected a pod but got a <nil>")


def test_a_malformed_amount_is_a_bad_request() -> None:
    code, reason, message = denial(resize(resized(requesting("much"))))
    assert (code, reason) == (400, "BadRequest")
    assert message.startswith("spec.containers[0].resources.requests.cpu: quantities must match")


@given(st.integers(0, 8000), st.integers(0, 8000))
def test_a_pod_is_denied_exactly_if_its_containers_need_more_than_the_node_has(
    first: int, second: int
) -> None:
    new = resized(requesting(f"{first}m"), requesting(f"{second}m"))
    assert resize(new).allowed is (first + second <= 4000)
