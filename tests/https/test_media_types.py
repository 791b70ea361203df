from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.https.requests import MediaTypeError, parse_media_type


@pytest.mark.parametrize(
    ("text", "media_type"),
    [
        ("application/json", "application/json"),
        ("Application/JSON", "application/json"),
        (" text/html ; charset=utf-8", "text/html"),
        ('text/html; charset="utf-8"', "text/html"),
        ('text/html; a="quoted \\" ; b"; b=c', "text/html"),
        ("text/html;", "text/html"),
        ("text/html; ;", None),
        ("form-data", "form-data"),
        ("text/html; a=b; a=b", "text/html"),
        ("text/html; A=b; a=c", None),
    ],
)
def test_a_media_type_is_parsed(text: str, media_type: str | None) -> None:
    if media_type is None:
        with pytest.raises(MediaTypeError):
            parse_media_type(text)
    else:
        assert parse_media_type(text) == media_type


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "mime: no media type"),
        (";a=b", "mime: no media type"),
        ("/json", "mime: no media type"),
        ("text html", "mime: expected slash after first token"),
        ("text/", "mime: expected token after slash"),
        ("text//html", "mime: expected token after slash"),
        ("text/html x", "mime: unexpected content after media subtype"),
        ("text/html/x", "mime: unexpected content after media subtype"),
        ("text/html; charset", "mime: invalid media parameter"),
        ("text/html; charset=", "mime: invalid media parameter"),
        ('text/html; charset="utf-8', "mime: invalid media parameter"),
        ("text/html; a=b; a=c", "mime: duplicate parameter name"),
    ],
)
def test_a_malformed_media_type_is_refused_in_gos_words(text: str, reason: str) -> None:
    with pytest.raises(MediaTypeError) as raised:
        parse_media_type(text)
    assert str(raised.value) == reason


@given(st.text(alphabet='a/;= "\\b*\t', max_size=20))
def test_any_text_is_a_media_type_or_an_error(text: str) -> None:
    try:
        media_type = parse_media_type(text)
    except MediaTypeError:
        return
    assert media_type
    assert parse_media_type(media_type) == media_type
