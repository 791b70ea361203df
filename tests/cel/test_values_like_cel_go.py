"""Values and errors of operators and functions for arguments of unusual types, as kube-apiserver gives them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from pratique.cel.errors import EvaluationError

OBJECT = {
    "big": 2**53 + 1,
    "i": 3,
    "s": "web",
    "l": [1, 2, 3],
    "names": ["a", "web"],
    "m": {"a": 1},
    "none": None,
}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("object.big == 9007199254740992.0", True),
        ("dyn(9007199254740992.0) == 9007199254740993", True),
        ("object.big > 9007199254740992.0", False),
        ("object.big in [9007199254740992.0]", False),
        ("dyn(9007199254740992.0) in [9007199254740993]", True),
        ("dyn(9223372036854775807) == 9223372036854775808u", False),
        ("object.i in [3u] && object.i in [3.0] && !(object.s in [3])", True),
        ("dyn(ip('1.1.1.1')) != 'x'", True),
        ("dyn('x') == ip('1.1.1.1')", False),
        ("dyn(ip('1.1.1.1')) == null", False),
        ("[dyn(ip('1.1.1.1'))] == [dyn('x')]", True),
        ("{'a': dyn(ip('1.1.1.1'))} == {'a': dyn('x')}", True),
        ("dyn(ip('1.1.1.1')) in [dyn('x')]", False),
        ("[dyn(ip('1.1.1.1')), dyn('x')].indexOf('x')", 1),
        ("url('http://[fe80::1%25en0]/').getHostname()", "fe80::1%en0"),
        ("url('http://a%C3%A9:80/').getHost()", "a\u00e9:80"),
        ("[dyn(1), dyn('a')].isSorted()", True),
        ("[dyn(1), dyn(5.0), dyn(3u)].max()", 5.0),
        ("[1.5].filter(x, x > 2.0).sum()", 0.0),
        ("has(object.?m.a) && !has(object.?m.b) && !has(object.?q.b)", True),
        ("cidr('10.0.0.0/8').ip() == ip('10.0.0.0')", True),
    ],
)
def test_a_value_is_kubernetes(expression: str, expected: Any, evaluate: Callable[..., Any]) -> None:
    value = evaluate(expression, object=OBJECT)
    assert (type(value), value) == (type(expected), expected)


@pytest.mark.parametrize(
    ("expression", "error"),
    [
        ("lists.range(-1)", "lists.range: size must be non-negative, got -1"),
        ("dyn(ip('1.1.1.1')) == 'x'", "no such overload"),
        ("dyn(quantity('1')) == 1", "no such overload"),
        ("object.s - 1", "no such overload"),
        ("object.l - object.l", "no such overload: _-_"),
        ("object.s * 2", "no such overload"),
        ("dyn(true) * 2", "no such overload: _*_"),
        ("object.s % 2", "no such overload"),
        ("dyn(1.5) % 2", "no such overload: _%_"),
        ("-object.s", "no such overload"),
        ("-object.l", "no such overload: -_"),
        ("size(dyn(duration('1s')))", "no such overload"),
        ("size(object.i)", "no such overload: size"),
        ("dyn(0.0 / 0.0) < dyn('a')", "NaN values cannot be ordered"),
        ("object.l.join(',')", "no such overload: join(list, string)"),
        ("object.names.sum()", "no such overload: sum(list)"),
        ("[dyn(1), dyn('a')].sum()", "no such overload"),
        ("[dyn(1), dyn([1])].max()", "no such overload"),
        ("dyn([null]).isSorted()", "no such overload: isSorted(list)"),
        ("cidr('10.0.0.0/8').containsIP(object.s)", "no such overload"),
        ("cidr('10.0.0.0/8').containsIP(object.i)", "no such overload: containsIP(net.CIDR, int)"),
        ("ip(dyn(cidr('1.0.0.0/8')))", "no such overload: ip(net.CIDR)"),
        ("object.i.matches('a')", "no such overload"),
        ("object.i.matches(object.s)", "no such overload: matches"),
        ("object.i.find('a')", "no such overload"),
        ("object.i.find(object.s)", "no such overload: find(int, string)"),
        ("object.m[object.none]", "invalid qualifier type: types.Null"),
        ("object.m[object.l]", "invalid qualifier type: *types.baseList"),
        ("dyn(ip('1.1.1.1')).all(x, true)", "got 'cel.IP', expected iterable type"),
    ],
)
def test_an_error_has_kubernetes_words(expression: str, error: str, evaluate: Callable[..., Any]) -> None:
    with pytest.raises(EvaluationError) as caught:
        evaluate(expression, object=OBJECT)
    assert str(caught.value) == f"expression '{expression}' resulted in error: {error}"


_POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "web", "labels": {"app": "web"}},
    "spec": {"l": [{}]},
}
_CUSTOM = _POD | {"apiVersion": "example.com/v1"}


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("'x' == object.metadata", False),
        ("object.metadata != 'x'", True),
        ("object.metadata == null", False),
        ("object.metadata in ['x']", False),
        (
            "dyn([object.metadata]) == ['x']",
            True,
        ),  # cel-go takes no notice of members that cannot be compared
        ("object.spec.l == [1]", False),
        ("object.spec.l == [{}] && object.metadata.labels == {'app': 'web'}", True),
        ("object.metadata == object.spec || object == object", True),
        ("dyn(object.spec.l + []) == 'x'", False),
        ("dyn([1]) == 'x' || dyn({'a': 1}) == 1", False),
    ],
)
def test_a_go_value_equals_only_its_like(
    expression: str, expected: Any, evaluate: Callable[..., Any]
) -> None:
    assert evaluate(expression, object=_POD) is expected


@pytest.mark.parametrize(
    "expression",
    [
        "object.metadata == 'x'",
        "object.metadata == object.metadata.name",
        "object.spec.l == 1",
        "object.spec == {'l': 1}",
        "[object.metadata].all(m, m == 1)",
        "object.?metadata.orValue({}) == true",
    ],
)
def test_a_go_value_cannot_be_compared_with_another_type(
    expression: str, evaluate: Callable[..., Any]
) -> None:
    with pytest.raises(EvaluationError, match="no such overload"):
        evaluate(expression, object=_POD)
    assert evaluate(expression, object=_CUSTOM) is False
