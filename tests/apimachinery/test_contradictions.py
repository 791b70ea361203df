"""Label selectors that no set of labels can satisfy together."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    compile_selector,
    first_contradiction,
)


def expressions(*requirements: tuple[str, str, tuple[str, ...]]) -> LabelSelector:
    return LabelSelector(match_expressions=tuple(itertools.starmap(LabelSelectorRequirement, requirements)))


@pytest.mark.parametrize(
    ("selectors", "key"),
    [
        ([], ""),
        ([LabelSelector()], ""),
        ([LabelSelector({"a": "1"}), LabelSelector({"a": "1"})], ""),
        ([LabelSelector({"a": "1"}), LabelSelector({"a": "2"})], "a"),
        ([LabelSelector({"a": "1", "b": "1"}), LabelSelector({"b": "2"})], "b"),
        ([LabelSelector({"a": "1"}), expressions(("a", "In", ("1", "2")))], ""),
        ([LabelSelector({"a": "1"}), expressions(("a", "NotIn", ("1",)))], "a"),
        ([expressions(("a", "In", ("1", "2")), ("a", "NotIn", ("1",)))], ""),
        ([expressions(("a", "Exists", ()), ("a", "DoesNotExist", ()))], "a"),
        ([expressions(("a", "DoesNotExist", ()), ("a", "NotIn", ("1",)))], ""),
    ],
)
def test_the_first_contradictory_key_is_named(selectors: list[LabelSelector], key: str) -> None:
    assert first_contradiction(*selectors) == key


VALUES = ("1", "2")
OPERATORS = st.sampled_from(
    [
        ("In", ("1",)),
        ("In", ("2",)),
        ("In", VALUES),
        ("NotIn", ("1",)),
        ("NotIn", VALUES),
        ("Exists", ()),
        ("DoesNotExist", ()),
    ]
)
SELECTORS = st.lists(
    st.lists(st.tuples(st.sampled_from("ab"), OPERATORS), max_size=3).map(
        lambda items: expressions(*((key, *operator) for key, operator in items))
    ),
    max_size=3,
)


@given(SELECTORS)
def test_selectors_contradict_exactly_if_no_labels_satisfy_them(selectors: list[LabelSelector]) -> None:
    # "3" stands for any value that no selector names.
    candidates = [
        {key: value for key, value in zip("ab", values, strict=True) if value}
        for values in itertools.product(("", "1", "2", "3"), repeat=2)
    ]
    compiled = [compile_selector(selector) for selector in selectors]
    satisfiable = any(all(selector.matches(labels) for selector in compiled) for labels in candidates)
    assert (first_contradiction(*selectors) == "") is satisfiable
