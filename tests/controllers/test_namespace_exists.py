"""NamespaceExists."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from pratique.apimachinery.errors import UnreachableError
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.api_resources import ApiResources
from pratique.cluster.store import ANY_NAMESPACE, Cluster, ObjectStore
from pratique.controllers.namespace_exists import CONTROLLER
from pratique.controllers.namespace_lifecycle import LaggingCluster
from support import vector_cases
from support.admissions import Admission, admit, pod_review, review_of
from support.expectations import check

SHOP = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}


@pytest.mark.parametrize("case", vector_cases.plugin("NamespaceExists"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    check(admit(CONTROLLER, review_of(case["request"], ObjectStore(case["cluster"]))), case["expected"])


def act(cluster: Cluster, operation: str = "CREATE") -> Admission:
    pod = {"kind": "Pod", "metadata": {"name": "web"}}
    review = pod_review(pod, operation=operation, old=pod)
    return admit(CONTROLLER, msgspec.structs.replace(review, cluster=cluster))


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE", "DELETE"])
def test_every_operation_needs_the_namespace(operation: str) -> None:
    assert act(ObjectStore([SHOP]), operation).allowed
    status = act(ObjectStore(), operation).status
    assert status is not None
    assert (status.code, status.reason) == (404, "NotFound")
    assert status.message == 'namespaces "shop" not found'


def test_a_terminating_namespace_still_exists() -> None:
    assert act(ObjectStore([{**SHOP, "status": {"phase": "Terminating"}}])).allowed


def test_connections_are_not_checked() -> None:
    assert act(ObjectStore(), "CONNECT").allowed


def test_without_cluster_files_every_namespace_exists() -> None:
    assert act(ANY_NAMESPACE).allowed


class Lagging(LaggingCluster):
    """An empty cache, and the storage behind it."""

    def __init__(self, *stored: JSONObject, failure: str = "") -> None:
        self.cache = ObjectStore()
        self.stored = ObjectStore(stored)
        self.failure = failure

    @property
    def resources(self) -> ApiResources:
        return self.cache.resources

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        return self.cache.get(group, resource, name, namespace)

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        return self.cache.list(group, resource, namespace)

    async def get_live(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        if self.failure:
            raise UnreachableError(self.failure)
        return self.stored.get(group, resource, name, namespace)


def test_a_namespace_missing_from_the_cache_is_looked_up_in_storage() -> None:
    assert act(Lagging(SHOP)).allowed
    status = act(Lagging()).status
    assert status is not None
    assert status.message == 'namespaces "shop" not found'


def test_a_storage_failure_is_an_internal_error() -> None:
    status = act(Lagging(failure="connection refused")).status
    assert status is not None
    assert (status.code, status.reason) == (500, "InternalError")
    assert status.message == "Internal error occurred: connection refused"
