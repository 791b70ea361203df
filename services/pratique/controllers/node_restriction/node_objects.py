"""What a node has one of, or owns: its Lease, its CSINode and its ResourceSlices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.controllers.node_restriction.requests import NodeRequest, Refusal, is_kind, unexpected_type
from pratique.json_values import member
from pratique.reviews import Operation
from pratique.statuses import go_quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

LEASE_NAMESPACE = "kube-node-lease"


def check_lease(request: NodeRequest) -> Iterator[Refusal]:
    """Look at a request for a Lease: a node has one, by which it shows that it is alive."""
    review = request.review
    if review.namespace != LEASE_NAMESPACE:
        yield f"can only access leases in the {go_quoted(LEASE_NAMESPACE)} system namespace"
    if review.operation is Operation.CREATE and not is_kind(review.object, "Lease"):
        yield unexpected_type(review.object)
    if _name(request) != request.node:
        yield "can only access node lease with the same name as the requesting node"


def check_csi_node(request: NodeRequest) -> Iterator[Refusal]:
    """Look at a request for a CSINode: a node has one, which tells what drivers it has."""
    if _name(request) != request.node:
        yield "can only access CSINode with the same name as the requesting node"


def check_resource_slice(request: NodeRequest) -> Iterator[Refusal]:
    """Look at a new ResourceSlice, or one that goes: a node offers its own devices. They cannot move."""
    review = request.review
    verbs = {Operation.CREATE: "create", Operation.DELETE: "delete"}
    verb = verbs.get(review.operation)
    if verb is None:
        return
    offered = review.object if verb == "create" else review.old_object
    if not is_kind(offered, "ResourceSlice"):
        yield unexpected_type(offered)
    if member(offered, "spec", "nodeName") != request.node:
        yield f"can only {verb} ResourceSlice with the same NodeName as the requesting node"


def _name(request: NodeRequest) -> str:
    review = request.review
    if review.operation is Operation.CREATE:
        return str(member(review.object, "metadata", "name") or "")
    return review.name
