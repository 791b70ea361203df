"""Nodes: a node registers and describes itself, and may not choose what Pods it gets."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import node_labels
from pratique.controllers.node_restriction.requests import NodeRequest, Refusal, is_kind, unexpected_type
from pratique.equalities import semantically_equal
from pratique.json_values import member
from pratique.reviews import Operation
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.json_values import JSON


def check(request: NodeRequest) -> Iterator[Refusal]:
    """Look at a request for a Node or a subresource of it."""
    if request.object_name != request.node:
        yield f"node {request.quoted} is not allowed to modify node {go_quoted(request.object_name)}"
    elif request.review.operation is Operation.CREATE:
        yield from _check_new(request)
    elif request.review.operation is Operation.UPDATE:
        yield from _check_update(request)


def _check_new(request: NodeRequest) -> Iterator[Refusal]:
    node = request.review.object
    if not is_kind(node, "Node"):
        yield unexpected_type(node)
    if _config_source(node) is not None:
        yield f"node {request.quoted} is not allowed to create pods with a non-nil configSource"
    labels = node_labels.forbidden_changes(node)
    if labels:
        yield f"node {request.quoted} is not allowed to set the following labels: {', '.join(labels)}"


def _check_update(request: NodeRequest) -> Iterator[Refusal]:
    new, old, node = request.review.object, request.review.old_object, f"node {request.quoted}"
    if not is_kind(new, "Node") or not is_kind(old, "Node"):
        # Kubernetes names the new object in both cases.
        yield unexpected_type(new)
    source = _config_source(new)
    if source is not None and not semantically_equal(source, _config_source(old)):
        yield f"{node} is not allowed to update configSource to a new non-nil configSource"
    for path, what in ((("spec", "taints"), "taints"), (("metadata", "ownerReferences"), "ownerReferences")):
        if not semantically_equal(member(new, *path), member(old, *path)):
            yield f"{node} is not allowed to modify {what}"
    labels = node_labels.forbidden_changes(new, old)
    if labels:
        yield f"is not allowed to modify labels: {', '.join(labels)}"


def _config_source(node: JSON) -> JSON:
    return member(node, "spec", "configSource")
