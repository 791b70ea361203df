"""Patched documents: which of them have to be encoded to know that they can be."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_reading import MAX_LEVELS, parse_checked
from pratique.apimachinery.json_values import JSON, Document, encode
from pratique.apimachinery.patches import PatchError, patch_document
from support.patches import operation
from support.strategies.json_values import KEYS, documents, values

TEXT = Document.from_raw(b'{"m":{"a":1},"l":[1,2]}')


def nested(levels: int) -> JSON:
    value: JSON = 1
    for _ in range(levels):
        value = {"a": value}
    return value


def test_a_few_levels_more_need_no_encoding() -> None:
    patched = patch_document(TEXT, [operation("add", "/m/b", nested(3)), operation("remove", "/l/0")])
    assert patched.is_shallow
    again = patch_document(patched, [operation("replace", "/l/0", nested(MAX_LEVELS - 2))])
    assert again.is_shallow
    assert parse_checked(again.raw) == again.data


@pytest.mark.parametrize(
    ("document", "last"),
    [
        (TEXT, operation("add", "/m/b", nested(MAX_LEVELS - 1))),
        (TEXT, operation("add", "/m/b", ["x" * 5000])),
        (TEXT, operation("copy", "/m/b", source="/m")),
        (TEXT, operation("move", "/m/b", source="/l")),
        (Document.from_data({"m": {}}), operation("add", "/m/b", 1)),
    ],
)
def test_anything_else_is_encoded(document: Document, last: dict[str, JSON]) -> None:
    patched = patch_document(document, [operation("add", "/m/c", 1), last])
    assert not patched.is_shallow
    assert patched.raw == encode(patched.data)


def test_a_shallow_value_that_is_not_json_fails_as_it_does_in_the_whole() -> None:
    with pytest.raises(TypeError):
        patch_document(TEXT, [operation("add", "/m/b", object())])


def test_levels_add_up_over_operations() -> None:
    deeper = [operation("add", "/a" * (1 + 149 * step), nested(149)) for step in range(1, 10)]
    patch = [operation("add", "/a", nested(149)), *deeper]
    with pytest.raises(PatchError, match="exceeded max depth"):
        patch_document(Document.from_raw(b"{}"), patch)


@given(
    documents(),
    st.lists(
        st.builds(operation, st.sampled_from(["add", "replace"]), KEYS.map("/{}".format), values()),
        max_size=3,
    ),
)
def test_a_shallow_document_is_within_the_limits_of_texts(data: JSON, patch: list[dict[str, JSON]]) -> None:
    before = Document.from_raw(encode(data))
    try:
        patched = patch_document(before, patch)
    except PatchError:
        return
    if patched.is_shallow:
        assert encode(parse_checked(patched.raw)) == patched.raw
