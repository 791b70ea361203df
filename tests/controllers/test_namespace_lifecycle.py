"""NamespaceLifecycle."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import msgspec
import pytest

from pratique.apimachinery.errors import UnreachableError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore
from pratique.controllers.namespace_lifecycle import (
    CONTROLLER,
    ForceLiveLookupCache,
    LaggingCluster,
    Settings,
    build,
)
from support import vector_cases
from support.admissions import Admission, admit, pod_review, review_of, run
from support.expectations import check


@dataclasses.dataclass
class Clock:
    """A clock that moves on command."""

    seconds: float = 1000.0

    def __call__(self) -> float:
        return self.seconds


class Lagging(LaggingCluster):
    """A cache of namespaces, and the storage behind it."""

    def __init__(self, cached: Sequence[JSONObject], stored: Sequence[JSONObject], failure: str = "") -> None:
        self.cached = ObjectStore(cached)
        self.stored = ObjectStore(stored)
        self.failure = failure
        self.live_lookups = 0

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        return self.cached.get(group, resource, name, namespace)

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        return self.cached.list(group, resource, namespace)

    @property
    def resources(self) -> ApiResources:
        return self.stored.resources

    async def get_live(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        self.live_lookups += 1
        if self.failure:
            raise UnreachableError(self.failure)
        return self.stored.get(group, resource, name, namespace)


CASES = vector_cases.plugin("NamespaceLifecycle")


def settings_of(case: JSONObject) -> JSON:
    """The cases contradict each other about updates, which no release admits so far."""
    return {"allowUpdates": True} if case.get("era", "").startswith("after v1.37") else None


@pytest.mark.parametrize("case", [case for case in CASES if "request" in case], ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    objects = case["cluster"]
    cluster = Lagging(objects, objects, case.get("external", {}).get("getNamespaceFailsWith", ""))
    check(admit(CONTROLLER, review_of(case["request"], cluster), settings_of(case)), case["expected"])


@pytest.mark.parametrize(
    "case", [case for case in CASES if "request" in case and "external" not in case], ids=vector_cases.source
)
def test_without_a_cache_it_answers_the_same(case: JSONObject) -> None:
    cluster = ObjectStore(case["cluster"])
    check(admit(CONTROLLER, review_of(case["request"], cluster), settings_of(case)), case["expected"])


@pytest.mark.parametrize("case", [case for case in CASES if "steps" in case], ids=vector_cases.source)
def test_sequences_of_requests_are_answered_as_in_kubernetes(case: JSONObject) -> None:
    clock = Clock()
    cluster = Lagging(case["cluster"], case["cluster"])
    handlers = build(Settings(), clock)
    for step in case["steps"]:
        clock.seconds += step.get("advanceSeconds", 0)
        if "setLive" in step:
            cluster.stored = ObjectStore(step["setLive"])
        cluster.live_lookups = 0
        check(run(CONTROLLER, handlers, review_of(step["request"], cluster)), step["expected"])
        assert cluster.live_lookups == step.get("liveLookups", 0)


def namespace(name: str = "shop", phase: str | None = None) -> JSONObject:
    written: JSONObject = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    return {**written, "status": {"phase": phase}} if phase else written


def on_namespace(operation: str, name: str, subresource: str = "") -> Admission:
    request = {
        "operation": operation,
        "kind": {"group": "", "version": "v1", "kind": "Namespace"},
        "resource": {"group": "", "version": "v1", "resource": "namespaces"},
        "subResource": subresource,
        "name": name,
        "namespace": name,
    }
    return admit(CONTROLLER, review_of(request, ObjectStore()))


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_three_namespaces_cannot_be_deleted(name: str) -> None:
    status = on_namespace("DELETE", name).status
    assert status is not None
    assert (status.code, status.reason) == (403, "Forbidden")
    assert status.message == f'namespaces "{name}" is forbidden: this namespace may not be deleted'


@pytest.mark.parametrize(
    ("operation", "name", "subresource"),
    [
        ("DELETE", "kube-node-lease", ""),
        ("DELETE", "shop", ""),
        ("UPDATE", "default", "finalize"),
        ("CREATE", "new", ""),
    ],
)
def test_other_requests_for_namespaces_are_admitted(operation: str, name: str, subresource: str) -> None:
    assert on_namespace(operation, name, subresource).allowed


def test_a_missing_namespace_is_not_found() -> None:
    review = msgspec.structs.replace(pod_review({"kind": "Pod"}), cluster=ObjectStore())
    status = admit(CONTROLLER, review).status
    assert status is not None
    assert (status.code, status.reason) == (404, "NotFound")
    assert status.message == 'namespaces "shop" not found'


def test_without_cluster_files_every_namespace_exists() -> None:
    assert admit(
        CONTROLLER, msgspec.structs.replace(pod_review({"kind": "Pod"}), cluster=ANY_NAMESPACE)
    ).allowed


def test_nothing_can_be_created_in_a_terminating_namespace() -> None:
    cluster = ObjectStore([namespace(phase="Terminating")])
    status = admit(CONTROLLER, msgspec.structs.replace(pod_review({"kind": "Pod"}), cluster=cluster)).status
    assert status is not None
    assert status.message == (
        'pods "web" is forbidden: unable to create new content in namespace shop'
        " because it is being terminated"
    )
    assert status.details is not None
    assert (status.details.name, status.details.kind) == ("web", "pods")
    assert [cause.reason for cause in status.details.causes] == ["NamespaceTerminating"]


@pytest.mark.parametrize(
    ("objects", "configuration", "code"),
    [
        ([namespace()], None, 0),
        ([namespace(phase="Terminating")], None, 0),
        ([], None, 404),
        ([], {"allowUpdates": False}, 404),
        ([], {"allowUpdates": True}, 0),
    ],
)
def test_an_update_needs_the_namespace_unless_configured_otherwise(
    objects: list[JSONObject], configuration: JSON, code: int
) -> None:
    review = pod_review({"kind": "Pod"}, operation="UPDATE", old={"kind": "Pod"})
    status = admit(
        CONTROLLER, msgspec.structs.replace(review, cluster=ObjectStore(objects)), configuration
    ).status
    assert (status.code if status else 0) == code


def create_in(cluster: Lagging) -> Admission:
    return admit(CONTROLLER, msgspec.structs.replace(pod_review({"kind": "Pod"}), cluster=cluster))


def test_a_namespace_missing_from_the_cache_is_looked_up_in_storage() -> None:
    cluster = Lagging([], [namespace()])
    assert create_in(cluster).allowed
    assert cluster.live_lookups == 1


def test_a_cached_namespace_is_not_looked_up_in_storage() -> None:
    cluster = Lagging([namespace()], [])
    assert create_in(cluster).allowed
    assert cluster.live_lookups == 0


def test_a_storage_failure_is_an_internal_error() -> None:
    status = create_in(Lagging([], [], "connection refused")).status
    assert status is not None
    assert (status.code, status.message) == (500, "Internal error occurred: connection refused")


def test_a_deleted_namespace_is_remembered_for_thirty_seconds() -> None:
    clock = Clock()
    names = ForceLiveLookupCache(clock)
    names.add("shop")
    clock.seconds += 30
    assert "shop" in names
    clock.seconds += 0.001
    assert "shop" not in names


def test_the_least_recently_used_of_a_hundred_names_is_forgotten() -> None:
    names = ForceLiveLookupCache(Clock())
    for number in range(100):
        names.add(f"n{number}")
    assert "n0" in names
    names.add("n100")
    assert "n0" in names
    assert "n1" not in names
