"""Namespaces that NamespaceAutoProvision creates, as every service sees them."""

from __future__ import annotations

import msgspec
import pytest

from pratique.admission.namespace_provisioning import provisions_namespaces, with_provisioned_namespace
from pratique.apimachinery.names import name_of
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import ObjectStore
from pratique.hosting.catalogue import load_catalogue
from support.services.reviews import review_of

LABELLED = {"name": "shop", "labels": {"kubernetes.io/metadata.name": "shop"}}


def test_only_a_chain_with_the_provisioner_creates_namespaces() -> None:
    controllers = load_catalogue().controllers
    assert provisions_namespaces(controllers)
    assert not provisions_namespaces(
        controller for controller in controllers if controller.name != "NamespaceAutoProvision"
    )


@pytest.mark.parametrize("operation", Operation)
def test_every_operation_sees_its_namespace(operation: Operation) -> None:
    review = review_of(operation=operation, cluster=ObjectStore())
    cluster = with_provisioned_namespace(review).cluster
    found = cluster.get("", "namespaces", "shop")
    assert found is not None
    assert found["metadata"]["labels"] == LABELLED["labels"]
    assert [name_of(account) for account in cluster.list("", "serviceaccounts", "shop")] == ["default"]
    assert cluster.get("", "serviceaccounts", "default", "shop") is not None
    assert cluster.get("", "namespaces", "other") is None
    assert cluster.list("", "serviceaccounts", "other") == ()


def test_a_dry_run_create_sees_only_the_namespaces_of_the_cluster() -> None:
    review = msgspec.structs.replace(review_of(cluster=ObjectStore()), dry_run=True)
    assert with_provisioned_namespace(review) is review
    update = msgspec.structs.replace(review, operation=Operation.UPDATE)
    assert with_provisioned_namespace(update).cluster.get("", "namespaces", "shop") is not None


def test_a_namespace_of_the_cluster_is_left_as_it_is() -> None:
    stored = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"a": "b"}}}
    review = review_of(cluster=ObjectStore([stored]))
    assert with_provisioned_namespace(review) is review


@pytest.mark.parametrize("namespace", ["", "No_Name", "x" * 64])
def test_a_namespace_that_cannot_be_created_is_not_there(namespace: str) -> None:
    review = msgspec.structs.replace(review_of(cluster=ObjectStore()), namespace=namespace)
    assert with_provisioned_namespace(review) is review


def test_stored_objects_of_a_provisioned_namespace_are_listed_with_the_created_ones() -> None:
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "app", "namespace": "shop"}}
    cluster = with_provisioned_namespace(review_of(cluster=ObjectStore([account]))).cluster
    assert [name_of(account) for account in cluster.list("", "serviceaccounts", "shop")] == ["app", "default"]
