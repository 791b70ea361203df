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
def test_differing_fields_are_named_to_the_leaf(before: Any, after: Any, expected: tuple[str, ...]) -> None:
    assert differing_fields(before, after) == expected


def test_written_values_are_leaves() -> None:
    before = {"metadata": {}, "spec": {"gone": {"a": 1}}}
    after = {"metadata": {"labels": {"a": "1", "b": "2"}}, "spec": {}}
    assert changed_values(before, after) == {
        ("metadata", "labels", "a"): "1",
        ("metadata", "labels", "b"): "2",
        ("spec", "gone", "a"): None,
    }


def test_the_order_of_named_items_does_not_matter() -> None:
    assert without_order(containers("a", "b")) == without_order(containers("b", "a"))


def test_the_order_of_init_containers_matters() -> None:
    field = "initContainers"
    assert without_order(containers("a", "b", field=field)) != without_order(
        containers("b", "a", field=field)
    )


def test_the_order_of_unnamed_items_matters() -> None:
    assert without_order({"args": ["a", "b"]}) != without_order({"args": ["b", "a"]})
