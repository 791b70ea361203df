"""The checks of what nodes write: themselves, their Pods, those Pods' tokens, and what else belongs to them.

Source: ``plugin/pkg/admission/noderestriction/admission.go``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.diff import differing_pointers, semantically_equal
from pratique.apimachinery.errors import InputError, RefusalError
from pratique.apimachinery.go_formats import decode_base64, go_type
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.kinds import is_kind
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import Status, go_quoted
from pratique.cluster.authorization import AuthorizationAttributes, RbacAuthorizer
from pratique.cluster.rbac import RBAC_GROUP
from pratique.cluster.store import Cluster
from pratique.controllers.node_restriction import NodeRestrictionFeatureGates
from pratique.pods import nodes, pod_spec, volumes
from pratique.pods.certificate_requests import read_subject
from pratique.pods.nodes import NODE_USER_PREFIX


class NodeRequest(msgspec.Struct, frozen=True):
    """A request of a node."""

    node: str
    review: Review
    gates: NodeRestrictionFeatureGates

    @property
    def quoted(self) -> str:
        """The node's name, quoted as in most messages."""
        return go_quoted(self.node)

    @property
    def restricts_audiences(self) -> bool:
        """Whether the audience of a token is checked."""
        gate = self.gates.service_account_node_audience_restriction
        return _grants_are_known(self.review) if gate is None else gate

    @property
    def object_name(self) -> str:
        """The name of the object; that in its metadata if the request has none."""
        return self.review.name or str(member(self.review.object, "metadata", "name") or "")


Denial: TypeAlias = str | Status
"""What a check yields: the text of a Forbidden status, or a whole status."""

NodeCheck: TypeAlias = Callable[[NodeRequest], Iterator[Denial]]
"""Checks a request. Only the first denial that it yields counts, and nothing after it is evaluated."""


def unexpected_type(document: JSON) -> str:
    """The message for an object of an unexpected type."""
    return f"unexpected type {go_type(document)}"


def find_pod(request: NodeRequest, name: str) -> JSONObject | Status:
    """Look up a Pod in the namespace of the request."""
    pod = request.review.cluster.get("", "pods", name, request.review.namespace)
    return statuses.not_found("", "pod", name) if pod is None else pod


def node_of_pod(pod: JSON) -> str:
    """The node that a Pod is bound to; empty if it is not bound."""
    return str(member(pod, "spec", "nodeName") or "")


def object_uid(document: JSON) -> str:
    """The uid of an object; empty if it has none."""
    return str(member(document, "metadata", "uid") or "")


def _grants_are_known(review: Review) -> bool:
    """Whether RBAC is known: the cluster has bindings, or another authorizer decides."""
    bindings = ("clusterrolebindings", "rolebindings")
    asks_cluster = isinstance(review.authorizer, RbacAuthorizer)
    return not asks_cluster or any(review.cluster.list(RBAC_GROUP, resource) for resource in bindings)


_NODE_SIGNERS = frozenset({"kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"})
"""The signers for nodes' certificates."""


def check_certificate(request: NodeRequest) -> Iterator[Denial]:
    """Check a new CertificateSigningRequest if it asks for a node's certificate."""
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
    """Check a request for a claim or one of its subresources."""
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
    """The part of a claim that must not change."""
    metadata, status = _without(claim.get("metadata"), _FREE_METADATA), _without(claim.get("status"), free)
    return claim | {"metadata": metadata, "status": status}


def _without(value: JSON, names: tuple[str, ...]) -> JSON:
    if not isinstance(value, dict):
        return value
    return {name: child for name, child in value.items() if name not in names}


LEASE_NAMESPACE = "kube-node-lease"


def check_lease(request: NodeRequest) -> Iterator[Denial]:
    """Check a request for a Lease. A node renews a single Lease as its heartbeat."""
    review = request.review
    if review.namespace != LEASE_NAMESPACE:
        yield f"can only access leases in the {go_quoted(LEASE_NAMESPACE)} system namespace"
    if review.operation is Operation.CREATE and not is_kind(review.object, "Lease"):
        yield unexpected_type(review.object)
    if _requested_name(request) != request.node:
        yield "can only access node lease with the same name as the requesting node"


def check_csi_node(request: NodeRequest) -> Iterator[Denial]:
    """Check a request for a CSINode. A node has a single CSINode, which lists its drivers."""
    if _requested_name(request) != request.node:
        yield "can only access CSINode with the same name as the requesting node"


def check_resource_slice(request: NodeRequest) -> Iterator[Denial]:
    """Check a ResourceSlice that is created or deleted: a node publishes only its own devices."""
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
    """Check a request for a Node or one of its subresources."""
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


