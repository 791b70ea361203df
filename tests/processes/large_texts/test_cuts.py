"""Stripping members from a text."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import decode
from pratique.processes.large_text_process import MemberSelection, slice_pieces, strip_members
from support.strategies.json_values import values

SELECTION = MemberSelection("request", ("object", "oldObject"))


@given(
    st.fixed_dictionaries({"object": values(), "oldObject": values(), "options": values(), "uid": values()})
)
def test_a_stripped_member_is_found_at_its_span(request: dict[str, object]) -> None:
    text = json.dumps({"kind": "AdmissionReview", "request": request}, indent=1).encode()
    stripped = strip_members(text, SELECTION)
    assert stripped is not None
    found = {name: decode(text[begin:end]) for name, (begin, end) in stripped.spans.items()}
    assert found == {name: decode(json.dumps(request[name])) for name in SELECTION.names}
    rest = decode(stripped.text)
    assert rest["request"].keys() == request.keys()
    rest["request"] |= found
    assert rest == decode(text)


@pytest.mark.parametrize("text", [b"{}", b'{"request":null}', b'{"request":[1]}', b"[]", b"1"])
def test_a_missing_parent_strips_nothing(text: bytes) -> None:
    assert strip_members(text, SELECTION) is None


def test_a_missing_member_gets_no_span() -> None:
    stripped = strip_members(b'{"request":{"object":{"a":1}}}', SELECTION)
    assert stripped is not None
    assert (stripped.text, stripped.spans) == (b'{"request":{"object":null}}', {"object": (21, 28)})


@given(st.binary(max_size=40), st.lists(st.integers(0, 40)), st.integers(0, 40), st.integers(0, 40))
def test_pieces_slice_like_the_whole_text(text: bytes, breaks: list[int], begin: int, end: int) -> None:
    places = [0, *sorted(min(offset, len(text)) for offset in breaks), len(text)]
    pieces = [text[first:last] for first, last in itertools.pairwise(places)]
    assert slice_pieces(pieces, begin, max(begin, end)) == text[begin : max(begin, end)]
