"""Aggregation: ClusterRoles that have the rules of others.

In a cluster a controller writes those rules into the role, and again whenever one of the others changes. Files may
have been written by hand, before any controller saw them, so they are worked out here.
Source: ``pkg/controller/clusterroleaggregation/clusterroleaggregation_controller.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.errors import InputError
from pratique.rbac.documents import AggregationRule, PolicyRule, read_role
from pratique.selectors import compile_selector

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pratique.json_values import JSONObject


def all_rules(name: str, roles: Mapping[str, JSONObject]) -> tuple[PolicyRule, ...]:
    """All rules of a ClusterRole: those written in it, and those of the roles that it selects, none twice.

    What a selected role has itself from others is among them, as it is in a cluster after a while.

    Args:
        name: Its name, one of ``roles``.
        roles: All ClusterRoles, by name.
    """
    rules: dict[PolicyRule, None] = {}
    reached = [name]
    for each in reached:
        role = read_role(roles[each])
        rules |= dict.fromkeys(role.rules or ())
        if role.aggregation_rule is not None:
            reached += [other for other in _selected(role.aggregation_rule, roles) if other not in reached]
    return tuple(rules)


def _selected(rule: AggregationRule, roles: Mapping[str, JSONObject]) -> Iterator[str]:
    try:
        selectors = [compile_selector(each) for each in rule.cluster_role_selectors or ()]
    except InputError:
        return  # the controller gives up on such a role, and what is written in it stays
    for name, role in roles.items():
        if any(selector.matches_object(role) for selector in selectors):
            yield name
