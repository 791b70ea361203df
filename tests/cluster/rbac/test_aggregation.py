"""Aggregation of ClusterRoles."""

from __future__ import annotations

from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.rbac import aggregated_rules
from support.role_bindings import role_of, rule


def role(name: str, *verbs: str, selecting: list[JSONObject] | None = None, **labels: str) -> JSONObject:
    """A ClusterRole with a rule for each verb."""
    written = role_of(name, *(rule([verb], resources=["pods"]) for verb in verbs), **labels)
    return (
        written if selecting is None else written | {"aggregationRule": {"clusterRoleSelectors": selecting}}
    )


def verbs_of(name: str, *roles: JSONObject) -> list[str]:
    rules = aggregated_rules(name, {rule["metadata"]["name"]: rule for rule in roles})
    return [verb for rule in rules for verb in rule.verbs or ()]


TO_VIEW = {"matchLabels": {"to": "view"}}
TO_EDIT = {"matchExpressions": [{"key": "to", "operator": "In", "values": ["edit"]}]}


def test_a_role_aggregates_the_rules_of_selected_roles() -> None:
    selected = role("pods", "list", to="view")
    other = role("secrets", "delete", to="edit")
    assert verbs_of("view", role("view", "get", selecting=[TO_VIEW]), selected, other) == ["get", "list"]
    assert verbs_of("pods", role("view", "get", selecting=[TO_VIEW]), selected, other) == ["list"]


def test_any_matching_selector_suffices_and_rules_are_unique() -> None:
    roles = [role("a", "get", "list", to="view"), role("b", "list", "watch", to="edit"), role("c", "delete")]
    assert verbs_of("all", role("all", selecting=[TO_VIEW, TO_EDIT]), *roles) == ["get", "list", "watch"]
    assert verbs_of("all", role("all", selecting=[{}]), *roles) == ["get", "list", "watch", "delete"]
    assert verbs_of("all", role("all", selecting=[]), *roles) == []


def test_aggregation_is_transitive() -> None:
    view = role("view", "get", selecting=[TO_VIEW], to="edit")
    edit = role("edit", "update", selecting=[TO_EDIT], to="view")
    assert sorted(verbs_of("edit", view, edit, role("pods", "list", to="view"))) == ["get", "list", "update"]
    assert sorted(verbs_of("view", view, edit, role("pods", "list", to="view"))) == ["get", "list", "update"]


def test_a_role_that_selects_itself_has_its_rules_once() -> None:
    assert verbs_of("view", role("view", "get", selecting=[TO_VIEW], to="view")) == ["get"]


def test_an_invalid_selector_leaves_the_written_rules() -> None:
    wrong = {"matchExpressions": [{"key": "to", "operator": "Near"}]}
    selecting = role("view", "get", selecting=[TO_VIEW, wrong])
    assert verbs_of("view", selecting, role("pods", "list", to="view")) == ["get"]
