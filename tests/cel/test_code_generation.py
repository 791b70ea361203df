"""The generated code of expressions does what their plans do: values, errors, costs, and where a budget ends."""

from __future__ import annotations

import dataclasses
import io
import keyword
import re
import tokenize
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from pratique.cel import code_writers, costs
from pratique.cel.activation import Frame
from pratique.cel.code_generation import WORDS, write_code
from pratique.cel.costs import Budget, InlineBudget
from pratique.cel.environments import Environment, functions_by_name, type_checker
from pratique.cel.errors import CompilationError, EvaluationError, SlowEvaluationError
from pratique.cel.expressions import Expression, compile_expression
from pratique.cel.planner import Program, plan
from pratique.cel.syntax_trees import decode_checked_expression
from pratique.cel.values import Value
from support.chains import POD
from support.strategies import cel_expressions
from support.strategies.cel_expressions import ENVIRONMENT, with_composited

from .conftest import cases

ROOT = Path(__file__).parents[2]
KUBERNETES = Environment(has_params=True, has_patches=True)
VARIABLES: dict[str, Any] = {
    "object": POD,
    "oldObject": None,
    "params": {"maxReplicas": 3, "allowed": ["a", "web"], "ratio": 1.5},
    "request": {"operation": "CREATE", "userInfo": {"username": "ann", "groups": ["a"]}},
    "namespaceObject": None,
}
TYPICAL = [
    "object.spec.containers.all(c, has(c.resources) && !c.image.endsWith(':latest'))",
    "object.spec.containers.exists(c, c.name == 'web' || has(c.securityContext) && c.securityContext.privileged)",
    "has(object.metadata.labels) && 'app' in object.metadata.labels",
    "object.metadata.?labels[?'app'].orValue('') != 'x' && object.spec.containers.size() <= params.maxReplicas",
    "object.spec.containers.map(c, c.image).filter(i, i.contains('/')).size() >= 0",
    "request.userInfo.username.startsWith('system:') || !(request.operation in ['DELETE', 'CONNECT'])",
    "object.spec.containers.exists_one(c, c.name.matches('^w')) ? true : oldObject == null",
    "object.spec.containers.all(i, c, i < 9 && c.name in params.allowed || object.metadata != oldObject)",
    "object.spec.containers[0].image + ':' + string(object.spec.containers.size()) != ''",
    "Object{metadata: Object.metadata{labels: {'a': object.metadata.name}}}",
]
"""What policies are like; ``object`` is a Pod."""


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """All that can be seen of an evaluation."""

    result: str
    cost: int
    inline: InlineBudget | None
    variables: int
    """The cost of composited variables."""


def evaluation(
    expression: Expression, activation: Mapping[str, Value], inline: tuple[int, int] | None = None
) -> Evaluation:
    seen = with_composited(dict(activation))
    budget = None if inline is None else InlineBudget(*inline)
    try:
        value, cost = expression.evaluate_with_cost(seen, inline_budget=budget)
    except SlowEvaluationError:
        return Evaluation("slow", 0, None, 0)  # it is evaluated again, with variables of its own
    written = (
        f"error: {value}" if isinstance(value, EvaluationError) else f"{type(value).__name__}: {value!r}"
    )
    spent = Budget(10**9)
    seen["variables"].charge_to(spent)
    return Evaluation(written, cost, budget, 10**9 - spent.remaining)


def assert_alike(
    expression: Expression, activation: Mapping[str, Value], limits: Sequence[int] | None = None
) -> None:
    reference = expression.without_code()
    expected = evaluation(reference, activation)
    assert evaluation(expression, activation) == expected
    for limit in budgets(expected.cost) if limits is None else limits:
        for inline in ((limit, 10_000), (10_000, limit)):
            assert evaluation(expression, activation, inline) == evaluation(reference, activation, inline)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(costs, "PER_CALL_LIMIT", limit)
            assert evaluation(expression, activation) == evaluation(reference, activation), limit


def budgets(cost: int) -> Iterator[int]:
    """All small budgets, and those near the whole cost."""
    yield from range(-1, min(cost + 2, 25))
    yield from range(max(cost - 2, 25), cost + 2)


def compiled(source: str, environment: Environment = ENVIRONMENT) -> Expression | None:
    try:
        return compile_expression(source, environment)
    except CompilationError:
        return None


def planned(source: str, environment: Environment = KUBERNETES, *, fold_literals: bool = True) -> Program:
    checker = type_checker(environment, sorts="sortBy" in source)
    tree = decode_checked_expression(checker.compile(source).serialize())
    return plan(tree, functions_by_name(environment), fold_literals=fold_literals)


def test_no_key_is_computed_for_an_optional_without_a_value() -> None:
    expression = compiled("dyn(object == oldObject ? dyn(object) : dyn(optional.none()))[variables.v]")
    assert expression
    assert_alike(expression, {"object": 1, "oldObject": None, "variables": {"v": "a"}})


