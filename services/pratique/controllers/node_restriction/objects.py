"""Nodes and what belongs to them: certificates, claims, Leases, CSINodes, ResourceSlices."""

from __future__ import annotations

from collections.abc import Iterator

from pratique.apimachinery.diff import differing_pointers, semantically_equal
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.go_formats import decode_base64
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import go_quoted
from pratique.controllers.node_restriction.requests import Denial, NodeRequest, is_kind, unexpected_type
from pratique.pods import nodes
from pratique.pods.nodes import NODE_USER_PREFIX, read_subject

_NODE_SIGNERS = frozenset({"kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"})
"""Those that sign for nodes."""


def check_certificate(request: NodeRequest) -> Iterator[Denial]:
    """Look at a new CertificateSigningRequest, as far as it is for a certificate of a node."""
    review = request.review
    gates = request.gates
    if review.operation is not Operation.CREATE or gates.allow_insecure_kubelet_certificate_signing_requests:
        return
    if not is_kind(review.object, "CertificateSigningRequest"):
        yield unexpected_type(review.object)
    if member(review.object, "spec", "signerName") not in _NODE_SIGNERS:
        return
    try:
        pem = decode_base64(str(member(review.object, "spec", "request") or ""))
        subject = read_subject(pem)
    except (ValueError, InputError) as error:
        yield f"unable to parse csr: {error}"
        return
    expected = f"{NODE_USER_PREFIX}{request.node}"
    if subject.common_name != expected:
        yield f"can only create a node CSR with CN={expected}"


_CLAIM_KIND = "PersistentVolumeClaim"
_FREE_METADATA = ("resourceVersion", "managedFields")
_REPORTED_STATUS = ("capacity", "conditions")
_EXPANSION_STATUS = ("allocatedResources", "allocatedResourceStatuses")


def check_claim(request: NodeRequest) -> Iterator[Denial]:
    """Look at a request for a claim or a subresource of it."""
    review = request.review
    if review.subresource != "status":
        yield "may only update PVC status"
    elif review.operation is not Operation.UPDATE:
        yield f"unexpected operation {go_quoted(review.operation)}"
    else:
        for claim in (review.old_object, review.object):
            if not is_kind(claim, _CLAIM_KIND):
                yield unexpected_type(claim)
        yield from _check_claim_changes(request)


def _check_claim_changes(request: NodeRequest) -> Iterator[Denial]:
    recovers = request.gates.recover_volume_expansion_failure
    free = (*_REPORTED_STATUS, *_EXPANSION_STATUS) if recovers else _REPORTED_STATUS
    review = request.review
    places = differing_pointers(
        _immutable_part(review.old_object, free), _immutable_part(review.object, free)
    )
    if places:
        allowed = "status.quantity and status.conditions"
        where = ", ".join(places)
        yield f"node {request.quoted} is not allowed to update fields other than {allowed}: {where}"


def _immutable_part(claim: JSONObject, free: tuple[str, ...]) -> JSONObject:
    """What of a claim has to stay as it is."""
    metadata, status = _without(claim.get("metadata"), _FREE_METADATA), _without(claim.get("status"), free)
    return claim | {"metadata": metadata, "status": status}


def _without(value: JSON, names: tuple[str, ...]) -> JSON:
    if not isinstance(value, dict):
        return value
    return {name: child for name, child in value.items() if name not in names}


LEASE_NAMESPACE = "kube-node-lease"


def check_lease(request: NodeRequest) -> Iterator[Denial]:
    """Look at a request for a Lease: a node has one, by which it shows that it is alive."""
    review = request.review
    if review.namespace != LEASE_NAMESPACE:
        yield f"can only access leases in the {go_quoted(LEASE_NAMESPACE)} system namespace"
    if review.operation is Operation.CREATE and not is_kind(review.object, "Lease"):
        yield unexpected_type(review.object)
    if _requested_name(request) != request.node:
        yield "can only access node lease with the same name as the requesting node"


def check_csi_node(request: NodeRequest) -> Iterator[Denial]:
    """Look at a request for a CSINode: a node has one, which tells what drivers it has."""
    if _requested_name(request) != request.node:
        yield "can only access CSINode with the same name as the requesting node"


def check_resource_slice(request: NodeRequest) -> Iterator[Denial]:
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


def _requested_name(request: NodeRequest) -> str:
    review = request.review
    if review.operation is Operation.CREATE:
        return str(member(review.object, "metadata", "name") or "")
    return review.name


def check_node(request: NodeRequest) -> Iterator[Denial]:
    """Look at a request for a Node or a subresource of it."""
    if request.object_name != request.node:
        yield f"node {request.quoted} is not allowed to modify node {go_quoted(request.object_name)}"
    elif request.review.operation is Operation.CREATE:
        yield from _check_node_creation(request)
    elif request.review.operation is Operation.UPDATE:
        yield from _check_node_update(request)


def _check_node_creation(request: NodeRequest) -> Iterator[Denial]:
    node = request.review.object
    if not is_kind(node, "Node"):
        yield unexpected_type(node)
    if _config_source(node) is not None:
        yield f"node {request.quoted} is not allowed to create pods with a non-nil configSource"
    labels = nodes.forbidden_label_changes(node)
    if labels:
        yield f"node {request.quoted} is not allowed to set the following labels: {', '.join(labels)}"


def _check_node_update(request: NodeRequest) -> Iterator[Denial]:
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
    labels = nodes.forbidden_label_changes(new, old)
    if labels:
        yield f"is not allowed to modify labels: {', '.join(labels)}"


def _config_source(node: JSON) -> JSON:
    return member(node, "spec", "configSource")
