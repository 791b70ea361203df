"""The objects of a cluster, as controllers look them up."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, runtime_checkable

from pratique.apimachinery import names, statuses
from pratique.apimachinery.errors import InputError, RefusalError
from pratique.apimachinery.field_errors import ROOT, invalid
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.kinds import kind_of
from pratique.apimachinery.names import DEFAULT_NAMESPACE, name_of, namespace_of, with_namespace
from pratique.apimachinery.statuses import go_quoted, qualified_resource
from pratique.cluster import rbac
from pratique.cluster.api_resources import (
    ApiResources,
    built_in_resources,
    storage_group,
    types_of_definition,
)

if TYPE_CHECKING:
    from pratique.admission.reviews import Review

NAME_LABEL = "kubernetes.io/metadata.name"
"""The label by which every Namespace can be selected by its name."""


def with_namespace_defaults(namespace: JSONObject) -> JSONObject:
    """A Namespace as the API server reads it: labelled with its name, and Active unless it says otherwise.

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


def is_in_namespace(review: Review) -> bool:
    """Tell whether what is reviewed is in a namespace; a Namespace itself is in none.

    An API server gives requests about a Namespace its own name as their namespace.
    """
    is_namespace = (review.kind.group, review.kind.kind) == ("", "Namespace")
    return bool(review.namespace) and not is_namespace


def check_namespace_name(name: str) -> None:
    """See that a Namespace can have this name.

    Source: ``pkg/apis/core/validation/validation.go`` ``ValidateNamespaceName``.

    Raises:
        RefusalError: it cannot; 422.
    """
    path = ROOT / "metadata" / "name"
    errors = [invalid(path, name, message) for message in names.check_dns1123_label(name)]
    if errors:
        raise RefusalError(statuses.invalid("", "Namespace", name, errors))


def assumed_namespace(name: str) -> JSONObject:
    """The Namespace that stands for one nobody described: unlabelled and Active."""
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {"name": name},
        "status": {"phase": "Active"},
    }


def assumed_service_account(namespace: str) -> JSONObject:
    """The ``default`` ServiceAccount that stands in every Namespace nobody described."""
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": {"name": "default", "namespace": namespace},
    }


class Cluster(Protocol):
    """The API server's state, as far as controllers look it up. Answers are not to be changed in place.

    Look-ups are synchronous because they are served from memory: from files today, from a watch on a live API
    server later.
    """

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """One object; None where it does not exist. ``namespace`` is empty for cluster-scoped resources."""

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        """All objects of a resource, sorted by namespace and name; of one namespace where one is given.

        Once any of them has changed, this is another sequence: what was made of one may be kept with it.
        """

    @property
    def resources(self) -> ApiResources:
        """All kinds that this cluster knows; another object once they have changed."""


@runtime_checkable
class WritableCluster(Cluster, Protocol):
    """A cluster that the few controllers that make objects can write to; they do so by :func:`create`."""

    async def create(self, document: JSONObject) -> bool:
        """Store a new object; False where there is one of its name already, which stays as it is.

        Raises:
            RefusalError: it may not be created.
            CallError: storage could not be asked; the text says why.
        """


async def create_object(cluster: Cluster, document: JSONObject) -> bool:
    """Store a new object in a cluster; False where there is one of its name already, which stays as it is.

    Never to be called for a review that is a dry run.

    Raises:
        RefusalError: it may not be created, or the cluster cannot be written to.
        CallError: storage could not be asked; the text says why.
    """
    current = cluster.current if isinstance(cluster, ReloadableCluster) else cluster
    if not isinstance(current, WritableCluster):
        text = "the cluster that it belongs to cannot be written to"
        raise RefusalError(statuses.plain_error(f"{name_of(document)} cannot be created: {text}"))
    return await current.create(document)


class _AnyNamespace:
    """Every namespace that is asked for exists, with its ``default`` ServiceAccount; nothing else does."""

    @property
    def resources(self) -> ApiResources:
        return built_in_resources()

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        if not name or group:
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
"""What is there when nobody says what is there.

A list across all namespaces is empty: those that exist without having been described cannot be counted.
"""


class ReloadableCluster:
    """A cluster whose whole content can be replaced between two reviews.

    Whoever needs the same state for several look-ups takes :attr:`current` once and asks that.
    """

    __slots__ = ("_current",)

    def __init__(self, current: Cluster) -> None:
        """Begin with ``current``."""
        self._current = current

    @property
    def current(self) -> Cluster:
        """The content as it is now."""
        return self._current

    @property
    def resources(self) -> ApiResources:
        """All kinds that the current content knows."""
        return self._current.resources

    def swap(self, replacement: Cluster) -> None:
        """Replace the content: look-ups from now on see all of ``replacement``, and nothing of what was."""
        self._current = replacement

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """One object of the current content."""
        return self._current.get(group, resource, name, namespace)

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        """All objects of a resource in the current content."""
        return self._current.list(group, resource, namespace)


