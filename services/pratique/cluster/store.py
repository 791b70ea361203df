"""The objects of a cluster as controllers look them up, and the in-memory store that holds them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, runtime_checkable

from pratique.apimachinery import names, statuses
from pratique.apimachinery.errors import InputError, RefusalError
from pratique.apimachinery.field_errors import ROOT, invalid
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.kinds import kind_of
from pratique.apimachinery.names import DEFAULT_NAMESPACE, name_of, namespace_of, with_namespace
from pratique.apimachinery.requests import RequestAttributes
from pratique.apimachinery.selectors import Selector, labels_of
from pratique.apimachinery.statuses import go_quoted, qualified_resource
from pratique.cluster import rbac
from pratique.cluster.api_resources import (
    CRD_GROUP,
    CRD_RESOURCE,
    ApiResources,
    built_in_resources,
    storage_group,
    types_of_definition,
)

if TYPE_CHECKING:
    # At runtime this would be a circle: authorizers look up Roles and bindings.
    from pratique.cluster.authorization import AccessReviews

STALENESS_SECONDS = 60.0
"""How long objects of a live cluster may be unconfirmed by default."""

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label that every Namespace carries with its own name."""


def with_namespace_defaults(namespace: JSONObject) -> JSONObject:
    """A Namespace with the API server's defaults: labelled with its name, and Active unless it has a phase.

    Source: ``pkg/apis/core/v1/defaults.go`` ``SetDefaults_Namespace`` and ``SetDefaults_NamespaceStatus``.
    """
    changed = dict(namespace)
    name = member(namespace, "metadata", "name")
    labels = member(namespace, "metadata", "labels") or {}
    if name and isinstance(labels, dict):
        labels = {**labels, NAME_LABEL: name}
        changed["metadata"] = {**namespace["metadata"], "labels": labels}
    status = namespace.get("status") or {}
    if isinstance(status, dict) and not status.get("phase"):
        changed["status"] = {**status, "phase": "Active"}
    return changed


def is_in_namespace(request: RequestAttributes) -> bool:
    """Tell whether the reviewed object is in a namespace; a Namespace itself is not.

    An API server sets the namespace of a request for a Namespace to its own name.
    """
    is_namespace = (request.kind.group, request.kind.kind) == ("", "Namespace")
    return bool(request.namespace) and not is_namespace


def check_namespace_name(name: str) -> None:
    """Check the name of a Namespace.

    Source: ``pkg/apis/core/validation/validation.go`` ``ValidateNamespaceName``.

    Raises:
        RefusalError: it is invalid; 422.
    """
    path = ROOT / "metadata" / "name"
    errors = [invalid(path, name, message) for message in names.check_dns1123_label(name)]
    if errors:
        raise RefusalError(statuses.invalid("", "Namespace", name, errors))


def assumed_namespace(name: str) -> JSONObject:
    """An assumed Namespace: Active, and without labels but the one that the API server sets on each.

    Source: as for :func:`with_namespace_defaults`.
    """
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name, "labels": {NAME_LABEL: name}},
        "status": {"phase": "Active"},
    }


def assumed_service_account(namespace: str) -> JSONObject:
    """The ``default`` ServiceAccount of an assumed Namespace."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": namespace},
    }


class Cluster(Protocol):
    """The state of the API server as controllers look it up. Do not change returned objects in place.

    Look-ups are synchronous because they are served from memory.
    """

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """One object; None if it does not exist. ``namespace`` is empty for cluster-scoped resources."""

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        """The objects of a resource, in one namespace if given, sorted by namespace and name.

        The same sequence is returned until one of the objects changes, so callers may cache what they derive from it.
        """

    @property
    def resources(self) -> ApiResources:
        """The kinds that this cluster knows; a new object after any change."""


@runtime_checkable
class WritableCluster(Cluster, Protocol):
    """A cluster that controllers can create objects in, which few do, by :func:`create_object`."""

    async def create(self, document: JSONObject) -> bool:
        """Store a new object; False, without changing anything, if one of its name exists.

        Raises:
            RefusalError: it may not be created.
            CallError: the storage is unreachable; the message says why.
        """


async def create_object(cluster: Cluster, document: JSONObject) -> bool:
    """Store a new object in a cluster; False, without changing anything, if one of its name exists.

    Do not call it for a dry run.

    Raises:
        RefusalError: it may not be created, or the cluster is read-only.
        CallError: the storage is unreachable; the message says why.
    """
    current = cluster.current if isinstance(cluster, ReloadableCluster) else cluster
    if not isinstance(current, WritableCluster):
        text = "the cluster that it belongs to cannot be written to"
        raise RefusalError(statuses.plain_error(f"{name_of(document)} cannot be created: {text}"))
    return await current.create(document)


ASSUMABLE = frozenset({"namespaces", "serviceaccounts"})
"""Resources of which a cluster may assume that their objects exist: every Namespace, and its ``default`` account."""


class _AnyNamespace:
    """A cluster in which every namespace exists, with its ``default`` ServiceAccount, and nothing else."""

    def __init__(self, resources: frozenset[str] = ASSUMABLE) -> None:
        """Take the resources of ``ASSUMABLE`` that are assumed to exist."""
        self.assumed = resources

    @property
    def resources(self) -> ApiResources:
        return built_in_resources()

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        if not name or group or resource not in self.assumed:
            return None
        if resource == "namespaces" and not namespace:
            return assumed_namespace(name)
        if resource == "serviceaccounts" and name == "default" and namespace:
            return assumed_service_account(namespace)
        return None

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        account = self.get(group, resource, "default", namespace) if namespace else None
        return () if account is None else (account,)


ANY_NAMESPACE: Cluster = _AnyNamespace()
"""The cluster used when no objects are given: every namespace exists.

