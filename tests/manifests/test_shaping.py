"""Making reviews of manifests."""

from __future__ import annotations

import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore
from pratique.manifests.registry_strategies import derived_uid
from pratique.manifests.requests import KUBECTL_USER, review_of_manifest


def manifest(api_version: str, kind: str, **metadata: JSON) -> JSONObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


DEPLOYMENT = manifest("apps/v1", "Deployment", name="cart", namespace="shop")


def review_of(document: JSONObject, **asked: JSON) -> Review:
    return review_of_manifest(document, built_in_resources(), **asked)


def test_a_manifest_is_reviewed_as_a_create() -> None:
    review = review_of(DEPLOYMENT)
    assert review.operation is Operation.CREATE
    assert review.kind == GroupVersionKind("apps", "v1", "Deployment")
    assert review.resource == GroupVersionResource("apps", "v1", "deployments")
    assert (review.subresource, review.namespace, review.name) == ("", "shop", "cart")
    assert review.object == DEPLOYMENT
    assert review.old_object is None
    assert review.options == {"kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1"}
    assert review.user == KUBECTL_USER
    assert not review.dry_run
    assert review.cluster is ANY_NAMESPACE


@pytest.mark.parametrize(("asked_in", "expected"), [(None, "default"), ("shop", "shop")])
def test_a_namespaced_object_without_namespace_is_given_one(asked_in: str | None, expected: str) -> None:
    review = review_of(manifest("v1", "Pod", name="p"), namespace=asked_in)
    assert review.namespace == expected
    assert review.object["metadata"] == {"name": "p", "namespace": expected}


def test_a_cluster_scoped_object_has_no_namespace() -> None:
    review = review_of(manifest("rbac.authorization.k8s.io/v1", "ClusterRole", name="r"), namespace="shop")
    assert review.namespace == ""
    assert review.object["metadata"] == {"name": "r"}


def test_the_namespace_of_a_cluster_scoped_object_is_dropped() -> None:
    review = review_of(manifest("v1", "PersistentVolume", name="v", namespace="shop"))
    assert review.namespace == ""
    assert review.object["metadata"] == {"name": "v"}


@pytest.mark.parametrize("operation", [Operation.CREATE, Operation.DELETE])
def test_a_namespace_request_is_in_that_namespace(operation: Operation) -> None:
    review = review_of(manifest("v1", "Namespace", name="shop"), operation=operation)
    assert (review.namespace, review.name) == ("shop", "shop")


def test_a_namespace_gets_the_api_servers_defaults() -> None:
    review = review_of(manifest("v1", "Namespace", name="shop", labels={"team": "web"}))
    assert review.object["metadata"]["labels"] == {"team": "web", "kubernetes.io/metadata.name": "shop"}
    assert review.object["status"] == {"phase": "Active"}


def test_a_name_yet_to_be_generated_is_empty() -> None:
    review = review_of(manifest("v1", "Pod", generateName="p-"))
    assert review.name == ""
    assert review.object["metadata"] == {"generateName": "p-", "namespace": "default"}


def test_a_create_wipes_the_system_fields() -> None:
    system: JSONObject = {
        "uid": "1", "creationTimestamp": "2020-01-01T00:00:00Z", "selfLink": "/x",
        "deletionTimestamp": None, "deletionGracePeriodSeconds": 3,
    }  # fmt: skip
    review = review_of(manifest("v1", "Pod", name="p", labels={"a": "b"}, **system))
    assert review.object["metadata"] == {"name": "p", "labels": {"a": "b"}, "namespace": "default"}


def test_the_manifest_is_not_changed() -> None:
    document = manifest("v1", "Pod", name="p", uid="1")
    review_of(document)
    assert document == manifest("v1", "Pod", name="p", uid="1")


