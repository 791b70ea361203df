from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import vectors_of
from frontdoor.audit_annotations import (
    is_annotation_key,
    mutation_annotation,
    patch_annotation,
    webhook_annotations,
)
from strategies.json_values import objects

if TYPE_CHECKING:
    from pratique.json_values import JSONObject


@pytest.mark.parametrize("case", vectors_of.kind("auditAnnotation"), ids=vectors_of.source)
def test_the_value_is_the_one_that_the_api_server_writes(case: JSONObject) -> None:
    given = case["input"]
    if "mutated" in given:
        value = mutation_annotation(given["configuration"], given["webhook"], mutated=given["mutated"])
    else:
        value = patch_annotation(given["configuration"], given["webhook"], json.loads(given["patchText"]))
    assert value == case["expected"]["value"]


def test_a_mutation_is_noted_as_true() -> None:
    assert mutation_annotation("c", "w", mutated=True).endswith('"mutated":true}')


def test_the_members_of_an_operation_are_sorted_and_those_of_its_value_are_not() -> None:
    value = patch_annotation("c", "w", [{"value": {"z": 1, "a": 2}, "path": "/p", "op": "add"}])
    assert '"patch":[{"op":"add","path":"/p","value":{"z":1,"a":2}}]' in value


def test_what_a_web_page_could_misread_is_escaped() -> None:
    value = patch_annotation("c", "w", [{"op": "add", "path": "/p", "value": "<a&b>\u2028"}])
    assert '"\\u003ca\\u0026b\\u003e\\u2028"' in value


@given(st.lists(objects(), max_size=3))
def test_a_patch_can_be_read_back(operations: list[JSONObject]) -> None:
    assert json.loads(patch_annotation("c", "w", operations))["patch"] == operations


@pytest.mark.parametrize("key", ["key", "Key-1", "a.b_c", "9", "x" * 63])
def test_a_key_is_put_behind_the_webhook_s_name(key: str) -> None:
    assert webhook_annotations("w.example.com", {key: "v"}) == {f"w.example.com/{key}": "v"}


@pytest.mark.parametrize("key", ["", "a/b", "/", "-a", "a-", "a b", "é", "x" * 64, "a\n"])
def test_a_key_that_cannot_be_is_left_out_and_others_stay(key: str) -> None:
    assert webhook_annotations("w.example.com", {key: "v", "good": "g"}) == {"w.example.com/good": "g"}


@pytest.mark.parametrize(
    ("key", "possible"),
    [
        ("podsecuritypolicy.admission.k8s.io/admit-policy", True),
        ("w/k", True),
        ("k", False),
        ("W.example.com/k", False),
        ("w.example.com/a/b", False),
        ("/k", False),
        ("w.example.com/", False),
        (f"{'a' * 254}/k", False),
    ],
)
def test_a_key_is_a_subdomain_a_slash_and_a_name(key: str, possible: bool) -> None:  # noqa: FBT001  # a table
    assert is_annotation_key(key) is possible
