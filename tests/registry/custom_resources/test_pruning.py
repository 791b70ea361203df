"""Pruning, nulls, defaults and lists: cases of ``k8s.io/apiextensions-apiserver/pkg/apiserver/schema``."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.custom_resources import pruning
from pratique.registry.custom_resources.list_types import uniqueness, validate_lists
from pratique.registry.custom_resources.structural import structural

_KEEP = {"x-kubernetes-preserve-unknown-fields": True}
_TEXT = {"type": "string"}
_INNER = {"type": "object", "properties": {"a": _TEXT}}


@pytest.mark.parametrize(
    ("schema", "value", "kept", "unknown"),
    [
        ({}, {"a": 1}, {}, ["a"]),
        ({"properties": {"a": {}}}, {"a": {"b": 1}, "c": 1}, {"a": {}}, ["a.b", "c"]),
        ({"properties": {"a": _TEXT}}, {"a": [{"b": 1}]}, {"a": [{}]}, ["a[0].b"]),
        ({"items": _INNER}, [{"a": 1, "b": 2}], [{"a": 1}], ["[0].b"]),
        ({"additionalProperties": _INNER}, {"x": {"a": 1, "b": 2}}, {"x": {"a": 1}}, ["x.b"]),
        ({"additionalProperties": True}, {"x": {"a": 1}, "y": 1}, {"x": {}, "y": 1}, ["x.a"]),
        (_KEEP, {"a": {"b": [{"c": 1}]}}, {"a": {"b": [{"c": 1}]}}, []),
        (
            {**_KEEP, "properties": {"a": _INNER}},
            {"a": {"a": 1, "b": 2}, "c": {"d": 1}},
            {"a": {"a": 1}, "c": {"d": 1}},
            ["a.b"],
        ),
        (
            {"properties": {"r": {"x-kubernetes-embedded-resource": True}}},
            {"r": {"kind": "K", "metadata": {"x": 1}, "spec": {}}},
            {"r": {"kind": "K", "metadata": {"x": 1}}},
            ["r.spec"],
        ),
    ],
)
def test_unknown_fields_are_pruned_and_reported(
    schema: JSONObject, value: JSON, kept: JSON, unknown: list[str]
) -> None:
    """Below a field that keeps unknown ones, known ones are pruned again."""
    found = pruning.UnknownFields()
    assert pruning.prune(value, structural(schema), found) == kept
    assert sorted(found.paths) == unknown


@pytest.mark.parametrize(
    ("schema", "value", "filled"),
    [
        ({"properties": {"a": {"default": "x"}}}, {}, {"a": "x"}),
        ({"properties": {"a": {"default": "x"}}}, {"a": None}, {"a": "x"}),
        ({"properties": {"a": {"default": "x", "nullable": True}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": {"nullable": True}}}, {"a": None}, {"a": None}),
        ({"properties": {"a": _TEXT}}, {"a": None}, {}),
        (
            {"properties": {"a": {"default": {}, "properties": {"b": {"default": 1}}}}},
            {},
            {"a": {"b": 1}},
        ),
        ({"properties": {"a": {"properties": {"b": {"default": 1}}}}}, {}, {}),
        ({"items": {"properties": {"b": {"default": 1}}}}, [{}, {"b": 2}], [{"b": 1}, {"b": 2}]),
        ({"items": {"default": 5}}, [None, 1], [5, 1]),
        ({"additionalProperties": {"default": 5}}, {"a": None}, {"a": 5}),
        ({"additionalProperties": _TEXT}, {"a": None}, {}),
    ],
)
def test_nulls_are_dropped_and_defaults_filled_in(schema: JSONObject, value: JSON, filled: JSON) -> None:
    """A null that may not be is replaced by the default, or left out if there is none."""
    read = structural(schema)
    assert pruning.with_defaults(pruning.without_nulls(value, read), read) == filled


def test_values_that_need_nothing_are_returned_as_they_are() -> None:
    """What is done to an object three times in a review must not copy it."""
    schema = structural(
        {"type": "object", "properties": {"a": {"type": "array", "items": _INNER}, "b": {"default": 1}}}
    )
    value = {"a": [{"a": "x"}], "b": 2}
    assert pruning.completeness(schema)(value)
    assert pruning.with_defaults(value, schema) is value
    assert pruning.without_nulls(value, schema) is value
    assert pruning.prune(value, schema, pruning.UnknownFields()) is value


@pytest.mark.parametrize(
    "value", [{"a": [{"x": 1}], "b": 1}, {"a": [], "b": None}, {"a": []}, {"c": 1, "b": 1}, {"b": {"x": 1}}]
)
def test_values_that_need_something_are_found_out(value: JSON) -> None:
    """An unknown field, a null, a missing default."""
    schema = structural(
        {"type": "object", "properties": {"a": {"type": "array", "items": _INNER}, "b": {"default": 1}}}
    )
    assert not pruning.completeness(schema)(value)


def _map(*keys: str) -> JSONObject:
    return {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": list(keys),
        "items": {},
    }


_SET = {"type": "array", "x-kubernetes-list-type": "set", "items": {}}


@pytest.mark.parametrize(
    ("schema", "value", "errors"),
    [
        (_SET, ["a", "b"], []),
        (_SET, [1, True, 1.5, None], []),
        (_SET, ["a", "b", "a", "a"], ['f[2]: Duplicate value: "a"']),
        (_SET, [{"x": 1, "y": 2}, {"y": 2, "x": 1}], ['f[1]: Duplicate value: {"x":1,"y":2}']),
        (_map("n"), [{"n": "a"}, {"n": "b"}], []),
        (_map("n"), [{"n": "a"}, {"n": "a", "v": 1}], ['f[1]: Duplicate value: {"n":"a"}']),
        (_map("n"), [{}, {"v": 1}], ["f[1]: Duplicate value: {}"]),
        (_map("n", "m"), [{"n": 1, "m": 2}, {"n": 1}], []),
        (_map("n", "m"), [{"n": 1, "m": 2}, {"m": 2, "n": 1}], ['f[1]: Duplicate value: {"m":2,"n":1}']),
        (
            _map("n"),
            [{"n": 1}, "x"],
            ['f[1]: Invalid value: "x": must be an object for an array of list-type map'],
        ),
        (
            {"additionalProperties": _SET},
            {"k": ["a", "a"]},
            ['f[k][1]: Duplicate value: "a"'],
        ),
    ],
)
def test_duplicates_in_sets_and_maps_are_found(schema: JSONObject, value: JSON, errors: list[str]) -> None:
    """``listtype/validation_test.go``; the quick check may be wrong only by calling unique lists doubtful."""
    read = structural({"properties": {"f": schema}})
    assert [str(error) for error in validate_lists({"f": value}, read)] == errors
    quick = uniqueness(read)
    assert quick is not None
    assert not (errors and quick({"f": value}))