def test_an_update_has_the_old_object_too() -> None:
    old = {**DEPLOYMENT, "spec": {"replicas": 1}}
    review = review_of(DEPLOYMENT, operation=Operation.UPDATE, old=old)
    assert (review.object, review.old_object) == (DEPLOYMENT, old)
    assert review.options == {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"}


def test_the_old_object_comes_from_before_the_request_first() -> None:
    stored, before = ({**DEPLOYMENT, "spec": {"replicas": n}} for n in (1, 2))
    stores = {"cluster": ObjectStore([stored]), "before": ObjectStore([before])}
    assert review_of(DEPLOYMENT, operation=Operation.UPDATE, **stores).old_object == before
    stores["before"] = ObjectStore()
    assert review_of(DEPLOYMENT, operation=Operation.UPDATE, **stores).old_object == stored


def test_an_update_finds_the_old_object_in_the_cluster() -> None:
    stored = {**DEPLOYMENT, "apiVersion": "extensions/v1beta1"}
    review = review_of(DEPLOYMENT, operation=Operation.UPDATE, cluster=ObjectStore([stored]))
    assert review.old_object == stored


def test_a_delete_has_only_the_old_object() -> None:
    review = review_of(DEPLOYMENT, operation=Operation.DELETE)
    assert (review.object, review.old_object) == (None, DEPLOYMENT)
    assert review.options == {"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1"}


def test_a_delete_uses_the_stored_object() -> None:
    stored = {**DEPLOYMENT, "spec": {"replicas": 1}}
    review = review_of(DEPLOYMENT, operation=Operation.DELETE, cluster=ObjectStore([stored]))
    assert review.old_object == stored


def test_a_dry_run_sets_the_options() -> None:
    review = review_of(DEPLOYMENT, dry_run=True)
    assert review.dry_run
    assert review.options["dryRun"] == ["All"]


def test_the_user_can_be_given() -> None:
    assert review_of(DEPLOYMENT, user=UserInfo("jane")).user == UserInfo("jane")


def test_the_same_manifest_always_makes_the_same_review() -> None:
    assert review_of(DEPLOYMENT) == review_of(DEPLOYMENT)


def test_uids_are_the_same_in_every_release() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bürde"}}
    uids = [review_of_manifest(pod, built_in_resources(), index=index).uid for index in (0, 3)]
    assert uids == ["57356505-5d43-52c8-96f1-fddd6794e5e6", "6c031b2f-e41b-5b93-a7df-d00b7c8c5d45"]
    assert derived_uid("a", "ü") == "587c23b5-a062-552e-82b3-f17f5c0ac08b"


def test_different_requests_have_different_uids() -> None:
    reviews = [
        review_of(DEPLOYMENT),
        review_of(DEPLOYMENT, index=1),
        review_of(DEPLOYMENT, operation=Operation.DELETE),
        review_of(DEPLOYMENT, operation=Operation.UPDATE, old=DEPLOYMENT),
        review_of(DEPLOYMENT, operation=Operation.UPDATE, old=DEPLOYMENT, subresource="status"),
        review_of(manifest("v1", "Pod", name="p")),
    ]
    assert len({review.uid for review in reviews}) == len(reviews)


@pytest.mark.parametrize(
    ("document", "subresource", "operation", "resource"),
    [
        (DEPLOYMENT, "status", Operation.UPDATE, GroupVersionResource("apps", "v1", "deployments")),
        (manifest("v1", "Pod", name="p"), "resize", Operation.UPDATE, GroupVersionResource("", "v1", "pods")),
        (manifest("policy/v1", "Eviction", name="p"), "eviction", Operation.CREATE,
         GroupVersionResource("", "v1", "pods")),
        (manifest("v1", "Binding", name="p"), "binding", Operation.CREATE,
         GroupVersionResource("", "v1", "pods")),
        (manifest("authentication.k8s.io/v1", "TokenRequest", name="sa"), "token", Operation.CREATE,
         GroupVersionResource("", "v1", "serviceaccounts")),
    ],
)  # fmt: skip
def test_a_subresource_is_found_by_name_and_kind(
    document: JSONObject, subresource: str, operation: Operation, resource: GroupVersionResource
) -> None:
    review = review_of(document, subresource=subresource, operation=operation, old=document)
    assert (review.resource, review.subresource) == (resource, subresource)
    assert review.kind.kind == document["kind"]


def test_a_virtual_resource_needs_no_name() -> None:
    access = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {}}
    review = review_of(access)
    assert review.resource.resource == "subjectaccessreviews"
    assert review.name == ""


def test_a_custom_resource_is_known_by_its_definition() -> None:
    definition: JSONObject = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "clusters.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "clusters", "kind": "Cluster"},
            "versions": [{"name": "v1", "served": True, "storage": True}],
        },
    }
    store = ObjectStore([definition])
    review = review_of_manifest(
        manifest("example.com/v1", "Cluster", name="c"), store.resources, cluster=store
    )
    assert review.resource == GroupVersionResource("example.com", "v1", "clusters")
    assert review.namespace == ""


def test_nulls_of_a_manifest_are_decoded_as_gos_decoder_does() -> None:
    written = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": None, "labels": {"x": None}},
        "data": {"k": None, "l": "m"},
        "binaryData": {"b": None},
        "immutable": None,
        "unknown": None,
    }
    assert review_of_manifest(written, built_in_resources()).object == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "a", "namespace": "default", "labels": {"x": ""}},
        "data": {"k": "", "l": "m"},
        "binaryData": {"b": None},
        "unknown": None,
    }
