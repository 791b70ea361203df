from __future__ import annotations

from typing import Any

import pytest

from pratique_cli.mutator_checks.defects import changed_values, differing_fields, without_order


def containers(*names: str, field: str = "containers") -> dict[str, Any]:
    return {"spec": {field: [{"name": name} for name in names]}}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({}, {}, ()),
        ({"a": 1}, {"a": 1.0}, ("a",)),
        ({"a": None}, {}, ("a",)),
        ({"a": {}}, {"a": {"b": {"c": 1}}}, ("a.b",)),
        ({"a": {"x/y": "1"}}, {"a": {"x/y": "2"}}, ("a[x/y]",)),
        (containers("a"), containers("a", "b"), ("spec.containers[name=b]",)),
        (containers("a", "b"), containers("b", "a"), ("spec.containers",)),
        (containers("a", "b"), containers("a", "b", "b"), ("spec.containers[2]",)),
        ({"a": [1]}, {"a": {"b": 1}}, ("a",)),
    ],
)
def test_fields_are_named_down_to_what_differs(before: Any, after: Any, expected: tuple[str, ...]) -> None:
    assert differing_fields(before, after) == expected


def test_values_that_were_written_are_single_ones() -> None:
    before = {"metadata": {}, "spec": {"gone": {"a": 1}}}
    after = {"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {}}
    assert changed_values(before, after) == {
        ("metadata", "labels", "a"): "1",
        ("metadata", "labels", "b"): "2",
        ("spec", "gone", "a"): None,
    }


def test_named_items_may_stand_in_any_order() -> None:
    assert without_order(containers("a", "b")) == without_order(containers("b", "a"))


def test_what_runs_one_after_another_may_not() -> None:
    field = "initContainers"
    assert without_order(containers("a", "b", field=field)) != without_order(
        containers("b", "a", field=field)
    )


def test_items_without_names_may_not_either() -> None:
    assert without_order({"args": ["a", "b"]}) != without_order({"args": ["b", "a"]})
