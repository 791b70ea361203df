"""Nodes: the node a user belongs to, and the labels it may set.

Sources: ``plugin/pkg/admission/noderestriction/admission.go`` and ``pkg/kubelet/apis/well_known_labels.go``.
"""

from __future__ import annotations

from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.requests import UserInfo

NODE_USER_PREFIX = "system:node:"
NODES_GROUP = "system:nodes"


def node_name(user: UserInfo) -> str | None:
    """The name of the node that a user is, possibly empty; None for a user who is not a node."""
    if NODES_GROUP not in user.groups or not user.username.startswith(NODE_USER_PREFIX):
        return None
    return user.username.removeprefix(NODE_USER_PREFIX)


_RESERVED_DOMAINS = ("node-restriction.kubernetes.io",)
"""Nodes may not set labels in these domains and their subdomains."""

_KUBERNETES_DOMAINS = ("kubernetes.io", "k8s.io")
"""In these domains and their subdomains nodes may only set the kubelet's labels."""

_KUBELET_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_KUBELET_LABELS = frozenset(
    {
        "kubernetes.io/hostname",
        "kubernetes.io/os",
        "kubernetes.io/arch",
        "beta.kubernetes.io/os",
        "beta.kubernetes.io/arch",
        "beta.kubernetes.io/instance-type",
        "node.kubernetes.io/instance-type",
        "topology.kubernetes.io/zone",
        "topology.kubernetes.io/region",
        "failure-domain.beta.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region",
    }
)


def may_set_label(label: str) -> bool:
    """Tell whether a node may add, change or remove a label of its Node object."""
    # A label without a slash has no domain, and is the node's to set.
    domain, slash, _ = label.partition("/")
    domain = domain if slash else ""
    if _is_within(domain, _RESERVED_DOMAINS):
        return False
    return (
        not _is_within(domain, _KUBERNETES_DOMAINS)
        or label in _KUBELET_LABELS
        or _is_within(domain, _KUBELET_DOMAINS)
    )


def forbidden_label_changes(node: JSON, old: JSON = None) -> list[str]:
    """The labels that differ between two states of a Node and that the node may not set, sorted."""
    new_labels, old_labels = _labels(node), _labels(old)
    changed = {key for key in new_labels.keys() | old_labels.keys() if _differ(new_labels, old_labels, key)}
    return sorted(key for key in changed if not may_set_label(key))


def _differ(first: dict[str, JSON], second: dict[str, JSON], key: str) -> bool:
    return (key in first) != (key in second) or first[key] != second[key]


def _labels(node: JSON) -> dict[str, JSON]:
    labels = member(node, "metadata", "labels")
    return labels if isinstance(labels, dict) else {}


def _is_within(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)
