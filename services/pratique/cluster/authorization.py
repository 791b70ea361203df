"""Authorizers, and the one for RBAC: who may do what, by the Roles and bindings of a cluster.

:mod:`pratique.cluster.subject_access_reviews` has the one that asks an API server.

Sources: ``k8s.io/apiserver/pkg/authorization/authorizer/interfaces.go`` and
``plugin/pkg/auth/authorizer/rbac/rbac.go``.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import ClassVar, Generic, Protocol, TypeVar

import msgspec

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
from pratique.cluster.store import Cluster, ObjectStore, ReloadableCluster


class AuthorizationAttributes(msgspec.Struct, frozen=True, kw_only=True):
    """The request to authorize. ``path`` is for non-resource requests, the rest for resource requests."""

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


class AuthorizationDecision(msgspec.Struct, frozen=True):
    """The decision of an authorizer."""

    cel_type: ClassVar[str] = "kubernetes.authorization.Decision"
    """Its type in CEL."""
    allowed: bool
    reason: str = ""
    error: str = ""
    """Why the authorizer could not decide; empty if it could."""


class Authorizer(Protocol):
    """Decides whether a request is allowed.

    It is synchronous because decisions come from memory, as look-ups in a cluster do.
    """

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """Decide on a request; without a rule that allows it, it is not allowed.

        Raises:
            UnansweredError: the answer is not in memory yet.
        """


class AccessReviews(Protocol):
    """Asks an API server what users may do."""

    def authorizer(self) -> Authorizer:
        """The authorizer for one review."""


_T = TypeVar("_T")


class UnansweredError(BaseException):
    """An authorizer has to ask an API server first: await :attr:`answer`, and evaluate again.

    Not an ``Exception``, so that a policy that catches all of those does not take it for an answer.
    """

    def __init__(self, answer: Callable[[float | None], Awaitable[None]]) -> None:
        """Take what gets the answer until a time by ``time.monotonic``; it never fails, as an error is an answer."""
        super().__init__("an authorizer has to ask the API server first")
        self.answer = answer


async def continue_evaluation(
    evaluate: Callable[[], Awaitable[_T]], reason: BaseException, until: float | None
) -> _T:
    """Go on with an evaluation that has ended early, as often as an authorizer has to ask.

    Args:
        evaluate: Evaluates again, or from where it ended.
        reason: Why it has ended early: an authorizer has to ask, or anything else.
        until: The deadline, by ``time.monotonic``; what is not answered then is an error of the authorizer.
    """
    while True:
        if isinstance(reason, UnansweredError):
            await reason.answer(until)
        try:
            return await evaluate()
        except UnansweredError as unanswered:
            reason = unanswered


def is_authorized_for_signer(authorizer: Authorizer, user: UserInfo, verb: str, signer_name: str) -> bool:
    """Tell whether a user may ``approve``, ``sign`` or ``attest`` for a signer, by its name or its domain.

    The permission is to ``signers`` of ``certificates.k8s.io``; ``example.com/*`` stands for all signers of a domain.
    Who cannot be authorized, because the authorizer fails, is not.
    Source: ``pkg/certauthorization/certauthorization.go``.
    """
    for name in (signer_name, f"{signer_name.partition('/')[0]}/*"):
        decision = authorizer.authorize(
            AuthorizationAttributes(
                user=user, verb=verb, group="certificates.k8s.io", resource="signers", name=name
            )
        )
        if decision.allowed and not decision.error:
            return True
    return False


class RbacCache:
    """The compiled Roles and bindings of one cluster, each compiled on first use.

    A cluster returns the same list of objects until one of them changes, so a new list means a change.
    """

    def __init__(self) -> None:
        """Start empty."""
        self._bindings: _NamespacedCache[Bindings] = _NamespacedCache()
        self._cluster_roles: _NamespacedCache[Roles] = _NamespacedCache()
        self._roles: _NamespacedCache[Roles] = _NamespacedCache()

    def cluster_role_bindings(self, cluster: Cluster) -> Bindings:
        """All ClusterRoleBindings."""
        documents = cluster.list(RBAC_GROUP, "clusterrolebindings")
        return self._bindings.compiled("", documents, Bindings)

    def role_bindings(self, cluster: Cluster, namespace: str) -> Bindings:
        """The RoleBindings of one namespace."""
        documents = cluster.list(RBAC_GROUP, "rolebindings", namespace)
        return self._bindings.compiled(namespace, documents, lambda found: Bindings(found, namespace))

    def cluster_roles(self, cluster: Cluster) -> Roles:
        """All ClusterRoles."""
        return self._cluster_roles.compiled("", cluster.list(RBAC_GROUP, "clusterroles"), cluster_roles)

    def roles(self, cluster: Cluster, namespace: str) -> Roles:
        """The Roles of one namespace."""
        return self._roles.compiled(namespace, cluster.list(RBAC_GROUP, "roles", namespace), namespaced_roles)


class _NamespacedCache(Generic[_T]):
    """Compiled objects by namespace, with the list of objects they were compiled from."""

    def __init__(self) -> None:
        self._compiled_by_namespace: dict[str, tuple[Sequence[JSONObject], _T]] = {}

    def compiled(
        self, namespace: str, documents: Sequence[JSONObject], make: Callable[[Sequence[JSONObject]], _T]
    ) -> _T:
        """The compiled form of a list of objects, from the cache if the list is the same."""
        found = self._compiled_by_namespace.get(namespace)
        if found is not None and found[0] is documents:
            return found[1]
        compiled = make(documents)
        # Requests may name any namespace: caching only those with objects bounds the memory.
        if documents:
            self._compiled_by_namespace[namespace] = (documents, compiled)
        return compiled


_RBAC_CACHES: weakref.WeakKeyDictionary[Cluster, RbacCache] = weakref.WeakKeyDictionary()
"""One cache per cluster, freed with it."""


def rbac_cache_of(cluster: Cluster) -> RbacCache:
    """The cache of a cluster, which must not be a reloadable one."""
    found = _RBAC_CACHES.get(cluster)
    return _RBAC_CACHES.setdefault(cluster, RbacCache()) if found is None else found


AUTHORIZED_SECONDS, UNAUTHORIZED_SECONDS = 300.0, 30.0
"""How long answers of an API server are remembered by default: the defaults of kube-apiserver's flags
``--authorization-webhook-cache-authorized-ttl`` and ``--authorization-webhook-cache-unauthorized-ttl``."""

SUPERUSERS = "system:masters"
"""The group that may do everything in every API server, whatever the roles."""


class RbacAuthorizer(msgspec.Struct, frozen=True):
    """Decides by the current Roles and bindings of a cluster."""

    cluster: Cluster

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        """Decide on a request. ClusterRoleBindings are consulted before RoleBindings, both in name order."""
        if SUPERUSERS in attributes.user.groups:
            return AuthorizationDecision(allowed=True)
        query = _RbacQuery.for_request(self.cluster, attributes)
        errors: list[str] = []
        for grant in query.grants():
            rules = query.rules_of(grant.role, grant.namespace)
            if isinstance(rules, str):
                errors.append(rules)
            elif any(rule.allows(attributes) for rule in rules):
                return AuthorizationDecision(allowed=True, reason=f"RBAC: allowed by {grant}")
        return AuthorizationDecision(allowed=False, reason=f"RBAC: {aggregate(errors)}" if errors else "")


class _RbacQuery(msgspec.Struct, frozen=True):
    """One request against one state of a cluster."""

    cluster: Cluster
    cache: RbacCache
    attributes: AuthorizationAttributes

    @classmethod
    def for_request(cls, cluster: Cluster, attributes: AuthorizationAttributes) -> _RbacQuery:
        current = cluster.current if isinstance(cluster, ReloadableCluster) else cluster
        return cls(current, rbac_cache_of(current), attributes)

    def grants(self) -> Iterator[Grant]:
        """The bindings that apply to the user, ClusterRoleBindings first."""
        user, namespace = self.attributes.user, self.attributes.namespace
        yield from self.cache.cluster_role_bindings(self.cluster).for_user(user)
        if namespace:
            yield from self.cache.role_bindings(self.cluster, namespace).for_user(user)

    def rules_of(self, role: RoleRef, namespace: str) -> Sequence[CompiledPolicyRule] | str:
        """The rules of a role that a binding in ``namespace`` refers to, or the error if there is no such role."""
        if role.kind == "ClusterRole":
            rules = self.cache.cluster_roles(self.cluster).rules(role.name)
        elif role.kind == "Role":
            # A ClusterRoleBinding has no namespace, so it cannot refer to a Role.
            rules = self.cache.roles(self.cluster, namespace).rules(role.name) if namespace else None
        else:
            return f"unsupported role reference kind: {go_quoted(role.kind)}"
        if rules is None:
            return f"{qualified_resource(RBAC_GROUP, role.kind.lower())} {go_quoted(role.name)} not found"
        return rules


@functools.lru_cache(2)  # a front door has a cluster that follows reloads, and the one of the chain
def authorizer_of(cluster: Cluster) -> RbacAuthorizer | AccessReviews:
    """The authorizer of a cluster, by its Roles and bindings; or what asks its API server, if that is to be asked."""
    current = cluster.current if isinstance(cluster, ReloadableCluster) else cluster
    reviews = current.access_reviews if isinstance(current, ObjectStore) else None
    return RbacAuthorizer(cluster) if reviews is None else reviews
