"""Expressions that cost too much, take too long, or are hostile."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pratique.cel import costs
from pratique.cel.costs import Budget, InlineBudget
from pratique.cel.environments import Environment
from pratique.cel.errors import CompilationError, EvaluationError, OutOfBudgetError, SlowEvaluationError
from pratique.cel.expressions import compile_expression

ANY = Environment()
CUT_OFF = "operation cancelled: actual cost limit exceeded"
MANY = list(range(200_000))
DEEP: list[Any] = []
for _ in range(5_000):
    DEEP = [DEEP]


def test_an_expression_over_its_limit_is_cancelled_and_still_charged() -> None:
    budget = Budget(costs.RUNTIME_COST_BUDGET)
    with pytest.raises(EvaluationError, match=CUT_OFF):
        compile_expression("object.all(x, object.all(y, true))", ANY).evaluate({"object": MANY}, budget)
    assert costs.RUNTIME_COST_BUDGET - budget.remaining > costs.PER_CALL_LIMIT


def test_an_expression_may_use_its_whole_limit() -> None:
    budget = Budget(costs.PER_CALL_LIMIT)
    # 3 for each element, 1 each for the variable and the result: 333,332 elements cost 999,998
    items = [0] * 333_332
    assert compile_expression("object.all(x, true)", ANY).evaluate({"object": items}, budget) is True
    assert budget.remaining == 2


def test_the_expression_that_exceeds_the_budget_fails() -> None:
    budget = Budget(5)
    expression = compile_expression("object.a == 1", ANY)
    assert expression.evaluate({"object": {"a": 1}}, budget) is True
    with pytest.raises(OutOfBudgetError) as caught:
        expression.evaluate({"object": {"a": 1}}, budget)
    expected = "validation failed due to running out of cost budget, no further validation rules will be run"
    assert str(caught.value) == expected


def test_a_failed_expression_is_charged_for_its_work() -> None:
    budget = Budget(100)
    with pytest.raises(EvaluationError):
        compile_expression("object.a + object.b == 1", ANY).evaluate({"object": {"a": 1}}, budget)
    assert budget.remaining < 100


def test_logical_operators_do_not_absorb_a_cancelled_evaluation() -> None:
    source = "object.all(x, object.all(y, true)) || true"
    with pytest.raises(EvaluationError, match=CUT_OFF):
        compile_expression(source, ANY).evaluate({"object": MANY}, Budget(costs.RUNTIME_COST_BUDGET))


def test_an_expression_over_the_inline_budget_is_returned_uncharged() -> None:
    expression, budget = compile_expression("object.all(x, true)", ANY), Budget(costs.RUNTIME_COST_BUDGET)
    inline_budget = InlineBudget(1_000, 1_000)
    with pytest.raises(SlowEvaluationError):
        expression.evaluate({"object": MANY}, budget, inline_budget=inline_budget)
    assert budget.remaining == costs.RUNTIME_COST_BUDGET
    assert expression.evaluate({"object": MANY[:100]}, budget, inline_budget=inline_budget) is True
    assert inline_budget.cost == 1_000 - 302


def test_an_expression_is_interrupted_at_its_deadline() -> None:
    source = "object.all(x, object.all(y, true))"
    with pytest.raises(EvaluationError, match="operation interrupted"):
        compile_expression(source, ANY).evaluate(
            {"object": MANY}, Budget(costs.RUNTIME_COST_BUDGET), until=time.monotonic()
        )


HOSTILE = {
    "nested loops": ("object.all(x, object.all(y, object.all(z, x + y + z >= 0)))", MANY),
    "lists that grow": ("object.map(x, object + object).size() > 0", MANY),
    "texts that double": (
        "[object + object].map(a, [a + a].map(b, [b + b].map(c, [c + c].map(d, [d + d].size())))) == []",
        "x" * 500_000,
    ),
    "comparisons for each element": ("object.all(x, object == object)", MANY),
    "sorted lists of nothing": ("object.all(x, object.isSorted())", [""] * 100_000),
    "membership for each element": ("object.exists(x, 'no' in object)", ["a"] * 100_000),
    "order of long texts": ("object.exists(x, object[0] < object[1])", ["a" * 2_000_000] * 2 + [""] * 90_000),
    "a pattern for each element": ("object.all(x, object[0].matches('(a|aa)+$'))", ["a" * 100_000] * 100),
    "all matches of one letter": ("object.findAll('a').size() > 0", "a" * 1_000_000),
    "replacements that multiply": ("object.replace('a', object).size() > 0", "a" * 100_000),
    "joined copies": ("object.map(x, object[0]).join('').size() > 0", ["a" * 1_000_000] * 1_000),
    "a range of billions": ("lists.range(2000000000).size() > 0", None),
    "distinct of very many": ("object.distinct().size() > 0", MANY),
    "distinct pairs": ("object.map(x, [x]).distinct().size() > 0", MANY[:5_000]),
    "long numbers": ("object.all(x, int(object[0]) > 0)", ["9" * 1_000_000] * 100),
    "long durations": ("object.all(x, duration(object[0]) > duration('0s'))", ["9" * 1_000_000 + "s"] * 100),
    "long quantities": ("quantity(object).isInteger()", "1" * 1_000_000),
    "a long exponent": ("quantity('1e999999999').isInteger()", None),
    "digits without end": ("'%.999999999f'.format([1.0]).size() > 0", None),
    "lists as text": ("object.all(x, '%s'.format([object]) != '')", MANY),
    "deep nesting, compared": ("object == object", DEEP),
    "deep nesting, as text": ("'%s'.format([object]) == ''", DEEP),
    "deep nesting, sorted": ("object.isSorted()", DEEP),
    "time zones that are not": ("object.all(x, timestamp(0).getHours('A/' + string(x)) == 0 || true)", MANY),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_expression_ends_in_time(name: str) -> None:
    """Ten seconds of processor time are ten times what any takes; a hanging one would take hours."""
    source, value = HOSTILE[name]
    started = time.process_time()
    with pytest.raises((EvaluationError, OutOfBudgetError)):
        compile_expression(source, ANY).evaluate(
            {"object": value}, Budget(costs.RUNTIME_COST_BUDGET_MATCH_CONDITIONS)
        )
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ("object.matches('(a*)*(b*)*c')", "a" * 1_000_000),
        ("object.matches('^(a|a)*$')", "a" * 1_000_000 + "b"),
        ("object.contains('ab')", "a" * 1_000_000),
        ("object.lastIndexOf('baaaaaaaaaaaaaaa') == 0", "a" * 1_000_000),
        ("format.dns1123Subdomain().validate(object) == optional.none()", "a." * 200_000 + "!"),
        ("isIP(object) || isCIDR(object)", ":" * 1_000_000),
        ("isURL(object) || isSemver(object)", "http://" + "%" * 1_000_000),
    ],
)
def test_long_strings_take_time_linear_in_their_length(source: str, value: str) -> None:
    started = time.process_time()
    assert (
        compile_expression(source, ANY).evaluate({"object": value}, Budget(costs.RUNTIME_COST_BUDGET))
        is False
    )
    assert time.process_time() - started < 10


@pytest.mark.parametrize(
    "source", ["(" * 5_000 + "1", "!" * 90_000 + "true", "[" * 60_000, "a." * 40_000 + "b"]
)
def test_a_hostile_source_is_refused_or_compiled(source: str) -> None:
    try:
        compile_expression(source, ANY, "bool")
    except CompilationError as error:
        assert str(error).startswith("compilation failed: ")  # noqa: PT017 - some of them compile
