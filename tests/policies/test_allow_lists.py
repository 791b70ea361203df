"""What a MutationAllowList allows, by the objects before and after a mutation, whatever the operations in between."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.diff import identical
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.patches import patch_document
from pratique.configuration.mutation_allow_lists import MutationAllowList, MutationAllowListSpec
from pratique.policies.allow_lists import AllowList, Restriction
from support.chains import POD

WEB = {"name": "web", "image": "web:1"}
PROXY = {"name": "proxy", "image": "proxy:1"}


def restricted(before: Any, after: Any, *fields: str) -> Restriction:
    spec = MutationAllowListSpec(fields=fields, violation_action="Drop")
    return AllowList.compile(MutationAllowList("one", spec)).restrict(before, after)


def pod(**spec: Any) -> Any:
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [WEB], **spec}}


@pytest.mark.parametrize(
    ("fields", "before", "after", "paths"),
    [
        (["/a"], {"a": 1}, {"a": {"b": [2]}}, []),
        (["/a"], {"a": 1, "b": 1}, {"a": 2, "b": 2}, ["/b"]),
        (["/a"], {"a": 1}, {}, []),
        (["/a/b"], {"a": {"b": 1}}, {}, []),
        (["/a/b"], {"a": {"b": 1, "c": 2}}, {}, ["/a/c"]),
        (["/a/b"], {}, {"a": {"b": 1}}, []),
        (["/a/b"], {}, {"a": {"b": 1, "c": 2}}, ["/a/c"]),
        (["/a/b"], {}, {"a": {}}, ["/a"]),
        (["/a/b"], {"a": {}}, {}, ["/a"]),
        (["/a/b"], {"a": "text"}, {"a": {"b": 1}}, ["/a"]),
        (["/a/b"], {"a": {"b": 1}}, {"a": None}, ["/a"]),
        (["/a"], {"b": True}, {"b": 1}, ["/b"]),
        (["/a~1b"], {"a/b": 1}, {"a/b": 2}, []),
        (["/a/b"], {"a/b": 1}, {"a/b": 2}, ["/a~1b"]),
        (["/m/x.io~1*"], {"m": {}}, {"m": {"x.io/a": 1, "y.io/a": 1}}, ["/m/y.io~1a"]),
        (["/m/*/b"], {"m": {"k": {"b": 1, "c": 1}}}, {"m": {"k": {"b": 2, "c": 2}}}, ["/m/k/c"]),
        (["/l/*"], {"l": [1, 2]}, {"l": [3]}, []),
        (["/l/0"], {"l": [1]}, {"l": [2]}, ["/l/0"]),
        (["/l/*/v"], {"l": [{"v": 1}]}, {"l": [{"v": 2}]}, []),
        (["/l/*/v"], {"l": [{"v": 1}]}, {"l": [{"v": 1}, {"v": 2}]}, ["/l/1"]),
        (["/l/*/v"], {"l": [{"v": 1}, {"w": 1}]}, {"l": [{"v": 1}]}, ["/l/1"]),
        (["/l/-"], {"l": [1, 2]}, {"l": [0, 1, 2, 3]}, []),
        (["/l/-"], {}, {"l": [1]}, []),
        (["/l/-"], {"l": [1]}, {"l": [2]}, ["/l/0"]),
        (["/l/-"], {"l": [1, 2]}, {"l": [2, 1]}, ["/l/0", "/l/1"]),
        (["/l/-"], {"l": [1]}, {}, ["/l/0"]),
    ],
)
def test_what_is_listed_may_change_and_nothing_else(
    fields: list[str], before: Any, after: Any, paths: list[str]
) -> None:
    found = restricted(before, after, *fields)
    assert list(found.paths) == paths
    assert restricted(before, found.object, *fields).paths == ()


CONTAINERS = ["/spec/containers/-", "/spec/containers/*/env"]


@pytest.mark.parametrize(
    ("containers", "left"),
    [
        ([WEB, PROXY], [WEB, PROXY]),
        ([PROXY, WEB], [PROXY, WEB]),
        ([PROXY, {**WEB, "env": [{"name": "A"}]}], [PROXY, {**WEB, "env": [{"name": "A"}]}]),
        ([{**WEB, "image": "evil:1"}, PROXY], [WEB, PROXY]),
        ([PROXY], [WEB, PROXY]),
        ([], [WEB]),
        ([{"name": "evil", "image": "web:1"}], [WEB, {"name": "evil", "image": "web:1"}]),
    ],
)
def test_containers_may_be_added_and_the_others_stay(containers: list[Any], left: list[Any]) -> None:
    after = {"metadata": POD["metadata"], "spec": {"containers": containers}}
    before = {"metadata": POD["metadata"], "spec": {"containers": [WEB]}}
    found = restricted(before, after, *CONTAINERS)
    names = sorted(container["name"] for container in found.object["spec"]["containers"])
    assert names == sorted(container["name"] for container in left)
    assert all(container in found.object["spec"]["containers"] for container in left)


LABEL = "/metadata/labels/team"
ATTACKS: dict[str, list[dict[str, Any]]] = {
    "replace the parent": [
        {"op": "replace", "path": "/metadata/labels", "value": {"team": "a", "app": "evil"}}
    ],
    "replace the root": [
        {
            "op": "replace",
            "path": "",
            "value": {"metadata": {"labels": {"team": "a"}}, "spec": {"evil": True}},
        }
    ],
    "move": [{"op": "move", "from": "/metadata/labels/app", "path": LABEL}],
    "copy elsewhere": [{"op": "copy", "from": "/metadata/labels/app", "path": "/spec/evil"}],
    "add and move": [
        {"op": "add", "path": LABEL, "value": {"evil": True}},
        {"op": "move", "from": f"{LABEL}/evil", "path": "/spec/evil"},
    ],
    "escape": [{"op": "add", "path": "/metadata/labels~1team", "value": "a"}],
    "test, then remove": [
        {"op": "test", "path": "/metadata/labels/app", "value": "web"},
        {"op": "remove", "path": "/metadata/labels/app"},
    ],
    "shift indexes": [
        {"op": "add", "path": "/spec/containers/0", "value": {"name": "evil", "image": "evil:1"}}
    ],
}


@pytest.mark.parametrize("name", ATTACKS)
def test_no_kind_of_operation_gets_past_the_list(name: str) -> None:
    before = pod()
    after = patch_document(Document.from_data(before), ATTACKS[name]).data
    found = restricted(before, after, LABEL)
    assert found.paths
    left = json.loads(json.dumps(found.object))
    left["metadata"]["labels"].pop("team", None)
    assert left == before


def test_a_patch_that_only_looks_large_is_allowed() -> None:
    before = pod()
    after = {**before, "metadata": {"labels": {"app": "web", "team": "a"}}}
    found = restricted(before, after, LABEL)
    assert (found.object, found.paths) == (after, ())


_scalars = st.none() | st.booleans() | st.integers(0, 2) | st.sampled_from(["", "a", "b"])
_values = st.recursive(
    _scalars,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["a", "b", "name", "*", "-"]), inner, max_size=3)
    ),
    max_leaves=8,
)
_objects = st.dictionaries(st.sampled_from(["a", "b"]), _values, max_size=2)
_patterns = st.lists(st.sampled_from(["a", "b", "name", "*", "a*"]), min_size=1, max_size=3)


@given(_objects, _objects, st.lists(_patterns, min_size=1, max_size=2), st.sampled_from([[], ["/a/-"]]))
def test_what_is_left_is_allowed_and_what_is_allowed_is_left(
    before: Any, after: Any, patterns: list[list[str]], new_items: list[str]
) -> None:
    fields = ["/" + "/".join(steps) for steps in patterns] + new_items
    found = restricted(before, after, *fields)
    again = restricted(before, found.object, *fields)
    assert again.paths == ()
    if not found.paths:
        assert identical(found.object, after)
