"""Subjects: what a review is about, in a few words."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.reviews import Operation

if TYPE_CHECKING:
    from pratique.reviews import Review


def subject(review: Review) -> str:
    """Name what is reviewed: ``Deployment shop/web``, ``DELETE Pod shop/web``, ``Pod/status shop/web``."""
    kind = review.kind.kind + (f"/{review.subresource}" if review.subresource else "")
    name = review.name or member(review.object, "metadata", "name") or _generated(review)
    operation = "" if review.operation is Operation.CREATE else f"{review.operation.value} "
    # A Namespace is asked for in itself, which is no place to show.
    placed = review.namespace and review.resource.resource != "namespaces"
    return f"{operation}{kind} {review.namespace}/{name}" if placed else f"{operation}{kind} {name}"


def _generated(review: Review) -> str:
    prefix = member(review.object, "metadata", "generateName")
    return f"{prefix}…" if prefix else "without a name"
