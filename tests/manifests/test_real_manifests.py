"""Reviews of real manifests."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.documents import read_documents
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.source_documents import unwrap_lists
from pratique.cluster.api_resources import built_in_resources
from pratique.manifests.requests import review_of_manifest

MANIFESTS = Path(__file__).parents[1] / "data" / "manifests"


def reviews_of(name: str) -> list[Review]:
    documents = unwrap_lists(read_documents(MANIFESTS / name))
    return [
        review_of_manifest(document.data, built_in_resources(), index=i)
        for i, document in enumerate(documents)
    ]


def test_every_kind_of_the_online_boutique_is_known() -> None:
    reviews = reviews_of("online-boutique.yaml")
    counts = Counter(review.resource.resource for review in reviews)
    assert counts == {"deployments": 12, "services": 12, "serviceaccounts": 11}
    assert {review.namespace for review in reviews} == {"default"}
    assert len({review.uid for review in reviews}) == len(reviews)


@pytest.mark.parametrize(
    ("file", "expected"),
    [
        ("cassandra-statefulset.yaml", [("statefulsets", "default"), ("storageclasses", "")]),
        ("mysql-pod.yaml", [("pods", "default")]),
        (
            "prometheus-adapter.yaml",
            [
                ("serviceaccounts", "monitoring"),
                ("clusterroles", ""),
                ("clusterrolebindings", ""),
                ("rolebindings", "kube-system"),
                ("clusterrolebindings", ""),
                ("configmaps", "monitoring"),
                ("deployments", "monitoring"),
                ("services", "monitoring"),
                ("apiservices", ""),
            ],
        ),
    ],
)
def test_a_document_goes_to_its_collection_and_namespace(file: str, expected: list[tuple[str, str]]) -> None:
    assert [(review.resource.resource, review.namespace) for review in reviews_of(file)] == expected


def test_a_custom_resource_needs_its_definition() -> None:
    with pytest.raises(InputError, match="add its CustomResourceDefinition: by --crds"):
        reviews_of("service-monitor.yaml")
