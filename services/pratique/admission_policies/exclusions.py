"""Exclusions: what policies are never asked about.

Sources: ``k8s.io/apiserver/pkg/admission/plugin/policy/generic/plugin.go`` and
``pkg/kubeapiserver/admission/exclusion/resources.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.virtual_resources import VIRTUAL_RESOURCES

if TYPE_CHECKING:
    from pratique.kinds import GroupVersionResource

_POLICIES = frozenset(
    {
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "validatingadmissionpolicybindings"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicies"),
        ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings"),
    }
)
"""Seen by none but static policies, so that a broken policy can be repaired."""


def is_excluded(resource: GroupVersionResource, *, is_static: bool) -> bool:
    """Tell whether a policy never sees requests for a collection, in whatever version."""
    asked = (resource.group, resource.resource)
    return asked in VIRTUAL_RESOURCES or (asked in _POLICIES and not is_static)
