"""The cost of expressions, by the tables of cel-go and Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.apimachinery.requests import UserInfo
from pratique.cel.activation import Frame
from pratique.cel.costs import Budget
from pratique.cel.environments import Environment, functions_by_name, type_checker
from pratique.cel.expressions import compile_expression
from pratique.cel.libraries.authorizers import AuthorizerValue
from pratique.cel.planner import plan
from pratique.cel.syntax_trees import decode_checked_expression
from pratique.cluster.authorization import AuthorizationAttributes, AuthorizationDecision

KUBERNETES = Environment(has_authorizer=True, has_patches=True)


class AlwaysAllow:
    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        return AuthorizationDecision(allowed=True)


AUTHORIZER = AuthorizerValue(AlwaysAllow(), UserInfo("somebody"))


def cost_without_folding(source: str, environment: Environment, variables: dict[str, Any]) -> int:
    checker = type_checker(environment, sorts="sortBy" in source)
    tree = decode_checked_expression(checker.compile(source).serialize())
    planned = plan(tree, functions_by_name(environment), fold_literals=False)
    frame = Frame(variables, planned.slots, 10_000_000)
    planned.step(frame)
    return frame.cost


def cost(source: str, **variables: Any) -> int:
    budget = Budget(10_000_000)
    compile_expression(source, KUBERNETES).evaluate(variables, budget)
    return 10_000_000 - budget.remaining


def variable(described: Any) -> tuple[str, Any]:
    """The type and value of a variable."""
    match described:
        case {"letters": int(length)}:
            return "string", "a" * length
        case {"bytes": int(length)}:
            return "bytes", b"a" * length
        case str():
            return "string", described
        case _:
            return "dyn", described


@pytest.mark.cases("kubernetes_costs.jsonl")
def test_an_expression_costs_what_it_costs_in_kubernetes(case: dict[str, Any]) -> None:
    assert cost_without_folding(case["expression"], KUBERNETES, {"authorizer": AUTHORIZER}) == case["cost"]


@pytest.mark.cases("cel_go_costs.jsonl")
def test_an_expression_costs_what_it_costs_in_cel_go(case: dict[str, Any]) -> None:
    variables = {name: variable(value) for name, value in case["variables"].items()}
    environment = Environment(variables=tuple((name, kind) for name, (kind, _) in variables.items()))
    values = {name: value for name, (_, value) in variables.items()}
    assert cost_without_folding(case["expression"], environment, values) == case["cost"]


ENDPOINTS = {"metadata": {"name": "endpoints1"}, "subsets": [{"addresses": [{"ip": "127.0.0.0"}]}]}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("oldObject != null", 2),
        ("object.subsets.size() > 2", 4),
        ("true", 0),
        ("!authorizer.group('').resource('endpoints').check('create').allowed()", 350_005),
        ("[1,2,3,4].isSorted()", 4),
        ("url('https:://kubernetes.io/').getHostname() == 'kubernetes.io'", 4),
        ("size('abc 123 def 123'.split(' ')) > 0", 5),
        ("size(['aa', 'bb', 'cc', 'd', 'e', 'f', 'g', 'h', 'i', 'j'].join(' ')) > 0", 7),
        ("size('abc 123 def 123'.find('123')) > 0", 4),
        ('quantity("200M") == quantity("0.2G") && quantity("0.2G") == quantity("200M")', 6),
    ],
)
def test_constant_literals_cost_nothing_as_in_the_api_server(expression: str, expected: int) -> None:
    """The budgets of TestRuntimeCELCostBudget, ``pkg/admission/plugin/cel/condition_test.go``."""
    assert cost(expression, object=ENDPOINTS, oldObject=None, authorizer=AUTHORIZER) == expected


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'a' in ['a', 'b']", 0),
        ("object.name in ['a', 'b']", 2),
        ("object.name in []", 0),
        ("object.name in object.names", 5),
        ("has(object.name)", 1),
        ("object.?missing.orValue('x') == 'x'", 2),
        ("object.names[object.place]", 4),
        ("(object.place == 1 ? object : oldObject).name", 4),
        ("int('12') == 12", 1),
    ],
)
def test_selections_and_lookups_cost_what_the_planner_charges(expression: str, expected: int) -> None:
    variables = {"object": {"name": "a", "names": ["a", "b"], "place": 1}, "oldObject": None}
    assert cost(expression, **variables) == expected
