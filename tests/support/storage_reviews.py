"""Reviews of claims and volumes."""

from __future__ import annotations

from collections.abc import Iterable

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from support.admissions import review_of


def claim_review(
    claim: JSON,
    *,
    operation: str = "CREATE",
    old: JSON = None,
    subresource: str = "",
    cluster: Iterable[JSONObject] = (),
) -> Review:
    """Make a review of a claim in namespace ``shop``."""
    return review_of(
        {
            "operation": operation,
            "kind": {"group": "", "version": "v1", "kind": "PersistentVolumeClaim"},
            "resource": {"group": "", "version": "v1", "resource": "persistentvolumeclaims"},
            "subResource": subresource,
            "namespace": "shop",
            "name": "data",
            "object": claim,
            "oldObject": old,
        },
        ObjectStore(cluster),
    )


def volume_review(volume: JSON, *, operation: str = "CREATE") -> Review:
    """Make a review of a volume."""
    return review_of(
        {
            "operation": operation,
            "kind": {"group": "", "version": "v1", "kind": "PersistentVolume"},
            "resource": {"group": "", "version": "v1", "resource": "persistentvolumes"},
            "name": "disk",
            "object": volume,
        }
    )


def storage_class(name: str, **more: JSON) -> JSONObject:
    """A StorageClass; ``annotations`` and ``creationTimestamp`` belong to its metadata."""
    metadata = {key: more.pop(key) for key in ("annotations", "creationTimestamp") if key in more}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, **metadata},
        "provisioner": "example.com/disks",
        **more,
    }