@given(cel_expressions.expressions(), cel_expressions.activations())
def test_code_and_plan_agree_under_every_budget(source: str, activation: dict[str, Any]) -> None:
    if expression := compiled(source):
        assert_alike(expression, activation)


@given(cel_expressions.expressions(), cel_expressions.activations())
def test_code_that_calls_steps_within_loops_agrees_with_the_plan(
    source: str, activation: dict[str, Any]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(code_writers, "MAX_INDENT", 2)
        compile_expression.cache_clear()
        expression = compiled(source)
    compile_expression.cache_clear()
    if expression:
        assert_alike(expression, activation)


def test_random_expressions_and_values_mostly_fit() -> None:
    leaves = [leaf for kind in cel_expressions.LEAVES.values() for leaf in kind]
    assert [leaf for leaf in leaves if compiled(leaf) is None] == []


@pytest.mark.parametrize("file", ["kubernetes_costs.jsonl", "cel_go_costs.jsonl", "library_cases.jsonl"])
def test_code_and_plan_agree_on_kubernetes_cases(file: str) -> None:
    for case in cases(file):
        described = case.get("variables", {})
        typed = tuple(
            (name, "dyn" if type(value) in (list, int, bool) else "string")
            for name, value in described.items()
        )
        environment = msgspec.structs.replace(
            KUBERNETES, variables=typed, has_authorizer="authorizer" in case["expression"]
        )
        if expression := compiled(case["expression"], environment):
            assert_alike(expression, described)


def configured_expressions() -> Iterator[str]:
    """The expressions of all examples."""

    def walk(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for key, member in value.items():
                if key in ("expression", "messageExpression", "valueExpression") and isinstance(member, str):
                    yield member
                yield from walk(member)
        elif isinstance(value, list):
            for item in value:
                yield from walk(item)

    for path in sorted(ROOT.glob("examples/**/*.yaml")):
        for document in yaml.safe_load_all(path.read_text("utf-8")):
            yield from walk(document)


def test_code_and_plan_agree_on_the_expressions_of_all_examples() -> None:
    expressions = list(filter(None, (compiled(source, KUBERNETES) for source in configured_expressions())))
    assert len(expressions) >= 10
    for expression in expressions:
        assert_alike(expression, VARIABLES)
        assert_alike(expression, VARIABLES | {"object": None, "params": None})


@pytest.mark.parametrize("source", TYPICAL)
def test_typical_expressions_are_evaluated_by_code_alone(source: str) -> None:
    expression = compile_expression(source, KUBERNETES)
    assert expression.code is not None
    frame = Frame(VARIABLES, expression.plan.slots, 10_000)
    value = expression.plan.step(frame)
    assert expression.code(VARIABLES, 10_000, 10_000, None) == (value, frame.cost, frame.uncounted_work)


@pytest.mark.parametrize(
    "source",
    [
        "[1, params].all(x, x != 2)",
        "[1, params].map(x, [x, 2])",
        "[1, params].filter(x, x != 1)",
        "[1, params].all(i, x, i != x)",
    ],
)
def test_steps_within_loops_see_the_variables_of_the_loops(
    source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(code_writers, "MAX_INDENT", 2)
    program = planned(source)
    written = write_code(program)
    assert written is not None
    frame = Frame({"params": 3}, program.slots, 10_000)
    value = program.step(frame)
    found = written.function()({"params": 3}, 10_000, 10_000, None)
    assert found == (value, frame.cost, frame.uncounted_work)


@pytest.mark.parametrize(
    ("source", "values"),
    [
        ("x[number]", {"x": ["a", "b"], "number": -1}),
        ("x[-1]", {"x": ["a", "b"]}),
        ("x[y]", {"x": ["a", "b"], "y": True}),
        ("x[y]", {"x": {"1": 2}, "y": 1}),
        ("has(x.b)", {"x": "abc"}),
        ("has(x.b)", {"x": ["b"]}),
        ("'b' in x", {"x": "abc"}),
        ("x.contains('b')", {"x": ["b"]}),
        ("dyn(b'ab').endsWith(x)", {"x": "b"}),
        ("x == 1", {"x": True}),
        ("x == 1", {"x": 1.0}),
        ("x == true", {"x": 1}),
        ("x == 'a'", {"x": ""}),
        ("x == null", {"x": {}}),
        ("x + 1", {"x": 2**63 - 1}),
        ("x + 1", {"x": True}),
        ("number < ratio", {"number": 1, "ratio": float("nan")}),
        ("x.all(y, y)", {"x": [True, 1, False]}),
        ("x.exists(y, y)", {"x": [False, "a", True]}),
        ("x.exists(y, y == 2)", {"x": [1, 2]}),
        ("x.exists(y, y == 2)", {"x": [1, 2, 3]}),
        ("x && true", {"x": 1}),
        ("x ? 1 : 2", {"x": 1}),
        ("x.?a.orValue(1)", {"x": ["a"]}),
        ("optional.of(x).?a.orValue(1)", {"x": {"a": 2}}),
    ],
)
def test_code_gives_up_where_python_and_cel_differ(source: str, values: dict[str, Any]) -> None:
    expression = compile_expression(source, ENVIRONMENT)
    assert_alike(expression, values)


_TOKENS = {
    *WORDS,
    "expression",
    "variables",
    "limit",
    "work_limit",
    "until",
    "cost",
    "work",
    "steps",
    "frame",
    "slots",
}
_MEMBERS = {"endswith", "extend", "present", "startswith", "uncounted_work", "value", "UnusualError"}


def vocabulary_of(source: str) -> set[str]:
    """The names of a source that are not numbered."""
    tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    assert tokenize.STRING not in {token.type for token in tokens}
    names = {
        token.string
        for token in tokens
        if token.type == tokenize.NAME and not keyword.iskeyword(token.string)
    }
    return {name for name in names if not re.fullmatch("[kv][0-9]+", name)}


@given(cel_expressions.expressions())
def test_code_consists_of_our_own_words(source: str) -> None:
    if "{" not in source and compiled(source) and (written := write_code(planned(source, ENVIRONMENT))):
        assert vocabulary_of(written.source) <= _TOKENS | _MEMBERS
        assert written.source.isascii()


@given(
    st.text(max_size=20) | st.sampled_from(["__import__('os')", "k0", "'\n import os\n'", '"""', "v1 = 0"])
)
def test_nothing_of_an_expression_becomes_code(text: str) -> None:
    literal = (
        '"' + "".join(f"\\U{ord(letter):08x}" for letter in text if not "\ud800" <= letter <= "\udfff") + '"'
    )
    pattern = "object[{0}] == {0} || {0} in object.a && object.b.exists(x, x.startsWith({0}))"
    written = write_code(planned(pattern.format(literal)))
    assert written is not None
    assert vocabulary_of(written.source) <= _TOKENS | _MEMBERS
    assert "".join(letter for letter in text if not "\ud800" <= letter <= "\udfff") in written.constants


def test_code_has_no_built_in_functions_but_ours() -> None:
    written = write_code(planned(TYPICAL[0]))
    assert written is not None
    assert written.function().__globals__["__builtins__"] == {}


def _nested(depth: int) -> str:
    return "[1].all(x, " * depth + "object.a == x" + ")" * depth


@pytest.mark.parametrize(
    "source",
    [
        *(_nested(depth) for depth in (5, 10, 12)),
        "[1].exists(x, " * 10 + "object.a > 1" + ")" * 10,
        "[0].map(x, " * 10 + "object.a" + ")" * 10,
        " && ".join(f"object.a{number} == 'b'" for number in range(800)),
        " || ".join(f"object.a.exists(x, x == {number})" for number in range(400)),
        "[" + ", ".join(f"object.a == {number}" for number in range(1_000)) + "].size() == 1000",
        "[" + ", ".join(["object.a"] * 5_000) + "].size() == 5000",
        "{" + ", ".join(f"'{number}': object.a" for number in range(1_000)) + "}.size() == 1000",
        "object" + ".a" * 20 + " == 1",
        "object.a ? 1 : " * 12 + "2",
        "!" * 1_000 + "object.a",
        "object.a" + " + object.a" * 25,
        "[object.a == 'b'" + ", object.a == 'b'" * 60 + "]",
    ],
)
def test_hostile_sources_give_bounded_code_or_none(source: str) -> None:
    if expression := compiled(source, KUBERNETES):
        assert_alike(expression, {"object": {"a": 1}}, [0, 50])
        assert_alike(expression, {"object": {"a": [1, 2]}}, [0, 50])
        if written := write_code(planned(source)):
            assert written.source.count("\n") <= 2 * code_writers.MAX_LINES
            assert max(map(len, written.source.split("\n"))) < 20_000


def test_expressions_that_differ_in_names_and_literals_share_their_code() -> None:
    pattern = "object.{0}.all(c, c.{0} != '{0}' && has(c.{0}))"
    first, second = (write_code(planned(pattern.format(name))) for name in ("spec", "status"))
    assert first is not None
    assert second is not None
    assert first.source == second.source
    assert first.function().__code__ is second.function().__code__


@given(st.integers(0, 10**12))
def test_the_cost_of_a_text_in_whole_numbers_is_the_rounded_one(length: int) -> None:
    assert (length + 9) // 10 == costs.traversal_cost(_Sized(length))


class _Sized:
    def __init__(self, size: int) -> None:
        self.cel_size = size
