"""Edits change a draft, member by member, and write down no more than that."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.results import Allow, Edits, Patch, Path
from pratique.apimachinery.diff import identical
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.patches import apply_patch
from support.pods import pod
from support.strategies.json_values import KEYS, objects, values


def pod_of_two_containers() -> JSONObject:
    first, second = {"name": "a"}, {"name": "b", "imagePullPolicy": "Never"}
    return pod(first, second, metadata={"annotations": None})


def test_a_new_member_is_added_and_an_old_one_replaced() -> None:
    edits = Edits(pod_of_two_containers())
    edits.set(("spec", "containers", 0, "imagePullPolicy"), "Always")
    edits.set(("spec", "containers", 1, "imagePullPolicy"), "Always")
    assert edits.operations == (
        {"op": "add", "path": "/spec/containers/0/imagePullPolicy", "value": "Always"},
        {"op": "replace", "path": "/spec/containers/1/imagePullPolicy", "value": "Always"},
    )


def test_a_missing_parent_comes_with_its_members_in_one_operation() -> None:
    edits = Edits(pod_of_two_containers())
    edits.set(("metadata", "labels", "a/b"), "1")
    edits.set(("metadata", "labels", "c"), "2")
    edits.remove(("metadata", "labels", "a/b"))
    assert edits.operations == ({"op": "add", "path": "/metadata/labels", "value": {"c": "2"}},)


def test_a_parent_that_is_null_is_replaced() -> None:
    edits = Edits(pod_of_two_containers())
    edits.set(("metadata", "annotations", "a/b", "c"), 1)
    assert edits.operations == (
        {"op": "replace", "path": "/metadata/annotations", "value": {"a/b": {"c": 1}}},
    )


def test_names_are_escaped() -> None:
    edits = Edits({"metadata": {"labels": {}}})
    edits.set(("metadata", "labels", "example.com/a~b"), "1")
    assert edits.operations[0]["path"] == "/metadata/labels/example.com~1a~0b"


def test_items_are_appended_at_their_index() -> None:
    edits = Edits(pod_of_two_containers())
    edits.append(("spec", "containers"), {"name": "c"})
    edits.set(("spec", "containers", 2, "image"), "nginx")
    assert edits.operations == (
        {"op": "add", "path": "/spec/containers/2", "value": {"name": "c", "image": "nginx"}},
    )


def test_a_missing_array_comes_with_its_items_in_one_operation() -> None:
    edits = Edits(pod_of_two_containers())
    edits.append(("spec", "tolerations"), {"key": "a"})
    edits.append(("spec", "tolerations"), {"key": "b"})
    assert edits.operations == (
        {"op": "add", "path": "/spec/tolerations", "value": [{"key": "a"}, {"key": "b"}]},
    )


def test_a_removed_value_is_gone() -> None:
    edits = Edits(pod_of_two_containers())
    edits.remove(("spec", "containers", 0))
    edits.remove(("spec", "containers", 0, "imagePullPolicy"))
    assert edits.operations == (
        {"op": "remove", "path": "/spec/containers/0"},
        {"op": "remove", "path": "/spec/containers/0/imagePullPolicy"},
    )
    assert edits.get(("spec", "containers")) == [{"name": "b"}]


@pytest.mark.parametrize(
    "path", [("x",), ("spec", "x", "y"), ("spec", "containers", 5), ("metadata", "name", "x")]
)
def test_removing_a_missing_value_changes_nothing(path: Path) -> None:
    edits = Edits(pod_of_two_containers())
    edits.remove(path)
    assert not edits.changed


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("metadata", "name"), "web"),
        (("metadata", "annotations"), None),
        (("spec", "containers", 1), {"imagePullPolicy": "Never", "name": "b"}),
    ],
)
def test_setting_an_equal_value_changes_nothing(path: Path, value: JSON) -> None:
    edits = Edits(pod_of_two_containers())
    edits.set(path, value)
    assert edits.operations == ()
    assert not edits.changed


def test_true_is_not_one() -> None:
    edits = Edits({"a": 1})
    edits.set(("a",), True)
    assert edits.changed


def test_null_can_be_set_on_a_missing_member() -> None:
    edits = Edits({})
    edits.set(("a",), None)
    assert edits.operations == ({"op": "add", "path": "/a", "value": None},)


def test_the_original_object_stays_unchanged() -> None:
    original = pod_of_two_containers()
    edits = Edits(original)
    edits.set(("spec", "containers", 0, "image"), "nginx")
    edits.append(("spec", "containers"), {"name": "c"})
    edits.remove(("metadata", "name"))
    assert original == pod_of_two_containers()
    assert edits.document != original


def test_unedited_parts_are_shared() -> None:
    original = pod_of_two_containers()
    edits = Edits(original)
    edits.set(("spec", "containers", 0, "image"), "nginx")
    assert edits.document["metadata"] is original["metadata"]
    assert edits.document["spec"]["containers"][1] is original["spec"]["containers"][1]


def test_a_value_is_copied_when_it_is_set() -> None:
    value: JSONObject = {"list": [1]}
    edits = Edits({})
    edits.set(("a",), value)
    edits.append(("a", "list"), 2)
    assert (value, edits.document) == ({"list": [1]}, {"a": {"list": [1, 2]}})


def test_edits_can_be_read() -> None:
    edits = Edits(pod_of_two_containers())
    assert edits.get(("spec", "containers", 0, "image")) is None
    edits.set(("spec", "containers", 0, "image"), "nginx")
    assert edits.get(("spec", "containers", 0, "image")) == "nginx"


@pytest.mark.parametrize(
    ("document", "path", "expected"),
    [
        ({"spec": "x"}, ("spec", "a"), "spec: must be a mapping, not a string"),
        ({"spec": []}, ("spec", "a"), "spec: must be a mapping, not a list"),
        ({"spec": []}, ("spec", "a", "b"), "spec: must be a mapping, not a list"),
        ({"spec": {"l": {}}}, ("spec", "l", 0), "spec.l: must be a list, not a mapping"),
        ({"spec": {"l": [1]}}, ("spec", "l", 0, "a"), "spec.l[0]: must be a mapping, not a number"),
        (None, ("a",), "the object: must be a mapping, not null"),
    ],
)
def test_a_malformed_object_is_a_bad_request(document: JSON, path: Path, expected: str) -> None:
    with pytest.raises(RefusalError) as refusal:
        Edits(document).set(path, 1)
    assert (refusal.value.status.code, refusal.value.status.message) == (400, expected)


def test_appending_to_something_else_than_an_array_is_a_bad_request() -> None:
    with pytest.raises(RefusalError, match="spec: must be a list, not a mapping"):
        Edits(pod_of_two_containers()).append(("spec",), 1)


@pytest.mark.parametrize(
    "path", [("spec", "containers", 7, "image"), ("spec", "containers", -1), ("spec", "x", 0)]
)
def test_a_missing_item_is_the_controllers_mistake(path: Path) -> None:
    with pytest.raises(IndexError):
        Edits(pod_of_two_containers()).set(path, 1)


def test_edits_are_answered_with_a_patch() -> None:
    edits = Edits(pod_of_two_containers())
    edits.remove(("metadata", "name"))
    answer = edits.answer(warnings=("w",), audit_annotations={"a": "b"})
    assert answer == Patch(edits.operations, edits.document, ("w",), {"a": "b"})


def test_no_edits_are_answered_without_a_patch() -> None:
    assert Edits(pod_of_two_containers()).answer(warnings=("w",)) == Allow(("w",))


PATHS = st.lists(KEYS, min_size=1, max_size=3).map(tuple)
CHANGES = st.lists(
    st.tuples(st.sampled_from(["set", "append", "remove"]), PATHS, values(3)),
    max_size=6,
)


@given(objects(), CHANGES)
def test_the_patch_always_leads_to_the_draft(
    document: JSONObject, changes: list[tuple[str, Path, JSON]]
) -> None:
    before = copy.deepcopy(document)
    edits = Edits(document)
    for method, path, value in changes:
        try:
            getattr(edits, method)(path, *([] if method == "remove" else [value]))
        except RefusalError:
            continue
    assert identical(document, before)
    assert identical(apply_patch(document, edits.operations), edits.document)
