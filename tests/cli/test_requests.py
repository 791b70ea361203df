"""What later reviews see of an admitted request."""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery.documents import read_text
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import ObjectStore
from pratique_cli.reviews.requests import review_of, store_admitted
from pratique_frontdoor.chain.decisions import Decision
from support.chains import POD, pod_review

NAMESPACE = b"apiVersion: v1\nkind: Namespace\nmetadata: {name: shop}\n"


def admitted(review: Review, *, allowed: bool = True) -> Decision:
    return Decision(uid=review.uid, allowed=allowed, object_document=review.object_document)


def test_an_admitted_object_is_stored() -> None:
    store = ObjectStore()
    store_admitted(pod_review(), admitted(pod_review()), store)
    assert store.get("", "pods", "web", "shop") == POD


def test_a_denied_object_is_not_stored() -> None:
    store = ObjectStore()
    store_admitted(pod_review(), admitted(pod_review(), allowed=False), store)
    assert store.get("", "pods", "web", "shop") is None


def test_a_dry_run_stores_nothing() -> None:
    store = ObjectStore()
    store_admitted(pod_review(dry_run=True), admitted(pod_review()), store)
    assert store.get("", "pods", "web", "shop") is None


def test_a_subresource_stores_no_object() -> None:
    store = ObjectStore()
    store_admitted(pod_review(subresource="status"), admitted(pod_review()), store)
    assert store.get("", "pods", "web", "shop") is None


def test_a_deleted_object_is_removed() -> None:
    store = ObjectStore()
    store.put(POD)
    store_admitted(
        pod_review(operation=Operation.DELETE, old_object_document=Document.from_data(POD)),
        admitted(pod_review()),
        store,
    )
    assert store.get("", "pods", "web", "shop") is None


def test_a_new_namespace_gets_its_default_service_account() -> None:
    store = ObjectStore()
    (document,) = read_text(NAMESPACE, "ns.yaml")
    review = review_of(document, store, 0)
    store_admitted(review, admitted(review), store)
    assert store.get("", "namespaces", "shop") is not None
    assert store.get("", "serviceaccounts", "default", "shop") is not None
