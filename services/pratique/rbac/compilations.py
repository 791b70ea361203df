"""Compilations: what has been made of the Roles and bindings of a cluster, kept until they change."""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Generic, TypeVar

from pratique.rbac.bindings import Bindings
from pratique.rbac.documents import GROUP
from pratique.rbac.roles import Roles, cluster_roles, namespaced_roles

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pratique.clusters import Cluster
    from pratique.json_values import JSONObject

_T = TypeVar("_T")


class Compilation:
    """What has been compiled of one cluster, each part when it is first asked for.

    A cluster gives out the same list of objects until one of them changes: so it is seen that something has.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._bindings: _Parts[Bindings] = _Parts()
        self._cluster_roles: _Parts[Roles] = _Parts()
        self._roles: _Parts[Roles] = _Parts()

    def cluster_role_bindings(self, cluster: Cluster) -> Bindings:
        """All ClusterRoleBindings."""
        documents = cluster.list(GROUP, "clusterrolebindings")
        return self._bindings.part("", documents, Bindings)

    def role_bindings(self, cluster: Cluster, namespace: str) -> Bindings:
        """The RoleBindings of one namespace."""
        documents = cluster.list(GROUP, "rolebindings", namespace)
        return self._bindings.part(namespace, documents, lambda found: Bindings(found, namespace))

    def cluster_roles(self, cluster: Cluster) -> Roles:
        """All ClusterRoles."""
        return self._cluster_roles.part("", cluster.list(GROUP, "clusterroles"), cluster_roles)

    def roles(self, cluster: Cluster, namespace: str) -> Roles:
        """The Roles of one namespace."""
        return self._roles.part(namespace, cluster.list(GROUP, "roles", namespace), namespaced_roles)


class _Parts(Generic[_T]):
    """What was made of the objects of each namespace, and of which objects."""

    def __init__(self) -> None:
        self._made: dict[str, tuple[Sequence[JSONObject], _T]] = {}

    def part(
        self, namespace: str, documents: Sequence[JSONObject], make: Callable[[Sequence[JSONObject]], _T]
    ) -> _T:
        """What was made of these objects, made now if need be."""
        found = self._made.get(namespace)
        if found is not None and found[0] is documents:
            return found[1]
        made = make(documents)
        # Namespaces that requests make up are not remembered: there is no end of them.
        if documents:
            self._made[namespace] = (documents, made)
        return made


_COMPILATIONS: weakref.WeakKeyDictionary[Cluster, Compilation] = weakref.WeakKeyDictionary()
"""One for each cluster, for as long as there is that cluster."""


def compilation_of(cluster: Cluster) -> Compilation:
    """What has been compiled of a cluster, which is not one that can be reloaded."""
    found = _COMPILATIONS.get(cluster)
    return _COMPILATIONS.setdefault(cluster, Compilation()) if found is None else found
