"""The parts that converters are made of."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pratique.apimachinery.errors import ConversionError
from pratique.cluster import conversion_fields as fields

if TYPE_CHECKING:
    from collections.abc import Callable

    from pratique.apimachinery.json_values import JSON, JSONObject


@pytest.mark.parametrize(
    ("read", "absent"),
    [(fields.mapping, {}), (fields.mappings, []), (fields.text, ""), (fields.integer, 0)],
)
def test_a_missing_field_is_empty(read: Callable[[JSON, str], JSON], absent: JSON) -> None:
    assert read(None, "field") == absent


@pytest.mark.parametrize(
    ("read", "value", "problem"),
    [
        (fields.mapping, [], "field: must be a mapping, not a list"),
        (fields.mappings, {}, "field: must be a list, not a mapping"),
        (fields.mappings, [1], "field: must be a mapping, not a number"),
        (fields.text, 1, "field: must be a string, not a number"),
        (fields.integer, True, "field: must be an integer, not a boolean"),
        (fields.integer, 1.5, "field: must be an integer, not a number"),
        (fields.integer, "1", "field: must be an integer, not a string"),
    ],
)
def test_a_field_of_the_wrong_type_is_named(
    read: Callable[[JSON, str], JSON], value: JSON, problem: str
) -> None:
    with pytest.raises(ConversionError) as raised:
        read(value, "field")
    assert str(raised.value) == problem


def test_a_whole_float_is_an_integer() -> None:
    assert fields.integer(3.0, "field") == 3


def test_a_change_makes_a_copy() -> None:
    parent: JSONObject = {"spec": {"a": 1}, "kind": "X"}
    assert fields.changed(parent, "spec", lambda spec: {**spec, "b": 2}) == {
        "spec": {"a": 1, "b": 2},
        "kind": "X",
    }
    assert parent == {"spec": {"a": 1}, "kind": "X"}


@pytest.mark.parametrize("parent", [{}, {"spec": None}])
def test_a_missing_field_is_not_changed(parent: JSONObject) -> None:
    assert fields.changed(parent, "spec", lambda _: {"never": True}) is parent
    assert fields.changed_items(parent, "spec", lambda _: {"never": True}) is parent


def test_a_renamed_field_replaces_one_of_that_name() -> None:
    assert fields.renamed({"old": 1, "new": 2, "other": 3}, {"old": "new"}) == {"new": 1, "other": 3}
    assert fields.renamed({"new": 2}, {"old": "new"}) == {"new": 2}


@pytest.mark.parametrize(
    ("before", "added", "removed", "after"),
    [
        ({}, {"a": "1"}, [], {"annotations": {"a": "1"}}),
        ({"annotations": {"a": "1"}}, {}, ["a"], {}),
        ({"annotations": {"a": "1", "b": "2"}}, {"c": "3"}, ["a"], {"annotations": {"b": "2", "c": "3"}}),
        ({"name": "x"}, {}, ["a"], {"name": "x"}),
    ],
)
def test_annotations_are_added_and_removed(
    before: JSONObject, added: dict[str, str], removed: list[str], after: JSONObject
) -> None:
    assert fields.annotated({"metadata": before}, added, removed) == {"metadata": after}


def test_an_annotation_must_be_a_string() -> None:
    document = {"metadata": {"annotations": {"a": 1, "b": "2"}}}
    assert (fields.annotation(document, "b"), fields.annotation(document, "c")) == ("2", None)
    with pytest.raises(ConversionError, match="annotations: must be a string, not a number"):
        fields.annotation(document, "a")