def check_pod(request: NodeRequest) -> Iterator[Denial]:
    """Check a request for a Pod or one of its subresources."""
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
    """Deny with ``text`` unless an existing Pod runs on the node."""
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
            # Only the account itself has another name than its resource in messages.
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
    stored = request.review.cluster.get("", "nodes", request.node)
    if stored is None:
        yield statuses.not_found("", "node", request.node)
    expected, actual = str(member(owner, "uid") or ""), object_uid(stored)
    if expected != actual:
        yield f"node {request.node} UID mismatch: expected {expected} got {actual}"


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
    return [(member(item, "name"), member(item, "resourceClaimName")) for item in items]


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
        # Kubernetes, too, does not quote the node here.
        text = f"node {request.node} can only evict pods with spec.nodeName set to itself"
        yield from _check_runs_on_node(request, request.object_name, text)


AUDIENCE_VERB = "request-serviceaccounts-token-audience"
"""The verb that a node needs on an audience that its Pod does not use."""


def check_token(request: NodeRequest) -> Iterator[Denial]:
    """Check a request for a token. Other requests for ServiceAccounts are not checked."""
    review = request.review
    if review.operation is not Operation.CREATE or review.subresource != "token":
        return
    if not is_kind(review.object, "TokenRequest"):
        yield unexpected_type(review.object)
    bound = member(review.object, "spec", "boundObjectRef")
    name, uid = (str(member(bound, step) or "") for step in ("name", "uid"))
    if (member(bound, "apiVersion"), member(bound, "kind")) != ("v1", "Pod") or not name:
        yield "node requested token not bound to a pod"
    if not uid:
        yield "node requested token with a pod binding without a uid"
    pod = find_pod(request, name)
    if isinstance(pod, Status):
        yield pod
        return
    if uid != object_uid(pod):
        why = "The object might have been deleted and then recreated"
        yield f"the UID in the bound object reference ({uid}) does not match the UID in record. {why}"
    if node_of_pod(pod) != request.node:
        yield "node requested token bound to a pod scheduled on a different node"
    if request.restricts_audiences:
        yield from _check_audience(request, pod)


def _check_audience(request: NodeRequest, pod: JSONObject) -> Iterator[Denial]:
    audiences = member(request.review.object, "spec", "audiences")
    if isinstance(audiences, list) and len(audiences) > 1:
        yield "node may only request 0 or 1 audiences"
    audience = str(member(audiences, 0) or "")
    errors: list[str] = []
    if _uses_audience(pod, audience, request.review.cluster, errors):
        return
    decision = request.review.authorizer.authorize(_attributes(request, audience))
    if decision.allowed:
        return
    if errors or decision.error:
        reason = statuses.aggregate(errors or [decision.error])
        yield f"error validating audience {go_quoted(audience)}: {reason}"
    who = request.review.user.username
    yield (
        f"audience {go_quoted(audience)} not found in pod spec volume,"
        f" {who} is not authorized to request tokens for this audience"
    )


def _attributes(request: NodeRequest, audience: str) -> AuthorizationAttributes:
    review = request.review
    return AuthorizationAttributes(
        user=review.user, verb=AUDIENCE_VERB, resource=audience, namespace=review.namespace, name=review.name
    )


def _uses_audience(pod: JSONObject, audience: str, cluster: Cluster, errors: list[str]) -> bool:
    """Whether a volume needs tokens for the audience. Failed look-ups are added to ``errors``."""
    for _, _, volume in pod_spec.iter_volumes(pod):
        sources = pod_spec.projections(volume)
        if any(_token_audience(source.get("serviceAccountToken")) == audience for source in sources):
            return True
        try:
            driver = volumes.driver_of_volume(pod, volume, cluster)
            if driver and volumes.wants_audience(driver, audience, cluster):
                return True
        except RefusalError as error:
            errors.append(error.status.message)
    return False


def _token_audience(projection: JSON) -> JSON:
    """The audience of a projected token: empty for the API server's own, None if there is no token."""
    return (member(projection, "audience") or "") if isinstance(projection, dict) else None


_CHECKS: Mapping[tuple[str, str], NodeCheck] = {
    ("", "pods"): check_pod,
    ("", "nodes"): check_node,
    ("", "persistentvolumeclaims"): check_claim,
    ("", "serviceaccounts"): check_token,
    ("coordination.k8s.io", "leases"): check_lease,
    ("storage.k8s.io", "csinodes"): check_csi_node,
    ("resource.k8s.io", "resourceslices"): check_resource_slice,
    ("certificates.k8s.io", "certificatesigningrequests"): check_certificate,
}


def mutate(feature_gates: NodeRestrictionFeatureGates, review: Review) -> Answer:
    """Deny a node what is not its own. Other users are not checked."""
    node = nodes.node_name(review.user)
    if node is None:
        return allow()
    if not node:
        text = f"could not determine node from user {go_quoted(review.user.username)}"
        return deny(status=statuses.admission_forbidden(review, text))
    check = _CHECKS.get((review.resource.group, review.resource.resource))
    if check is None:
        return allow()
    refusal = next(check(NodeRequest(node, review, feature_gates)), None)
    if refusal is None:
        return allow()
    status = refusal if isinstance(refusal, Status) else statuses.admission_forbidden(review, refusal)
    return deny(status=status)
