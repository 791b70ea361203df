"""The check of patched fields in one walk: it changes no result of the checks that it saves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.diff import diff
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cel.declarations import PATCH
from pratique.cel.structs import Struct
from pratique.cluster.schemas import built_in_schema
from pratique.cluster.typed_decoding import conforms
from pratique.policies import mutations
from pratique.policies.mutations import PolicyPatchError, apply_json_patch

KIND = GroupVersionKind("apps", "v1", "Deployment")
SCHEMA = built_in_schema(KIND)
CONTAINERS = "/spec/template/spec/containers"

CONTAINER = st.fixed_dictionaries(
    {"name": st.sampled_from("abc"), "image": st.just("x")},
    optional={
        "bogus": st.just(1),
        "env": st.just([{"name": "A", "value": "1"}]),
        "resources": st.just({"limits": {"cpu": "1"}}),
    },
)
METADATA = st.fixed_dictionaries(
    {"name": st.just("web")},
    optional={"labels": st.dictionaries(st.sampled_from("ab"), st.just("v")), "weird": st.just([1])},
)
PATHS = st.sampled_from(
    [
        *("", "/kind", "/metadata/labels", "/metadata/labels/a", "/metadata/weird", "/metadata/creationTimestamp"),
        *("/spec/replicas", "/spec/paused", "/spec/template/spec/volumes", CONTAINERS, f"{CONTAINERS}/-"),
        *(f"{CONTAINERS}/0", f"{CONTAINERS}/1", f"{CONTAINERS}/0/image", f"{CONTAINERS}/0/bogus"),
        *(f"{CONTAINERS}/0/resources", f"{CONTAINERS}/0/env/0"),
    ]
)  # fmt: skip
VALUES = st.sampled_from(
    [
        *(None, True, 1, 1.5, 2**31, "x", "2020-01-01T00:00:00Z", {}, [], {"a": "b"}, {"a": 1}, ["q"]),
        *({"name": "n", "image": "i"}, {"name": "n", "oops": 1}, [{"name": "n"}], {"limits": {"cpu": "?"}}),
    ]
)  # fmt: skip
OPERATIONS = st.fixed_dictionaries(
    {
        "op": st.sampled_from(["add", "add", "replace", "remove", "move", "copy", "test"]),
        "path": PATHS,
        "from": PATHS,
        "value": VALUES,
    }
)


def deployment(containers: list[JSON], metadata: JSONObject) -> JSONObject:
    spec = {"replicas": 1, "template": {"spec": {"containers": containers}}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


def result(stored: JSONObject, operations: list[dict[str, Any]]) -> str:
    """The patched object, members in their order, or the error."""
    patches = [Struct(PATCH, operation) for operation in operations]
    try:
        return repr(apply_json_patch(patches, stored, KIND, SCHEMA))
    except (PolicyPatchError, RefusalError) as error:
        return f"{type(error).__name__}: {error}"


@given(
    st.builds(deployment, st.lists(CONTAINER, max_size=3), METADATA),
    st.lists(OPERATIONS, min_size=1, max_size=3),
)
def test_a_patch_gives_what_it_gives_if_types_and_fields_are_checked_one_after_the_other(
    stored: JSONObject, operations: list[dict[str, Any]]
) -> None:
    found = result(stored, operations)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(mutations, "conforms", lambda *_: False)
        assert found == result(stored, operations)


@pytest.mark.parametrize(
    ("changed", "sure"),
    [
        ({"image": "y"}, True),
        ({"resources": {"limits": {"cpu": 2}}}, True),
        ({"bogus": 1}, False),
        ({"image": 1}, False),
        ({"env": {}}, False),
    ],
)
def test_an_object_conforms_if_what_changed_has_the_fields_and_types_of_its_kind(
    changed: JSONObject,
    sure: bool,  # noqa: FBT001 - a parameter
) -> None:
    container = {"name": "a", "image": "x"}
    before, after = (deployment([item], {}) for item in (container, container | changed))
    assert SCHEMA is not None
    assert conforms(KIND, SCHEMA, before, diff(before, after)) is sure


def test_an_object_whose_items_moved_is_not_surely_of_its_fields() -> None:
    item = {"name": "a", "bogus": 1}
    before, after = deployment([item], {}), deployment([{"name": "b"}, item], {})
    assert SCHEMA is not None
    assert not conforms(KIND, SCHEMA, before, diff(before, after))
