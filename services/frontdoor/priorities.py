"""Priorities: which reviews go first where not all can be decided.

The levels are those of API Priority and Fairness' own configuration
(``k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap/default.go``), by the user, the groups and the resource of a review.
They are worth what the rest of the review is worth: whoever may call can write any user into it.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pratique.reviews import Review

_SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-node-lease"})
_COMPONENTS = frozenset({"system:kube-controller-manager", "system:kube-scheduler"})
_KUBE_SYSTEM_ACCOUNTS = "system:serviceaccount:kube-system:"
_LEASES = ("coordination.k8s.io", "leases")
_NODE_RESOURCES = frozenset({("", "nodes"), _LEASES})


class PriorityLevel(enum.StrEnum):
    """How urgent a review is, by the names that API Priority and Fairness has for it."""

    EXEMPT = "exempt"
    """Administrators (``system:masters``) and the API server itself."""
    LEADER_ELECTION = "leader-election"
    """Leases of components: who loses one ends its work."""
    NODE_HIGH = "node-high"
    """Nodes that say that they are alive; the Pods of one that cannot are evicted."""
    SYSTEM = "system"
    """All else of nodes."""
    WORKLOAD_HIGH = "workload-high"
    """The controller manager, the scheduler, and service accounts in ``kube-system``."""
    ORDINARY = "ordinary"
    """Everybody else: ``workload-low`` and ``global-default``."""


def priority_of(review: Review) -> PriorityLevel:
    """Tell how urgent a review is."""
    user, resource = review.user, (review.resource.group, review.resource.resource)
    if "system:masters" in user.groups or user.username == "system:apiserver":
        return PriorityLevel.EXEMPT
    is_component = user.username in _COMPONENTS or user.username.startswith(_KUBE_SYSTEM_ACCOUNTS)
    is_node = "system:nodes" in user.groups
    if is_node:
        return PriorityLevel.NODE_HIGH if resource in _NODE_RESOURCES else PriorityLevel.SYSTEM
    if resource == _LEASES and (is_component or review.namespace in _SYSTEM_NAMESPACES):
        return PriorityLevel.LEADER_ELECTION
    return PriorityLevel.WORKLOAD_HIGH if is_component else PriorityLevel.ORDINARY
