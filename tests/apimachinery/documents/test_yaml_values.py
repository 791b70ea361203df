"""YAML documents as JSON values."""

from __future__ import annotations

import contextlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.yaml_values import MAXIMUM_DEPTH, YamlReadError, read_values

BMP_TEXT = st.text(st.characters(codec="utf-8", max_codepoint=0xFFFF))  # YAML knows no pairs of \\u escapes
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | BMP_TEXT,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc=<", min_size=1), inner, max_size=4)
    ),
    max_leaves=20,
)


def read(text: str, *, unique_keys: bool = False) -> JSON:
    (value,) = read_values(text.encode(), unique_keys=unique_keys)
    return value.value


def fault(text: str | bytes, *, unique_keys: bool = False) -> tuple[str, int, int]:
    raw = text.encode() if isinstance(text, str) else text
    with pytest.raises(YamlReadError) as refused:
        list(read_values(raw, unique_keys=unique_keys))
    return refused.value.problem, refused.value.line, refused.value.column


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\nb: [yes, 'yes', ~]\n", {"a": 1, "b": [True, "yes", None]}),
        ("a: 1.0\nb: 1e3\nc: 1.5\nd: -0.0\n", {"a": 1, "b": 1000, "c": 1.5, "d": 0}),
        ("a: |\n  x\n  y\nb: >-\n  x\n  y\n", {"a": "x\ny\n", "b": "x y"}),
        ("yes: 1\n1.10: 2\n3: 4\n", {"true": 1, "1.1": 2, "3": 4}),
        ("a: ! 5\nb: ! 'x'\nc: !!str 5\nd: !!map {e: !!seq [1]}\n", None),
        ("a: 1\na: 2\n", {"a": 2}),
        ("a: &x {b: 1}\nc: *x\n", {"a": {"b": 1}, "c": {"b": 1}}),
        ("a: &x 1\nb: &x 2\nc: *x\n", {"a": 1, "b": 2, "c": 2}),
        ("&k key: v\nother: *k\n", {"key": "v", "other": "key"}),
        ("a: &x\n  b: &y {c: 1}\n  d: *y\n", {"a": {"b": {"c": 1}, "d": {"c": 1}}}),
        ("a: 1 # note\nb: 1#no\n", {"a": 1, "b": "1#no"}),
        ("? a\n: b\n", {"a": "b"}),
    ],
)
def test_a_yaml_document_becomes_json(text: str, value: JSON) -> None:
    tagged = {"a": "5", "b": "x", "c": "5", "d": {"e": [1]}}
    assert read(text) == (tagged if value is None else value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: &x {b: 1, c: 2}\nd:\n  <<: *x\n  b: 3\n", {"b": 3, "c": 2}),
        ("a: &x {b: 1, c: 2}\nd:\n  b: 3\n  <<: *x\n", {"b": 1, "c": 2}),
        ("a: &x {b: 1}\ne: &y {b: 2, c: 3}\nd:\n  <<: [*x, *y]\n", {"b": 1, "c": 3}),
        ("d:\n  <<: {b: 5}\n", {"b": 5}),
        ("d:\n  '<<': 5\n", {"<<": 5}),
    ],
)
def test_merge_keys_apply_in_document_order(text: str, value: JSON) -> None:
    assert read(text)["d"] == value


def test_an_alias_yields_an_independent_copy() -> None:
    value = read("a: &x {b: [1]}\nc: *x\n")
    assert value["a"] == value["c"]
    assert value["a"] is not value["c"]
    assert value["a"]["b"] is not value["c"]["b"]


def test_documents_have_line_numbers_and_empty_ones_are_skipped() -> None:
    text = "# first\n---\na: 1\n---\n---\n# nothing\n---\nnull\n--- {b: 2}\n...\n---\n\nc: 3\n"
    found = [(value.line, value.value) for value in read_values(text.encode())]
    assert found == [(3, {"a": 1}), (9, {"b": 2}), (13, {"c": 3})]


