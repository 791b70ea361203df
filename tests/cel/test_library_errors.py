"""The errors of list, string, regular expression, version and quantity functions, in the words of their libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pratique.cel.errors import EvaluationError

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("[1, 2].slice(-1, 1)", "cannot slice(-1, 1), negative indexes not supported"),
        ("[1, 2].slice(2, 1)", "cannot slice(2, 1), start index must be less than or equal to end index"),
        ("[1, 2].slice(0, 3)", "cannot slice(0, 3), list is length 2"),
        ("[[1]].flatten(-1)", "level must be non-negative"),
        ("[[1]].flatten(dyn(0.0 / 0.0))", "no such overload: flatten(list, double)"),
        ("[[1]].flatten(dyn(1.0 / 0.0))", "no such overload: flatten(list, double)"),
        ("[dyn(1), dyn('a')].sort()", "list elements must have the same type"),
        ("[dyn([]), dyn([])].sort()", "list elements must be comparable"),
        ("[1][5]", "index out of bounds: 5"),
        ("[1][-1]", "index out of bounds: -1"),
        ("[1][dyn('0')]", "unsupported index type 'string' in list"),
        ("[1][dyn(0.5)]", "unsupported index value 0.5 in list"),
        ("{'a': 1}['b']", "no such key: b"),
        ("{1: 'a'}[2]", "no such key: 2"),
        ("{true: 1}[false]", "no such key: false"),
        ("dyn('a').b", "no such key: b"),
        ("[dyn([])].map(x, {x: 1}) == []", "unsupported key type: list"),
        ("dyn(1).all(x, x > 0)", "got 'types.Int', expected iterable type"),
        ("dyn(1).all(i, x, x > 0)", "unsupported comprehension range type: types.Int"),
        ("optional.none().value()", "optional.none() dereference"),
        ("optional.unwrap(dyn([1]))", "value 1 is not optional"),
    ],
)
def test_a_list_or_map_error_has_cel_gos_words(
    expression: str, error: str, evaluate: Callable[..., Any]
) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(expression)
    assert str(caught.value) == f"expression '{expression}' resulted in error: {error}"


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("'abc'.charAt(4)", "index out of range: 4"),
        ("'abc'.charAt(-1)", "index out of range: -1"),
        ("'abc'.indexOf('a', -1)", "index out of range: -1"),
        ("'abc'.lastIndexOf('a', -1)", "index out of range: -1"),
        ("'abc'.substring(4)", "index out of range: 4"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("'abc'.substring(1, 4)", "index out of range: 4"),
        ("[dyn('a'), dyn(1)].join()", "join: invalid input: 1"),
        ("[dyn(1)].join(',')", "no such overload: join(list, string)"),
        ("{'a': 1}.transformMapEntry(k, v, dyn('x'))", "no such overload: cel.@mapInsert(map, string)"),
        ("'%s'.format(dyn([]))", "index 0 out of range"),
        ("'%'.format(dyn([1]))", "unexpected end of string"),
        ("'%'.format(dyn([]))", "index 0 out of range"),
        ("'%y'.format(dyn([1]))", 'could not parse formatting clause: unrecognized formatting clause "y"'),
        ("'%.1001f'.format([1.0])", "precision 1001 exceeds maximum allowed precision 1000"),
    ],
)
def test_a_string_error_has_cel_gos_words(expression: str, error: str, evaluate: Callable[..., Any]) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(expression)
    assert str(caught.value) == f"expression '{expression}' resulted in error: {error}"


@pytest.mark.parametrize(
    ("clause", "value", "error"),
    [
        ("%d", "1.0", "decimal clause can only be used on integers, was given double"),
        ("%f", "1", "fixed-point clause can only be used on doubles, was given int"),
        ("%e", "'x'", "scientific clause can only be used on doubles, was given string"),
        ("%b", "'x'", "only integers and bools can be formatted as binary, was given string"),
        ("%o", "1.0", "octal clause can only be used on integers, was given double"),
        ("%x", "1.0", "only integers, byte buffers, and strings can be formatted as hex, was given double"),
        ("%s", "[quantity('1')]", "no formatting function for kubernetes.Quantity"),
    ],
)
def test_a_formatting_error_names_the_type_of_the_value(
    clause: str, value: str, error: str, evaluate: Callable[..., Any]
) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(f"'{clause}'.format([dyn({value})])")
    assert str(caught.value).endswith(f"resulted in error: error during formatting: {error}")


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'%f|%.0f|%.1e'.format([1.5, 2.5, 12345.678])", "1.500000|2|1.234568\u00d710⁰⁴"),
        ("'%.2f|%f|%.15e|%.9e'.format([1234567.891, -0.0, -1e-300, 'NaN'])",
         "1,234,567.89|0.000000|-1.000000\u00d710⁻³⁰⁰|      NaN"),
        ("'%f %f %f'.format(['NaN', 'Infinity', '-Infinity'])", "NaN ∞ -∞"),
        ("'%s'.format([{'b': 1, 'a': [true, null]}])", '{"a":[true, null], "b":1}'),
        ("'%s %s'.format([timestamp(0), duration('90s')])", "1970-01-01T00:00:00Z 90s"),
        ("'%s'.format([[timestamp(0), duration('1s'), b'a', 1.5]])",
         '[timestamp("1970-01-01T00:00:00Z"), duration("1s"), b"a", 1.500000]'),
        ("'%b %b %x %X'.format([true, -5, b'ab', 'ab'])", "1 -101 6162 6162"),
        ("'abcabc'.replace('b', 'x', 1) + 'abc'.replace('', '-')", "axcabc-a-b-c-"),
        ("'a,b,c'.split(',', 2).join(';') + string('a,b'.split(',', 0).size())", "a;b,c0"),
        ("'abc'.split('').join('-') + 'abc'.split('', 2).join('-')", "a-b-ca-bc"),
        ("'\\u00a0 a\\u2003'.trim() + 'ÄB'.lowerAscii() + 'äb'.upperAscii()", "aÄbäB"),
        ("strings.quote('a\"b\\n\\\\')", '"a\\"b\\n\\\\"'),
        ("'abcabc'.substring('abcabc'.lastIndexOf('b')) + 'abc'.charAt(3)", "bc"),
        ("string('abcabc'.indexOf('b', 2)) + string('abc'.indexOf('', 9))", "43"),
        ("string('abcabc'.lastIndexOf('b', 3)) + string('abc'.lastIndexOf('x'))", "1-1"),
    ],
)  # fmt: skip
def test_a_string_function_gives_cel_gos_value(
    expression: str, expected: str, evaluate: Callable[..., Any]
) -> None:
    assert evaluate(expression) == expected


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("", "Version string empty"),
        ("1.2", "No Major.Minor.Patch elements found"),
        ("a.2.3", 'Invalid character(s) found in major number "a"'),
        ("1.b.3", 'Invalid character(s) found in minor number "b"'),
        ("1.2.c", 'Invalid character(s) found in patch number "c"'),
        ("1.02.3", 'Minor number must not contain leading zeroes "02"'),
        ("1..3", 'strconv.ParseUint: parsing "": invalid syntax'),
        ("1.2.3-", "Prerelease is empty"),
        ("1.2.3-a..b", "Prerelease is empty"),
        ("1.2.3-01", 'Numeric PreRelease version must not contain leading zeroes "01"'),
        ("1.2.3-a_b", 'Invalid character(s) found in prerelease "a_b"'),
        ("1.2.3+", "Build meta data is empty"),
        ("1.2.3+a_b", 'Invalid character(s) found in build meta data "a_b"'),
        ("18446744073709551616.0.0", 'strconv.ParseUint: parsing "18446744073709551616": value out of range'),
    ],
)
def test_a_malformed_version_is_refused_in_the_librarys_words(
    text: str, error: str, evaluate: Callable[..., Any]
) -> None:
    assert evaluate("isSemver(object)", object=text) is False
    with pytest.raises(EvaluationError) as caught:
        evaluate("semver(object)", object=text)
    assert str(caught.value) == f"expression 'semver(object)' resulted in error: {error}"


@pytest.mark.parametrize(
    ("written", "version"),
    [
        ("v1", "1.0.0"),
        ("1.2", "1.2.0"),
        ("v01.02.03", "1.2.3"),
        ("1.2.3-rc.1+b", "1.2.3-rc.1+b"),
        ("0.0", "0.0.0"),
    ],
)
def test_a_version_is_normalized_on_request(written: str, version: str, evaluate: Callable[..., Any]) -> None:
    assert evaluate(f"semver('{written}', true) == semver('{version}')") is True
    assert evaluate(f"isSemver('{written}', true) && !isSemver('v{version}')") is True


@pytest.mark.parametrize(
    "expression",
    [
        "quantity('1k').add(quantity('1')) == quantity('1001') && sign(quantity('1').sub(2)) == -1",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('100m').isLessThan(quantity('1'))",
        "quantity('1500m').asApproximateFloat() == 1.5 && !quantity('1500m').isInteger()",
        "quantity('2Ki').asInteger() == 2048 && quantity('1e3').compareTo(quantity('1k')) == 0",
        "!isQuantity('1 Gi') && !isQuantity('') && isQuantity('.5') && isQuantity('-1Ei')",
    ],
)
def test_a_quantity_function_gives_kubernetes_result(expression: str, evaluate: Callable[..., Any]) -> None:
    assert evaluate(expression) is True


@pytest.mark.parametrize(
    ("pattern", "error"),
    [
        ("(", "missing closing ): `(`"),
        ("[a", "missing closing ]: `[a`"),
        ("*", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2,1}", "invalid repeat count: `{2,1}`"),
        ("\\8", "invalid escape sequence: `\\8`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("(?<n", "invalid named capture: `(?<n`"),
        ("a\\", "trailing backslash at end of expression: ``"),
    ],
)
def test_a_malformed_pattern_is_refused_in_gos_words(
    pattern: str, error: str, evaluate: Callable[..., Any]
) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate("'a'.find(object)", object=pattern)
    assert str(caught.value).endswith(f"Illegal regex: error parsing regexp: {error}")
    with pytest.raises(EvaluationError) as caught:
        evaluate("'a'.matches(object)", object=pattern)
    assert str(caught.value).endswith(f"in error: error parsing regexp: {error}")
