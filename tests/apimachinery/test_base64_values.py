"""Base64 as Go decodes it."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.go_formats import decode_base64


@given(st.binary(), st.integers(1, 9))
def test_base64_decodes_across_line_breaks(raw: bytes, width: int) -> None:
    text = base64.b64encode(raw).decode()
    broken = "\r\n".join(text[start : start + width] for start in range(0, len(text), width))
    assert decode_base64(text) == decode_base64(broken) == raw


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("a", 0),
        ("aaaaaa", 4),
        ("aa=", 3),
        ("aa=a", 2),
        ("=", 0),
        ("a===", 1),
        ("aa==a", 4),
        ("aaa==", 4),
        ("aa-a", 2),
        ("aaaa aaaa", 4),
        ("aaaa=", 4),
        ("\naaaa\n-aaa", 6),
        ("a\nb", 1),
        ("aaaa\naa\n", 6),
        ("aa=\na", 3),
    ],
)
def test_the_first_illegal_byte_is_named(text: str, place: int) -> None:
    with pytest.raises(ValueError, match=f"^illegal base64 data at input byte {place}$"):
        decode_base64(text)
