"""Strategies: what an API server's storage does with the ``status`` of an object that somebody writes.

Source: ``PrepareForCreate`` and ``PrepareForUpdate`` in ``pkg/registry/*/*/strategy.go``, and of custom resources
in ``k8s.io/apiextensions-apiserver/pkg/registry/customresource/strategy.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pratique.apimachinery.json_values import JSONObject
    from pratique.apimachinery.kinds import ResourceType
    from pratique.cluster.api_resources import ApiResources

# Who registers a node says how it is: nodeStrategy. The strategy of ServiceCIDRs never looks at the status.
_STATUS_KEPT_ON_CREATE = frozenset({("", "nodes"), ("networking.k8s.io", "servicecidrs")})
_STATUS_KEPT_ON_UPDATE = frozenset({("networking.k8s.io", "servicecidrs")})


def prepare_for_create(written: JSONObject, type_: ResourceType, resources: ApiResources) -> JSONObject:
    """The object that a CREATE stores of what was written: without status, where that is not the writer's."""
    if _group_resource(type_) in _STATUS_KEPT_ON_CREATE or not _has_status(type_, resources):
        return written
    return _with_status_of(written, {})


def prepare_for_update(written: JSONObject, stored: JSONObject, type_: ResourceType, resources: ApiResources) -> JSONObject:
    """The object that an UPDATE stores of what was written: with the status that is stored already."""
    if _group_resource(type_) in _STATUS_KEPT_ON_UPDATE or not _has_status(type_, resources):
        return written
    return _with_status_of(written, stored)


def _with_status_of(written: JSONObject, other: JSONObject) -> JSONObject:
    if written.get("status") == other.get("status") and ("status" in written) == ("status" in other):
        return written
    kept = {key: value for key, value in written.items() if key != "status"}
    return {**kept, "status": other["status"]} if "status" in other else kept


def _has_status(type_: ResourceType, resources: ApiResources) -> bool:
    return not type_.subresource and resources.for_resource(type_.resource, "status") is not None


def _group_resource(type_: ResourceType) -> tuple[str, str]:
    return type_.resource.group, type_.resource.resource
