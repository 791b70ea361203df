"""Pods: a node creates mirrors of those that it runs by itself, and reports of all of its own."""

from __future__ import annotations

from collections.abc import Iterator

from pratique.apimachinery import statuses
from pratique.apimachinery.diff import semantically_equal
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import Status, go_quoted
from pratique.controllers.node_restriction.requests import (
    Denial,
    NodeRequest,
    find_pod,
    is_kind,
    node_of_pod,
    object_uid,
    unexpected_type,
)
from pratique.pods import pod_spec


def check_pod(request: NodeRequest) -> Iterator[Denial]:
    """Look at a request for a Pod or a subresource of it."""
    subresource = request.review.subresource
    match subresource:
        case "":
            yield from _check_pod_request(request)
        case "status":
            yield from _check_status(request)
        case "eviction":
            yield from _check_eviction(request)
        case _:
            text = "only 'status' and 'eviction' are allowed"
            yield f"unexpected pod subresource {go_quoted(subresource)}, {text}"


def _check_pod_request(request: NodeRequest) -> Iterator[Denial]:
    review = request.review
    if review.operation is Operation.CREATE:
        yield from _check_mirror(request)
    elif review.operation is Operation.DELETE:
        text = f"node {request.quoted} can only delete pods with spec.nodeName set to itself"
        yield from _check_runs_on_node(request, review.name, text)
    else:
        what = f"node {request.quoted} can only create and delete mirror pods"
        yield f"unexpected operation {go_quoted(review.operation)}, {what}"


def _check_runs_on_node(request: NodeRequest, name: str, text: str) -> Iterator[Denial]:
    """See that a Pod that exists runs on the node; ``text`` is for one that does not."""
    pod = find_pod(request, name)
    if isinstance(pod, Status):
        yield pod
    elif node_of_pod(pod) != request.node:
        yield text


def _check_mirror(request: NodeRequest) -> Iterator[Denial]:
    pod, node = request.review.object, f"node {request.quoted}"
    if not is_kind(pod, "Pod"):
        yield unexpected_type(pod)
    elif not pod_spec.is_mirror(pod):
        annotation = go_quoted(pod_spec.MIRROR_ANNOTATION)
        yield f"pod does not have {annotation} annotation, {node} can only create mirror pods"
    elif node_of_pod(pod) != request.node:
        yield f"{node} can only create pods with spec.nodeName set to itself"
    else:
        yield from _check_owners(request, pod)
        reference = pod_spec.first_reference(pod)
        if reference:
            # The account itself is called by another name than everything else.
            named = "a service account" if reference == "serviceaccounts" else reference
            yield f"{node} can not create pods that reference {named}"


def _check_owners(request: NodeRequest, pod: JSONObject) -> Iterator[Denial]:
    node = f"node {request.quoted}"
    owners = member(pod, "metadata", "ownerReferences")
    if isinstance(owners, list) and len(owners) > 1:
        yield f"{node} can only create pods with a single owner reference set to itself"
    owner = member(owners, 0)
    named = tuple(member(owner, step) for step in ("apiVersion", "kind", "name"))
    if named != ("v1", "Node", request.node):
        yield f"{node} can only create pods with an owner reference set to itself"
    if member(owner, "controller") is not True:
        yield f"{node} can only create pods with a controller owner reference set to itself"
    if member(owner, "blockOwnerDeletion") is True:
        yield f"{node} must not set blockOwnerDeletion on an owner reference"
    found = request.review.cluster.get("", "nodes", request.node)
    if found is None:
        yield statuses.not_found("", "node", request.node)
    said, actual = str(member(owner, "uid") or ""), object_uid(found)
    if said != actual:
        yield f"node {request.node} UID mismatch: expected {said} got {actual}"


def _check_status(request: NodeRequest) -> Iterator[Denial]:
    review, node = request.review, f"node {request.quoted}"
    old, new = review.old_object, review.object
    if review.operation is not Operation.UPDATE:
        yield f"unexpected operation {go_quoted(review.operation)}"
    elif not is_kind(old, "Pod"):
        yield unexpected_type(old)
    elif node_of_pod(old) != request.node:
        what = "pod status for pods with spec.nodeName set to itself"
        yield f"{node} can only update {what}"
    elif not is_kind(new, "Pod"):
        yield unexpected_type(new)
    elif not semantically_equal(member(old, "metadata", "labels"), member(new, "metadata", "labels")):
        yield f"{node} cannot update labels through pod status"
    elif _claim_statuses(old) != _claim_statuses(new):
        yield f"{node} cannot update resource claim statues"
    elif not semantically_equal(_extended_claim(old), _extended_claim(new)):
        yield f"{node} cannot update extended resource claim status"


def _claim_statuses(pod: JSON) -> list[tuple[JSON, JSON]]:
    claims = member(pod, "status", "resourceClaimStatuses")
    items = claims if isinstance(claims, list) else ()
    return [(member(each, "name"), member(each, "resourceClaimName")) for each in items]


def _extended_claim(pod: JSON) -> JSON:
    return member(pod, "status", "extendedResourceClaimStatus")


def _check_eviction(request: NodeRequest) -> Iterator[Denial]:
    review = request.review
    if review.operation is not Operation.CREATE:
        yield f"unexpected operation {review.operation}"
    elif not is_kind(review.object, "Eviction"):
        yield unexpected_type(review.object)
    elif not request.object_name:
        yield "could not determine pod from request data"
    else:
        # The node stands there without quotes, in Kubernetes too.
        text = f"node {request.node} can only evict pods with spec.nodeName set to itself"
        yield from _check_runs_on_node(request, request.object_name, text)
