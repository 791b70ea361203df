from __future__ import annotations

from typing import TypeAlias

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from support.blame_cases import blamed

Patch: TypeAlias = "list[JSONObject]"

WEB: JSONObject = {"name": "web", "image": "web:1"}
SIDE: JSONObject = {"name": "side", "image": "side:1"}
LOG: JSONObject = {"name": "log", "image": "log:1"}


def labelled_containers(*containers: JSONObject) -> JSONObject:
    return {"labels": {"app": "web"}, "containers": list(containers)}


def add(path: str, value: JSON) -> Patch:
    return [{"op": "add", "path": path, "value": value}]


def replace(path: str, value: JSON) -> Patch:
    return [{"op": "replace", "path": path, "value": value}]


def remove(path: str) -> Patch:
    return [{"op": "remove", "path": path}]


def move(source: str, path: str) -> Patch:
    return [{"op": "move", "from": source, "path": path}]


def copy(source: str, path: str) -> Patch:
    return [{"op": "copy", "from": source, "path": path}]


@pytest.mark.parametrize(
    ("patches", "change"),
    [
        ([add("/labels/a", "1")], ("add", "/labels/a", None, "1", [0])),
        ([replace("/labels/app", "x")], ("replace", "/labels/app", "web", "x", [0])),
        ([remove("/labels/app")], ("remove", "/labels/app", "web", None, [0])),
        ([add("/labels/a~1b", None)], ("add", "/labels/a~1b", None, None, [0])),
        ([add("/labels/a", "1"), replace("/labels/a", "2")], ("add", "/labels/a", None, "2", [0, 1])),
        ([remove("/labels/app"), add("/labels/app", "x")], ("replace", "/labels/app", "web", "x", [0, 1])),
        ([remove("/labels"), add("/labels", {"app": "x"})], ("replace", "/labels/app", "web", "x", [0, 1])),
        ([replace("/labels/app", "x"), remove("/labels")], ("remove", "/labels", {"app": "web"}, None, [0, 1])),
        ([replace("/labels", "none")], ("replace", "/labels", {"app": "web"}, "none", [0])),
    ],
)  # fmt: skip
def test_blame_names_the_steps_that_set_a_member(
    patches: list[Patch], change: tuple[str, str, JSON, JSON, list[int]]
) -> None:
    assert blamed(labelled_containers(WEB), *patches) == [change]


@pytest.mark.parametrize(
    "patches",
    [
        [replace("/labels/app", "web")],
        [replace("/labels/app", "x"), replace("/labels/app", "web")],
        [remove("/labels"), add("/labels", {"app": "web"})],
        [add("/containers/0", LOG), remove("/containers/0")],
        [remove("/containers/1"), add("/containers/-", SIDE)],
        [move("/containers/0", "/containers/1"), move("/containers/1", "/containers/0")],
        [move("/labels/app", "/app"), move("/app", "/labels/app")],
        [replace("/containers", []), replace("/containers", [WEB, SIDE])],
        [[{"op": "test", "path": "/labels/app", "value": "web"}]],
    ],
)
def test_a_change_that_is_undone_is_not_blamed_on_a_step(patches: list[Patch]) -> None:
    assert blamed(labelled_containers(WEB, SIDE), *patches) == []


def test_items_are_tracked_when_others_are_inserted_before_them() -> None:
    patches = [
        replace("/containers/0/image", "web:2"),
        add("/containers/0", LOG),
        replace("/containers/1/image", "web:3"),
    ]
    assert blamed(labelled_containers(WEB, SIDE), *patches) == [
        ("add", "/containers/0", None, LOG, [1]),
        ("replace", "/containers/1/image", "web:1", "web:3", [0, 2]),
    ]


def test_items_are_tracked_when_others_are_removed_before_them() -> None:
    patches = [
        replace("/containers/1/image", "side:2"),
        remove("/containers/0"),
        add("/containers/0/tty", True),
    ]
    assert blamed(labelled_containers(WEB, SIDE), *patches) == [
        ("remove", "/containers/0", WEB, None, [1]),
        ("replace", "/containers/0/image", "side:1", "side:2", [0]),
        ("add", "/containers/0/tty", None, True, [2]),
    ]


def test_the_inserted_one_of_equal_items_is_blamed() -> None:
    received = {"args": [{"on": 1}, {"on": 1}]}
    patches = [add("/args/1", {"on": 1}), replace("/args/2/on", 2)]
    assert blamed(received, *patches) == [
        ("add", "/args/1", None, {"on": 1}, [0]),
        ("replace", "/args/2/on", 1, 2, [1]),
    ]


def test_negative_indexes_are_tracked() -> None:
    patches = [add("/containers/-", LOG), replace("/containers/-2/image", "x"), remove("/containers/-3")]
    assert blamed(labelled_containers(WEB, SIDE), *patches) == [
        ("remove", "/containers/0", WEB, None, [2]),
        ("replace", "/containers/0/image", "side:1", "x", [1]),
        ("add", "/containers/1", None, LOG, [0]),
    ]


