"""Node labels: which of them a node may give itself.

A node that could label itself at will could draw Pods to itself that are not meant for it.
Source: ``plugin/pkg/admission/noderestriction/admission.go`` ``getForbiddenLabels`` and
``k8s.io/kubelet/pkg/apis/well_known_labels.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member

if TYPE_CHECKING:
    from pratique.json_values import JSON

_RESERVED = ("node-restriction.kubernetes.io",)
"""No node may set labels of these domains and those below."""

_KUBERNETES = ("kubernetes.io", "k8s.io")
"""Of these domains and those below a node may set only the labels that it has to."""

_OWN_DOMAINS = ("kubelet.kubernetes.io", "node.kubernetes.io")
_OWN = frozenset(
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


def may_set(label: str) -> bool:
    """Tell whether a node may add, change or remove a label of its own."""
    domain, slash, _ = label.partition("/")
    domain = domain if slash else ""
    if _is_within(domain, _RESERVED):
        return False
    return not _is_within(domain, _KUBERNETES) or label in _OWN or _is_within(domain, _OWN_DOMAINS)


def forbidden_changes(node: JSON, old: JSON = None) -> list[str]:
    """The labels that differ between two states of a node and that it may not set, sorted."""
    new_labels, old_labels = _labels(node), _labels(old)
    changed = {key for key in new_labels.keys() | old_labels.keys() if _differ(new_labels, old_labels, key)}
    return sorted(key for key in changed if not may_set(key))


def _differ(first: dict[str, JSON], second: dict[str, JSON], key: str) -> bool:
    return (key in first) != (key in second) or first[key] != second[key]


def _labels(node: JSON) -> dict[str, JSON]:
    labels = member(node, "metadata", "labels")
    return labels if isinstance(labels, dict) else {}


def _is_within(domain: str, parents: tuple[str, ...]) -> bool:
    return any(domain == parent or domain.endswith(f".{parent}") for parent in parents)
