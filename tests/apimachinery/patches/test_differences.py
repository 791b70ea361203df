"""Computing the JSON Patch between two documents."""

from __future__ import annotations

import copy
from difflib import SequenceMatcher
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.diff import diff, diff_through, identical, opcodes
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.patches import apply_patch
from support.strategies.json_values import documents, named_items, values
from support.strategies.pods import pods


def add(path: str, value: JSON) -> JSONObject:
    return {"op": "add", "path": path, "value": value}


def replace(path: str, value: JSON) -> JSONObject:
    return {"op": "replace", "path": path, "value": value}


def remove(path: str) -> JSONObject:
    return {"op": "remove", "path": path}


A, B, C, X = {"name": "a"}, {"name": "b"}, {"name": "c"}, {"name": "x"}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, []),
        ({"a": 1}, {"a": 2}, [replace("/a", 2)]),
        ({"a": 1}, {"a": 1, "b": None}, [add("/b", None)]),
        ({"a": 1, "b": None}, {"a": 1}, [remove("/b")]),
        ({"a": {"b": {"c": 1}}}, {"a": {"b": {"c": 2}}}, [replace("/a/b/c", 2)]),
        ({"a": {"b": 1}}, {"a": ["b"]}, [replace("/a", ["b"])]),
        ({"a": 1}, {"a": True}, [replace("/a", True)]),
        ({"a": 1}, {"a": 1.0}, [replace("/a", 1.0)]),
        ({"a": [[0]]}, {"a": [[False]]}, [replace("/a/0/0", False)]),
        ({"": 1, "a/b": 1, "~": 1}, {"": 2, "a/b": 2}, [remove("/~0"), replace("/", 2), replace("/a~1b", 2)]),
        ([], [1], [add("/0", 1)]),
        ([1], [], [remove("/0")]),
        ([1, 2], [1, 2, 3], [add("/2", 3)]),
        ([1, 2], [0, 1, 2], [add("/0", 0)]),
        ([1, 2, 3, 4], [1, 4], [remove("/2"), remove("/1")]),
        ([1, 2, 3], [1, 9, 3], [replace("/1", 9)]),
        ([A, B], [X, A, B], [add("/0", X)]),
        ([A, B], [A, X, B], [add("/1", X)]),
        ([A, B, C], [A, X, B, C, X], [add("/1", X), add("/4", X)]),
        ([A, B, C], [A, {**B, "y": 1}, C], [add("/1/y", 1)]),
        ([A, B], [X, {**A, "y": 1}, B], [add("/0", X), add("/1/y", 1)]),
        ([{**A, "y": 1}, B], [X, A, {**B, "y": 2}], [add("/0", X), remove("/1/y"), add("/2/y", 2)]),
        ([A, B, C], [C], [remove("/1"), remove("/0")]),
        ([A, B], [B, A], [add("/0", B), remove("/2")]),
        ([{"key": 1}, {"key": 2}], [{"key": 1, "y": 1}, {"key": 2}], [add("/0/y", 1)]),
        ([[1], [2]], [[1], [2, 3]], [add("/1/1", 3)]),
    ],
)  # fmt: skip
def test_a_diff_is_minimal(before: JSON, after: JSON, expected: list[JSONObject]) -> None:
    assert diff(before, after) == expected


@given(documents(), documents())
def test_a_diff_yields_the_other_document(before: JSON, after: JSON) -> None:
    operations = diff(before, after)
    assert {operation["op"] for operation in operations} <= {"add", "remove", "replace"}
    if type(before) is type(after):
        assert identical(apply_patch(before, operations), after)


@given(named_items(), named_items())
def test_a_diff_of_named_items_yields_the_other_document(before: JSON, after: JSON) -> None:
    assert identical(apply_patch(before, diff(before, after)), after)


@given(pods(), pods())
def test_a_diff_of_pods_yields_the_other_pod(before: JSON, after: JSON) -> None:
    assert identical(apply_patch(before, diff(before, after)), after)


@given(pods(), pods(), pods(), st.sets(st.sampled_from(["metadata", "spec", "a/b", "status"])))
def test_a_diff_through_another_pod_is_the_diff(
    before: JSONObject, between: JSONObject, other: JSONObject, kept: set[str]
) -> None:
    between = {**between, "a/b": [1], "status": None}
    after = {**other, "a/b": [1, 2], **{name: between[name] for name in kept if name in between}}
    through = diff_through(before, between, diff(before, between), after)
    assert through == diff(before, after)


@given(documents(), documents())
def test_a_diff_is_deterministic(before: JSON, after: JSON) -> None:
    assert diff(before, after) == diff(copy.deepcopy(before), copy.deepcopy(after))


@given(values())
def test_a_diff_to_a_copy_is_empty(value: JSON) -> None:
    assert diff(value, copy.deepcopy(value)) == []


def test_long_arrays_are_compared_by_position() -> None:
    before, after = list(range(1000)), list(range(1, 1001))
    operations = diff(before, after)
    assert len(operations) == len(before)
    assert apply_patch(before, operations) == after


def test_deep_documents_are_compared_without_recursion() -> None:
    before: JSON = [1]
    after: JSON = [2]
    for _ in range(400):
        before, after = {"a": before}, {"a": after}
    assert diff(before, after) == [replace("/a" * 400 + "/0", 2)]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        (1, 1, True),
        (1, True, False),
        (0, False, False),
        (1, 1.0, False),
        ([1], [True], False),
        ({"a": [1, {"b": 0}]}, {"a": [1, {"b": False}]}, False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}}, True),
        ([1, 2], [2, 1], False),
        (None, None, True),
        (None, False, False),
        ("", None, False),
    ],
)
def test_identical_values_have_the_same_type(first: JSON, second: JSON, *, expected: bool) -> None:
    assert identical(first, second) is expected
    assert identical(second, first) is expected


@given(
    st.lists(st.sampled_from("abcde")),
    st.lists(st.sampled_from("abcde")),
    st.lists(st.integers(0, 2_000), min_size=600, max_size=700),
    st.data(),
)
def test_opcodes_turn_one_sequence_into_the_other(
    old: list[str], new: list[str], long: list[int], data: st.DataObject
) -> None:
    divisor = data.draw(st.integers(2, 5))
    kept = [item for item in long if item % divisor]
    for first, second in ((old, new), (["x", *old, *map(str, long)], [*map(str, kept), *new])):
        made, end, tags = list[str](), 0, list[str]()
        for tag, a, b, c, d in opcodes(first, second):
            assert a == end
            assert (first[a:b] == second[c:d]) == (tag == "equal")
            assert (a < b, c < d) == (tag != "insert", tag != "delete")
            made, end, tags = made + second[c:d], b, [*tags, tag]
        assert (made, end) == (second, len(first))
        assert not any(one == other == "equal" for one, other in pairwise(tags))


@given(st.lists(st.sampled_from("abcde")), st.lists(st.sampled_from("abcde")))
def test_opcodes_of_short_sequences_have_as_much_in_common_as_those_of_difflib(
    old: list[str], new: list[str]
) -> None:
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    theirs = sum(size for *_, size in matcher.get_matching_blocks())
    assert sum(b - a for tag, a, b, _, _ in opcodes(old, new) if tag == "equal") >= theirs


def test_long_sequences_have_nearly_all_that_they_share_in_common() -> None:
    old = [text for index in range(2_000) for text in (f"name: c{index}", "image: web")]
    new = ["image: web", *(text for text in old if not text.endswith("5"))]
    assert sum(b - a for tag, a, b, _, _ in opcodes(old, new) if tag == "equal") == len(new) - 1
