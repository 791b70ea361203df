"""Named formats, URLs and the text of values, with Kubernetes' and Go's results."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.cel.errors import EvaluationError
from pratique.cel.values import Duration, Timestamp, TypeName, Uint, double_text, to_text


@pytest.mark.parametrize(
    ("name", "valid", "invalid"),
    [
        ("dns1123Label", ["a", "a-1", "1a"], ["", "A", "a.b", "-a", "a-", "a" * 64]),
        ("dns1123Subdomain", ["a", "a.b-c", "1.2"], ["", "A.b", "a..b", "a." + "b" * 254]),
        ("dns1035Label", ["a", "a-1"], ["", "1a", "A", "a-"]),
        ("qualifiedName", ["a", "example.com/a", "A_b.c-d"], ["", "/a", "a/", "a/b/c", "a b"]),
        ("dns1123LabelPrefix", ["a", "a-", "ab-"], ["", "-", "-a", "A-"]),
        ("dns1123SubdomainPrefix", ["a.b-", "a"], ["", "a..b-", "-a"]),
        ("dns1035LabelPrefix", ["a-", "a"], ["1-", "", "-a"]),
        ("labelValue", ["", "a", "A_b.c-d"], ["-a", "a-", "a b", "a" * 64]),
        ("uri", ["https://example.com/a?b", "/path", "mailto:a@b"], ["", "path", ":", "http://[::1"]),
        ("uuid", ["123e4567-e89b-12d3-a456-426614174000", "123E4567e89b12d3a456426614174000"], ["", "123"]),
        ("byte", ["YQ==", "YWI=", "YWJj"], ["YQ", "YQ=", "Y===", "Y Q="]),
        ("date", ["2024-02-29"], ["", "2023-02-29", "2024-2-9", "2024-02-29T00:00:00Z", "24-02-29"]),
        (
            "datetime",
            ["2024-02-29T23:59:59Z", "2024-02-29t00:00:00.5+01:00"],
            ["2024-02-29", "2024-02-30T00:00:00Z", "2024-02-29T24:00:00Z", "2024-02-29T00:00:00", "T"],
        ),
    ],
)
def test_a_format_accepts_what_kubernetes_accepts(
    name: str, valid: list[str], invalid: list[str], evaluate: Callable[..., Any]
) -> None:
    for text in valid:
        assert evaluate(f"format.{name}().validate(object)", object=text).present is False, text
    for text in invalid:
        problems = evaluate(f"format.named('{name}').value().validate(object)", object=text)
        assert problems.present, text
        assert all(isinstance(problem, str) and problem for problem in problems.value)


def test_an_unknown_format_is_none(evaluate: Callable[..., Any]) -> None:
    assert evaluate("format.named('nothing').hasValue()") is False
    assert evaluate("format.named('uuid').value() == format.uuid() && format.date() != format.datetime()")


@pytest.mark.parametrize(
    ("url", "parts"),
    [
        ("https://example.com:80/a", ("https", "example.com:80", "example.com", "80", "/a")),
        ("https://[::1]:80/", ("https", "[::1]:80", "::1", "80", "/")),
        ("https://[::1]", ("https", "[::1]", "::1", "", "")),
        ("/just/a/path", ("", "", "", "", "/just/a/path")),
        ("https://user:pw@example.com/%41b", ("https", "example.com", "example.com", "", "/%41b")),
        ("https://example.com/ä b", ("https", "example.com", "example.com", "", "/%C3%A4%20b")),
        ("HTTPS://EXAMPLE.com", ("https", "EXAMPLE.com", "EXAMPLE.com", "", "")),
    ],
)
def test_a_url_has_gos_parts(url: str, parts: tuple[str, ...], evaluate: Callable[..., Any]) -> None:
    getters = ("getScheme", "getHost", "getHostname", "getPort", "getEscapedPath")
    found = tuple(evaluate(f"url(object).{getter}()", object=url) for getter in getters)
    assert found == parts


@pytest.mark.parametrize(
    ("query", "values"),
    [
        ("", {}),
        ("a=1&a=2&b", {"a": ["1", "2"], "b": [""]}),
        ("a=b=c&=d", {"a": ["b=c"], "": ["d"]}),
        ("a+b=c%20d&e=%2B", {"a b": ["c d"], "e": ["+"]}),
        ("a=%zz&b=1;c=2&d=3", {"d": ["3"]}),
    ],
)
def test_a_query_is_parsed_as_in_go(
    query: str, values: dict[str, list[str]], evaluate: Callable[..., Any]
) -> None:
    assert evaluate("url(object).getQuery()", object=f"https://example.com/?{query}") == values


@pytest.mark.parametrize("text", ["", "relative", "../a", "https://exa mple.com", "http://[::1", "%"])
def test_an_invalid_url_is_an_error(text: str, evaluate: Callable[..., Any]) -> None:
    assert evaluate("isURL(object)", object=text) is False
    with pytest.raises(EvaluationError, match=r"URL parse error during conversion from string: parse "):
        evaluate("url(object)", object=text)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (0.0, "0"),
        (-0.0, "-0"),
        (1.0, "1"),
        (123456.0, "123456"),
        (1234567.0, "1.234567e+06"),
        (1e20, "1e+20"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (-2.5e-300, "-2.5e-300"),
        (1.7976931348623157e308, "1.7976931348623157e+308"),
        (5e-324, "5e-324"),
        (float("nan"), "NaN"),
        (float("inf"), "+Inf"),
        (float("-inf"), "-Inf"),
    ],
)
def test_a_double_is_written_as_in_go(number: float, text: str) -> None:
    assert double_text(number) == text


@given(st.integers(0, 2**64 - 1))
def test_the_text_of_a_double_reads_back(bits: int) -> None:
    (number,) = struct.unpack("<d", struct.pack("<Q", bits))
    text = double_text(number)
    assert math.isnan(float(text)) if math.isnan(number) else float(text) == number


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (Uint(7), "7"),
        (Duration(-1_500_000_000), "-1.5s"),
        (Duration(0), "0s"),
        (Timestamp(-1), "1969-12-31T23:59:59.999999999Z"),
        (TypeName("int"), "int"),
        ([1, [True, None], {"a": 1.5}], "[1, [true, null], {a: 1.5}]"),
    ],
)
def test_a_value_is_written_as_in_error_messages(value: Any, text: str) -> None:
    assert to_text(value) == text
