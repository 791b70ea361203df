"""The authorizer of an API server that runs with ``--authorization-mode=RBAC``.

Source: ``plugin/pkg/auth/authorizer/rbac/rbac.go``; ``pkg/kubeapiserver/authorizer/reload.go`` and
``k8s.io/apiserver/pkg/authorization/authorizerfactory/builtin.go`` for the group that may do everything.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.authorizers import Attributes, Decision
from pratique.clusters import Cluster, ReloadableCluster
from pratique.rbac.compilations import Compilation, compilation_of
from pratique.rbac.documents import GROUP
from pratique.statuses import aggregate, go_quoted, qualified_resource

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pratique.rbac.bindings import Grant
    from pratique.rbac.documents import RoleRef
    from pratique.rbac.rules import Rule

SUPERUSERS = "system:masters"
"""The group that every API server lets do everything, whatever any role says."""


@dataclasses.dataclass(frozen=True, slots=True)
class RbacAuthorizer:
    """Decides by the Roles and bindings that a cluster has at the time."""

    cluster: Cluster

    def authorize(self, attributes: Attributes) -> Decision:
        """Decide. Of several rules that allow it, those of ClusterRoleBindings come first, then the order of names."""
        if SUPERUSERS in attributes.user.groups:
            return Decision(allowed=True)
        question = _Question.of(self.cluster, attributes)
        errors: list[str] = []
        for grant in question.grants():
            rules = question.rules_of(grant.role, grant.namespace)
            if isinstance(rules, str):
                errors.append(rules)
            elif any(rule.allows(attributes) for rule in rules):
                return Decision(allowed=True, reason=f"RBAC: allowed by {grant}")
        return Decision(allowed=False, reason=f"RBAC: {aggregate(errors)}" if errors else "")


@dataclasses.dataclass(frozen=True, slots=True)
class _Question:
    """One question, asked of one state of a cluster."""

    cluster: Cluster
    compiled: Compilation
    attributes: Attributes

    @classmethod
    def of(cls, cluster: Cluster, attributes: Attributes) -> _Question:
        current = cluster.current if isinstance(cluster, ReloadableCluster) else cluster
        return cls(current, compilation_of(current), attributes)

    def grants(self) -> Iterator[Grant]:
        """The bindings that apply to the user, those of the whole cluster first."""
        user, namespace = self.attributes.user, self.attributes.namespace
        yield from self.compiled.cluster_role_bindings(self.cluster).of(user)
        if namespace:
            yield from self.compiled.role_bindings(self.cluster, namespace).of(user)

    def rules_of(self, role: RoleRef, namespace: str) -> Sequence[Rule] | str:
        """The rules of a role, as a binding in ``namespace`` names it; where there are none, what is said of that."""
        if role.kind == "ClusterRole":
            rules = self.compiled.cluster_roles(self.cluster).rules(role.name)
        elif role.kind == "Role":
            # A ClusterRoleBinding is in no namespace, and finds no Role.
            rules = self.compiled.roles(self.cluster, namespace).rules(role.name) if namespace else None
        else:
            return f"unsupported role reference kind: {go_quoted(role.kind)}"
        if rules is None:
            return f"{qualified_resource(GROUP, role.kind.lower())} {go_quoted(role.name)} not found"
        return rules
