"""Pods, as the controllers that concern them walk through them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.apimachinery.json_values import member

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.admission.reviews import Review
    from pratique.apimachinery.json_values import JSON, JSONObject

CONTAINER_FIELDS = ("initContainers", "containers", "ephemeralContainers")
"""The fields of a Pod's spec that hold containers, in the order in which Kubernetes visits them.

Source: ``pkg/apis/core/pods/helpers.go`` ``VisitContainersWithPath``.
"""

MIRROR_ANNOTATION = "kubernetes.io/config.mirror"
"""The annotation of mirror Pods, which a kubelet makes to show the static Pods that it already runs."""

NOT_A_POD = "Resource was marked with kind Pod but was unable to be converted"
"""What most controllers answer, with code 400, where something else than a Pod is stored under pods."""


def is_pod(document: JSON) -> bool:
    """Tell whether a document is a Pod; one that does not say its kind counts as one."""
    return isinstance(document, dict) and document.get("kind", "Pod") == "Pod"


def is_pod_review(review: Review) -> bool:
    """Tell whether a review is of Pods themselves, not of a subresource of theirs."""
    return review.concerns("", "pods")


def iter_containers(pod: JSONObject) -> Iterator[tuple[str, int, JSONObject]]:
    """All containers, each with the field of ``spec`` and the index that lead to it."""
    for field in CONTAINER_FIELDS:
        yield from _iter_items(pod, field)


def iter_volumes(pod: JSONObject) -> Iterator[tuple[str, int, JSONObject]]:
    """All volumes, each with the field of ``spec`` and the index that lead to it."""
    yield from _iter_items(pod, "volumes")


def _iter_items(pod: JSONObject, field: str) -> Iterator[tuple[str, int, JSONObject]]:
    items = member(pod, "spec", field)
    if isinstance(items, list):
        for index, item in enumerate(items):
            if isinstance(item, dict):
                yield field, index, item
