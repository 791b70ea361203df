"""Names and namespaces in the metadata of objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.names import (
    check_path_segment,
    generate_name_of,
    name_of,
    namespace_of,
    with_namespace,
)

if TYPE_CHECKING:
    from pratique.apimachinery.json_values import JSON, JSONObject

METADATA: JSONObject = {"name": "cart", "generateName": "cart-", "namespace": "shop"}


def test_metadata_is_read() -> None:
    document = {"metadata": METADATA}
    assert (name_of(document), generate_name_of(document), namespace_of(document)) == (
        "cart",
        "cart-",
        "shop",
    )


def test_missing_members_are_empty() -> None:
    assert (name_of({"metadata": {}}), namespace_of({"metadata": {"namespace": None}})) == ("", "")


@pytest.mark.parametrize(
    ("document", "problem"),
    [
        ({}, "metadata: Required value: every object has metadata with a name"),
        ({"metadata": []}, "metadata: must be a mapping, not a list"),
        ({"metadata": {"name": 5}}, "metadata.name: must be a string, not a number: write it in quotes"),
        ({"metadata": {"name": True}}, "metadata.name: must be a string, not a boolean: write it in quotes"),
        ({"metadata": {"name": {}}}, "metadata.name: must be a string, not a mapping"),
    ],
)
def test_malformed_metadata_is_refused_with_a_hint(document: JSONObject, problem: str) -> None:
    with pytest.raises(InputError) as raised:
        name_of(document)
    assert str(raised.value) == problem


@pytest.mark.parametrize(
    ("metadata", "namespace", "name", "expected"),
    [
        ({"name": "a"}, "shop", "", {"name": "a", "namespace": "shop"}),
        ({"name": "a", "namespace": "shop"}, "", "", {"name": "a"}),
        ({"name": "a"}, "shop", "b", {"name": "b", "namespace": "shop"}),
        ({"name": "a", "labels": {"k": "v"}}, "", "", {"name": "a", "labels": {"k": "v"}}),
        (None, "shop", "", {"namespace": "shop"}),
        ([], "", "a", {"name": "a"}),
    ],
)
def test_an_object_is_given_its_namespace_and_name(
    metadata: JSON, namespace: str, name: str, expected: JSONObject
) -> None:
    document = {"kind": "Pod", "metadata": metadata}
    assert with_namespace(document, namespace, name) == {"kind": "Pod", "metadata": expected}
    assert document == {"kind": "Pod", "metadata": metadata}


@given(st.sampled_from(["", "shop"]), st.sampled_from(["", "cart"]))
def test_an_object_that_is_right_already_is_not_copied(namespace: str, name: str) -> None:
    document = with_namespace({"metadata": {"name": "cart"}}, namespace, name)
    assert with_namespace(document, namespace, name) is document


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        ("a:b", []),
        ("..a", []),
        (".", ["may not be '.'"]),
        ("..", ["may not be '..'"]),
        ("a/b%", ["may not contain '/'", "may not contain '%'"]),
    ],
)
def test_a_path_segment_holds_no_slash_or_percent_sign(value: str, messages: list[str]) -> None:
    assert check_path_segment(value) == messages
