"""Authorizers: who may do what, by the Roles and bindings of a cluster."""

from __future__ import annotations

import dataclasses
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

from pratique.apimachinery.json_values import JSONObject
from pratique.apimachinery.requests import UserInfo
from pratique.apimachinery.statuses import aggregate, go_quoted, qualified_resource
from pratique.cluster.rbac import (
    RBAC_GROUP,
    Bindings,
    CompiledPolicyRule,
    Grant,
    RoleRef,
    Roles,
    cluster_roles,
    namespaced_roles,
)
from pratique.cluster.store import Cluster, ReloadableCluster


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationAttributes:
    """What is asked. ``path`` is for requests that are for no resource, all else for those that are."""

    user: UserInfo
    verb: str
    path: str = ""
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    field_selector: str = ""
    label_selector: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class AuthorizationDecision:
    """What an authorizer says."""

    cel_type: ClassVar[str] = "kubernetes.authorization.Decision"
    """What expressions call it, to whom it is a value like others."""
    allowed: bool
    reason: str = ""
    error: str = ""
    """Why it could not be decided; empty where it could."""


class Authorizer(Protocol):
    """Decides who may do what, as the RBAC of a cluster does.

    Decisions are synchronous because they are made from memory, as look-ups in a cluster are.
    """

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """Decide. Where nothing speaks for it, it is not allowed."""


_T = TypeVar("_T")


class RbacCache:
    """What has been compiled of one cluster, each part when it is first asked for.

    A cluster gives out the same list of objects until one of them changes: so it is seen that something has.
    """

    def __init__(self) -> None:
        """Begin with nothing."""
        self._bindings: _NamespacedCache[Bindings] = _NamespacedCache()
        self._cluster_roles: _NamespacedCache[Roles] = _NamespacedCache()
        self._roles: _NamespacedCache[Roles] = _NamespacedCache()

    def cluster_role_bindings(self, cluster: Cluster) -> Bindings:
        """All ClusterRoleBindings."""
        documents = cluster.list(RBAC_GROUP, "clusterrolebindings")
        return self._bindings.part("", documents, Bindings)

    def role_bindings(self, cluster: Cluster, namespace: str) -> Bindings:
        """The RoleBindings of one namespace."""
        documents = cluster.list(RBAC_GROUP, "rolebindings", namespace)
        return self._bindings.part(namespace, documents, lambda found: Bindings(found, namespace))

    def cluster_roles(self, cluster: Cluster) -> Roles:
        """All ClusterRoles."""
        return self._cluster_roles.part("", cluster.list(RBAC_GROUP, "clusterroles"), cluster_roles)

    def roles(self, cluster: Cluster, namespace: str) -> Roles:
        """The Roles of one namespace."""
        return self._roles.part(namespace, cluster.list(RBAC_GROUP, "roles", namespace), namespaced_roles)


class _NamespacedCache(Generic[_T]):
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


_RBAC_CACHES: weakref.WeakKeyDictionary[Cluster, RbacCache] = weakref.WeakKeyDictionary()
"""One for each cluster, for as long as there is that cluster."""


def rbac_cache_of(cluster: Cluster) -> RbacCache:
    """What has been compiled of a cluster, which is not one that can be reloaded."""
    found = _RBAC_CACHES.get(cluster)
    return _RBAC_CACHES.setdefault(cluster, RbacCache()) if found is None else found


SUPERUSERS = "system:masters"
"""The group that every API server lets do everything, whatever any role says."""


@dataclasses.dataclass(frozen=True, slots=True)
class RbacAuthorizer:
    """Decides by the Roles and bindings that a cluster has at the time."""

    cluster: Cluster

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """Decide. Of several rules that allow it, those of ClusterRoleBindings come first, then the order of names."""
        if SUPERUSERS in attributes.user.groups:
            return AuthorizationDecision(allowed=True)
        question = _RbacQuery.of(self.cluster, attributes)
        errors: list[str] = []
        for grant in question.grants():
            rules = question.rules_of(grant.role, grant.namespace)
            if isinstance(rules, str):
                errors.append(rules)
            elif any(rule.allows(attributes) for rule in rules):
                return AuthorizationDecision(allowed=True, reason=f"RBAC: allowed by {grant}")
        return AuthorizationDecision(allowed=False, reason=f"RBAC: {aggregate(errors)}" if errors else "")


@dataclasses.dataclass(frozen=True, slots=True)
class _RbacQuery:
    """One question, asked of one state of a cluster."""

    cluster: Cluster
    compiled: RbacCache
    attributes: AuthorizationAttributes

    @classmethod
    def of(cls, cluster: Cluster, attributes: AuthorizationAttributes) -> _RbacQuery:
        current = cluster.current if isinstance(cluster, ReloadableCluster) else cluster
        return cls(current, rbac_cache_of(current), attributes)

    def grants(self) -> Iterator[Grant]:
        """The bindings that apply to the user, those of the whole cluster first."""
        user, namespace = self.attributes.user, self.attributes.namespace
        yield from self.compiled.cluster_role_bindings(self.cluster).of(user)
        if namespace:
            yield from self.compiled.role_bindings(self.cluster, namespace).of(user)

    def rules_of(self, role: RoleRef, namespace: str) -> Sequence[CompiledPolicyRule] | str:
        """The rules of a role, as a binding in ``namespace`` names it; where there are none, what is said of that."""
        if role.kind == "ClusterRole":
            rules = self.compiled.cluster_roles(self.cluster).rules(role.name)
        elif role.kind == "Role":
            # A ClusterRoleBinding is in no namespace, and finds no Role.
            rules = self.compiled.roles(self.cluster, namespace).rules(role.name) if namespace else None
        else:
            return f"unsupported role reference kind: {go_quoted(role.kind)}"
        if rules is None:
            return f"{qualified_resource(RBAC_GROUP, role.kind.lower())} {go_quoted(role.name)} not found"
        return rules
