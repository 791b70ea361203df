"""Documents, which parse and encode JSON lazily, and walks over JSON values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given

from pratique.apimachinery.json_values import (
    NULL,
    Document,
    escape,
    go_json,
    json_type,
    list_at,
    mapping_at,
    member,
    unescape,
)
from support.strategies.json_values import documents

if TYPE_CHECKING:
    from pratique.apimachinery.json_values import JSON


@pytest.mark.parametrize(
    "document", [Document.from_raw(b""), Document.from_raw(b"null"), Document.from_data(None)]
)
def test_the_null_document_stands_for_no_object(document: Document) -> None:
    assert document is NULL
    assert (document.is_null, document.raw, document.data, document.copy_data()) == (True, b"", None, None)


@given(documents())
def test_a_document_is_the_same_made_of_text_or_data(data: JSON) -> None:
    from_data = Document.from_data(data)
    from_text = Document.from_raw(from_data.raw)
    assert from_text == from_data
    assert from_text.is_null == from_data.is_null


def test_text_is_kept_as_it_came() -> None:
    assert Document.from_raw(b'{"b": 1,  "a": 2}').raw == b'{"b": 1,  "a": 2}'


def test_a_document_is_parsed_once_and_copied_afresh() -> None:
    document = Document.from_raw(b'{"a":[1]}')
    assert document.data is document.data
    copy = document.copy_data()
    copy["a"].append(2)
    assert document.data == {"a": [1]}


def test_malformed_text_fails_when_it_is_parsed() -> None:
    document = Document.from_raw(b"{")
    with pytest.raises(msgspec.DecodeError):
        document.data  # noqa: B018 - parses


def test_a_document_reveals_no_content_and_is_not_hashable() -> None:
    secret = Document.from_data({"password": "hunter2"})
    assert repr(secret) == "Document(…)"
    assert repr(NULL) == "Document(null)"
    with pytest.raises(TypeError, match="not hashable"):
        hash(secret)


VALUE = {"a": [{"b": 1}], "c": "text", "d": None}


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ((), VALUE),
        (("a", 0, "b"), 1),
        (("a", -1, "b"), 1),
        (("a", 1), None),
        (("a", -2), None),
        (("a", "b"), None),
        (("c", 0), None),
        (("d", "x"), None),
        ((0,), None),
    ],
)
def test_a_walk_ends_where_a_step_is_missing(path: tuple[str | int, ...], expected: JSON) -> None:
    assert member(VALUE, *path) == expected


def test_a_list_or_mapping_of_another_type_is_empty() -> None:
    assert (list_at(VALUE, "a"), list_at(VALUE, "c"), list_at(VALUE, "x", "y")) == ([{"b": 1}], [], [])
    assert (mapping_at(VALUE), mapping_at(VALUE, "a"), mapping_at(VALUE, "d")) == (VALUE, {}, {})


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "null"),
        (False, "a boolean"),
        ("", "a string"),
        ([], "a list"),
        ({}, "a mapping"),
        (1, "a number"),
        (1.5, "a number"),
    ],
)
def test_a_type_is_named_in_words(value: JSON, expected: str) -> None:
    assert json_type(value) == expected


def test_gos_encoder_escapes_html() -> None:
    assert go_json({"b": "<&>\u2028", "a": 1.0}) == '{"b":"\\u003c\\u0026\\u003e\\u2028","a":1}'


@pytest.mark.parametrize(
    ("token", "escaped"), [("a/b", "a~1b"), ("~", "~0"), ("~1", "~01"), ("", ""), ("/~/", "~1~0~1")]
)
def test_pointer_tokens_are_escaped_and_unescaped(token: str, escaped: str) -> None:
    assert escape(token) == escaped
    assert unescape(escaped) == token


def test_a_tilde_that_escapes_nothing_stays() -> None:
    assert unescape("~2~") == "~2~"
