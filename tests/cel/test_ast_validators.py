"""What Kubernetes refuses in expressions that type-check."""

from __future__ import annotations

import pytest

from pratique.cel.environments import Environment
from pratique.cel.errors import CompilationError
from pratique.cel.expressions import compile_expression


def errors(expression: str) -> list[str]:
    with pytest.raises(CompilationError) as caught:
        compile_expression(expression, Environment(has_params=True))
    text = str(caught.value).removeprefix("compilation failed: ")
    return [line.removeprefix("ERROR: <input>:") for line in text.splitlines() if line.startswith("ERROR")]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("duration('1 s') == params.d", ["1:10: invalid duration argument"]),
        ("timestamp('2024') == params.t", ["1:11: invalid timestamp argument"]),
        ("params.a.matches('(')", ["1:18: invalid matches argument"]),
        ("[1, 'a'] == params.l", ["1:5: expected type 'int' but found 'string'"]),
        ("[1, 2u].size() == 2", ["1:5: expected type 'int' but found 'uint'"]),
        ("[[1], ['a']] == params.l", ["1:7: expected type 'list(int)' but found 'list(string)'"]),
        ("{'a': 1, 2: 3} == params.m", ["1:10: expected type 'string' but found 'int'"]),
        ("{'a': 1, 'b': 'c'} == params.m", ["1:15: expected type 'int' but found 'string'"]),
        ("[?optional.of(1), 'a'] == params.l", ["1:19: expected type 'int' but found 'string'"]),
        ("params.l.all(x, x in [1, 'a'])", ["1:26: expected type 'int' but found 'string'"]),
        ("params.l.map(x, {x: [1, true]}) == []", ["1:25: expected type 'int' but found 'bool'"]),
        (
            "params.a.matches('[') || duration('x') > duration('y')",
            [
                "1:35: invalid duration argument",
                "1:51: invalid duration argument",
                "1:18: invalid matches argument",
            ],
        ),
        ("[\n  1,\n  'a'\n] == params.l", ["3:3: expected type 'int' but found 'string'"]),
    ],
)
def test_an_invalid_literal_is_refused_at_its_position(expression: str, expected: list[str]) -> None:
    assert errors(expression) == expected


@pytest.mark.parametrize(
    "expression",
    [
        "duration(params.d) == duration('1h')",
        "params.a.matches(params.p)",
        "[1, params.a, 2].size() == 3 || [dyn(1), 'a'].size() == 2",
        "'%s %d'.format(['a', 1]) == 'a 1'",
        "'%s'.format([{'a': 1, 2: 'b'}]) != ''",
        "{'a': params.x, 'b': 1} == params.m",
        "[?params.?a, 1] == params.l",
        "[] == params.l && {} == params.m",
    ],
)
def test_other_expressions_are_accepted(expression: str) -> None:
    assert compile_expression(expression, Environment(has_params=True)).result_type == "bool"
