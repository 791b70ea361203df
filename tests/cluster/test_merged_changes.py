"""A merge says what it changed: as a diff would, and checked by what it sets alone."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.diff import diff
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.patches import apply_patch
from pratique.cluster import structured_merge
from pratique.cluster.apply_configurations import UnidentifiedItemError
from pratique.cluster.go_decoding import TypedDecodingError
from pratique.cluster.schemas import ListType, MapType, MergeStrategy, Scalar, Structure, built_in_schema
from pratique.cluster.structured_merge import merge
from pratique.cluster.typed_decoding import conforms, decode_changed

POD = GroupVersionKind("", "v1", "Pod")
PORT = Structure(
    "",
    lambda: {"port": Scalar.INTEGER, "protocol": Scalar.STRING, "name": Scalar.STRING, "x": Scalar.ANY},
    defaults={"protocol": "TCP"},
)
PORTS = ListType(PORT, MergeStrategy.MAP, ("port", "protocol"))
SET = ListType(Scalar.ANY, MergeStrategy.SET)
ITEM = Structure("", lambda: {"name": Scalar.STRING, "n": Scalar.ANY, "ports": PORTS, "set": SET})
ITEMS = ListType(ITEM, MergeStrategy.MAP, ("name",))
ROOT = Structure(
    "",
    lambda: {
        "items": ITEMS,
        "ports": PORTS,
        "set": SET,
        "map": MapType(Scalar.STRING),
        "atomic": MapType(Scalar.ANY, atomic=True),
        "any": Scalar.ANY,
    },
)
TEXTS = st.sampled_from(["a", "b", "c", "d", "a/b~"])
SCALARS = st.sampled_from([None, "a", "", 0, 1, 1.0, True])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)
PORT_LISTS = st.lists(
    st.fixed_dictionaries(
        {"port": st.sampled_from([1, 2, 3])},
        optional={"protocol": st.sampled_from(["TCP", "UDP"]), "name": TEXTS, "x": SCALARS},
    ),
    max_size=4,
)
SETS = st.lists(SCALARS.filter(lambda value: value is not None), max_size=4)
ITEM_LISTS = st.lists(
    st.fixed_dictionaries({"name": TEXTS}, optional={"n": VALUES, "ports": PORT_LISTS, "set": SETS}),
    max_size=4,
)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "items": ITEM_LISTS | SCALARS,
        "ports": PORT_LISTS | SCALARS,
        "set": SETS,
        "map": st.dictionaries(TEXTS, SCALARS) | SCALARS,
        "atomic": VALUES,
        "any": VALUES,
    },
)


def text(value: JSON) -> bytes:
    """A value with its numbers' types, members in any order."""
    return msgspec.json.encode(value, order="deterministic")


@given(OBJECTS, OBJECTS)
def test_the_operations_of_a_merge_are_those_of_a_diff_and_lead_to_the_merged_object(
    left: JSONObject, right: JSONObject
) -> None:
    before = copy.deepcopy(left)
    try:
        merged = merge(ROOT, left, right)
    except UnidentifiedItemError:
        return
    assert repr(list(merged.operations)) == repr(diff(left, merged.value))
    assert text(apply_patch(left, merged.operations)) == text(merged.value)
    assert repr(left) == repr(before)


@given(ITEM_LISTS, ITEM_LISTS)
def test_lists_in_one_order_are_merged_as_those_in_any_other(left: list[JSON], right: list[JSON]) -> None:
    found = merge(ITEMS, left, right)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(structured_merge, "_are_in_order", lambda *_: False)
        general = merge(ITEMS, left, right)
    assert text(found.value) == text(general.value)
    assert text(list(found.operations)) == text(list(general.operations))


@pytest.mark.parametrize(
    ("right", "operations"),
    [
        ({"map": {"a": "1"}, "items": []}, []),
        ({"map": {"b": "2"}}, [("add", "/map/b")]),
        ({"items": [{"name": "b", "n": 2}]}, [("replace", "/items/1/n")]),
        ({"items": [{"name": "a", "n": 2}, {"name": "x"}]}, [("add", "/items/2"), ("replace", "/items/0/n")]),
        ({"items": [{"name": "c"}], "map": {"a": "2"}}, [("replace", "/map/a"), ("add", "/items/2")]),
    ],
)
def test_a_merge_names_what_it_adds_and_replaces(
    right: JSONObject, operations: list[tuple[str, str]]
) -> None:
    left = {"map": {"a": "1"}, "items": [{"name": "a", "n": 1}, {"name": "b", "n": 1}]}
    found = merge(ROOT, left, right).operations
    assert [(operation["op"], operation["path"]) for operation in found] == operations


def test_a_merge_that_changes_nothing_gives_the_object_itself() -> None:
    left = {"items": [{"name": "a", "n": {"b": [1]}}], "map": {"a": "1"}}
    assert merge(ROOT, left, copy.deepcopy(left)).value is left


def pod(container: JSONObject, **metadata: Any) -> JSONObject:
    spec = {"containers": [{"name": "a", "image": "x"}, container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web", **metadata}, "spec": spec}


PATHS = st.sampled_from(
    [
        *("/metadata", "/metadata/labels", "/metadata/labels/a", "/metadata/bogus", "/spec/priority"),
        *("/metadata/creationTimestamp", "/spec/containers", "/spec/containers/0", "/spec/containers/-"),
        *("/spec/containers/1/resources", "/spec/containers/1/bogus", "/spec/containers/2"),
    ]
)  # fmt: skip
SET_VALUES = st.sampled_from(
    [
        *(None, True, 1, 2**31, "x", "2020-01-01T00:00:00Z", {}, [], {"a": "b"}, {"a": 1}, ["q"]),
        *({"name": "n"}, {"name": "n", "oops": 1}, [{"name": "n"}], {"limits": {"cpu": "?"}}),
    ]
)  # fmt: skip
OPERATIONS = st.lists(
    st.fixed_dictionaries(
        {"op": st.sampled_from(["add", "replace", "remove"]), "path": PATHS, "value": SET_VALUES}
    ),
    max_size=3,
)


@given(
    st.dictionaries(st.sampled_from(["bogus", "image", "tty"]), st.just("x")).map(
        lambda more: {"name": "b"} | more
    ),
    OPERATIONS,
)
def test_operations_that_conform_leave_nothing_to_decode(
    container: JSONObject, operations: list[JSONObject]
) -> None:
    before, schema = pod(container, labels={"k": "v"}), built_in_schema(POD)
    assert schema is not None
    try:
        changed = Document.from_data(apply_patch(before, operations))
    except Exception:  # noqa: BLE001 - a patch that does not fit
        return
    if conforms(POD, schema, before, operations):
        assert decode_changed(POD, before, changed) is changed


@given(st.just({"name": "b"}), OPERATIONS)
def test_decoding_gives_the_same_with_the_operations_and_without(
    container: JSONObject, operations: list[JSONObject]
) -> None:
    before = pod(container)
    try:
        changed = Document.from_data(apply_patch(before, operations))
    except Exception:  # noqa: BLE001 - a patch that does not fit
        return

    def result(*known: list[JSONObject]) -> str:
        try:
            return repr(decode_changed(POD, before, changed, *known).data)
        except TypedDecodingError as error:
            return str(error)

    assert result(operations) == result() == result(diff(before, changed.data))
