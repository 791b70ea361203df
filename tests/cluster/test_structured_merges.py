"""Structured merge of apply configurations.

The tables follow ``sigs.k8s.io/structured-merge-diff/v6/typed/{merge,validate}_test.go`` and
``k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch/smd_test.go``.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cluster.apply_configurations import atomic_paths, type_errors
from pratique.cluster.schemas import ListType, MapType, MergeStrategy, Scalar, Structure, schema_of
from pratique.cluster.store import ANY_NAMESPACE
from pratique.cluster.structured_merge import (
    ApplyError,
    merge,
    structured_apply,
)

DEPLOYMENT = {"apiVersion": "apps/v1", "kind": "Deployment"}
ITEM = Structure("", lambda: {"name": Scalar.STRING, "n": Scalar.INTEGER, "m": Scalar.INTEGER})
KEYED = ListType(ITEM, MergeStrategy.MAP, ("name",))
SET = ListType(Scalar.STRING, MergeStrategy.SET)


def deployment(**spec: JSON) -> JSONObject:
    return {**DEPLOYMENT, "spec": spec}


def applied(stored: JSONObject, part: JSONObject) -> JSONObject:
    schema = schema_of(GroupVersionKind("apps", "v1", "Deployment"), ANY_NAMESPACE)
    assert schema is not None
    found: JSONObject = structured_apply(schema, stored, part).value
    return found


def containers(*items: JSON) -> JSONObject:
    return deployment(template={"spec": {"containers": list(items)}})


@pytest.mark.parametrize(
    ("left", "right", "merged"),
    [
        ("abc", "ad", "abcd"),
        ("ab", "cd", "abcd"),
        ("abc", "cba", "cba"),
        ("abc", "b", "abc"),
        ("", "ab", "ab"),
        ("ab", "", "ab"),
        ("abcd", "dxa", "bcdxa"),
    ],
)
def test_merged_sets_keep_existing_items_in_the_applied_order(left: str, right: str, merged: str) -> None:
    assert merge(SET, list(left), list(right)).value == list(merged)


def test_items_with_the_same_keys_are_merged() -> None:
    left = [{"name": "a", "n": 1}, {"name": "b", "n": 2}]
    right = [{"name": "b", "m": 3}, {"name": "c"}]
    assert merge(KEYED, left, right).value == [
        {"name": "a", "n": 1},
        {"name": "b", "n": 2, "m": 3},
        {"name": "c"},
    ]


def test_a_duplicate_item_is_replaced_by_the_applied_one() -> None:
    left = [{"name": "a", "n": 1}, {"name": "b"}, {"name": "a", "n": 2}]
    assert merge(KEYED, left, [{"name": "a", "m": 3}]).value == [{"name": "a", "m": 3}, {"name": "b"}]


@pytest.mark.parametrize(
    ("kind", "left", "right", "merged"),
    [
        (MapType(Scalar.STRING), {"a": "1"}, {"b": "2"}, {"a": "1", "b": "2"}),
        (MapType(Scalar.STRING, atomic=True), {"a": "1"}, {"b": "2"}, {"b": "2"}),
        (MapType(Scalar.STRING), {"a": "1"}, None, {"a": "1"}),
        (MapType(Scalar.STRING), {}, None, None),
        (MapType(Scalar.STRING), None, {}, {}),
        (MapType(Scalar.STRING, atomic=True), {"a": "1"}, None, None),
        (ListType(Scalar.STRING), ["a"], ["b"], ["b"]),
        (SET, ["a"], None, ["a"]),
        (Scalar.STRING, "a", None, None),
        (Scalar.ANY, {"a": 1, "b": [1]}, {"b": [2]}, {"a": 1, "b": [2]}),
        (Scalar.INT_OR_STRING, 1, "50%", "50%"),
    ],
)
def test_values_are_merged_by_their_type(
    kind: Scalar | ListType, left: JSON, right: JSON, merged: JSON
) -> None:
    assert merge(kind, left, right).value == merged


def test_an_apply_configuration_is_merged_into_the_object() -> None:
    stored = containers({"name": "x", "image": "a", "env": [{"name": "A", "value": "1"}]})
    part = containers({"name": "x", "env": [{"name": "B", "value": "2"}]}, {"name": "y"})
    assert applied(stored, part) == containers(
        {"name": "x", "image": "a", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]},
        {"name": "y"},
    )


def test_keys_with_defaults_may_be_omitted() -> None:
    stored = containers({"name": "x", "ports": [{"containerPort": 80, "name": "http"}]})
    part = containers({"name": "x", "ports": [{"containerPort": 80, "protocol": "TCP", "hostPort": 8080}]})
    ports = [{"containerPort": 80, "name": "http", "protocol": "TCP", "hostPort": 8080}]
    assert applied(stored, part) == containers({"name": "x", "ports": ports})


def test_a_stored_object_may_have_fields_that_could_not_be_applied() -> None:
    twice = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]
    stored = containers({"name": "x", "env": twice, "unknown": 1})
    assert applied(stored, deployment(replicas=3))["spec"] == {**stored["spec"], "replicas": 3}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"replicasx": 1}, ".spec.replicasx: field not declared in schema"),
        (
            {"replicas": "1"},
            ".spec.replicas: expected numeric (int or float), got string",
        ),
        ({"paused": "yes"}, ".spec.paused: expected boolean, got &{yes}"),
        ({"template": ["a", 1]}, ".spec.template: expected map, got &{[a 1]}"),
        (
            {"template": {"spec": {"containers": {"name": "a"}}}},
            ".spec.template.spec.containers: expected list, got &{map[name:a]}",
        ),
        (
            {"template": {"spec": {"nodeName": 5}}},
            ".spec.template.spec.nodeName: expected string, got &value.valueUnstructured{Value:5}",
        ),
        (
            {"template": {"spec": {"containers": [{"name": "a"}, {"name": "a"}]}}},
            '.spec.template.spec.containers: duplicate entries for key [name="a"]',
        ),
        (
            {"template": {"spec": {"containers": [{"name": "a", "x": 1}]}}},
            '.spec.template.spec.containers[name="a"].x: field not declared in schema',
        ),
        (
            {"x": 1, "y": 2},
            "errors:\n  .spec.x: field not declared in schema\n  .spec.y: field not declared in schema",
        ),
    ],
)
def test_a_configuration_that_violates_the_schema_is_refused(spec: JSONObject, message: str) -> None:
    with pytest.raises(ApplyError) as refused:
        applied(deployment(), {"spec": spec})
    assert str(refused.value) == f"failed to convert patch object to typed object: {message}"


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (
            [{"n": 1}],
            (
                '.items: element 0: associative list with keys has an element that omits all key fields ["name"] (and'
                " doesn't have default values for any key fields)"
            ),
        ),
        ([None], ".items: element 0: associative list with keys may not have a null element"),
        (["a"], ".items: element 0: associative list with keys may not have non-map elements"),
    ],
)
def test_items_without_keys_are_refused(items: JSON, message: str) -> None:
    with pytest.raises(ApplyError) as refused:
        structured_apply(Structure("", lambda: {"items": KEYED}), {}, {"items": items})
    assert str(refused.value) == f"failed to convert patch object to typed object: {message}"


@pytest.mark.parametrize(
    ("spec", "paths"),
    [
        ({"selector": {"matchLabels": {"a": "b"}}}, ".spec.selector"),
        (
            {"template": {"spec": {"containers": [{"name": "a", "args": ["x"], "command": []}]}}},
            ".spec.template.spec.containers[0].args, .spec.template.spec.containers[0].command",
        ),
        ({"template": {"spec": {"nodeSelector": {}}}}, ".spec.template.spec.nodeSelector"),
    ],
)
def test_atomic_fields_cannot_be_applied(spec: JSONObject, paths: str) -> None:
    with pytest.raises(ApplyError) as refused:
        applied(deployment(), {"spec": spec})
    message = f"invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {paths}"
    assert str(refused.value) == message


NAMES = st.lists(st.sampled_from("abcdef"), unique=True)


@given(NAMES, NAMES)
def test_merged_sets_hold_every_item_once_in_the_applied_order(left: list[str], right: list[str]) -> None:
    merged = merge(SET, left, right).value
    assert sorted(merged) == sorted({*left, *right})
    assert [item for item in merged if item in right] == right
    assert [item for item in merged if item not in right] == [item for item in left if item not in right]


@given(NAMES, NAMES)
def test_applying_is_idempotent(left: list[str], right: list[str]) -> None:
    once = merge(SET, left, right).value
    assert merge(SET, once, right).value == once


ODD = st.sampled_from([None, "x", 1, True, {}, [], ["q"], {"a": 1}, [{"a": "b"}]])
PORTS = st.lists(
    st.fixed_dictionaries(
        {}, optional={"containerPort": st.sampled_from([80, "80"]), "protocol": st.just("TCP")}
    ),
    max_size=2,
)
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "replicas": st.sampled_from([1, "1", None]),
        "bogus": ODD,
        "selector": st.sampled_from([{"matchLabels": {"a": "b"}}, None]),
        "template": st.fixed_dictionaries(
            {},
            optional={
                "metadata": st.fixed_dictionaries({}, optional={"labels": ODD, "finalizers": ODD}),
                "spec": st.fixed_dictionaries(
                    {},
                    optional={
                        "containers": st.lists(
                            st.fixed_dictionaries(
                                {},
                                optional={
                                    "name": st.sampled_from(["a", "b", 1]),
                                    "args": ODD,
                                    "ports": PORTS,
                                },
                            ),
                            max_size=2,
                        ),
                        "nodeSelector": ODD,
                        "volumes": ODD,
                    },
                ),
            },
        ),
    },
)


@given(PARTS)
def test_a_configuration_is_refused_exactly_if_it_has_type_errors_or_sets_atomic_fields(
    spec: JSONObject,
) -> None:
    schema = schema_of(GroupVersionKind("apps", "v1", "Deployment"), ANY_NAMESPACE)
    assert schema is not None
    part = deployment(**spec)
    try:
        applied(DEPLOYMENT, part)
    except ApplyError:
        assert [*type_errors(schema, part), *atomic_paths(schema, part)]
    else:
        assert not [*type_errors(schema, part), *atomic_paths(schema, part)]
