"""Checks: what looks at each kind of thing that nodes write."""

from __future__ import annotations

from collections.abc import Mapping

from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.statuses import Status, go_quoted
from pratique.controllers.node_restriction import objects, pods, tokens
from pratique.controllers.node_restriction.requests import NodeCheck, NodeRequest, NodeRestrictionFeatureGates
from pratique.pods import nodes as nodes_module

_CHECKS: Mapping[tuple[str, str], NodeCheck] = {
    ("", "pods"): pods.check_pod,
    ("", "nodes"): objects.check_node,
    ("", "persistentvolumeclaims"): objects.check_claim,
    ("", "serviceaccounts"): tokens.check_token,
    ("coordination.k8s.io", "leases"): objects.check_lease,
    ("storage.k8s.io", "csinodes"): objects.check_csi_node,
    ("resource.k8s.io", "resourceslices"): objects.check_resource_slice,
    ("certificates.k8s.io", "certificatesigningrequests"): objects.check_certificate,
}


def mutate(feature_gates: NodeRestrictionFeatureGates, review: Review) -> Answer:
    """Refuse a node what is not its own; others are not looked at."""
    node = nodes_module.node_name(review.user)
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
