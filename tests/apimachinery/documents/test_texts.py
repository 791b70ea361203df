"""Reading texts: JSON, streams of JSON values, and YAML."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.documents import read_text
from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON

INTEGERS = st.integers(-(2**63), 2**63 - 1)  # larger ones are read as floats, as Go reads them
OBJECTS = st.dictionaries(
    st.text(max_size=5), st.none() | INTEGERS | st.text(max_size=5) | st.lists(st.booleans()), max_size=4
)
GAPS = st.text(" \t\r\n", max_size=4)


def read(raw: bytes, file: str = "-") -> list[tuple[int, int, JSON]]:
    return [(document.index, document.line, document.data) for document in read_text(raw, file)]


@pytest.mark.parametrize("file", ["a.json", "a.yaml", "a.txt", "-"])
def test_json_is_read_whatever_the_file_extension(file: str) -> None:
    assert read(b' \n {"a": 1}', file) == [(0, 2, {"a": 1})]


@pytest.mark.parametrize("file", ["a.json", "a.yaml", "-"])
def test_yaml_is_read_whatever_the_file_extension(file: str) -> None:
    assert read(b"a: 1\n---\nb: 2\n", file) == [(0, 1, {"a": 1}), (1, 3, {"b": 2})]


@pytest.mark.parametrize("file", ["a.json", "a.yaml", "-"])
def test_several_json_values_are_several_documents(file: str) -> None:
    raw = b'{"a":1}\n{"b":\n2}  {"c":3}'
    assert read(raw, file) == [(0, 1, {"a": 1}), (1, 2, {"b": 2}), (2, 3, {"c": 3})]


@pytest.mark.parametrize("raw", [b"{a: b}", b'{"a": b}', b'{"a": "b",}', b'{"a": "b"}\n---\n{"c": 1}'])
def test_flow_style_yaml_is_read(raw: bytes) -> None:
    assert read(raw)[0] == (0, 1, {"a": "b"})


@pytest.mark.parametrize("raw", [b"", b" \n", b"---\n", b"# nothing\n", b"null\n---\n~\n"])
def test_a_text_may_hold_no_documents(raw: bytes) -> None:
    assert read(raw) == []


def test_a_byte_order_mark_of_utf_8_is_skipped() -> None:
    assert read(b'\xef\xbb\xbf{"a": 1}') == [(0, 1, {"a": 1})]
    assert read(b"\xef\xbb\xbfa: 1") == [(0, 1, {"a": 1})]


def test_numbers_keep_their_type() -> None:
    assert read(b'{"a": 1, "b": 1.0, "c": 12345678901234567890}') == [
        (0, 1, {"a": 1, "b": 1.0, "c": 12345678901234567890.0})
    ]
    assert isinstance(read(b'{"a": 1.0}')[0][2]["a"], float)


@pytest.mark.parametrize(
    ("raw", "file", "message"),
    [
        (b"{a:1}", "a.json", "a.json: document 1, line 1, column 2: not JSON: expecting property name"),
        (
            b'{"a":1',
            "a.json",
            "a.json: document 1, line 1, column 7: not JSON: the text ends before the value",
        ),
        (b'{"a":1 2}', "a.json", "a.json: document 1, line 1, column 8: not JSON: expecting ',' delimiter"),
        (
            b'{"a":1,\n}',
            "a.json",
            "a.json: document 1, line 1, column 7: not JSON: a comma before the closing",
        ),
        (b"[1 ,]", "a.json", "a.json: document 1, line 1, column 4: not JSON: a comma before the closing"),
        (
            b'{"a": // b\n1}',
            "a.json",
            "a.json: document 1, line 1, column 7: not JSON: a comment, which JSON",
        ),
        (
            b'{"a":1}\n{"b"}',
            "a.json",
            "a.json: document 2, line 2, column 5: not JSON: expecting ':' delimiter",
        ),
        (b'\n{"a": NaN}', "a.json", "a.json: document 1, line 2, column 7: not JSON: invalid character"),
        (
            b'{"a": 1e999}',
            "a.json",
            "a.json: document 1, line 1, column 1: not JSON: a number is out of range",
        ),
        (
            b'{"a": "\\ud800"}',
            "a.json",
            "a.json: document 1, line 1, column 1: not JSON: a \\u escape stands for half a character",
        ),
        (b'{"a": "\xff"}', "a.json", "a.json: document 1, line 1, column 8: not UTF-8: byte 0xff"),
        (
            "{'\u00e9': '".encode() + b"\xff",
            "a.json",
            "a.json: document 1, line 1, column 8: not UTF-8: byte 0xff",
        ),
        (b"nope", "a.jsonl", "a.jsonl: document 1, line 1, column 1: not JSON: expecting value"),
        (b"[" * 100_000, "a.json", "a.json: document 1: nested too deeply to be read"),
        (b"[" * 100_000, "a.yaml", "a.yaml: document 1, line 1, column 501: nested deeper than 500 levels"),
        (b"a: b: c", "-", "standard input: document 1, line 1, column 5: mapping values are not allowed"),
        (b"a: 1\n---\nb: [", "a.yaml", "a.yaml: document 2, line 4, column 1: while parsing a flow"),
        (b"a: \xff", "a.yaml", "a.yaml: document 1, line 1, column 4: invalid leading UTF-8 octet"),
        (
            b"[1]",
            "a.json",
            "a.json: document 1, line 1, column 1: expected an object with apiVersion and kind",
        ),
        (b"a: 1\n---\nhello", "a.yaml", "a.yaml: document 2, line 3, column 1: expected an object"),
        ("a: 1".encode("utf-16"), "a.yaml", "a.yaml: is UTF-16; save it as UTF-8"),
        ("a: 1".encode("utf-32"), "-", "standard input: is UTF-32; save it as UTF-8"),
    ],
)
def test_a_syntax_error_names_file_document_and_position(raw: bytes, file: str, message: str) -> None:
    with pytest.raises(InputError) as refused:
        list(read_text(raw, file))
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize(
    ("raw", "file", "message"),
    [
        (
            b'{"a": {"b": 1, "b": 2}}',
            "a.json",
            "document 1, line 1, column 16: strict decoding error: duplicate",
        ),
        (b'{}\n{"a": [{"b": 1},\n{"b": 1, "b": 2}]}', "a.json", "document 2, line 3, column 10: strict"),
        (
            b"a: 1\n---\nb: 1\nb: 2",
            "a.yaml",
            "document 2, line 4, column 1: strict decoding error: duplicate",
        ),
    ],
)
def test_a_duplicate_member_can_be_refused(raw: bytes, file: str, message: str) -> None:
    assert list(read_text(raw, file))
    with pytest.raises(InputError) as refused:
        list(read_text(raw, file, unique_keys=True))
    assert str(refused.value).startswith(f"{file}: {message}")


def test_an_error_never_quotes_the_document() -> None:
    with pytest.raises(InputError) as refused:
        list(read_text(b'["hunter2"]', "a.json"))
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(next(read_text(b'{"password": "hunter2"}', "a.json")))


@given(st.lists(st.tuples(GAPS, OBJECTS), min_size=1, max_size=5))
def test_a_stream_of_values_is_read_back_with_line_numbers(values: list[tuple[str, JSON]]) -> None:
    text, lines = "", []
    for gap, value in values:
        text += gap
        lines.append(text.count("\n") + 1)
        text += json.dumps(value, indent=1)
    found = read(text.encode(), "a.json")
    assert [data for _, _, data in found] == [value for _, value in values]
    assert [line for _, line, _ in found] == lines