A list across all namespaces is empty, because assumed namespaces cannot be enumerated.
"""


class ReloadableCluster:
    """A cluster whose whole content can be replaced between two reviews.

    For several look-ups in the same state, take :attr:`current` once and use that.
    """

    __slots__ = ("_current",)

    def __init__(self, current: Cluster) -> None:
        """Start with ``current``."""
        self._current = current

    @property
    def current(self) -> Cluster:
        """The current content."""
        return self._current

    @property
    def resources(self) -> ApiResources:
        """The kinds that the current content knows."""
        return self._current.resources

    def swap(self, replacement: Cluster) -> None:
        """Replace the content atomically: further look-ups see only ``replacement``."""
        self._current = replacement

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """One object of the current content."""
        return self._current.get(group, resource, name, namespace)

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        """The objects of a resource in the current content."""
        return self._current.list(group, resource, namespace)


class ObjectKey(NamedTuple):
    """The key under which an object is stored, whatever its version."""

    group: str
    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """Print as Kubernetes does: ``deployments.apps "shop/cart"``."""
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{qualified_resource(self.group, self.resource)} {go_quoted(path)}"


class _LabelIndex:
    """The objects of one resource in one namespace, by their labels."""

    __slots__ = ("_by_label",)

    def __init__(self, objects: Mapping[str, JSONObject]) -> None:
        self._by_label: dict[tuple[str, str], dict[str, JSONObject]] = {}
        for name, document in objects.items():
            self.add(name, document)

    def add(self, name: str, document: JSONObject) -> None:
        for label in _string_labels(document):
            self._by_label.setdefault(label, {})[name] = document

    def remove(self, name: str, document: JSONObject) -> None:
        for label in _string_labels(document):
            having = self._by_label.get(label, {})
            having.pop(name, None)
            if not having:
                self._by_label.pop(label, None)

    def having(self, label: tuple[str, str]) -> Iterable[JSONObject]:
        return self._by_label.get(label, {}).values()


def _string_labels(document: JSONObject) -> Iterator[tuple[str, str]]:
    """The labels that a selector can require: values of other types equal no string."""
    labels: Mapping[str, JSON] = labels_of(document) or {}
    return ((key, value) for key, value in labels.items() if isinstance(value, str))


class ObjectStore:
    """A cluster in memory.

    Objects are found under any version of their group, and under groups that share their storage
    (``extensions`` and ``apps`` Deployments are the same). CustomResourceDefinitions in the store add to
    :attr:`resources`.
    """

    def __init__(
        self,
        objects: Iterable[JSONObject] = (),
        *,
        resources: ApiResources | None = None,
        assume_namespaces: bool = False,
        assumed: frozenset[str] = frozenset(),
    ) -> None:
        """Store ``objects``.

        Args:
            objects: Kubernetes objects.
            resources: The kinds that are known besides those of CustomResourceDefinitions; None means those of
                Kubernetes.
            assume_namespaces: Assume that every namespace exists, with no label but its name, and with its ``default``
                ServiceAccount, until it is put or removed.
            assumed: The same for some of :data:`ASSUMABLE` alone.

        Raises:
            InputError: one of the objects cannot be stored, see :meth:`put`.
        """
        self._base = resources
        self.access_reviews: AccessReviews | None = None
        """Asks the API server what users may do; None means that the store's Roles and bindings say it."""
        self._resources: ApiResources | None = None
        assumed = ASSUMABLE if assume_namespaces else assumed
        self._assumed = _AnyNamespace(assumed) if assumed else None
        self._removed: set[ObjectKey] = set()
        self._objects: dict[tuple[str, str], dict[str, dict[str, JSONObject]]] = {}
        self._lists: dict[tuple[str, str, str | None], tuple[JSONObject, ...]] = {}
        self._label_indexes: dict[tuple[str, str, str], _LabelIndex] = {}
        for document in objects:
            self.put(document)

    @property
    def assumes_namespaces(self) -> bool:
        """Whether every namespace is assumed to exist."""
        return self._assumed is not None and "namespaces" in self._assumed.assumed

    def copy(self) -> ObjectStore:
        """An independent copy of the store."""
        # The cached lists and indexes are not copied, so each store makes its own.
        other = ObjectStore(
            resources=self._base, assumed=self._assumed.assumed if self._assumed else frozenset()
        )
        other._resources, other._removed = self._resources, set(self._removed)
        other.access_reviews = self.access_reviews
        other._objects = {
            at: {namespace: dict(objects) for namespace, objects in by_namespace.items()}
            for at, by_namespace in self._objects.items()
        }
        return other

    def updated(self, changes: Iterable[tuple[ObjectKey, JSONObject | None]]) -> Self:
        """Another store with some objects put, or removed where there is None; it shares what does not change.

        Raises:
            InputError: an object cannot be stored, see :meth:`put`.
        """
        other = copy.copy(self)
        other._change(changes)  # noqa: SLF001 - of this class
        return other

    def _change(self, changes: Iterable[tuple[ObjectKey, JSONObject | None]]) -> None:
        """Change a shallow copy, after making its own what the changes touch."""
        self._removed, self._objects, self._lists = set(self._removed), dict(self._objects), dict(self._lists)
        self._label_indexes = {}
        owned: set[tuple[str, ...]] = set()
        for given, document in changes:
            key = _storage_key(given)
            if key[:2] not in owned:
                self._objects[key[:2]] = dict(self._objects.get(key[:2], {}))
            if key[:3] not in owned:
                self._objects[key[:2]][key.namespace] = dict(self._objects[key[:2]].get(key.namespace, {}))
            owned |= {key[:2], key[:3]}
            if document is None:
                self._drop(key)
            else:
                self.put(document, key)

    @property
    def resources(self) -> ApiResources:
        """The kinds that this cluster knows, including those of its CustomResourceDefinitions."""
        if self._resources is None:
            self._resources = self._built_in.with_crds(self.definitions())
        return self._resources

    @property
    def source(self) -> str:
        """The live cluster that the objects come from; empty if they are all there is."""
        return ""

    def definitions(self) -> Sequence[JSONObject]:
        """The CustomResourceDefinitions."""
        return self.list(CRD_GROUP, CRD_RESOURCE)

    @property
    def _built_in(self) -> ApiResources:
        return built_in_resources() if self._base is None else self._base

    def items(self) -> Iterator[tuple[ObjectKey, JSONObject]]:
        """All objects with their keys, in key order."""
        for (group, resource), by_namespace in sorted(self._objects.items()):
            for namespace, objects in sorted(by_namespace.items()):
                for name, document in sorted(objects.items()):
                    yield ObjectKey(group, resource, namespace, name), document

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """One object; None if it does not exist. ``namespace`` is empty for cluster-scoped resources."""
        at = (storage_group(group, resource), resource)
        found = self._objects.get(at, {}).get(namespace, {}).get(name)
        if (
            found is None
            and self._assumed is not None
            and not (self._removed and ObjectKey(*at, namespace, name) in self._removed)
        ):
            return self._assumed.get(group, resource, name, namespace)
        return found

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        """The objects of a resource, in one namespace if given, sorted by namespace and name."""
        at = (storage_group(group, resource), resource)
        if at not in self._objects and (self._assumed is None or at != _SERVICE_ACCOUNTS):
            return ()
        found = self._lists.get((*at, namespace))
        if found is None:
            found = self._sorted(*at, namespace)
            # Requests may name any namespace: caching only those with objects bounds the memory.
            if namespace is None or namespace in self._objects.get(at, {}):
                self._lists[*at, namespace] = found
        return found

    def _sorted(self, group: str, resource: str, namespace: str | None) -> tuple[JSONObject, ...]:
        by_namespace = self._objects.get((group, resource), {})
        if namespace is None:
            return tuple(
                document for _, objects in sorted(by_namespace.items()) for document in _by_name(objects)
            )
        objects = by_namespace.get(namespace, {})
        for document in self._assumed.list(group, resource, namespace) if self._assumed else ():
            name = document["metadata"]["name"]
            if name not in objects and ObjectKey(group, resource, namespace, name) not in self._removed:
                objects = {**objects, name: document}
        return tuple(_by_name(objects))

    def has_selected(self, group: str, resource: str, namespace: str, selector: Selector) -> bool:
        """Whether a selector matches the labels of any object in a namespace.

        If the selector requires a label, only objects with that label are looked at, however many others there are.
        """
        if selector.required_label is None:
            return selector.matches_object(*self.list(group, resource, namespace))
        at = (storage_group(group, resource), resource)
        objects = self._objects.get(at, {}).get(namespace)
        if objects is None:
            return False  # assumed Namespaces cannot be listed, and assumed ServiceAccounts have no labels
        index = self._label_indexes.get((*at, namespace))
        if index is None:
            index = self._label_indexes[*at, namespace] = _LabelIndex(objects)
        return selector.matches_object(*index.having(selector.required_label))

    def key_of(self, document: JSON) -> ObjectKey:
        """The key of an object. A namespaced object without a namespace goes to ``default``.

        Raises:
            InputError: its kind is unknown (the message suggests the nearest), or it has no name.
        """
        kind = kind_of(document)
        found = self._built_in.for_kind(kind) or self.resources.for_object(document)
        name = name_of(document)
        if not name:
            raise InputError("metadata.name: Required value: an object of a cluster has a name")
        namespace = namespace_of(document) or DEFAULT_NAMESPACE if found.namespaced else ""
        resource = found.resource.resource
        return ObjectKey(storage_group(found.resource.group, resource), resource, namespace, name)

    def put(self, document: JSONObject, at: ObjectKey | None = None) -> ObjectKey:
        """Store an object, replacing one with the same key; a Namespace gets the API server's defaults.

        Args:
            document: The object. It is not changed, and must not be changed afterwards.
            at: The key to store it under; None derives it from kind and metadata.

        Raises:
            InputError: its kind is unknown or it has no name, and ``at`` is not given; or it is a malformed
                CustomResourceDefinition, role or binding.
        """
        key = self.key_of(document) if at is None else _storage_key(at)
        if key[:2] == (CRD_GROUP, CRD_RESOURCE):
            tuple(types_of_definition(document))
        if key.group == rbac.RBAC_GROUP:
            rbac.check_rbac_object(key.resource, document)
        stored = with_namespace(document, key.namespace, key.name)
        if key[:2] == _NAMESPACES:
            stored = with_namespace_defaults(stored)
        objects = self._objects.setdefault(key[:2], {}).setdefault(key.namespace, {})
        self._reindex(key, objects.get(key.name), stored)
        objects[key.name] = stored
        self._removed.discard(key)
        self._forget(key)
        return key

    async def create(self, document: JSONObject) -> bool:
        """Store a new object; False, without changing anything, if one of its name exists.

        A new Namespace gets its ``default`` ServiceAccount, which a controller creates in a real cluster.

        Raises:
            InputError: as in :meth:`put`.
            RefusalError: it is a Namespace with an invalid name.
        """
        key = self.key_of(document)
        if key[:2] == _NAMESPACES:
            check_namespace_name(key.name)
        if self.get(key.group, key.resource, key.name, key.namespace) is not None:
            return False
        self.put(document, key)
        if key[:2] == _NAMESPACES:
            await self.create(assumed_service_account(key.name))
        return True

    def remove(self, group: str, resource: str, name: str, namespace: str = "") -> bool:
        """Remove an object, even an assumed one; False if there is none."""
        existed = self.get(group, resource, name, namespace) is not None
        key = _storage_key(ObjectKey(group, resource, namespace, name))
        self._drop(key)
        if existed and self._assumed is not None:
            self._removed.add(key)
        return existed

    def _drop(self, key: ObjectKey) -> None:
        stored = self._objects.get(key[:2], {}).get(key.namespace, {}).pop(key.name, None)
        self._reindex(key, stored, None)
        self._forget(key)

    def _reindex(self, key: ObjectKey, before: JSONObject | None, after: JSONObject | None) -> None:
        """Keep the labels of a changed object up to date, if anybody has asked for labels there."""
        index = self._label_indexes.get(key[:3])
        if index is None:
            return
        if before is not None:
            index.remove(key.name, before)
        if after is not None:
            index.add(key.name, after)

    def _forget(self, key: ObjectKey) -> None:
        """Drop the caches that depend on a changed object."""
        self._lists.pop((*key[:2], key.namespace), None)
        self._lists.pop((*key[:2], None), None)
        if key[:2] == (CRD_GROUP, CRD_RESOURCE):
            self._resources = None


_NAMESPACES = ("", "namespaces")
_SERVICE_ACCOUNTS = ("", "serviceaccounts")
"""The only objects that are assumed to be in namespaces."""


def _by_name(objects: Mapping[str, JSONObject]) -> list[JSONObject]:
    return [objects[name] for name in sorted(objects)]


def _storage_key(key: ObjectKey) -> ObjectKey:
    return key._replace(group=storage_group(key.group, key.resource))
