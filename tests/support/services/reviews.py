"""Reviews for tests of services."""

from __future__ import annotations

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, NULL, Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.cluster.store import ANY_NAMESPACE, Cluster

POD: JSON = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web"},
    "spec": {"containers": [{"name": "app", "image": "nginx"}]},
}


def review_of(
    document: JSON = POD, *, operation: Operation = Operation.CREATE, cluster: Cluster = ANY_NAMESPACE
) -> Review:
    """A review of a Pod, or of ``document``; bytes are taken as they are, JSON or not."""
    held = Document.from_raw(document) if isinstance(document, bytes) else Document.from_data(document)
    deleted = operation is Operation.DELETE
    return Review(
        uid="0df28fbd-5f5f-11e8-bc74-36e6bb280816",
        operation=operation,
        kind=GroupVersionKind("", "v1", "Pod"),
        resource=GroupVersionResource("", "v1", "pods"),
        name="web",
        namespace="shop",
        user=UserInfo("ann", "7", ("devs",)),
        object_document=NULL if deleted else held,
        old_object_document=held if deleted else NULL,
        cluster=cluster,
    )
