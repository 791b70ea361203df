"""Decoding JSON Patches."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_reading import syntax_error
from pratique.apimachinery.json_values import JSON
from pratique.apimachinery.patches import PatchDecodeError, decode_patch
from support.strategies.json_values import values

INVALID_CHARACTER = [
    ("nope", "'o' in literal null (expecting 'u')"),
    ("tru}", "'}' in literal true (expecting 'e')"),
    ("{'a': 1}", "'\\'' looking for beginning of object key string"),
    ('{"a":1,}', "'}' looking for beginning of object key string"),
    ('{"a" 1}', "'1' after object key"),
    ('{"a":1 "b":2}', "'\"' after object key:value pair"),
    ("[1,]", "']' looking for beginning of value"),
    ("[1 2]", "'2' after array element"),
    ("[1}", "'}' after array element"),
    ("[] []", "'[' after top-level value"),
    ("01", "'1' after top-level value"),
    ("<html>", "'<' looking for beginning of value"),
    ("[-x]", "'x' in numeric literal"),
    ("[1.]", "']' after decimal point in numeric literal"),
    ("[1e+]", "']' in exponent of numeric literal"),
    ('["\\x"]', "'x' in string escape code"),
    ('["\\u12g4"]', "'g' in \\u hexadecimal character escape"),
    ('["a\nb"]', "'\\n' in string literal"),
    ("\x00", "'\\x00' looking for beginning of value"),
    ("é", "'Ã' looking for beginning of value"),
]


@pytest.mark.parametrize(("text", "expected"), INVALID_CHARACTER)
def test_a_patch_that_is_not_json_is_refused_in_gos_words(text: str, expected: str) -> None:
    with pytest.raises(PatchDecodeError) as refusal:
        decode_patch(text.encode())
    assert str(refusal.value) == f"invalid character {expected}"


@pytest.mark.parametrize(
    "text", ["", " ", "[", "{", '{"a"', '{"a":', "[1,", '"abc', '"\\', '"\\u12', "-", "1.", "tr"]
)
def test_a_truncated_patch_is_refused_in_gos_words(text: str) -> None:
    with pytest.raises(PatchDecodeError, match=r"^unexpected end of JSON input$"):
        decode_patch(text.encode())


@pytest.mark.parametrize(
    ("text", "found", "wanted"),
    [
        ("{}", "object", "Patch"),
        ('"[]"', "string", "Patch"),
        ("1.5", "number", "Patch"),
        ("true", "bool", "Patch"),
        ("[1]", "number", "Operation"),
        ('[{}, "add"]', "string", "Operation"),
        ("[[]]", "array", "Operation"),
    ],
)
def test_json_that_is_no_patch_is_refused_in_gos_words(text: str, found: str, wanted: str) -> None:
    with pytest.raises(PatchDecodeError) as refusal:
        decode_patch(text.encode())
    assert str(refusal.value) == f"json: cannot unmarshal {found} into Go value of type jsonpatch.{wanted}"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("null", []),
        (" [] ", []),
        ("[null, {}]", [{}, {}]),
        ('[{"op": "anything", "extra": [1]}]', [{"op": "anything", "extra": [1]}]),
    ],
)
def test_decoding_checks_only_the_outer_form(text: str, expected: JSON) -> None:
    assert decode_patch(text.encode()) == expected


def test_bytes_that_are_not_utf_8_are_replaced_as_go_does() -> None:
    assert decode_patch(b'[{"path": "/\xff"}]') == [{"path": "/\ufffd"}]


def test_a_patch_of_extreme_depth_is_refused() -> None:
    with pytest.raises(PatchDecodeError, match="exceeded max depth"):
        decode_patch(b"[" * 100_000)


@given(values())
def test_valid_json_has_no_syntax_error(value: JSON) -> None:
    assert syntax_error(json.dumps(value).encode()) == ""


@given(values().map(json.dumps), st.data())
def test_a_syntax_error_is_found_where_a_parser_finds_it(text: str, data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(text)))
    spoilt = (
        text[:place]
        + data.draw(st.sampled_from(["", "]", "}", ",", ":", '"', "1", "x", "\\", " "]))
        + text[place + 1 :]
    )
    try:
        json.loads(spoilt)
    except ValueError:
        assert syntax_error(spoilt.encode())
    else:
        assert syntax_error(spoilt.encode()) == ""
