"""Defaulting as such: every function of the source is known, and what holds for every object of every kind."""

from __future__ import annotations

import copy
import json
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.cluster import schemas
from pratique.cluster.schemas import built_in_type
from pratique.registry.defaults.defaulting import defaulted_types, with_defaults, with_defaults_of_changes
from pratique.registry.defaults.group_defaults import GROUP_DEFAULTS
from pratique.registry.defaults.literal_defaults import LITERALS
from pratique.registry.defaults.pod_defaults import CORE_DEFAULTS, image_tag, pull_policy
from support.strategies.built_in_objects import objects_of

FUNCTIONS = {*LITERALS, *CORE_DEFAULTS, *GROUP_DEFAULTS}
SCHEMAS = Path(schemas.__file__).with_name("built_in.json")
KINDS = [
    GroupVersionKind(*name.split("/"))
    for name, type_ in sorted(json.loads(SCHEMAS.read_text())["kinds"].items())
    if type_ in defaulted_types()
]
REPLACED = frozenset(
    {
        "apiVersion",  # of templates of claims
        "data",  # of Secrets
        "deprecated.daemonset.template.generation",
        "kind",
        "kubernetes.io/metadata.name",
        "podCIDRs",
        "podIPs",
        "serviceAccount",
        "sessionAffinityConfig",
        "stringData",
    }
)
"""Fields whose values defaulting replaces or moves to others."""


def test_every_function_of_the_source_is_known() -> None:
    used = {function for type_ in defaulted_types().values() for function in type_.functions}
    assert used == FUNCTIONS


def test_every_field_of_the_source_is_one_of_its_type() -> None:
    for name, type_ in defaulted_types().items():
        named = {*type_.zero, *type_.missing, *type_.quantities, *type_.fields, *type_.embedded}
        assert named <= set(built_in_type(name).fields), name


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_an_empty_object_of_every_kind_can_be_filled_in(kind: GroupVersionKind) -> None:
    once = with_defaults(kind, {})
    assert with_defaults(kind, once) is once


def test_an_unknown_kind_has_no_defaults() -> None:
    written: JSONObject = {"spec": {}}
    assert with_defaults(GroupVersionKind("example.com", "v1", "Ship"), written) is written


@pytest.mark.parametrize(
    ("group", "expected"), [("", {"name": "a"}), ("example.com", {"name": "a", "labels": {}})]
)
def test_the_labels_of_a_built_in_kind_go_with_the_last_one(group: str, expected: JSONObject) -> None:
    before = {"metadata": {"name": "a", "labels": {"b": "c"}}}
    changed: JSONObject = {"metadata": {"name": "a", "labels": {}}}
    kind = GroupVersionKind(group, "v1", "ConfigMap")
    assert with_defaults_of_changes(kind, before, changed) == {"metadata": expected}


@given(st.sampled_from(KINDS).flatmap(objects_of))
def test_defaulting_adds_and_neither_replaces_nor_changes_what_it_is_given(
    case: tuple[GroupVersionKind, JSONObject],
) -> None:
    kind, written = case
    before = copy.deepcopy(written)

    filled = with_defaults(kind, written)

    assert written == before
    assert lost(written, filled) == []
    assert with_defaults(kind, filled) is filled


def lost(written: JSON, filled: JSON, path: str = "") -> list[str]:
    """The fields that were set and are not any more."""
    match written:
        case dict():
            assert isinstance(filled, dict)
            return [
                entry
                for name, value in written.items()
                if name not in REPLACED
                for entry in lost(value, filled.get(name), f"{path}.{name}")
            ]
        case list() if written:
            assert isinstance(filled, list)
            pairs = zip(written, filled, strict=True)
            return [entry for old, new in pairs for entry in lost(old, new, path)]
        case _:
            return [path] if written and written != filled else []


@pytest.mark.parametrize(
    ("image", "tag"),
    [
        ("root", "latest"),
        ("root:tag", "tag"),
        ("root@sha256:" + "e" * 64, ""),
        ("user/repo:tag@sha256:" + "e" * 64, "tag"),
        ("url:5000/repo", "latest"),
        ("url:5000/repo:tag", "tag"),
        ("localhost/Repo", ""),
        ("Registry/repo", "latest"),
        ("index.docker" + ".io/repo", "latest"),
        ("[::1]:5000/repo:tag", "tag"),
        ("root@sha256:" + "e" * 63, ""),
        ("e" * 64, ""),
        ("", ""),
        ("a:" + "b" * 129, ""),
        ("a\n", ""),
    ],
)
def test_images_have_the_tag_that_docker_reads(image: str, tag: str) -> None:
    assert image_tag(image) == tag


def changed(before: JSON, added: JSON) -> JSON:
    """What a mutation makes of a value that is left as it was where nothing is added."""
    if isinstance(before, dict) and isinstance(added, dict):
        return {**before, **{name: changed(before.get(name), value) for name, value in added.items()}}
    return [*added, *before] if isinstance(before, list) and isinstance(added, list) else added


@given(st.sampled_from(KINDS).flatmap(lambda kind: st.tuples(objects_of(kind), objects_of(kind))))
def test_what_a_mutation_left_as_it_was_is_as_if_it_were_filled_in_again(
    case: tuple[tuple[GroupVersionKind, JSONObject], tuple[GroupVersionKind, JSONObject]],
) -> None:
    (kind, written), (_, added) = case
    before = with_defaults(kind, written)
    mutated = changed(before, added)

    assert with_defaults(kind, mutated, before) == with_defaults(kind, copy.deepcopy(mutated))


def test_no_long_name_of_an_image_is_remembered() -> None:
    image = "a" * 100_000
    references = sys.getrefcount(image)
    assert pull_policy(image) == "IfNotPresent"
    assert sys.getrefcount(image) == references
