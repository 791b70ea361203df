"""Applying JSON Patch operations, including where the API server departs from RFC 6902."""

from __future__ import annotations

import copy

import jsonpatch
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from pratique.apimachinery.diff import identical
from pratique.apimachinery.json_values import JSON, JSONObject, pointer
from pratique.apimachinery.patches import COPY_LIMIT, PatchError, apply_patch
from support.patches import DOCUMENT, applied, operation, refused
from support.strategies.json_values import KEYS, documents, values


@pytest.mark.parametrize(
    ("written", "changed"),
    [
        (operation("add", "/m/b", "2"), {"m": {"a": "1", "n": None, "b": "2"}}),
        (operation("add", "/m/a", "2"), {"m": {"a": "2", "n": None}}),
        (operation("add", "/m/a"), {"m": {"a": None, "n": None}}),
        (operation("add", "/l/0", "w"), {"l": ["w", "x", "y"]}),
        (operation("add", "/l/2", "z"), {"l": ["x", "y", "z"]}),
        (operation("add", "/l/-", "z"), {"l": ["x", "y", "z"]}),
        (operation("add", "/l/-1", "z"), {"l": ["x", "y", "z"]}),
        (operation("add", "/l/-3", "w"), {"l": ["w", "x", "y"]}),
        (operation("add", "/l/+1", "w"), {"l": ["x", "w", "y"]}),
        (operation("add", "/l/01", "w"), {"l": ["x", "w", "y"]}),
        (operation("add", "/deep/l/-1/k", 2), {"deep": {"l": [{"k": 2}]}}),
        (operation("add", "/a~1b/~0", 2), {"a/b": {"~": 2}}),
        (operation("add", "/a~1b/~2", 2), {"a/b": {"~": 1, "~2": 2}}),
        (operation("add", "/", 1), {"": 1}),
        (operation("add", "lost/m/a", "2"), {"m": {"a": "2", "n": None}}),
        (operation("remove", "/m/n"), {"m": {"a": "1"}}),
        (operation("remove", "/l/-2"), {"l": ["y"]}),
        (operation("replace", "/m/a", 5), {"m": {"a": 5, "n": None}}),
        (operation("replace", "/m/new", 5), {"m": {"a": "1", "n": None, "new": 5}}),
        (operation("replace", "/l/-1", "z"), {"l": ["x", "z"]}),
        (operation("replace", "/l/1"), {"l": ["x", None]}),
        (operation("move", "/m/b", source="/m/a"), {"m": {"n": None, "b": "1"}}),
        (operation("move", "/l/-", source="/l/0"), {"l": ["y", "x"]}),
        (operation("move", "/m/z", source="/l/-1"), {"m": {"a": "1", "n": None, "z": "y"}, "l": ["x"]}),
        (operation("copy", "/m/b", source="/deep/l/0"), {"m": {"a": "1", "n": None, "b": {"k": 1}}}),
        (operation("copy", "/m/b", source="/m/missing"), {"m": {"a": "1", "n": None, "b": None}}),
        (operation("copy", "/l/0", source="/l"), {"l": [["x", "y"], "x", "y"]}),
        (operation("test", "/m/a", "1"), {}),
        (operation("test", "/m/n"), {}),
        (operation("test", "/m/n", None), {}),
        (operation("test", "/m/missing", None), {}),
        (operation("test", "/l", ["x", "y"]), {}),
        (operation("test", "", DOCUMENT), {}),
    ],
)
def test_a_valid_operation_is_applied(written: JSONObject, changed: JSONObject) -> None:
    assert identical(applied(written), {**DOCUMENT, **changed})


def test_the_whole_document_can_be_replaced() -> None:
    assert applied(operation("replace", "", [1])) == [1]
    assert applied(operation("replace", "", {"a": 1}), operation("add", "/b", 2)) == {"a": 1, "b": 2}


def test_operations_see_the_effects_of_earlier_ones() -> None:
    patch = [operation("add", "/new", {}), operation("add", "/new/a", [1]), operation("add", "/new/a/-", 2)]
    assert applied(*patch)["new"] == {"a": [1, 2]}


def test_changing_the_result_does_not_change_the_patch() -> None:
    value: JSONObject = {}
    patch = [operation("add", "/new", value), operation("add", "/new/a", 1)]
    assert applied(*patch)["new"] == {"a": 1}
    assert value == {}


