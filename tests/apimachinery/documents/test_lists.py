"""Unwrapping lists."""

from __future__ import annotations

import pytest

from pratique.apimachinery.documents import read_text
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.source_documents import unwrap_lists


def unwrap(text: str) -> list[object]:
    return [document.data for document in unwrap_lists(read_text(text.encode(), "a.yaml"))]


def test_other_documents_are_unchanged() -> None:
    assert unwrap("kind: Pod\nitems: [1]\n") == [{"kind": "Pod", "items": [1]}]
    assert unwrap("kind: AllowList\nspec: {}\n") == [{"kind": "AllowList", "spec": {}}]


def test_list_items_become_documents() -> None:
    assert unwrap("kind: List\nitems: [{kind: A}, {kind: B}]\n---\nkind: C\n") == [
        {"kind": "A"},
        {"kind": "B"},
        {"kind": "C"},
    ]


def test_an_item_inherits_kind_and_version_from_a_typed_list() -> None:
    text = "kind: PodList\napiVersion: v1\nitems: [{metadata: {}}, {kind: Job}]\n"
    assert unwrap(text) == [{"kind": "Pod", "apiVersion": "v1", "metadata": {}}, {"kind": "Job"}]


@pytest.mark.parametrize(
    "text",
    [
        "kind: List\nitems:\n- kind: A\n  b: 1\n- kind: List\n  items:\n  - kind: C\n",
        '{"kind": "List",\n"items": [\n{"kind": "A",\n"b": 1},\n{"kind": "List",\n"items": [{"kind": "C"}]}]}\n',
    ],
    ids=["YAML", "JSON"],
)
def test_an_item_knows_its_line(text: str) -> None:
    items = unwrap_lists(read_text(text.encode(), "a.yaml"))
    lines = [text[: text.index(f"kind{mark}")].count("\n") + 1 for mark in _kinds_of(text)]
    assert [item.line for item in items] == lines


def _kinds_of(text: str) -> tuple[str, str]:
    return (": A", ": C") if text.startswith("kind") else ('": "A"', '": "C"')


@pytest.mark.parametrize("items", ["[]", "~"])
def test_an_empty_list_yields_nothing(items: str) -> None:
    assert unwrap(f"kind: List\nitems: {items}\n") == []
    assert unwrap("kind: List\n") == []


def test_nested_lists_are_unwrapped() -> None:
    assert unwrap("kind: List\nitems: [{kind: List, items: [{kind: A}]}]\n") == [{"kind": "A"}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "kind: List\nitems: 5\n",
            "a.yaml: document 1, line 2, column 1: items must be a list, got a number",
        ),
        (
            "kind: List\nitems:\n- {}\n- x\n",
            "a.yaml: document 1, line 4, column 3: items[1] must be an object",
        ),
    ],
)
def test_a_list_of_anything_but_objects_is_refused(text: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        unwrap(text)
    assert str(refused.value).startswith(message)
