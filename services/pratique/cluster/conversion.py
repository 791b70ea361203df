"""Converting objects to other versions of their API."""

from __future__ import annotations

from collections.abc import Mapping

from pratique.apimachinery.errors import ConversionError, InputError
from pratique.apimachinery.json_values import Document, JSONObject, member
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource, kind_of
from pratique.cluster import autoscaler_conversion, service_and_policy_conversion, workload_conversion
from pratique.cluster.api_resources import CRD_GROUP, CRD_RESOURCE, built_in_resources
from pratique.cluster.conversion_fields import KindConverters
from pratique.cluster.store import Cluster

_CONVERTERS: Mapping[str, KindConverters] = {
    "ClusterRoleBinding": service_and_policy_conversion.RBAC_BINDINGS,
    "CustomResourceDefinition": service_and_policy_conversion.CUSTOM_RESOURCE_DEFINITIONS,
    "DaemonSet": workload_conversion.DAEMON_SETS,
    "Deployment": workload_conversion.DEPLOYMENTS,
    "DeviceClass": workload_conversion.DEVICE_CLASSES,
    "EndpointSlice": service_and_policy_conversion.ENDPOINT_SLICES,
    "Event": service_and_policy_conversion.EVENTS,
    "HorizontalPodAutoscaler": autoscaler_conversion.AUTOSCALERS,
    "Ingress": service_and_policy_conversion.INGRESSES,
    "PodDisruptionBudget": workload_conversion.POD_DISRUPTION_BUDGETS,
    "PriorityLevelConfiguration": service_and_policy_conversion.PRIORITY_LEVELS,
    "ResourceClaim": workload_conversion.RESOURCE_CLAIMS,
    "ResourceClaimTemplate": workload_conversion.RESOURCE_CLAIM_TEMPLATES,
    "ResourceSlice": workload_conversion.RESOURCE_SLICES,
    "RoleBinding": service_and_policy_conversion.RBAC_BINDINGS,
    "RuntimeClass": workload_conversion.RUNTIME_CLASSES,
    "Scale": workload_conversion.SCALES,
}


def converters_of(kind: str, api_version: str) -> KindConverters | None:
    """The converters of a built-in kind by version; None if its versions differ only in name.

    A kind of the same name in another group is another kind.
    """
    family = _CONVERTERS.get(kind)
    if family is None or _group(api_version) not in {_group(known) for known in family}:
        return None
    return family


def _group(api_version: str) -> str:
    return api_version.rpartition("/")[0]


def convert(
    document: Document, resource: GroupVersionResource, kind: GroupVersionKind, cluster: Cluster
) -> Document:
    """Convert an object to another version of its kind.

    Args:
        document: The object; the null document is returned as it is.
        resource: The collection it belongs in, in any version.
        kind: The target kind and version.
        cluster: Holds the CustomResourceDefinition, which says how a custom resource is converted.

    Raises:
        ConversionError: it cannot be converted; the message says why, and reveals nothing of the object.
    """
    if document.is_null:
        return document
    data = document.data
    try:
        before = kind_of(data)
    except InputError as error:
        raise ConversionError(str(error)) from None
    if before == kind:
        return document
    if built_in_resources().for_resource(resource) is None:
        _check_strategy(before, resource, cluster)
        changed = data
    else:
        changed = _convert_built_in(data, before, kind)
    return Document.from_data({**changed, "apiVersion": kind.api_version, "kind": kind.kind})


def _convert_built_in(data: JSONObject, before: GroupVersionKind, after: GroupVersionKind) -> JSONObject:
    if before.kind != after.kind:
        raise ConversionError(f"unable to convert {before} to {after}: they are different kinds")
    families = [converters_of(kind.kind, kind.api_version) for kind in (before, after)]
    for family in families:
        if family is not None:
            return _by_way_of_shared(data, before, after, family)
    return data


def _by_way_of_shared(
    data: JSONObject, before: GroupVersionKind, after: GroupVersionKind, family: KindConverters
) -> JSONObject:
    source, target = family.get(before.api_version), family.get(after.api_version)
    if source is None or target is None:
        raise ConversionError(f"unable to convert {before} to {after}: this conversion is not supported")
    return target.from_shared(source.to_shared(data))


def _check_strategy(before: GroupVersionKind, resource: GroupVersionResource, cluster: Cluster) -> None:
    """Refuse a custom resource with a conversion webhook: conversion webhooks are not called."""
    definition = cluster.get(CRD_GROUP, CRD_RESOURCE, f"{resource.resource}.{resource.group}")
    strategy = member(definition, "spec", "conversion", "strategy") or "None"
    if strategy != "None":
        raise ConversionError(
            f"conversion webhook for {before} failed: conversion webhooks are not supported"
        )
