"""Values that are taken out of a text are found again in it, and nothing else of it changes."""

from __future__ import annotations

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.apimachinery.json_values import decode
from pratique.processes.large_text_process import MemberSelection, slice_pieces, strip_members
from support.strategies.json_values import values

CUT = MemberSelection("request", ("object", "oldObject"))


@given(
    st.fixed_dictionaries({"object": values(), "oldObject": values(), "options": values(), "uid": values()})
)
def test_a_stripped_member_is_found_at_its_span(request: dict[str, object]) -> None:
    text = json.dumps({"kind": "AdmissionReview", "request": request}, indent=1).encode()
    remainder = strip_members(text, CUT)
    assert remainder is not None
    found = {name: decode(text[begin:end]) for name, (begin, end) in remainder.spans.items()}
    assert found == {name: decode(json.dumps(request[name])) for name in CUT.names}
    rest = decode(remainder.text)
    assert rest["request"].keys() == request.keys()
    rest["request"] |= found
    assert rest == decode(text)


@pytest.mark.parametrize("text", [b"{}", b'{"request":null}', b'{"request":[1]}', b"[]", b"1"])
def test_a_missing_parent_strips_nothing(text: bytes) -> None:
    assert strip_members(text, CUT) is None


def test_a_missing_member_gets_no_span() -> None:
    remainder = strip_members(b'{"request":{"object":{"a":1}}}', CUT)
    assert remainder is not None
    assert (remainder.text, remainder.spans) == (b'{"request":{"object":null}}', {"object": (21, 28)})


@given(st.binary(max_size=40), st.lists(st.integers(0, 40)), st.integers(0, 40), st.integers(0, 40))
def test_pieces_slice_like_the_whole_text(
    text: bytes, breaks: list[int], begin: int, end: int
) -> None:
    places = [0, *sorted(min(each, len(text)) for each in breaks), len(text)]
    pieces = [text[first:last] for first, last in itertools.pairwise(places)]
    assert slice_pieces(pieces, begin, max(begin, end)) == text[begin : max(begin, end)]