def test_replacing_a_whole_object_is_blamed_only_for_what_differs() -> None:
    patches = [
        replace("/containers/0/image", "web:2"),
        replace("/containers", [LOG, {"name": "web", "image": "web:2", "tty": True}, SIDE]),
    ]
    assert blamed(labelled_containers(WEB, SIDE), *patches) == [
        ("add", "/containers/0", None, LOG, [1]),
        ("replace", "/containers/1/image", "web:1", "web:2", [0]),
        ("add", "/containers/1/tty", None, True, [1]),
    ]


def test_an_item_with_another_name_in_the_same_place_is_a_new_item() -> None:
    assert blamed(labelled_containers(WEB), replace("/containers", [SIDE])) == [
        ("remove", "/containers/0", WEB, None, [0]),
        ("add", "/containers/0", None, SIDE, [0]),
    ]


def test_a_reinserted_item_is_recognized_by_its_name() -> None:
    patches = [remove("/containers/0"), add("/containers/-", {"name": "side", "image": "side:2"})]
    assert blamed(labelled_containers(SIDE), *patches) == [
        ("replace", "/containers/0/image", "side:1", "side:2", [0, 1]),
    ]


def test_an_item_that_moves_is_removed_and_added() -> None:
    assert blamed(labelled_containers(WEB, SIDE), move("/containers/0", "/containers/1")) == [
        ("remove", "/containers/0", WEB, None, [0]),
        ("add", "/containers/1", None, WEB, [0]),
    ]


def test_a_moved_value_keeps_its_history() -> None:
    patches = [replace("/labels/app", "x"), move("/labels", "/tags")]
    assert blamed(labelled_containers(), *patches) == [
        ("remove", "/labels", {"app": "web"}, None, [0, 1]),
        ("add", "/tags", None, {"app": "x"}, [0, 1]),
    ]


def test_a_copied_value_is_blamed_on_the_step_that_copied_it() -> None:
    patches = [
        replace("/containers/0/image", "x"),
        copy("/containers/0", "/containers/-"),
        add("/containers/0/a", 1),
    ]
    assert blamed(labelled_containers(WEB), *patches) == [
        ("replace", "/containers/0/image", "web:1", "x", [0]),
        ("add", "/containers/0/a", None, 1, [2]),
        ("add", "/containers/1", None, {"name": "web", "image": "x"}, [1]),
    ]


def test_parts_that_other_steps_set_are_changes_of_their_own() -> None:
    patches = [
        add("/containers/-", LOG),
        replace("/containers/0/image", "log:2"),
        add("/containers/0/env", [{"name": "A"}]),
    ]
    assert blamed(labelled_containers(), *patches) == [
        ("add", "/containers/0", None, {"name": "log"}, [0]),
        ("add", "/containers/0/image", None, "log:2", [0, 1]),
        ("add", "/containers/0/env", None, [{"name": "A"}], [2]),
    ]


def test_parts_removed_before_their_object_are_changes_of_their_own() -> None:
    patches = [remove("/containers/0/image"), remove("/containers/0")]
    assert blamed(labelled_containers(WEB), *patches) == [
        ("remove", "/containers/0", {"name": "web"}, None, [1]),
        ("remove", "/containers/0/image", "web:1", None, [0]),
    ]


def test_parts_that_a_replacement_leaves_out_are_blamed_on_the_step_that_removed_them() -> None:
    patches = [remove("/labels"), add("/labels", {"tier": "a"})]
    assert blamed(labelled_containers(), *patches) == [
        ("remove", "/labels/app", "web", None, [0]),
        ("add", "/labels/tier", None, "a", [1]),
    ]


def test_a_step_that_removes_and_reinserts_a_value_has_not_changed_it() -> None:
    again = [*remove("/containers/0"), *add("/containers/0", {"name": "web", "image": "web:2", "tty": True})]
    assert blamed(labelled_containers(WEB), replace("/containers/0/image", "web:2"), again) == [
        ("replace", "/containers/0/image", "web:1", "web:2", [0]),
        ("add", "/containers/0/tty", None, True, [1]),
    ]


def test_an_integer_and_a_float_of_equal_value_differ() -> None:
    assert blamed({"a": 1}, replace("/a", 1.0)) == [("replace", "/a", 1, 1.0, [0])]
    assert blamed({"a": 1}, replace("/a", True)) == [("replace", "/a", 1, True, [0])]


def test_reordered_items_are_blamed_on_the_step_that_reordered_them() -> None:
    order = [
        *remove("/containers/1"),
        *remove("/containers/0"),
        *add("/containers/1", SIDE),
        *add("/containers/0", WEB),
    ]
    assert blamed(labelled_containers(WEB, SIDE, LOG), replace("/containers/1/image", "side:1"), order) == [
        ("remove", "/containers/1", SIDE, None, [1]),
        ("add", "/containers/2", None, SIDE, [1]),
    ]
