"""Sizes of encoded values, with and without measured parts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON, TextSizes, encode
from support.strategies.json_values import KEYS, values


def size_in_go(value: JSON) -> int:
    text = encode(value).decode()
    for mark in "<>&\u2028\u2029":
        text = text.replace(mark, f"\\u{ord(mark):04x}")
    return len(text.encode())


@pytest.mark.parametrize(
    "value", ["", "<", "a&b>", "\u2028", "ü\u2029", 1.5, True, [], {}, {"<": [None, "é"]}]
)
def test_a_size_equals_the_text_that_go_writes(value: JSON) -> None:
    assert TextSizes().size_of(value) == size_in_go(value)


@given(st.lists(values(5) | st.text("<&\u2028xü"), min_size=1, max_size=5), st.data())
def test_a_value_that_holds_measured_values_has_the_right_size(
    parts: list[JSON], data: st.DataObject
) -> None:
    sizes, made = TextSizes(), list(parts)
    for _ in range(8):
        holding = data.draw(st.lists(st.sampled_from(range(len(made))), max_size=3))
        held = [made[number] for number in holding]
        names = data.draw(st.lists(KEYS, min_size=len(held), max_size=len(held)))
        made.append(data.draw(st.sampled_from([held, [[], held], dict(zip(names, held, strict=True))])))
        assert sizes.size_of(made[-1]) == size_in_go(made[-1])


@pytest.mark.parametrize("items", [99, 100, 101, 1_000])
def test_a_value_too_large_to_visit_has_the_right_size(items: int) -> None:
    sizes, part = TextSizes(), ["x"]
    sizes.size_of(part)
    assert sizes.size_of([part, *range(items)]) == size_in_go([part, *range(items)])
    assert sizes.size_of({"a": [part] * items}) == size_in_go({"a": [part] * items})
