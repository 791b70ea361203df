"""Validation of label selectors."""

from __future__ import annotations

import pytest

from pratique.apimachinery.field_errors import ROOT
from pratique.apimachinery.selectors import LabelSelector, LabelSelectorRequirement, validate_selector

PATH = ROOT / "objectSelector"


@pytest.mark.parametrize(
    ("selector", "message"),
    [
        (
            LabelSelector(match_expressions=(LabelSelectorRequirement("a", "In"),)),
            "objectSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In'",
        ),
        (
            LabelSelector(match_expressions=(LabelSelectorRequirement("a", "Exists", ("1",)),)),
            "objectSelector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists'",
        ),
        (
            LabelSelector(match_expressions=(LabelSelectorRequirement("a", "Gt", ("1",)),)),
            'objectSelector.matchExpressions[0].operator: Invalid value: "Gt": not a valid selector operator',
        ),
        (
            LabelSelector(match_expressions=(LabelSelectorRequirement("a b", "Exists"),)),
            'objectSelector.matchExpressions[0].key: Invalid value: "a b": name part must consist of',
        ),
        (
            LabelSelector(match_expressions=(LabelSelectorRequirement("a", "In", ("x", "a b")),)),
            'objectSelector.matchExpressions[0].values[1]: Invalid value: "a b": a valid label must be',
        ),
        (
            LabelSelector({"a b": "x"}),
            'objectSelector.matchLabels: Invalid value: "a b": name part must consist of',
        ),
        (
            LabelSelector({"a": "x y"}),
            'objectSelector.matchLabels: Invalid value: "x y": a valid label must be',
        ),
    ],
)
def test_a_mistake_is_named_with_its_field(selector: LabelSelector, message: str) -> None:
    (error,) = validate_selector(selector, PATH)
    assert str(error).startswith(message)


def test_no_selector_and_the_empty_one_are_valid() -> None:
    assert validate_selector(None, PATH) == []
    assert validate_selector(LabelSelector(), PATH) == []


def test_invalid_values_can_be_tolerated_on_update() -> None:
    selector = LabelSelector(match_expressions=(LabelSelectorRequirement("a", "In", ("x y",)),))
    assert validate_selector(selector, PATH, allow_invalid_values=True) == []
