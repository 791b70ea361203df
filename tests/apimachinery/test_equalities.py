"""Semantic equality."""

from __future__ import annotations

import pytest
from hypothesis import given

from pratique.apimachinery.diff import differing_pointers, semantically_equal
from pratique.apimachinery.json_values import JSON
from support.strategies.json_values import documents


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (None, {}, True),
        (None, [], True),
        ({"a": ""}, {}, True),
        ({"a": {"b": {"c": None}}}, None, True),
        ([{"a": ""}], [{}], True),
        ([""], [], False),
        ({"a": False}, {}, False),
        ({"a": 0}, {}, False),
        ({"a": 1}, {"a": True}, False),
        ({"a": [1, 2]}, {"a": [2, 1]}, False),
    ],
)
def test_empty_values_equal_absent_ones(first: JSON, second: JSON, *, expected: bool) -> None:
    assert semantically_equal(first, second) is expected
    assert semantically_equal(second, first) is expected


@given(documents(), documents())
def test_unequal_values_have_differing_pointers(first: JSON, second: JSON) -> None:
    assert bool(differing_pointers(first, second)) is not semantically_equal(first, second)


def test_differing_pointers_hold_no_content() -> None:
    assert differing_pointers({"a": {"b": "secret"}}, {"a": {"b": "other"}, "c": 1}) == ["/c", "/a/b"]