def test_a_document_before_a_broken_one_is_yielded() -> None:
    values = read_values(b"a: 1\n---\nb: [\n")
    assert next(values).value == {"a": 1}
    with pytest.raises(YamlReadError):
        next(values)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: b: c", ("mapping values are not allowed in this context", 1, 5)),
        ("a: *x", ("unknown anchor 'x' referenced", 1, 4)),
        ("a: &x [*x]", ("anchor 'x' value contains itself", 1, 8)),
        ("a: &x 1\nb: &x [*x]", ("anchor 'x' value contains itself", 2, 8)),
        ("? [a]\n: b", ("a key must be text, a number or a boolean", 1, 3)),
        ("~: 1", ("a key must be text, a number or a boolean", 1, 1)),
        ("a: .inf", ("JSON has no such number; quote it if text is meant", 1, 4)),
        ("- .nan", ("JSON has no such number; quote it if text is meant", 1, 3)),
        ("a: !Ref x", ("the tag !Ref is not supported; leave it out", 1, 4)),
        ("!Ref {a: b}", ("the tag !Ref is not supported; leave it out", 1, 1)),
        ("a: !!set {b}", ("the tag !!set is not supported; leave it out", 1, 4)),
        ("a:\n  <<: 5", ("map merge requires map or sequence of maps as the value", 2, 7)),
        (b"a: \xff", ("invalid leading UTF-8 octet: the text must be UTF-8", 1, 4)),
        (b"a: 1\nb: \x01", ("control characters are not allowed: the text must be UTF-8", 2, 4)),
        ("%YAML 3.0\n---\na: 1", ("found incompatible YAML document", 1, 1)),
    ],
)
def test_a_yaml_error_has_a_position(text: str | bytes, problem: tuple[str, int, int]) -> None:
    assert fault(text) == problem


def test_a_tab_in_the_indentation_is_pointed_out() -> None:
    problem, line, _ = fault("a:\n\tb: 1\n")
    assert line == 2
    assert "YAML is indented by spaces, not tabs" in problem


def test_a_duplicate_key_can_be_refused() -> None:
    text = "a:\n- b: 1\n- b: 1\n  c: 2\n  b: 2\n"
    duplicate = 'strict decoding error: duplicate field "a[1].b"'
    assert fault(text, unique_keys=True) == (duplicate, 5, 3)


def test_a_duplicate_key_in_a_merged_mapping_has_its_own_path() -> None:
    duplicate = 'strict decoding error: duplicate field "a.<<.b"'
    assert fault("a:\n  <<: {b: 1, b: 2}\n", unique_keys=True)[0] == duplicate


def test_a_merged_key_may_be_overridden_once() -> None:
    text = "a: &x {b: 1}\nc:\n  <<: *x\n  b: 2\n"
    assert read(text, unique_keys=True)["c"] == {"b": 2}
    assert fault(f"{text}  b: 3\n", unique_keys=True)[1:] == (5, 3)


def test_an_alias_bomb_is_refused_early() -> None:
    bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 12)
    )
    problem, line, _ = fault(bomb)
    assert problem == "document contains excessive aliasing"
    assert line > 3


def test_a_document_with_many_aliases_is_read() -> None:
    text = "base: &x {a: 1, b: 2}\nitems:\n" + "- *x\n" * 150
    assert len(read(text)["items"]) == 150


@pytest.mark.parametrize("opening", ["[", "{a: "])
def test_endless_nesting_is_refused(opening: str) -> None:
    problem, _, _ = fault(opening * 50_000)
    assert problem == f"nested deeper than {MAXIMUM_DEPTH} levels"


def test_aliases_count_towards_the_depth() -> None:
    chain = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}]\n" for n in range(1, 600))
    assert fault(chain)[0] in {
        f"nested deeper than {MAXIMUM_DEPTH} levels",
        "document contains excessive aliasing",
    }


@given(JSON_VALUES)
def test_json_read_as_yaml_is_the_same(value: JSON) -> None:
    assert read(json.dumps({"value": value})) == {"value": value}


@given(st.binary(max_size=60))
def test_arbitrary_bytes_never_crash_the_reader(raw: bytes) -> None:
    with contextlib.suppress(YamlReadError):
        assert all(value.value is not None for value in read_values(raw))
