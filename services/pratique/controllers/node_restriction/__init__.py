"""NodeRestriction: a node changes itself, its own Pods, and what belongs to them, and nothing else.

Source: ``plugin/pkg/admission/noderestriction/admission.go``. It only refuses, and does so in the mutating phase.
The package has a file for each kind of thing that nodes write.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import msgspec

from pratique import node_identities, statuses
from pratique.answers import Answer, allow, deny
from pratique.controllers.node_restriction import certificates, claims, node_objects, nodes, pods, tokens
from pratique.controllers.node_restriction.requests import FeatureGates, NodeRequest
from pratique.definitions import MUTATE, Controller, Halves
from pratique.rules import rule
from pratique.statuses import Status, go_quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.controllers.node_restriction.requests import Check
    from pratique.reviews import Review

_CHECKS: Mapping[tuple[str, str], Check] = {
    ("", "pods"): pods.check,
    ("", "nodes"): nodes.check,
    ("", "persistentvolumeclaims"): claims.check,
    ("", "serviceaccounts"): tokens.check,
    ("coordination.k8s.io", "leases"): node_objects.check_lease,
    ("storage.k8s.io", "csinodes"): node_objects.check_csi_node,
    ("resource.k8s.io", "resourceslices"): node_objects.check_resource_slice,
    ("certificates.k8s.io", "certificatesigningrequests"): certificates.check,
}


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What an API server takes from its own flags."""

    feature_gates: FeatureGates = FeatureGates()


def mutate(settings: Settings, review: Review) -> Answer:
    """Refuse a node what is not its own; others are not looked at."""
    node = node_identities.node_name(review.user)
    if node is None:
        return allow()
    if not node:
        text = f"could not determine node from user {go_quoted(review.user.username)}"
        return deny(status=statuses.admission_forbidden(review, text))
    check = _CHECKS.get((review.resource.group, review.resource.resource))
    if check is None:
        return allow()
    refusal = next(check(NodeRequest(node, review, settings.feature_gates)), None)
    if refusal is None:
        return allow()
    status = refusal if isinstance(refusal, Status) else statuses.admission_forbidden(review, refusal)
    return deny(status=status)


def _build(settings: Settings) -> Halves:
    return Halves(mutate=functools.partial(mutate, settings))


_OPERATIONS = ("CREATE", "UPDATE", "DELETE")

CONTROLLER = Controller(
    name="NodeRestriction",
    summary="Keeps nodes to themselves, the Pods that they run, and what belongs to those.",
    phases=MUTATE,
    rules=(
        rule(
            *("pods/*", "nodes/*", "persistentvolumeclaims/*", "serviceaccounts/token"),
            operations=_OPERATIONS,
        ),
        rule("leases", operations=_OPERATIONS, group="coordination.k8s.io"),
        rule("csinodes", operations=_OPERATIONS, group="storage.k8s.io"),
        rule("resourceslices", operations=("CREATE", "DELETE"), group="resource.k8s.io"),
        rule("certificatesigningrequests", operations=("CREATE",), group="certificates.k8s.io"),
    ),
    build=_build,
    settings=Settings,
    looks_up=("pods", "nodes", "persistentvolumeclaims", "persistentvolumes", "csidrivers"),
    trusted=True,
)
