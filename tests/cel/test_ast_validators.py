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
                "1:18: invalid matches argument",
                "1:35: invalid duration argument",
                "1:51: invalid duration argument",
            ],
        ),
        ("matches('(', params.a)", ["1:9: invalid matches argument"]),
        ("[1, params.a] == params.l", ["1:11: expected type 'int' but found 'dyn'"]),
        ("[params.a, 1] == params.l", ["1:12: expected type 'dyn' but found 'int'"]),
        ("[?params.?a, 1] == params.l", ["1:14: expected type 'dyn' but found 'int'"]),
        ("{'a': params.x, 'b': 1} == params.m", ["1:22: expected type 'dyn' but found 'int'"]),
        ("{?'a': params.?x, 'b': 1} == params.m", ["1:24: expected type 'dyn' but found 'int'"]),
        ("[null, 1] == params.l", ["1:8: expected type 'null' but found 'int'"]),
        ("[timestamp(0), duration('1s')]", ["1:24: expected type 'timestamp' but found 'duration'"]),
        (
            "{'a': 1, 2: 'c', 'd': 3u}",
            [
                "1:10: expected type 'string' but found 'int'",
                "1:13: expected type 'int' but found 'string'",
                "1:23: expected type 'int' but found 'uint'",
            ],
        ),
        ("1e400 > 1.0 || params.a", ["1:1: invalid double literal"]),
        ("1.0 < -1e400 && duration('x') == params.d", ["1:7: invalid double literal"]),
        ("[[], [1], ['a']] == params.l", ["1:11: expected type 'list(int)' but found 'list(string)'"]),
        ("[[1], [], ['a']] == params.l", ["1:11: expected type 'list(int)' but found 'list(string)'"]),
        (
            "[{}, {'a': 1}, {'a': 'b'}] == params.l",
            ["1:16: expected type 'map(string, int)' but found 'map(string, string)'"],
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
        "[dyn(1), params.a, dyn('a')].size() == 3",
        "'%s %d'.format(['a', 1]) == 'a 1'",
        "'%s'.format([{'a': 1, 2: 'b'}]) != ''",
        "{'a': params.x, 'b': dyn(1)} == params.m",
        "[?params.?a, dyn(1)] == params.l",
        "[] == params.l && {} == params.m",
    ],
)
def test_other_expressions_are_accepted(expression: str) -> None:
    assert compile_expression(expression, Environment(has_params=True)).result_type == "bool"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'%s %s'.format([1])", "1:15: index 1 out of range"),
        ("'%s'.format([1, 2])", "1:12: too many arguments supplied to string.format (expected 1, got 2)"),
        ("'%%'.format([1])", "1:12: too many arguments supplied to string.format (expected 0, got 1)"),
        ("'%'.format([])", "1:11: unexpected end of string"),
        ("'%z'.format([1])", '1:12: could not parse formatting clause: unrecognized formatting clause "z"'),
        (
            "'%.f'.format([1.0])",
            (
                "1:13: could not parse formatting clause: error while parsing precision: error while converting "
                'precision to integer: strconv.Atoi: parsing "": invalid syntax'
            ),
        ),
        (
            "'%.2'.format([1.0])",
            (
                "1:13: could not parse formatting clause: error while parsing precision: could not find end of "
                "precision specifier"
            ),
        ),
        (
            "'%d'.format(['x'])",
            "1:14: error during formatting: decimal clause can only be used on integers, was given string",
        ),
        (
            "'%f'.format([1])",
            "1:14: error during formatting: fixed-point clause can only be used on doubles, was given int",
        ),
        (
            "'%s'.format([{'a': [quantity('1')]}])",
            (
                "1:29: error during formatting: string clause can only be used on strings, bools, bytes, ints, "
                "doubles, maps, lists, types, durations, and timestamps, was given kubernetes.Quantity"
            ),
        ),
        (
            "'%d'.format([timestamp(0)])",
            (
                "1:23: error during formatting: decimal clause can only be used on integers, was given "
                "google.protobuf.Timestamp"
            ),
        ),
    ],
)
def test_a_constant_format_string_must_fit_its_arguments(expression: str, expected: str) -> None:
    assert errors(expression) == [expected]


@pytest.mark.parametrize(
    "expression",
    [
        "'%d %s %f'.format([params.a, params, params.b])",
        "'%d'.format(params.l)",
        "params.f.format([1, 'a'])",
        "'%f %e'.format(['NaN', 'Infinity'])",
        "'%.2000f'.format([1.0])",
        "'%s %s %s'.format([null, int, {'a': [1u]}])",
    ],
)
def test_a_format_string_that_may_fit_is_accepted(expression: str) -> None:
    assert compile_expression(expression, Environment(has_params=True)).result_type == "string"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'x'.findAll('(')", "error parsing regexp: missing closing ): `(`"),
        ("params.a.find(string('['))", "error parsing regexp: missing closing ]: `[`"),
        ("matches(params.a, '(')", "error parsing regexp: missing closing ): `(`"),
        ("params.m[[1]]", "invalid qualifier type: *types.baseList"),
        ("[1][dyn(null)]", "invalid qualifier type: types.Null"),
        ("timestamp(dyn(2u))", "no such overload: timestamp(uint)"),
    ],
)
def test_a_bad_constant_fails_when_the_expression_is_planned(expression: str, expected: str) -> None:
    with pytest.raises(CompilationError) as caught:
        compile_expression(expression, Environment(has_params=True))
    assert str(caught.value) == f"program instantiation failed: {expected}"
