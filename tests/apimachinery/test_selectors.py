"""Matching label selectors."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.selectors import (
    EVERYTHING,
    LabelSelector,
    LabelSelectorRequirement,
    compile_selector,
)

KEYS = st.sampled_from(["app", "tier", "example.com/zone"])
VALUES = st.sampled_from(["", "a", "b", "c"])
LABELS = st.dictionaries(KEYS, VALUES)
IN_OR_NOT = st.builds(
    LabelSelectorRequirement,
    KEYS,
    st.sampled_from(["In", "NotIn"]),
    st.lists(VALUES, min_size=1).map(tuple),
)
THERE_OR_NOT = st.builds(LabelSelectorRequirement, KEYS, st.sampled_from(["Exists", "DoesNotExist"]))
REQUIREMENTS = st.one_of(IN_OR_NOT, THERE_OR_NOT)
OPPOSITES = {"In": "NotIn", "NotIn": "In", "Exists": "DoesNotExist", "DoesNotExist": "Exists"}


def selects(selector: LabelSelector, labels: dict[str, str]) -> bool:
    return compile_selector(selector).matches(labels)


@pytest.mark.parametrize(
    ("requirement", "labels", "chosen"),
    [
        (LabelSelectorRequirement("a", "In", ("1", "2")), {"a": "2"}, True),
        (LabelSelectorRequirement("a", "In", ("1",)), {}, False),
        (LabelSelectorRequirement("a", "NotIn", ("1",)), {"a": "1"}, False),
        (LabelSelectorRequirement("a", "NotIn", ("1",)), {}, True),
        (LabelSelectorRequirement("a", "Exists"), {"a": ""}, True),
        (LabelSelectorRequirement("a", "Exists"), {"b": ""}, False),
        (LabelSelectorRequirement("a", "DoesNotExist"), {"b": ""}, True),
        (LabelSelectorRequirement("a", "DoesNotExist"), {"a": ""}, False),
    ],
)
def test_every_operator_matches_as_documented(
    requirement: LabelSelectorRequirement, labels: dict[str, str], *, chosen: bool
) -> None:
    assert selects(LabelSelector(match_expressions=(requirement,)), labels) is chosen


def test_all_of_a_selector_must_hold() -> None:
    selector = LabelSelector({"a": "1"}, (LabelSelectorRequirement("b", "Exists"),))
    assert selects(selector, {"a": "1", "b": ""})
    assert not selects(selector, {"a": "1"})
    assert not selects(selector, {"a": "2", "b": ""})


@pytest.mark.parametrize(
    ("candidate", "chosen"),
    [
        (None, False),
        ({"kind": "PodExecOptions"}, False),
        ({"metadata": None}, False),
        ({"metadata": {}}, True),
        ({"metadata": {"labels": None}}, True),
        ({"metadata": {"labels": ["a"]}}, True),
        ({"metadata": {"labels": {"a": {"b": 1}}}}, True),
        ({"metadata": {"labels": {"a": "1"}}}, False),
    ],
)
def test_only_objects_with_metadata_can_match(candidate: JSON, *, chosen: bool) -> None:
    selector = compile_selector(
        LabelSelector(match_expressions=(LabelSelectorRequirement("a", "NotIn", ("1",)),))
    )
    assert selector.matches_object(candidate) is chosen


def test_a_selector_without_requirements_is_empty() -> None:
    labels = LabelSelector(match_labels={"a": "b"})
    expressions = LabelSelector(match_expressions=(LabelSelectorRequirement("a", "Exists"),))
    assert LabelSelector().is_empty
    assert not labels.is_empty
    assert not expressions.is_empty


def test_the_empty_selector_matches_even_a_missing_object() -> None:
    selector = compile_selector(EVERYTHING)
    assert selector.is_empty
    assert EVERYTHING.is_empty
    assert selector.matches({})
    assert selector.matches_object(None, None)


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (
            LabelSelector(match_expressions=(LabelSelectorRequirement("a", "Gt", ("1",)),)),
            '"Gt" is not a valid label selector operator',
        ),
        (
            LabelSelector(match_expressions=(LabelSelectorRequirement("a", "In"),)),
            "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        ),
        (
            LabelSelector(match_expressions=(LabelSelectorRequirement("a", "Exists", ("1",)),)),
            'values: Invalid value: ["1"]: values set must be empty for exists and does not exist',
        ),
        (LabelSelector({"a": "bad value"}), 'values[0][a]: Invalid value: "bad value": a valid label must'),
        (LabelSelector({"key ": "a"}), 'key: Invalid value: "key ": name part must consist of'),
        (LabelSelector({"-": "b b"}), '[key: Invalid value: "-": name part must consist of'),
    ],
)
def test_an_invalid_selector_is_refused_in_the_words_of_apimachinery(
    selector: LabelSelector, message: str
) -> None:
    with pytest.raises(InputError) as refused:
        compile_selector(selector)
    assert str(refused.value).startswith(message)


@given(REQUIREMENTS, LABELS)
def test_an_operator_and_its_opposite_partition_all_labels(
    requirement: LabelSelectorRequirement, labels: dict[str, str]
) -> None:
    opposite = LabelSelectorRequirement(requirement.key, OPPOSITES[requirement.operator], requirement.values)
    chosen = selects(LabelSelector(match_expressions=(requirement,)), labels)
    assert chosen is not selects(LabelSelector(match_expressions=(opposite,)), labels)


@given(st.lists(REQUIREMENTS, max_size=4), LABELS, LABELS)
def test_a_selector_matches_what_all_its_requirements_match(
    requirements: list[LabelSelectorRequirement], wanted: dict[str, str], labels: dict[str, str]
) -> None:
    whole = selects(LabelSelector(wanted, tuple(requirements)), labels)
    parts = [selects(LabelSelector(match_expressions=(requirement,)), labels) for requirement in requirements]
    assert whole is (all(parts) and wanted.items() <= labels.items())


@given(LABELS, LABELS)
def test_match_labels_equal_in_with_one_value(wanted: dict[str, str], labels: dict[str, str]) -> None:
    as_expressions = tuple(LabelSelectorRequirement(key, "In", (value,)) for key, value in wanted.items())
    assert selects(LabelSelector(wanted), labels) is selects(LabelSelector({}, as_expressions), labels)
