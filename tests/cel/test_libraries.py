"""The values of functions, and authorization checks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pratique.apimachinery.requests import UserInfo
from pratique.cel.errors import EvaluationError
from pratique.cel.libraries.authorizers import AuthorizerValue, ResourceCheck
from pratique.cluster.authorization import AuthorizationAttributes, AuthorizationDecision


@pytest.mark.cases("library_cases.jsonl")
def test_a_function_gives_the_value_or_error_that_kubernetes_gives(
    case: dict[str, Any], evaluate: Callable[..., Any]
) -> None:
    if "error" not in case:
        assert evaluate(case["expression"]) == case["value"]
        return
    with pytest.raises(EvaluationError) as caught:
        evaluate(case["expression"])
    assert case["error"] in str(caught.value)


@pytest.mark.parametrize(
    "expression",
    [
        "[1, 2, 2].isSorted() && ![2, 1].isSorted() && [].isSorted() && ['a', 'b'].isSorted()",
        "[duration('1s'), duration('2s')].isSorted() && [false, true].isSorted()",
        "[1, 3].sum() == 4 && [1.0, 3.5].sum() == 4.5 && [1u, 3u].sum() == 4u && [].sum() == 0",
        "[duration('1m'), duration('1s')].sum() == duration('1m1s')",
        "[1, 3].min() == 1 && [1, 3].max() == 3 && ['b', 'a'].min() == 'a'",
        "[1, 2, 2, 3].indexOf(2) == 1 && ['a', 'b', 'b'].lastIndexOf('b') == 2 && [1.0].indexOf(1.1) == -1",
        "'abc 123'.find('[0-9]+') == '123' && 'abc'.find('[0-9]+') == ''",
        "'123 abc 456'.findAll('[0-9]+') == ['123', '456'] && '1 2 3'.findAll('[0-9]', 2) == ['1', '2']",
        "'baac'.findAll('a*') == ['', 'aa', ''] && 'abc'.findAll('x') == []",
        "url('https://user@example.com:80/a%20b?k=v1&k=v2#f').getHost() == 'example.com:80'",
        "url('https://example.com:80/').getHostname() == 'example.com'",
        "url('https://[::1]:80/').getHostname() == '::1' && url('https://[::1]:80/').getPort() == '80'",
        "url('https://example.com/').getPort() == '' && url('/path').getScheme() == ''",
        "url('https://example.com/path with spaces/').getEscapedPath() == '/path%20with%20spaces/'",
        "url('https://example.com/?k1=a&k2=b&k1=c').getQuery() == {'k1': ['a', 'c'], 'k2': ['b']}",
        "url('https://example.com/?n=v%20v').getQuery()['n'] == ['v v']",
        "isURL('https://example.com') && isURL('/absolute-path') && !isURL('../relative-path')",
        "url('https://a/b') == url('https://a/b') && url('https://a/b') != url('https://a/c')",
        "quantity('1.5Gi').compareTo(quantity('1536Mi')) == 0 && sign(quantity('-1')) == -1",
        "jsonpatch.escapeKey('k8s.io/my~label') == 'k8s.io~1my~0label'",
        "format.named('dns1123Label').value().validate('ok') == optional.none()",
        "semver('1.0.0-alpha').isLessThan(semver('1.0.0-alpha.1'))",
        "semver('1.0.0-alpha.beta').isGreaterThan(semver('1.0.0-alpha.1'))",
        "semver('1.0.0-rc.1').isLessThan(semver('1.0.0')) && semver('1.0.0+a') == semver('1.0.0+b')",
        "optional.ofNonZeroValue('') == optional.none() && optional.of(1).value() == 1",
        "optional.of(1).or(optional.of(2)).value() == 1 && optional.none().orValue(3) == 3",
        "optional.of(2).optMap(x, x * 2).value() == 4 && optional.none().optFlatMap(x, x).hasValue() == false",
        "optional.unwrap([optional.of(1), optional.none()]) == [1]",
        "[optional.of(1), optional.none()].unwrapOpt() == [1]",
        "[?optional.of(1), ?optional.none(), 2] == [1, 2] && {?'a': optional.none()} == {}",
        "[1, 2].first().value() == 1 && [1, 2].last().value() == 2 && ![].first().hasValue()",
        "[{'n': 2}, {'n': 1}].sortBy(x, x.n) == [{'n': 1}, {'n': 2}] && [1, 2].reverse() == [2, 1]",
        "timestamp('2024-02-29T23:59:59.5Z').getMilliseconds() == 500",
        "timestamp('2024-02-29T23:59:59Z').getDayOfYear() == 59",
        "timestamp('2024-02-29T23:30:00Z').getDate('+01:00') == 1",
        "timestamp('2024-07-01T00:00:00Z').getHours('Europe/Berlin') == 2",
        "timestamp('2024-02-25T00:00:00Z').getDayOfWeek() == 0",
        "timestamp('2024-01-01T00:00:00Z') + duration('24h') == timestamp('2024-01-02T00:00:00Z')",
        "timestamp('2024-01-02T00:00:00Z') - timestamp('2024-01-01T00:00:00Z') == duration('24h')",
        "duration('1h30m').getMinutes() == 90 && string(duration('90s')) == '90s'",
        "int(timestamp('1970-01-01T00:01:00Z')) == 60 && int(duration('1s')) == 1000000000",
        "string(1.0) == '1' && string(1e100) == '1e+100' && string(123456789.0) == '1.23456789e+08'",
        "string(0.00001) == '1e-05' && string(true) == 'true' && string(b'a') == 'a' && string(1u) == '1'",
        "double('1.5') == 1.5 && int('-7') == -7 && uint('7') == 7u && bool('T') && int(1.9) == 1",
        "-7 / 2 == -3 && -7 % 2 == -1 && 7.0 / 2.0 == 3.5",
        "1 < 1.5 && 1u < 2 && 2.5 > 2u && dyn(1) == 1.0 && dyn(1) == 1u && !(dyn(true) == 1)",
        "{1: 'a'}[1] == 'a' && dyn({1: 'a'})[1u] == 'a' && dyn({'a': 1}).?b.orValue(2) == 2",
        "'%s %d %.2f %e %%'.format(['a', 1, 2.5, 1.0]) == 'a 1 2.50 1.000000\u00d710⁰⁰ %'",
        "'%b %o %x %X'.format([5, 8, 255, 'z']) == '101 10 ff 7A'",
        "'%s'.format([[1, 'a', {'k': true}, null]]) == '[1, \"a\", {\"k\":true}, null]'",
        "type(1) == int && type(quantity('1')) == kubernetes.Quantity && type(null) == null_type",
        "type(type(1)) == type && type([]) == list && type({}) == map",
    ],
)
def test_a_documented_example_evaluates_to_true(expression: str, evaluate: Callable[..., Any]) -> None:
    assert evaluate(expression) is True


def test_a_format_string_of_an_object_is_filled_in_linear_time(evaluate: Callable[..., Any]) -> None:
    """In quadratic time, it would take minutes."""
    assert evaluate("request.name.format([]).size() == 1000000", request={"name": "%%" * 1_000_000})


def test_a_precision_may_have_thousands_of_zeros(evaluate: Callable[..., Any]) -> None:
    assert evaluate(f"'%.{'0' * 5000}1f'.format([1.25])") == "1.2"


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("[].min()", "min called on empty list"),
        ("[].max()", "max called on empty list"),
        ("'a'.find(object)", "Illegal regex: error parsing regexp: missing closing ): `(`"),
        ("'a'.matches(object)", "error parsing regexp: missing closing ): `(`"),
        ("url('a')", 'URL parse error during conversion from string: parse "a": invalid URI for request'),
        ("quantity('1x')", "quantities must match the regular expression"),
        ("quantity('1Ee')", "unable to parse quantity's suffix"),
        ("quantity('0.5').asInteger()", "cannot convert value to integer"),
        ("ip('1.2.3')", 'ParseAddr("1.2.3"): IPv4 address too short'),
        ("ip('1.2.3.04')", 'ParseAddr("1.2.3.04"): IPv4 field has octet with leading zero'),
        ("ip('fe80::1%eth0')", 'IP address "fe80::1%eth0" with zone value is not allowed'),
        ("ip('::ffff:1.2.3.4')", 'IPv4-mapped IPv6 address "::ffff:1.2.3.4" is not allowed'),
        ("cidr('1.2.3.4')", "netip.ParsePrefix(\"1.2.3.4\"): no '/'"),
        ("cidr('1.2.3.4/33')", 'netip.ParsePrefix("1.2.3.4/33"): prefix length out of range'),
        ("semver('1.2')", "No Major.Minor.Patch elements found"),
        ("semver('1.02.3')", 'Minor number must not contain leading zeroes "02"'),
        ("optional.none().value()", "optional.none() dereference"),
        ("'abc'.charAt(5)", "index out of range: 5"),
        ("'abc'.substring(2, 1)", "invalid substring range. start: 2, end: 1"),
        ("[1].slice(0, 2)", "cannot slice(0, 2), list is length 1"),
        ("'%d'.format([dyn('a')])", "decimal clause can only be used on integers, was given string"),
        ("'%s'.format(dyn([]))", "index 0 out of range"),
        ("{'a': 1}.transformMapEntry(k, v, {'x': v}) == {'a': 1, 'b': 2}.transformMapEntry(k, v, {'x': v})",
         "insert failed: key x already exists"),
        ("timestamp('2024-01-01T00:00:00Z').getHours('Nowhere/City')", "unknown time zone Nowhere/City"),
        ("timestamp('9999-12-31T23:59:59Z') + duration('1s')", "timestamp overflow"),
    ],
)  # fmt: skip
def test_a_function_rejects_bad_arguments_in_its_own_words(
    expression: str, error: str, evaluate: Callable[..., Any]
) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(expression, object="(")
    assert str(caught.value).startswith(f"expression '{expression}' resulted in error: ")
    assert error in str(caught.value)


class Recorder:
    """Allows checks of pods, and records all checks."""

    def __init__(self) -> None:
        self.asked: list[AuthorizationAttributes] = []

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        self.asked.append(attributes)
        return AuthorizationDecision(allowed=attributes.resource == "pods", reason="because")


def test_the_authorizer_receives_every_attribute_of_the_check(evaluate: Callable[..., Any]) -> None:
    recorder, user = Recorder(), UserInfo("ann", groups=("staff",))
    expression = (
        "authorizer.group('apps').resource('pods').subresource('log').namespace('shop').name('web')"
        ".fieldSelector('a=b').labelSelector('c').check('get').allowed()"
    )
    assert evaluate(expression, authorizer=AuthorizerValue(recorder, user)) is True
    assert recorder.asked == [
        AuthorizationAttributes(
            user=user,
            verb="get",
            group="apps",
            resource="pods",
            subresource="log",
            namespace="shop",
            name="web",
            field_selector="a=b",
            label_selector="c",
        )
    ]


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("authorizer.path('/healthz').check('get').allowed()", False),
        ("authorizer.path('/healthz').check('get').reason()", "because"),
        ("authorizer.path('/healthz').check('get').errored()", False),
        ("authorizer.path('/healthz').check('get').error()", ""),
        ("authorizer.requestResource.check('create').allowed()", True),
    ],
)
def test_an_authorization_decision_shows_its_fields(
    expression: str, expected: Any, evaluate: Callable[..., Any]
) -> None:
    authorizer = AuthorizerValue(Recorder(), UserInfo("ann"))
    check = ResourceCheck(authorizer=authorizer, group="", resource="pods")
    variables = {"authorizer": authorizer, "authorizer.requestResource": check}
    assert evaluate(expression, **variables) == expected


def test_a_service_account_check_uses_the_accounts_user_name_and_groups(evaluate: Callable[..., Any]) -> None:
    recorder = Recorder()
    expression = (
        "authorizer.serviceAccount('shop', 'robot').group('').resource('pods').check('get').allowed()"
    )
    assert evaluate(expression, authorizer=AuthorizerValue(recorder, UserInfo("ann"))) is True
    assert recorder.asked[0].user == UserInfo(
        "system:serviceaccount:shop:robot", groups=("system:serviceaccounts", "system:serviceaccounts:shop")
    )


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("authorizer.path(' ')", "path must not be empty"),
        ("authorizer.group('').resource('')", "resource must not be empty"),
        ("authorizer.serviceAccount('a/b', 'robot')", "Invalid service account namespace"),
        ("authorizer.serviceAccount('shop', 'A_B')", "Invalid service account name"),
    ],
)
def test_an_empty_path_or_resource_is_an_error(
    expression: str, error: str, evaluate: Callable[..., Any]
) -> None:
    with pytest.raises(EvaluationError, match=error):
        evaluate(expression, authorizer=AuthorizerValue(Recorder(), UserInfo("ann")))
