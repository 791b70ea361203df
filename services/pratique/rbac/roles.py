"""Roles: the rules that a role has, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.rbac.aggregation import all_rules
from pratique.rbac.documents import PolicyRule, read_role
from pratique.rbac.rules import Rule, compile_rules

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pratique.json_values import JSONObject


class Roles:
    """Roles of one namespace, or all ClusterRoles, each compiled when it is first asked for."""

    __slots__ = ("_compiled", "_documents", "_rules_of")

    def __init__(
        self,
        documents: Sequence[JSONObject],
        rules_of: Callable[[str, Mapping[str, JSONObject]], Sequence[PolicyRule]],
    ) -> None:
        """Use :func:`namespaced_roles` or :func:`cluster_roles`."""
        self._documents = {document["metadata"]["name"]: document for document in documents}
        self._rules_of = rules_of
        self._compiled: dict[str, tuple[Rule, ...]] = {}

    def rules(self, name: str) -> tuple[Rule, ...] | None:
        """The rules of a role; None where there is no such role."""
        found = self._compiled.get(name)
        if found is None and name in self._documents:
            found = self._compiled[name] = compile_rules(self._rules_of(name, self._documents))
        return found


def namespaced_roles(documents: Sequence[JSONObject]) -> Roles:
    """The Roles of one namespace."""
    return Roles(documents, lambda name, roles: read_role(roles[name]).rules or ())


def cluster_roles(documents: Sequence[JSONObject]) -> Roles:
    """All ClusterRoles of a cluster, with the rules that they have from one another."""
    return Roles(documents, all_rules)
