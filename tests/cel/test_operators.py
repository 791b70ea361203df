"""Arithmetic, order and equality at the limits of the types, with cel-go's results and errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pratique.cel.errors import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Callable

LARGEST, SMALLEST = "9223372036854775807", "-9223372036854775808"


@pytest.mark.parametrize(
    "expression",
    [
        f"{LARGEST} + 0 == {LARGEST} && {SMALLEST} - 0 == {SMALLEST}",
        f"{LARGEST} - {LARGEST} == 0 && {SMALLEST} + {LARGEST} == -1",
        "7 / 2 == 3 && -7 / 2 == -3 && 7 / -2 == -3 && -7 / -2 == 3",
        "7 % 3 == 1 && -7 % 3 == -1 && 7 % -3 == 1 && -7 % -3 == -1",
        "7u / 2u == 3u && 7u % 4u == 3u && 0u - 0u == 0u",
        "1.0 / 0.0 == double('inf') && -1.0 / 0.0 == double('-inf')",
        "1.0 / -0.0 == double('-inf') && string(0.0 / 0.0) == 'NaN'",
        "double('nan') != double('nan') && !(double('nan') == 1.0)",
        "-(3) == -3 && -(-2.5) == 2.5 && -dyn(duration('1s')) == duration('-1s')",
        "'a' + 'b' == 'ab' && b'a' + b'b' == b'ab' && [1] + [2] == [1, 2]",
        "duration('1m') - duration('90s') == duration('-30s')",
        "duration('1h') + timestamp('2024-01-01T00:00:00Z') == timestamp('2024-01-01T01:00:00Z')",
        "'a' < 'b' && 'B' < 'a' && b'a' < b'b' && false < true && duration('1s') < duration('1m')",
        "dyn(1) < 1.5 && dyn(2u) > 1 && dyn(-1) < 1u && dyn(1.0) <= 1u && dyn(9223372036854775807) < 1e19",
        "dyn(1) == 1u && dyn(1u) == 1.0 && dyn([1, 2]) == [1.0, 2.0] && dyn({'a': 1}) == {'a': 1.0}",
        "!(dyn(1) == '1') && !(dyn(true) == 1) && !(dyn(null) == 0) && dyn([1]) != dyn({0: 1})",
        "dyn(1) in [1.0] && 'a' in {'a': 1} && !('b' in {'a': 1}) && !(dyn(true) in [1]) && dyn(1u) in {1: 'a'}",
        "size('äöü') == 3 && size(b'ä') == 2 && size([]) == 0 && {'a': 1}.size() == 1",
        "'abc'.contains('') && 'abc'.startsWith('ab') && 'abc'.endsWith('bc') && !'abc'.contains('x')",
        "type(1u) == uint && type(1.0) == double && type(b'') == bytes && type(duration('1s')) != type(1)",
    ],
)
def test_an_operator_gives_cel_gos_result(expression: str, evaluate: Callable[..., Any]) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        (f"{LARGEST} + 1", "integer overflow"),
        (f"{SMALLEST} - 1", "integer overflow"),
        (f"{LARGEST} * 2", "integer overflow"),
        (f"-({SMALLEST})", "integer overflow"),
        (f"{SMALLEST} / -1", "integer overflow"),
        ("18446744073709551615u + 1u", "unsigned integer overflow"),
        ("1u - 2u", "unsigned integer overflow"),
        ("1 / 0", "division by zero"),
        ("1u / 0u", "division by zero"),
        ("1 % 0", "modulus by zero"),
        ("1u % 0u", "modulus by zero"),
        ("duration('9223372036s') + duration('9223372036s')", "duration overflow"),
        ("timestamp('0001-01-01T00:00:00Z') - duration('1s')", "timestamp overflow"),
        ("timestamp('9999-12-31T23:59:59Z') - timestamp('0001-01-01T00:00:00Z')", "duration overflow"),
        ("double('nan') < 1.0", "NaN values cannot be ordered"),
        ("dyn('a') + 1", "no such overload"),
        ("dyn(1) + 1u", "no such overload"),
        ("dyn(1) < 'a'", "no such overload"),
        ("dyn([1]) < dyn([2])", "no such overload: _<_"),
        ("dyn(true) - dyn(true)", "no such overload: _-_"),
        ("dyn(timestamp(0)) + timestamp(0)", "no such overload"),
        ("!dyn('a')", "no such overload"),
        ("1 in dyn('a')", "no such overload"),
        ("size(dyn(1))", "no such overload: size"),
        ("dyn(1).startsWith('a')", "no such overload: startsWith(int, string)"),
    ],
)
def test_an_operator_fails_with_cel_gos_error(
    expression: str, error: str, evaluate: Callable[..., Any]
) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(expression)
    assert str(caught.value) == f"expression '{expression}' resulted in error: {error}"


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("dyn('x') && false", False),
        ("false && dyn('x')", False),
        ("dyn('x') || true", True),
        ("1 / 0 > 0 || true", True),
        ("true || 1 / 0 > 0", True),
        ("[1, 0].exists(x, 1 / x == 1)", True),
        ("[1, 0].all(x, 1 / x == 2)", False),
        ("{'a': 1}.exists(k, v, v / 0 == 1 || k == 'a')", True),
    ],
)
def test_an_error_is_absorbed_if_another_operand_decides(
    expression: str,
    expected: bool,  # noqa: FBT001 - a column of the table
    evaluate: Callable[..., Any],
) -> None:
    assert evaluate(expression) is expected


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("1 / 0 > 0 || false", "division by zero"),
        ("true && 1 / 0 > 0", "division by zero"),
        ("[0, 2].exists(x, 1 / x == 1)", "division by zero"),
        ("[1, 0].all(x, 1 / x == 1)", "division by zero"),
        ("dyn('x') || false", "no such overload"),
        ("dyn(1) ? 1 : 2", "no such overload"),
        ("[0, 0].exists_one(x, 1 / x == 1)", "division by zero"),
    ],
)
def test_an_error_remains_if_no_operand_decides(
    expression: str, error: str, evaluate: Callable[..., Any]
) -> None:
    with pytest.raises(EvaluationError, match=f"resulted in error: {error}"):
        evaluate(expression)
