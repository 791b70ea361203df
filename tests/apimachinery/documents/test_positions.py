"""The positions of fields in their texts."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.documents import read_text
from pratique.apimachinery.field_errors import Step
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.source_documents import Position, unwrap_lists

YAML = b"""\
# a Pod
kind: Pod
metadata: {name: x}
spec:
  containers:
  - name: a
    image: b
  - image: c
    ports: [{port: 1}, {port: 2}]
yes: 1
---
defaults: &defaults
  image: d
spec:
  <<: *defaults
  name: e
"""
JSON_TEXT = b"""\
{"kind": "Pod", "spec": {
  "containers": [ {"image" : "b"}, [],
    {"ports": [{}, {"port": "}"}]}], "empty": {}
}}
{"kind": "Job"}
"""
VALUES = st.recursive(
    st.none() | st.text('a"\\]}é', max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text('ab"é', max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("document", "path", "line", "column"),
    [
        (0, (), 2, 1),
        (0, ("kind",), 2, 1),
        (0, ("metadata", "name"), 3, 12),
        (0, ("spec", "containers", 0), 6, 5),
        (0, ("spec", "containers", 1, "image"), 8, 5),
        (0, ("spec", "containers", 1, "ports", 1, "port"), 9, 25),
        (0, ("true",), 10, 1),
        (0, ("spec", "containers", 0, "command", 3), 6, 5),
        (0, ("spec", "containers", 7), 5, 3),
        (0, ("nothing",), 2, 1),
        (1, (), 12, 1),
        (1, ("spec", "name"), 16, 3),
        (1, ("spec", "image"), 13, 3),
    ],
)
def test_a_yaml_field_is_located(document: int, path: tuple[Step, ...], line: int, column: int) -> None:
    documents = list(read_text(YAML, "pod.yaml"))
    assert documents[document].position(path) == Position(line, column)


@pytest.mark.parametrize(
    ("document", "path", "line", "column"),
    [
        (0, (), 1, 1),
        (0, ("kind",), 1, 2),
        (0, ("spec", "containers", 0, "image"), 2, 20),
        (0, ("spec", "containers", 1), 2, 36),
        (0, ("spec", "containers", 2, "ports", 1, "port"), 3, 21),
        (0, ("spec", "empty"), 3, 38),
        (0, ("spec", "empty", "x"), 3, 38),
        (0, ("spec", "containers", 9), 2, 3),
        (1, (), 5, 1),
        (1, ("kind",), 5, 2),
    ],
)
def test_a_json_field_is_located(document: int, path: tuple[Step, ...], line: int, column: int) -> None:
    documents = list(read_text(JSON_TEXT, "pod.json"))
    assert documents[document].position(path) == Position(line, column)


def test_a_field_of_a_list_item_is_located() -> None:
    text = b"kind: List\nitems:\n- kind: Pod\n  spec:\n    x: 1\n- kind: List\n  items:\n  - kind: Job\n"
    pod, job = unwrap_lists(read_text(text, "list.yaml"))
    assert pod.line == 3
    assert pod.position(("spec", "x")) == Position(5, 5)
    assert job.line == 8
    assert str(job.fault(("kind",), "no")) == "list.yaml: document 1, line 8, column 5: no"


@pytest.mark.parametrize(
    ("path", "line"),
    [
        (("5",), 1),
        (("b",), 2),
        (("b", "c"), 2),
        (("b", 0), 2),
        (("d", 0, "e", "f"), 4),
        (("d", "e"), 3),
        (("h",), 8),
        (("g", "i"), 7),
    ],
)
def test_a_path_that_ends_early_yields_the_last_place_found(path: tuple[Step, ...], line: int) -> None:
    text = b"!!str 5: a\n'b': x\nd:\n- {e: y}\ng:\n  <<: [{i: 1}, {h: 2}]\n  i: 3\n'h': 4\n"
    (document,) = read_text(text, "a.yaml")
    assert document.position(path).line == line


def test_a_redefined_anchor_loses_only_the_position() -> None:
    (document,) = read_text(b"\na: &x 1\nb: &x 2\n", "a.yaml")
    assert document.position(("b",)).line == 2


def leaves(value: JSON, path: tuple[Step, ...] = ()) -> list[tuple[Step, ...]]:
    inner: list[tuple[Step, JSON]] = []
    if isinstance(value, dict):
        inner = list(value.items())
    elif isinstance(value, list):
        inner = list(enumerate(value))
    return [path, *(leaf for step, item in inner for leaf in leaves(item, (*path, step)))]


@given(VALUES)
def test_every_value_of_any_json_is_located(value: JSON) -> None:
    whole = {"value": value}
    text = json.dumps(whole, indent=1)
    (document,) = read_text(text.encode(), "a.json")
    lines = text.split("\n")
    for path in leaves(whole)[1:]:
        place = document.position(path)
        found = lines[place.line - 1][place.column - 1 :]
        assert found.startswith(json.dumps(path[-1])) or isinstance(path[-1], int)
        assert found.strip()
