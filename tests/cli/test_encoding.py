"""JSON and YAML as commands write them; YAML reads back unchanged, by kubectl's rules, too."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.documents import read_text
from pratique.apimachinery.json_values import JSONObject
from pratique_cli.encoding import dump_yaml, encode_document, encode_list, indented_json, json_line

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"])) | st.from_regex(r"[-+.0-9eE_xob:~yYnN]+")


def read_back(value: object) -> object:
    (document,) = read_text(dump_yaml({"value": value}).encode(), "a.yaml")
    return document.data["value"]


@pytest.mark.parametrize(
    "text", ["0E0", "1_000", "0b1", "0o7", "y", "N", "on", "~", ".5", "1e3", "2026-01-01"]
)
def test_strings_that_look_like_other_types_stay_strings(text: str) -> None:
    assert read_back(text) == text


@given(TEXTS)
def test_every_string_survives_a_round_trip(text: str) -> None:
    assert read_back([text, {text: text}]) == [text, {text: text}]


DOCUMENTS: list[JSONObject] = [{"name": "b", "size": 1}, {"name": "ä"}]


@pytest.mark.parametrize(
    ("output", "written"),
    [
        ("json", '{\n  "name": "b",\n  "size": 1\n}\n'),
        ("jsonl", '{"name":"b","size":1}\n'),
        ("yaml", "name: b\nsize: 1\n"),
    ],
)
def test_a_document_is_encoded_in_each_format(output: str, written: str) -> None:
    assert encode_document(DOCUMENTS[0], output).decode() == written


@pytest.mark.parametrize(
    ("output", "written"),
    [
        ("jsonl", '{"name":"b","size":1}\n{"name":"ä"}\n'),
        ("yaml", "- name: b\n  size: 1\n- name: ä\n"),
    ],
)
def test_a_list_is_encoded_in_each_format(output: str, written: str) -> None:
    assert encode_list(DOCUMENTS, output).decode() == written
    assert json.loads(encode_list(DOCUMENTS, "json")) == DOCUMENTS


@pytest.mark.parametrize(("output", "written"), [("json", b"[]\n"), ("jsonl", b""), ("yaml", b"[]\n")])
def test_an_empty_list_is_well_formed(output: str, written: bytes) -> None:
    assert encode_list([], output) == written


def test_members_keep_their_order_unless_sorted() -> None:
    assert dump_yaml({"b": 1, "a": 2}) == "b: 1\na: 2\n"
    assert dump_yaml({"b": 1, "a": 2}, sort=True) == "a: 2\nb: 1\n"


def test_yaml_has_no_aliases_and_no_folded_lines() -> None:
    shared = {"text": "word " * 100}
    assert read_back([shared, shared]) == [shared, shared]
    assert dump_yaml([shared, shared]).count("word " * 99) == 2


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_line_of_json_is_one_line(text: str) -> None:
    written = json_line({text: text})
    assert (written.count(b"\n"), json.loads(written)) == (1, {text: text})
    assert json.loads(indented_json({text: text})) == {text: text}


@pytest.mark.parametrize("module", ["pratique_cli.encoding", "pratique_cli.terminal", "pratique_cli.options"])
def test_yaml_is_imported_only_when_it_is_written(module: str) -> None:
    code = f"import sys, {module}; print('yaml' in sys.modules)"
    assert subprocess.check_output([sys.executable, "-c", code], text=True) == "False\n"
