"""Values as Go's ``fmt`` and ``strconv`` print and parse them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.go_formats import go_syntax, go_text, go_type, go_type_of, parse_int64

if TYPE_CHECKING:
    from pratique.apimachinery.json_values import JSON


@pytest.mark.parametrize(
    ("value", "text", "syntax", "type_name"),
    [
        (None, "<nil>", "interface {}(nil)", "<nil>"),
        (True, "true", "true", "bool"),
        (3, "3", "3", "int64"),
        (1.5, "1.5", "1.5", "float64"),
        (1e6, "1e+06", "1e+06", "float64"),
        (999999.0, "999999", "999999", "float64"),
        (0.00001, "1e-05", "1e-05", "float64"),
        ("a b", "a b", '"a b"', "string"),
        ([1, "x"], "[1 x]", '[]interface {}{1, "x"}', "[]interface {}"),
        (
            {"b": [1], "a": None},
            "map[a:<nil> b:[1]]",
            'map[string]interface {}{"a":interface {}(nil), "b":[]interface {}{1}}',
            "map[string]interface {}",
        ),
    ],
)
def test_a_value_prints_as_in_go(value: JSON, text: str, syntax: str, type_name: str) -> None:
    assert (go_text(value), go_syntax(value), go_type_of(value)) == (text, syntax, type_name)


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"apiVersion": "v1", "kind": "Service"}, "*core.Service"),
        ({"kind": "Service"}, "*core.Service"),
        ({"apiVersion": "apps/v1", "kind": "Deployment"}, "*apps.Deployment"),
        ({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease"}, "*coordination.Lease"),
        ({}, "<nil>"),
        (None, "<nil>"),
        ([], "<nil>"),
    ],
)
def test_a_go_type_is_named_by_group_and_kind(document: JSON, expected: str) -> None:
    assert go_type(document) == expected


@given(st.integers(-(2**63), 2**63 - 1), st.integers(0, 30))
def test_every_int64_is_parsed_whatever_its_leading_zeros(number: int, zeros: int) -> None:
    sign = "-" if number < 0 else "+"
    assert parse_int64(f"{sign}{'0' * zeros}{abs(number)}") == number


@pytest.mark.parametrize("text", ["", "-", "+-1", "1.0", " 1", "1_000", "0x1", "٣", "1e3"])
def test_a_text_that_is_no_integer_is_refused_in_gos_words(text: str) -> None:
    with pytest.raises(ValueError, match=r"^strconv\.ParseInt: parsing \".*\": invalid syntax$"):
        parse_int64(text)


@pytest.mark.parametrize("text", [str(2**63), str(-(2**63) - 1), "9" * 5000])
def test_an_integer_beyond_int64_is_refused_in_gos_words(text: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011 - compared as a whole
        parse_int64(text, "Atoi")
    assert str(raised.value) == f'strconv.Atoi: parsing "{text}": value out of range'
