"""The catalogue of resources: which kind is stored in which collection, and in which scope.

``resources.json`` beside this file is derived from the discovery and OpenAPI documents that Kubernetes
publishes in its source tree (``api/discovery`` and ``api/openapi-spec`` of releases 1.10 to 1.36, the current
one at 1.36.3; Copyright The Kubernetes Authors, licensed under Apache-2.0) by ``scripts/make_resources.py``.
It lists, in the order in which an API server registers them, every group, version and resource with its
subresources, and those that Kubernetes has since removed, with the release that no longer has them.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from pratique.custom_resources import types_of_definition
from pratique.errors import InputError
from pratique.kinds import GroupVersionKind, GroupVersionResource, ResourceType, kind_of
from pratique.suggestions import unknown_kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pratique.json_values import JSON, JSONObject

# Collections that share their storage with one of another group, and the group whose name they go by:
# pkg/kubeapiserver/default_storage_factory_builder.go AddCohabitatingResources.
_COHABITANTS = {
    ("extensions", "daemonsets"): "apps",
    ("extensions", "deployments"): "apps",
    ("extensions", "replicasets"): "apps",
    ("extensions", "ingresses"): "networking.k8s.io",
    ("extensions", "networkpolicies"): "networking.k8s.io",
    ("extensions", "podsecuritypolicies"): "policy",
    ("events.k8s.io", "events"): "",
}


def storage_group(group: str, resource: str) -> str:
    """The group that a collection is stored under: ``apps`` for ``extensions`` Deployments."""
    return _COHABITANTS.get((group, resource), group)


class Resources:
    """What an API server knows: kinds, their collections, and which collections are the same. Immutable."""

    __slots__ = ("_by_kind", "_by_resource", "_equivalents")

    def __init__(self, types: Iterable[ResourceType]) -> None:
        """Know ``types``, in their order of registration; of two for one collection the first counts."""
        self._by_kind: dict[GroupVersionKind, ResourceType] = {}
        self._by_resource: dict[tuple[GroupVersionResource, str], ResourceType] = {}
        self._equivalents: dict[tuple[str, str, str], tuple[GroupVersionResource, ...]] = {}
        for each in types:
            self._register(each)

    def _register(self, new: ResourceType) -> None:
        at = (new.resource, new.subresource)
        if at in self._by_resource:
            return
        self._by_resource[at] = new
        if new.served and not new.subresource:
            self._by_kind.setdefault(new.kind, new)
        same = _storage_key(new.resource, new.subresource)
        self._equivalents[same] = (*self._equivalents.get(same, ()), new.resource)

    def __iter__(self) -> Iterator[ResourceType]:
        """All that is known, in the order of registration."""
        return iter(self._by_resource.values())

    def for_kind(self, kind: GroupVersionKind) -> ResourceType | None:
        """The collection that objects of a kind are created in; None where the kind is not known."""
        return self._by_kind.get(kind)

    def for_resource(self, resource: GroupVersionResource, subresource: str = "") -> ResourceType | None:
        """What is known of a collection or one of its subresources; None where there is none such."""
        return self._by_resource.get((resource, subresource))

    def for_object(self, document: JSON) -> ResourceType:
        """The collection that an object belongs in.

        Raises:
            InputError: it does not say its type, or the type is not known; the text suggests the nearest.
        """
        kind = kind_of(document)
        found = self.for_kind(kind)
        if found is None:
            raise InputError(unknown_kind(kind, self))
        return found

    def versions(self, group: str, resource: str) -> tuple[str, ...]:
        """All versions of a collection in its own group, the preferred one first, removed ones among them."""
        return tuple(
            each.resource.version
            for each in self._by_resource.values()
            if (each.resource.group, each.resource.resource, each.subresource) == (group, resource, "")
        )

    def equivalents(
        self, resource: GroupVersionResource, subresource: str = ""
    ) -> tuple[GroupVersionResource, ...]:
        """All collections that are the same as one, itself among them, in the order of registration.

        These are all versions of it and those of its namesakes in groups that share its storage
        (``k8s.io/apimachinery/pkg/runtime/mapper.go``), those that Kubernetes has removed among them:
        :mod:`pratique.eras` tells which of them one API server serves.
        """
        return self._equivalents.get(_storage_key(resource, subresource), ())

    def with_crds(self, definitions: Iterable[JSONObject]) -> Resources:
        """This catalogue and the collections that CustomResourceDefinitions (v1 or v1beta1) add to it.

        Raises:
            ConfigurationError: a definition is malformed; the text names its field.
        """
        added = [each for definition in definitions for each in types_of_definition(definition)]
        return Resources([*self, *added]) if added else self

    def of_subresource_kind(self, kind: GroupVersionKind, subresource: str) -> tuple[ResourceType, ...]:
        """The subresources of that name that take that kind: ``pods/eviction`` for an Eviction."""
        return tuple(
            each
            for each in self._by_resource.values()
            if each.subresource == subresource and each.kind == kind
        )


def _storage_key(resource: GroupVersionResource, subresource: str) -> tuple[str, str, str]:
    name = resource.resource
    return storage_group(resource.group, name), name, subresource


class _Row(msgspec.Struct, array_like=True, frozen=True):
    """A line of ``resources.json``."""

    group: str
    version: str
    resource: str
    kind: str
    namespaced: bool
    removed_in: str | None
    subresources: dict[str, str]


class _File(msgspec.Struct, frozen=True):
    """``resources.json``."""

    resources: list[_Row]


@functools.cache
def built_in() -> Resources:
    """The resources of Kubernetes itself, read on first use."""
    raw = Path(__file__).with_name("resources.json").read_bytes()
    rows = msgspec.json.decode(raw, type=_File).resources
    return Resources(each for row in rows for each in _types_of_row(row))


def _types_of_row(row: _Row) -> Iterator[ResourceType]:
    resource = GroupVersionResource(row.group, row.version, row.resource)
    for name, written in {"": row.kind, **row.subresources}.items():
        group, version, kind = written.split("/") if "/" in written else (row.group, row.version, written)
        yield ResourceType(
            resource=resource,
            subresource=name,
            kind=GroupVersionKind(group, version, kind),
            namespaced=row.namespaced,
            removed_in=row.removed_in,
        )
