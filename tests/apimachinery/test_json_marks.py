"""Counting values and levels outside strings."""

from __future__ import annotations

import json

import pytest

from pratique.apimachinery import json_reading
from pratique.apimachinery.json_reading import (
    MAX_VALUES,
    TOO_MANY_VALUES,
    JsonLimitError,
    has_too_many_values,
    read_document,
)
from pratique.apimachinery.json_values import JSON

MARKED = [
    b'{"a":[1,2],"b":{}}',
    b'["[{,","}]",",\\"[",[]]',
    b'["\\\\",["\\\\\\"]",{}]]',
    b'["","",[","],"[[",""]',
    b"[" + b'"x,[",{},' * 20 + b"1]",
]


@pytest.mark.parametrize("portion_bytes", [1, 2, 3, 5, 64 * 1024])
@pytest.mark.parametrize("raw", MARKED)
def test_structural_characters_in_strings_do_not_count(
    raw: bytes, portion_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pratique.apimachinery.json_reading._PORTION_BYTES", portion_bytes)
    expected = json.dumps(blanked(json.loads(raw)), separators=(",", ":"))
    assert json_reading.structural_characters(raw).decode() == "".join(
        mark for mark in expected if mark in "{}[],"
    )


def blanked(value: JSON) -> JSON:
    if isinstance(value, dict):
        return {str(number): blanked(child) for number, child in enumerate(value.values())}
    return [blanked(child) for child in value] if isinstance(value, list) else 0


@pytest.mark.parametrize("siblings", [1, 40])
@pytest.mark.parametrize("pair", ["[]", "{}", "[{}]", "{[]}"])
@pytest.mark.parametrize("depth", [1, 2, 7, 8, 9, 20])
def test_depth_is_counted_whatever_the_breadth(depth: int, pair: str, siblings: int) -> None:
    half = len(pair) // 2
    nested = pair[:half] * depth + pair[half:] * depth
    marks = ("[" + ",".join([nested] * siblings) + "]").encode()
    levels = 1 + depth * half
    found = [json_reading.exceeds_depth(marks, most) for most in range(levels + 12)]
    assert found == [most < levels for most in range(levels + 12)]


@pytest.mark.parametrize("more", [0, 1])
@pytest.mark.parametrize(("item", "marks"), [(b"0", 1), (b'",[{"', 1), (b"[]", 2), (b"{}", 2)])
def test_the_value_limit_is_exact(item: bytes, marks: int, more: int) -> None:
    raw = b"[" + b",".join([item] * (MAX_VALUES // marks + more)) + b"]"
    assert has_too_many_values(raw) is bool(more)
    if more:
        with pytest.raises(JsonLimitError, match=f"^holds {TOO_MANY_VALUES}$"):
            read_document(raw)
    else:
        assert not read_document(raw).is_null


def test_a_long_text_of_few_values_is_allowed() -> None:
    assert not has_too_many_values(b"[" + b" " * MAX_VALUES + b"]")
    assert not has_too_many_values(b'["' + b"," * MAX_VALUES + b'"]')
