"""Parsing and comparing label sets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.selectors import conflict, is_subset, parse_label_set

SETS = st.dictionaries(
    st.sampled_from(["a", "b", "example.com/c"]), st.sampled_from(["", "x", "y"]), max_size=3
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", {}),
        ("env=test", {"env": "test"}),
        ("env = test, region= eu ", {"env": "test", "region": "eu"}),
        ("env=", {"env": ""}),
        ("a=1,a=2", {"a": "2"}),
    ],
)
def test_spaces_around_labels_are_ignored(text: str, expected: dict[str, str]) -> None:
    assert parse_label_set(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("env", "invalid selector: [env]"),
        ("a=b=c", "invalid selector: [a b c]"),
        (" ", "invalid selector: [ ]"),
        ("a=1,", "invalid selector: []"),
        ("=x", '<nil>: Invalid value: "": name part must be non-empty; name part must consist of'),
        ("a=b c", '[a]: Invalid value: "b c": a valid label must be an empty string or consist of'),
    ],
)
def test_an_invalid_label_is_refused_in_kubernetes_words(text: str, message: str) -> None:
    with pytest.raises(InputError) as refusal:
        parse_label_set(text)
    assert str(refusal.value).startswith(message)


@given(SETS)
def test_a_written_label_set_parses_back(labels: dict[str, str]) -> None:
    assert parse_label_set(", ".join(f"{key} = {value}" for key, value in labels.items())) == labels


@given(SETS, SETS)
def test_label_sets_conflict_where_a_key_has_two_values(
    first: dict[str, str], second: dict[str, str]
) -> None:
    assert conflict(first, second) is ((first | second) != (second | first))


@given(SETS, SETS)
def test_a_subset_holds_only_allowed_labels(labels: dict[str, str], allowed: dict[str, str]) -> None:
    assert is_subset(labels, allowed) is (not allowed or labels.items() <= allowed.items())
