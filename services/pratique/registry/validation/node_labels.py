"""Labels of nodes that are deprecated, and the warnings of what selects nodes by them.

Source: ``k8s.io/kubernetes/pkg/api/node/util.go``.
"""

from __future__ import annotations

from collections.abc import Mapping

from pratique.apimachinery.json_values import JSONObject

DEPRECATED_NODE_LABELS: Mapping[str, str] = {
    "beta.kubernetes.io/arch": 'deprecated since v1.14; use "kubernetes.io/arch" instead',
    "beta.kubernetes.io/os": 'deprecated since v1.14; use "kubernetes.io/os" instead',
    "failure-domain.beta.kubernetes.io/region": (
        'deprecated since v1.17; use "topology.kubernetes.io/region" instead'
    ),
    "failure-domain.beta.kubernetes.io/zone": (
        'deprecated since v1.17; use "topology.kubernetes.io/zone" instead'
    ),
    "beta.kubernetes.io/instance-type": (
        'deprecated since v1.17; use "node.kubernetes.io/instance-type" instead'
    ),
    "app.kubernetes.io/created-by": "deprecated since v1.9",
    "scheduler.alpha.kubernetes.io/preferAvoidPods": (
        "deprecated since v1.22; use Taints and Tolerations instead"
    ),
    "node-role.kubernetes.io/master": 'use "node-role.kubernetes.io/control-plane" instead',
}
"""What to say of a deprecated label: ``deprecatedNodeLabels``."""


def label_selector_warnings(selector: JSONObject | None, path: str) -> list[str]:
    """The deprecated labels in a selector of nodes: ``GetWarningsForNodeSelector``."""
    if not selector:
        return []
    found = [
        f"{path}.matchExpressions[{index}].key: {expression['key']} is {DEPRECATED_NODE_LABELS[expression['key']]}"
        for index, expression in enumerate(selector.get("matchExpressions", ()))
        if expression.get("key") in DEPRECATED_NODE_LABELS
    ]
    labels = sorted(selector.get("matchLabels", {}))
    return found + [
        f"{path}.matchLabels.{label}: {DEPRECATED_NODE_LABELS[label]}"
        for label in labels
        if label in DEPRECATED_NODE_LABELS
    ]
