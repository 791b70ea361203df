"""URLs are parsed as in Go."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.urls import Url, parse_url

PIECES = st.sampled_from(
    ["https", ":", "//", "/", "h", ":443", "@", "?", "#", "[", "]", "::1", "%", "%41", " ", "\u00e9"]
)


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", Url()),
        ("https://example.com", Url("https", host="example.com")),
        ("HTTPS://Example.com:443/a?b#c", Url("https", None, "Example.com:443", "/a", "b", "c")),
        ("https:///a", Url("https", path="/a")),
        ("https://a@b@c", Url("https", "a@b", "c")),
        ("https://user:secret@h", Url("https", "user:xxxxx", "h")),
        ("https://[::1]:443", Url("https", host="[::1]:443")),
        ("https://[fe80::1%25en0]", Url("https", host="[fe80::1%25en0]")),
        ("https:a?b", Url("https", query="b")),
        ("//h/a", Url(host="h", path="/a")),
        ("///a", Url(path="///a")),
        ("https://h?", Url("https", host="h")),
        ("grpc://a:1:2", Url("grpc", host="a:1:2")),
        ("arg#backwards=this?x", Url(path="arg", fragment="backwards=this?x")),
        ("https://h%e4", Url("https", host="h%e4")),
    ],
)
def test_a_url_has_its_parts(text: str, url: Url) -> None:
    assert parse_url(text) == url


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("https://a\n", 'parse "https://a\\n": net/url: invalid control character in URL'),
        (":a", 'parse ":a": missing protocol scheme'),
        ("a b:c", 'parse "a b:c": first path segment in URL cannot contain colon'),
        ("https://a b", 'parse "https://a b": invalid character " " in host name'),
        ("https://a%41", 'parse "https://a%41": invalid URL escape "%41"'),
        ("https://a/%zz", 'parse "https://a/%zz": invalid URL escape "%zz"'),
        ("https://a/%4", 'parse "https://a/%4": invalid URL escape "%4"'),
        ("https://a#%", 'parse "https://a#%": invalid URL escape "%"'),
        ("https://u%zz@a", 'parse "https://u%zz@a": invalid URL escape "%zz"'),
        ("https://u^@a", 'parse "https://u^@a": net/url: invalid userinfo'),
        ("https://a:x", 'parse "https://a:x": invalid port ":x" after host'),
        ("https://a:1:2", 'parse "https://a:1:2": invalid port ":1:2" after host'),
        ("https://[::1", "parse \"https://[::1\": missing ']' in host"),
        ("https://[::1]x", 'parse "https://[::1]x": invalid port "x" after host'),
        (
            "https://[1.2.3.4]",
            'parse "https://[1.2.3.4]": invalid host: ParseAddr("1.2.3.4"): unable to parse IP',
        ),
        ("https://a[::1]", 'parse "https://a[::1]": invalid IP-literal'),
    ],
)
def test_a_text_that_is_no_url_is_refused_in_gos_words(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=r"^parse ") as refused:
        parse_url(text)
    assert str(refused.value) == message


@given(st.lists(PIECES, max_size=8).map("".join))
def test_a_password_is_never_kept(text: str) -> None:
    with contextlib.suppress(ValueError):
        assert "hunter2" not in repr(parse_url(f"https://u:hunter2@{text}"))