class ObjectKey(NamedTuple):
    """Where an object is stored, whatever its version."""

    group: str
    resource: str
    namespace: str
    name: str

    def __str__(self) -> str:
        """As Kubernetes names it: ``deployments.apps "shop/cart"``."""
        path = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{qualified_resource(self.group, self.resource)} {go_quoted(path)}"


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
    ) -> None:
        """Hold ``objects``.

        Args:
            objects: Kubernetes objects.
            resources: The kinds that are known beside those that CustomResourceDefinitions define; None means
                those of Kubernetes.
            assume_namespaces: Every namespace that is asked for exists, unlabelled, with its ``default``
                ServiceAccount, until it is put or removed.

        Raises:
            InputError: one of the objects cannot be stored, see :meth:`put`.
        """
        self._base = resources
        self._resources: ApiResources | None = None
        self._assumed = ANY_NAMESPACE if assume_namespaces else None
        self._removed: set[ObjectKey] = set()
        self._objects: dict[tuple[str, str], dict[str, dict[str, JSONObject]]] = {}
        self._lists: dict[tuple[str, str, str | None], tuple[JSONObject, ...]] = {}
        for each in objects:
            self.put(each)

    @property
    def assumes_namespaces(self) -> bool:
        """Whether every namespace that is asked for exists."""
        return self._assumed is not None

    def copy(self) -> ObjectStore:
        """Another store that holds the same; what is put into one of them is not in the other."""
        other = ObjectStore(resources=self._base, assume_namespaces=self._assumed is not None)
        other._resources, other._removed = self._resources, set(self._removed)
        other._objects = {
            at: {namespace: dict(objects) for namespace, objects in by_namespace.items()}
            for at, by_namespace in self._objects.items()
        }
        return other

    @property
    def resources(self) -> ApiResources:
        """All kinds that this cluster knows, those of its CustomResourceDefinitions among them."""
        if self._resources is None:
            self._resources = self._built_in.with_crds(self.list(*_DEFINITIONS))
        return self._resources

    @property
    def _built_in(self) -> ApiResources:
        return built_in_resources() if self._base is None else self._base

    def items(self) -> Iterator[tuple[ObjectKey, JSONObject]]:
        """All objects with their keys, in the order of these."""
        for (group, resource), by_namespace in sorted(self._objects.items()):
            for namespace, objects in sorted(by_namespace.items()):
                for name, each in sorted(objects.items()):
                    yield ObjectKey(group, resource, namespace, name), each

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """One object; None where it does not exist. ``namespace`` is empty for cluster-scoped resources."""
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
        """All objects of a resource, sorted by namespace and name; of one namespace where one is given."""
        at = (storage_group(group, resource), resource)
        found = self._lists.get((*at, namespace))
        if found is None:
            found = self._sorted(*at, namespace)
            # Namespaces that requests make up are not remembered: there is no end of them.
            if namespace is None or namespace in self._objects.get(at, {}):
                self._lists[*at, namespace] = found
        return found

    def _sorted(self, group: str, resource: str, namespace: str | None) -> tuple[JSONObject, ...]:
        by_namespace = self._objects.get((group, resource), {})
        if namespace is None:
            return tuple(each for _, objects in sorted(by_namespace.items()) for each in _by_name(objects))
        objects = by_namespace.get(namespace, {})
        for each in self._assumed.list(group, resource, namespace) if self._assumed else ():
            name = each["metadata"]["name"]
            if name not in objects and ObjectKey(group, resource, namespace, name) not in self._removed:
                objects = {**objects, name: each}
        return tuple(_by_name(objects))

    def key_of(self, document: JSON) -> ObjectKey:
        """Where an object belongs. One of a namespaced kind that names no namespace goes to ``default``.

        Raises:
            InputError: its kind is not known (the text suggests the nearest), or it has no name.
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
        """Store an object in place of the one that is there; Namespaces with the API server's defaults.

        Args:
            document: The object. It is not changed, and is not to be changed afterwards.
            at: Where it belongs, whatever it says of itself; None where its kind and metadata say so.

        Raises:
            InputError: its kind is not known or it has no name, and ``at`` is not given; or it is a malformed
                CustomResourceDefinition, role or binding.
        """
        key = self.key_of(document) if at is None else _storage_key(at)
        if key[:2] == _DEFINITIONS:
            tuple(types_of_definition(document))
        if key.group == rbac.RBAC_GROUP:
            rbac.check_rbac_object(key.resource, document)
        stored = with_namespace(document, key.namespace, key.name)
        if key[:2] == _NAMESPACES:
            stored = with_namespace_defaults(stored)
        self._objects.setdefault(key[:2], {}).setdefault(key.namespace, {})[key.name] = stored
        self._removed.discard(key)
        self._forget(key)
        return key

    async def create(self, document: JSONObject) -> bool:
        """Store a new object; False where there is one of its name already, which stays as it is.

        A new Namespace comes with its ``default`` ServiceAccount, which in a cluster a controller makes.

        Raises:
            InputError: as in :meth:`put`.
            RefusalError: it is a Namespace, and its name cannot be one's.
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
        """Remove an object, an assumed one too; False where there is none."""
        existed = self.get(group, resource, name, namespace) is not None
        key = _storage_key(ObjectKey(group, resource, namespace, name))
        self._objects.get(key[:2], {}).get(namespace, {}).pop(name, None)
        if existed and self._assumed is not None:
            self._removed.add(key)
        self._forget(key)
        return existed

    def _forget(self, key: ObjectKey) -> None:
        """Drop what was worked out from the objects that have changed."""
        self._lists.pop((*key[:2], key.namespace), None)
        self._lists.pop((*key[:2], None), None)
        if key[:2] == _DEFINITIONS:
            self._resources = None


_DEFINITIONS = ("apiextensions.k8s.io", "customresourcedefinitions")
_NAMESPACES = ("", "namespaces")


def _by_name(objects: Mapping[str, JSONObject]) -> list[JSONObject]:
    return [objects[name] for name in sorted(objects)]


def _storage_key(key: ObjectKey) -> ObjectKey:
    return key._replace(group=storage_group(key.group, key.resource))
