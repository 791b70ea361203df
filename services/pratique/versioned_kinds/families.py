"""Families: all kinds whose versions differ in more than their name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.versioned_kinds import (
    autoscalers,
    device_claims,
    disruption_budgets,
    endpoint_slices,
    events,
    ingresses,
    priority_levels,
    resource_definitions,
    role_bindings,
    runtime_classes,
    workloads,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.versioned_kinds.forms import Family

_FAMILIES: Mapping[str, Family] = {
    "ClusterRoleBinding": role_bindings.BINDINGS,
    "CustomResourceDefinition": resource_definitions.DEFINITIONS,
    "DaemonSet": workloads.DAEMON_SETS,
    "Deployment": workloads.DEPLOYMENTS,
    "DeviceClass": device_claims.DEVICE_CLASSES,
    "EndpointSlice": endpoint_slices.SLICES,
    "Event": events.EVENTS,
    "HorizontalPodAutoscaler": autoscalers.AUTOSCALERS,
    "Ingress": ingresses.INGRESSES,
    "PodDisruptionBudget": disruption_budgets.BUDGETS,
    "PriorityLevelConfiguration": priority_levels.LEVELS,
    "ResourceClaim": device_claims.CLAIMS,
    "ResourceClaimTemplate": device_claims.TEMPLATES,
    "ResourceSlice": device_claims.SLICES,
    "RoleBinding": role_bindings.BINDINGS,
    "RuntimeClass": runtime_classes.CLASSES,
    "Scale": workloads.SCALES,
}


def family_of(kind: str, api_version: str) -> Family | None:
    """The versions of a kind of Kubernetes, if they differ; None where only their names do.

    What is called alike in another group is another kind.
    """
    family = _FAMILIES.get(kind)
    if family is None or _group(api_version) not in {_group(known) for known in family}:
        return None
    return family


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]