def test_a_copied_value_is_independent_of_its_source() -> None:
    patch = [operation("copy", "/twin", source="/deep"), operation("remove", "/twin/l/0")]
    changed = applied(*patch)
    assert (changed["twin"], changed["deep"]) == ({"l": []}, DOCUMENT["deep"])


def test_a_value_can_be_copied_into_itself() -> None:
    patch = [
        operation("add", "/l/-", {"k": []}),
        operation("copy", "/l/2/k/-", source="/l"),
        operation("copy", "/l/-", source="/l"),
        operation("add", "/l/2/k/0/-", "z"),
    ]
    grown = ["x", "y", {"k": [["x", "y", {"k": []}]]}]
    assert applied(*patch)["l"] == ["x", "y", {"k": [["x", "y", {"k": []}, "z"]]}, grown]


def test_a_moved_value_can_be_changed_without_touching_the_original() -> None:
    patch = [operation("move", "/twin", source="/deep"), operation("remove", "/twin/l/0")]
    assert applied(*patch)["twin"] == {"l": []}
    assert DOCUMENT["deep"] == {"l": [{"k": 1}]}


def test_copies_may_not_add_more_than_the_api_server_allows() -> None:
    # Two bytes of quotes are counted as well, and "<" as the six bytes in which Go writes it.
    text = "x" * (COPY_LIMIT - 2 - 6) + "<"
    fits = operation("copy", "/b", source="/a")
    assert applied(fits, document={"a": text})["b"] == text
    expected = (
        "Unable to complete the copy, the accumulated size increase of copy is"
        f" {COPY_LIMIT + 1}, exceeding the limit {COPY_LIMIT}"
    )
    assert refused(fits, document={"a": text + "x"}) == expected


def test_the_size_of_copies_adds_up() -> None:
    half = {"a": "x" * (COPY_LIMIT // 2)}
    patch = [operation("copy", "/b", source="/a"), operation("copy", "/c", source="/a")]
    assert refused(*patch, document=half).startswith("Unable to complete the copy")


def test_a_value_of_extreme_depth_is_refused() -> None:
    deep: JSON = 1
    for _ in range(2000):
        deep = [deep]
    assert refused(operation("add", "/m/b", deep)) == "exceeded max depth"


def test_self_copies_to_extreme_depth_are_refused() -> None:
    patch = [operation("copy", "/m/b", source="/m")] * 1000
    assert refused(*patch, document={"m": {}}) == "exceeded max depth"


def test_a_pointer_escapes_its_tokens() -> None:
    assert pointer(("metadata", "labels", "a/b~c", 0)) == "/metadata/labels/a~1b~0c/0"
    assert pointer(()) == ""


PATHS = st.lists(KEYS | st.integers(-2, 4), max_size=3).map(pointer)
OPERATIONS = st.builds(
    operation,
    st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]),
    PATHS,
    values(3),
    source=PATHS,
)


@given(documents(), st.lists(OPERATIONS, max_size=5))
def test_neither_document_nor_operations_are_changed(document: JSON, patch: list[JSONObject]) -> None:
    before = copy.deepcopy((document, patch))
    try:
        apply_patch(document, patch)
    except PatchError as error:
        assert str(error)  # noqa: PT017 - any refusal will do
    assert identical([document, patch], list(before))


@given(documents(), st.lists(OPERATIONS, max_size=8))
def test_a_patch_equals_its_operations_applied_one_by_one(document: JSON, patch: list[JSONObject]) -> None:
    # Each on a document of its own, where nothing is in two places.
    alone, fitting = document, []
    for written in patch:
        try:
            alone = copy.deepcopy(apply_patch(alone, [written]))
        except PatchError:
            continue
        fitting.append(written)
    assert identical(apply_patch(document, fitting), alone)


@given(documents(), OPERATIONS)
def test_operations_that_rfc_6902_applies_are_applied(document: JSON, written: JSONObject) -> None:
    # A "test" of equal numbers of different types, and whatever concerns the whole document, differs.
    assume(written["op"] != "test" and written["path"] and written["from"])
    try:
        expected = jsonpatch.apply_patch(document, [written])
    except (jsonpatch.JsonPatchException, jsonpatch.JsonPointerException):
        return
    assert identical(applied(written, document=document), expected)
