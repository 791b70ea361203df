"""What is written as YAML is read as it was, by kubectl's rules too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.documents import read_text
from pratique_cli.encoding import dump_yaml

TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"])) | st.from_regex(r"[-+.0-9eE_xob:~yYnN]+")


def again(value: object) -> object:
    (document,) = read_text(dump_yaml({"value": value}).encode(), "a.yaml")
    return document.data["value"]


@pytest.mark.parametrize(
    "text", ["0E0", "1_000", "0b1", "0o7", "y", "N", "on", "~", ".5", "1e3", "2026-01-01"]
)
def test_strings_that_look_like_other_types_stay_strings(text: str) -> None:
    assert again(text) == text


@given(TEXTS)
def test_every_string_survives_a_round_trip(text: str) -> None:
    assert again([text, {text: text}]) == [text, {text: text}]
