"""NamespaceAutoProvision."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from hypothesis import given

from pratique.admission.results import ALLOWED, Denied, OutcomeDecision
from pratique.admission.reviews import Call
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import PratiqueError, RefusalError, UnreachableError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ANY_NAMESPACE, Cluster, ObjectStore, ReloadableCluster
from pratique.controllers.namespace_auto_provision import CONTROLLER
from pratique.hosting.catalogue import load_catalogue
from pratique.hosting.running import MutatorHost
from support import vector_cases
from support.admissions import Admission, admit, pod_review, review_of
from support.expectations import check
from support.strategies.pods import pods

POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}
FAILURES = {"Forbidden": RefusalError(statuses.forbidden("", "namespaces", "test", "no"))}


class Guarded(ObjectStore):
    """An empty cluster on which every write fails."""

    def __init__(self, failure: PratiqueError | None) -> None:
        super().__init__()
        self.failure = failure

    async def create(self, document: JSONObject) -> bool:
        assert document == {"apiVersion": "v1", "kind": "Namespace", "metadata": document["metadata"]}
        if self.failure is None:
            return False  # another request was faster
        raise self.failure


@pytest.mark.parametrize("case", vector_cases.plugin("NamespaceAutoProvision"), ids=vector_cases.source)
def test_it_answers_as_kubernetes_does(case: JSONObject) -> None:
    store = ObjectStore(case["cluster"])
    failure = case.get("external", {}).get("createNamespaceFailsWith")
    cluster = Guarded(FAILURES.get(failure)) if failure else store
    before = [namespace["metadata"]["name"] for namespace in store.list("", "namespaces")]
    check(admit(CONTROLLER, review_of(case["request"], cluster)), case["expected"])
    created = {namespace["metadata"]["name"] for namespace in store.list("", "namespaces")} - set(before)
    if "sideEffects" in case:
        assert sorted(created) == case["sideEffects"]["created"]


def create(cluster: Cluster, *, dry_run: bool = False, namespace: str = "shop") -> Admission:
    review = pod_review(POD)
    return admit(
        CONTROLLER, msgspec.structs.replace(review, cluster=cluster, dry_run=dry_run, namespace=namespace)
    )


def test_a_missing_namespace_is_created() -> None:
    store = ObjectStore()
    found = create(store)
    assert found.allowed
    assert found.operations == ()
    assert store.get("", "namespaces", "shop") == {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": "shop", "labels": {"kubernetes.io/metadata.name": "shop"}},
        "status": {"phase": "Active"},
    }


def test_a_new_namespace_gets_its_default_service_account() -> None:
    store = ObjectStore()
    create(store)
    account = store.get("", "serviceaccounts", "default", "shop")
    assert account is not None
    assert account["metadata"] == {"name": "default", "namespace": "shop"}


def test_an_existing_namespace_stays_as_it_is() -> None:
    shop = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"a": "b"}}}
    store = ObjectStore([{**shop, "status": {"phase": "Terminating"}}])
    before = store.get("", "namespaces", "shop")
    assert create(store).allowed
    assert store.get("", "namespaces", "shop") == before


def test_a_dry_run_creates_nothing() -> None:
    store = ObjectStore()
    assert create(store, dry_run=True).allowed
    assert store.list("", "namespaces") == ()


@pytest.mark.parametrize("operation", ["UPDATE", "DELETE", "CONNECT"])
def test_only_create_requests_create_a_namespace(operation: str) -> None:
    store = ObjectStore()
    review = msgspec.structs.replace(pod_review(POD, operation=operation, old=POD), cluster=store)
    assert admit(CONTROLLER, review).allowed
    assert store.list("", "namespaces") == ()


def test_without_cluster_files_nothing_is_created() -> None:
    store = ObjectStore(assume_namespaces=True)
    assert create(store).allowed
    assert store.list("", "namespaces") == ()
    assert create(ANY_NAMESPACE).allowed


def refusal(found: Admission) -> str:
    assert found.status is not None
    assert (found.status.code, found.status.reason) == (403, "Forbidden")
    return found.status.message


def test_a_forbidden_creation_is_passed_on_unchanged() -> None:
    assert refusal(create(Guarded(FAILURES["Forbidden"]))) == 'namespaces "test" is forbidden: no'


@pytest.mark.parametrize(
    ("failure", "text"),
    [
        (UnreachableError("connection refused"), "connection refused"),
        (RefusalError(statuses.internal_error("etcd")), "Internal error occurred: etcd"),
    ],
)
def test_any_other_failure_is_reported_for_the_object(failure: PratiqueError, text: str) -> None:
    assert refusal(create(Guarded(failure))) == f'pods "web" is forbidden: {text}'


def test_an_invalid_namespace_name_is_denied() -> None:
    store = ObjectStore()
    assert refusal(create(store, namespace="My_Shop")).startswith(
        'pods "web" is forbidden: Namespace "My_Shop" is invalid: metadata.name: Invalid value: "My_Shop": '
        "a lowercase RFC 1123 label must consist of"
    )
    assert store.list("", "namespaces") == ()


class ReadOnly:
    """A cluster that cannot be written to."""

    def __init__(self) -> None:
        self.resources = ObjectStore().resources

    def get(self, *_: str) -> None:
        return None

    def list(self, *_: str | None) -> tuple[JSONObject, ...]:
        return ()


@pytest.mark.parametrize("cluster", [ReadOnly(), ReloadableCluster(ReadOnly())])
def test_a_read_only_cluster_is_reported(cluster: Cluster) -> None:
    text = "shop cannot be created: the cluster that it belongs to cannot be written to"
    assert refusal(create(cluster)) == f'pods "web" is forbidden: {text}'


def test_a_cluster_of_files_is_writable_until_the_files_change() -> None:
    cluster = ReloadableCluster(ObjectStore())
    assert create(cluster).allowed
    assert cluster.get("", "namespaces", "shop") is not None
    cluster.swap(ObjectStore())
    assert cluster.get("", "namespaces", "shop") is None
    assert create(cluster).allowed
    assert cluster.get("", "namespaces", "shop") is not None


def decisions(*, dry_run: bool) -> list[OutcomeDecision]:
    """The decisions of a mutating phase with NamespaceLifecycle, in a cluster without namespaces."""
    names = ("NamespaceAutoProvision", "NamespaceLifecycle")
    catalogue = load_catalogue()
    controllers = [controller for controller in catalogue if controller.name in names]
    assert tuple(controller.name for controller in controllers) == names
    host = MutatorHost(catalogue.configure(controllers, {}), ReloadableCluster(ObjectStore()))
    review = msgspec.structs.replace(pod_review(POD), dry_run=dry_run)
    outcomes = asyncio.run(host.mutate(review, [Call(name) for name in names]))
    return [outcome.decision for outcome in outcomes]


def test_namespace_lifecycle_sees_the_new_namespace_in_the_same_pass() -> None:
    assert decisions(dry_run=False) == [ALLOWED, ALLOWED]


def test_namespace_lifecycle_denies_a_dry_run_because_nothing_was_created() -> None:
    first, second = decisions(dry_run=True)
    assert first == ALLOWED
    assert isinstance(second, Denied)
    assert second.status.message == 'namespaces "shop" not found'


@given(pods())
def test_it_never_changes_the_object(reviewed: JSON) -> None:
    store = ObjectStore()
    for _ in range(2):
        assert (
            admit(CONTROLLER, msgspec.structs.replace(pod_review(reviewed), cluster=store)).operations == ()
        )
    assert [namespace["metadata"]["name"] for namespace in store.list("", "namespaces")] == ["shop"]
