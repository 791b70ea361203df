"""Large reviews are read without what is deep inside of their objects, which arrive as the bytes that they were."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from doors.reviews import POD, review_body, review_body_of, review_document
from frontdoor.codecs import decode_review
from frontdoor.hollows import Hollow, hollow_out
from pratique.clusters import ANY_NAMESPACE
from pratique.errors import ReviewError
from pratique.json_limits import MOST_LEVELS, MOST_NODES, WHOLE_BYTES
from pratique.json_portions import check_portions, outline
from strategies.json_values import objects

if TYPE_CHECKING:
    from pratique.json_values import JSON


def hollowed(raw: bytes, size: int) -> Hollow:
    """Hollow out a text whose portions have that many bytes."""
    found = outline(raw, MOST_NODES, MOST_LEVELS, size)
    return hollow_out(raw, check_portions(raw, found.portions) or () if found else ())


FIELDS = ("object", "oldObject", "options")


@given(
    st.fixed_dictionaries({field: objects() | st.none() for field in FIELDS}), st.sampled_from([50, 100, 300])
)
def test_what_was_taken_out_is_put_back_as_it_was(members: dict[str, JSON], size: int) -> None:
    raw = json.dumps({"kind": "AdmissionReview", "request": {"uid": "u"} | members}).encode(
        "utf-8", "surrogatepass"
    )
    hollow = hollowed(raw, size)
    request = msgspec.json.decode(hollow.text, type=dict[str, msgspec.Raw])["request"]
    found = msgspec.json.decode(request, type=dict[str, msgspec.Raw])
    filled = {field: hollow.fill(bytes(found[field])).decode() for field in FIELDS}
    assert filled == {field: json.dumps(members[field]) for field in FIELDS}


MANY = {"items": [POD] * 8_000}
ESCAPED = {"data": {f"{number}.csv": '1,2,[3],"four",{5}\n\\ é😀' * 500 for number in range(100)}}
WIDE = {"metadata": {"annotations": {f"annotation-{number}": "x" * 40 for number in range(30_000)}}}
LARGE = {"many": MANY, "escaped": ESCAPED, "wide": WIDE, "one string": {"a": "x" * 2 * WHOLE_BYTES}}


@pytest.mark.parametrize("ascii_only", [True, False])
@pytest.mark.parametrize("new", LARGE.values(), ids=LARGE)
def test_large_objects_arrive_as_the_bytes_that_they_were(new: JSON, ascii_only: bool) -> None:  # noqa: FBT001 - a table's column
    old = {"a": "é" * WHOLE_BYTES}
    document = review_document(object=new, oldObject=old)
    body = json.dumps(document, ensure_ascii=ascii_only).encode()
    review = decode_review(body, ANY_NAMESPACE).review
    for sent, received in ((new, review.object_document), (old, review.old_object_document)):
        assert received.raw == json.dumps(sent, ensure_ascii=ascii_only).encode()
        assert received.data == sent


@pytest.mark.parametrize("field", ["object", "oldObject", "options"])
def test_nearly_all_of_a_large_object_is_taken_out(field: str) -> None:
    large: JSON = MANY | ESCAPED
    body = review_body("v1", **{field: large})
    assert len(body) > WHOLE_BYTES
    hollow = hollowed(body, 64 * 1024)
    assert len(hollow.text) < 256 * 1024


@pytest.mark.parametrize(
    ("request_member", "complaint"),
    [
        ({"object": ["x" * 50] * 40_000}, "Expected `object | null` - at `$.request.object`"),
        ({"object": "x" * 2 * WHOLE_BYTES}, "Expected `object | null` - at `$.request.object`"),
        (
            {"userInfo": {"groups": ["x" * 50] * 30_000 + [1] + ["x" * 50] * 10_000}},
            "Expected `str`, got `int` - at `$.request.userInfo.groups[30000]`",
        ),
        ({"object": MANY, "uid": 1}, "Expected `str`, got `int` - at `$.request.uid`"),
        ({"object": MANY, "uid": ""}, "the AdmissionReview's request has no uid"),
    ],
)
def test_what_is_wrong_with_a_large_review_is_told_as_of_a_small_one(
    request_member: dict[str, JSON], complaint: str
) -> None:
    with pytest.raises(ReviewError) as refusal:
        decode_review(review_body(**request_member), ANY_NAMESPACE)
    assert str(refusal.value).endswith(complaint)


def test_of_small_reviews_objects_are_parsed_already() -> None:
    review = decode_review(review_body(), ANY_NAMESPACE).review
    assert review.object == POD
    assert review.old_object_document.is_null


def test_one_byte_more_is_read_as_well() -> None:
    for size in (WHOLE_BYTES, WHOLE_BYTES + 1):
        review = decode_review(review_body_of(size), ANY_NAMESPACE).review
        assert set(review.object["data"]) == {"x"}
