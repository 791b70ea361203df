"""Variables of policies: lazy, cached, typed, and charged to the expression that uses them."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.cel.activation import VARIABLES, LazyVariables, declared_type
from pratique.cel.costs import Budget
from pratique.cel.errors import CompilationError, EvaluationError, OutOfBudgetError
from pratique.cel.policy_compiler import PolicyCompiler

OBJECT = {"metadata": {"name": "endpoints1"}, "subsets": [{"addresses": []}]}


def composed(variables: dict[str, str], expression: str, budget: int = 10_000_000) -> Any:
    """Evaluate an expression that uses variables."""
    compiler = PolicyCompiler(has_params=False, types={})
    compiled = {name: compiler.add_variable(name, source) for name, source in variables.items()}
    checked = compiler.compile(expression)
    activation: dict[str, Any] = {"object": OBJECT}
    composition = activation[VARIABLES] = LazyVariables(compiled, activation)
    whole = Budget(budget)
    try:
        return checked.evaluate(activation, whole)
    finally:
        composition.charge_to(whole)


@pytest.mark.parametrize(
    ("variables", "expression", "expected"),
    [
        ({"name": "object.metadata.name"}, "variables.name == 'endpoints1'", True),
        ({"fortuneTelling": "true"}, "variables.fortuneTelling", True),
        ({"list": "[1, 2, 3, 4]"}, "variables.list.sum() == 10", True),
        ({"dict": "{'foo': 'bar'}"}, "variables.dict['foo'].contains('bar')", True),
        ({"a": "1", "b": "variables.a + 1", "c": "variables.b * 2"}, "variables.c", 4),
        ({"lists": "[[1], [2, 3]]"}, "variables.lists[1][1] == 3", True),
        ({"broken": "object.nothing", "a": "1"}, "variables.a == 1", True),
        ({"broken": "object.nothing"}, "variables.broken == 1 || true", True),
        ({"broken": "object.nothing"}, "false && has(variables.broken)", False),
        ({"a": "null"}, "has(variables.a)", True),
        ({"a": "false"}, "has(variables.a)", True),
        ({"a": "false"}, "has( variables // the first\n . a )", True),
        ({"a": "1"}, "has(variables.a) && variables.a + 1 == 2", True),
        ({"a": "[1]"}, "has(variables.a) && variables.a[0] == 1", True),
        ({"a": "{'x': 1}"}, "has(variables.a) && variables.a['x'] == 1", True),
        ({"a": "{1: [1]}"}, "has(variables.a) && variables.a[1] == [1]", True),
        ({"a": "duration('1h')"}, "has(variables.a) && variables.a.getHours() == 1", True),
        ({"a": "[[1]]"}, "has(variables.a) && variables.a[0][0] == 1", True),
        ({"a": "object"}, "has(variables.a.metadata) && !has(variables.a.spec)", True),
        ({"a": "1"}, "dyn(variables).a == 1", True),
        ({"a": "1"}, "dyn(variables).?b.orValue(5)", 5),
        ({"a": "1"}, "variables.?a.orValue(5)", 1),
        ({"a": "1"}, "variables == variables", True),
        ({"a": "quantity('1Gi')"}, "variables.a.isGreaterThan(quantity('1Mi'))", True),
        ({"a": "optional.of(1)"}, "variables.a.value()", 1),
        ({"a": "type(1)"}, "variables.a == int", True),
        ({"a": "timestamp('2026-01-01T00:00:00Z')"}, "variables.a.getFullYear()", 2026),
        ({"a__x": "1"}, "variables.a__x", 1),
    ],
)
def test_an_expression_sees_variables(variables: dict[str, str], expression: str, expected: Any) -> None:
    assert composed(variables, expression) == expected


@pytest.mark.parametrize(
    ("variables", "expression", "error"),
    [
        ({"name": "1 == '1'"}, "true", "found no matching overload for '_==_' applied to '(int, string)'"),
        ({"list": "[1]"}, "variables.list['x'] == 1", "overload for '_[_]' applied to '(list(int), string)'"),
        ({"list": "['1']"}, "variables.list[0] == 1", "overload for '_==_' applied to '(string, int)'"),
        ({"a": "variables.b", "b": "1"}, "true", "undefined field 'b'"),
        ({"a": "1"}, "variables.b == 1", "<input>:1:10: undefined field 'b'"),
        ({"a": "1"}, "has(variables.b)", "undefined field 'b'"),
        (
            {"a": "1"},
            "has(variables.a) && variables.a == 'x'",
            "overload for '_==_' applied to '(int, string)'",
        ),
        ({"m": "{'a': [1]}"}, "variables.m['a'][0] == 'x'", "overload for '_==_' applied to '(int, string)'"),
        ({"a": "variables.a"}, "true", "undefined field 'a'"),
        ({"a": "1"}, "variables['a'] == 1", "found no matching overload for '_[_]'"),
    ],
)
def test_variables_have_the_type_of_their_expression(
    variables: dict[str, str], expression: str, error: str
) -> None:
    with pytest.raises(CompilationError) as raised:
        composed(variables, expression)
    assert error in str(raised.value)


@pytest.mark.parametrize(
    ("variables", "expression", "error"),
    [
        (
            {"count": "object.subsets[114514].addresses.size()"},
            "variables.count == 810",
            'composited variable "count" fails to evaluate: index out of bounds: 114514',
        ),
        (
            {"a": "object.none", "b": "variables.a + 1"},
            "variables.b == 1",
            'composited variable "b" fails to evaluate: composited variable "a" fails to evaluate: no such key: none',
        ),
        (
            {"a": "object.none"},
            "has(variables.a)",
            'composited variable "a" fails to evaluate: no such key: none',
        ),
        ({"a": "params.x"}, "variables.a == 1", ""),
        ({"a__dash__b": "1"}, "variables.a__dash__b == 1", "no such key: a__dash__b"),
        (
            {"big": "lists.range(2000).map(i, lists.range(2000).map(j, i * j)).size()"},
            "variables.big > 0",
            'composited variable "big" fails to evaluate: operation cancelled: actual cost limit exceeded',
        ),
    ],
)
def test_a_failing_variable_is_reported_where_it_is_used(
    variables: dict[str, str], expression: str, error: str
) -> None:
    with pytest.raises(EvaluationError if error else CompilationError) as raised:
        composed(variables, expression)
    if error:
        assert str(raised.value) == f"expression '{expression}' resulted in error: {error}"


@pytest.mark.parametrize(
    ("variables", "expression", "cost"),
    [
        ({"name": "object.metadata.name"}, "variables.name == 'endpoints1'", 3 + 3),
        (
            {"name": "object.metadata.name"},
            "variables.name == 'endpoints1' && variables.name == 'endpoints1'",
            3 + 6,
        ),
        ({"a": "object.metadata.name", "b": "variables.a"}, "variables.b == variables.a", 3 + 2 + 5),
        ({"a": "object.metadata.name"}, "true", 0),
        ({"a": "object.nothing.there"}, "variables.a == 1 || variables.a == 2 || true", 2 + 2 + 2),
    ],
)
def test_a_variable_is_charged_once_and_only_if_it_is_used(
    variables: dict[str, str], expression: str, cost: int
) -> None:
    composed(variables, expression, cost)
    if cost:
        with pytest.raises(OutOfBudgetError, match="running out of cost budget"):
            composed(variables, expression, cost - 1)


def test_two_variables_of_the_same_name_do_not_recurse() -> None:
    compiler = PolicyCompiler(has_params=False, types={})
    compiler.add_variable("a", "1")
    compiled = {"a": compiler.add_variable("a", "variables.a + 1")}
    activation: dict[str, Any] = {}
    activation[VARIABLES] = LazyVariables(compiled, activation)
    with pytest.raises(EvaluationError, match="uses itself"):
        compiler.compile("variables.a == 1").evaluate(activation, Budget(100))


@pytest.mark.parametrize(
    ("result", "declared"),
    [
        ("bool", "bool"),
        ("null_type", "null_type"),
        ("list(map(string, list(int)))", "list<map<string,list<int>>>"),
        ("map(string, dyn)", "map<string,dyn>"),
        ("timestamp", "timestamp"),
        ("wrapper(int)", "dyn"),
        ("optional_type(int)", "dyn"),
        ("kubernetes.Quantity", "dyn"),
        ("list(kubernetes.Quantity)", "list<dyn>"),
        ("type(int)", "dyn"),
    ],
)
def test_variable_types_become_those_that_kubernetes_declares(result: str, declared: str) -> None:
    assert declared_type(result) == declared
