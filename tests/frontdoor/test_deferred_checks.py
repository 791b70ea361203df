"""Reviews whose long objects are checked by the services that parse them, and not by the front door."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.apimachinery.errors import ReviewError
from pratique.apimachinery.json_reading import JsonLimitError, read_document
from pratique.apimachinery.json_values import MIN_PROVED_BYTES, Document
from pratique.cluster.store import ANY_NAMESPACE
from pratique.rpc.check_digests import OBJECT_LEVELS
from pratique_frontdoor.http.codecs import ReceivedReview, decode_deferring, decode_review
from pratique_frontdoor.webhooks.reviews import build_review
from support.front_doors.reviews import review_document
from support.hostile_json import HARMLESS, HOSTILE
from support.strategies.json_values import objects
from support.strategies.reviews import reviews

FILLING = b'"filling":"' + b"x" * MIN_PROVED_BYTES + b'"'
LONG = b"{" + FILLING + b"}"


def body_of(written: bytes, name: str = "object", **fields: Any) -> bytes:
    """A review with an object, as an API server writes it."""
    document = review_document(**fields)
    document["request"] |= {name: msgspec.Raw(written)}
    return msgspec.json.encode(document) + b"\n"


def refusal(decode: Callable[[], object]) -> str:
    """The words in which a body is refused; empty if it is not."""
    try:
        decode()
    except ReviewError as error:
        return str(error)
    return ""


def service_refuses(document: Document) -> bool:
    """Tell whether a service refuses a document that nobody has checked."""
    try:
        read_document(document.unchecked_raw, OBJECT_LEVELS)
    except (JsonLimitError, msgspec.DecodeError, UnicodeDecodeError):
        return True
    return False


def deferred(body: bytes) -> ReceivedReview:
    received = decode_deferring(body, ANY_NAMESPACE)
    assert received is not None
    return received


def test_the_check_of_a_long_object_is_left_to_services() -> None:
    review = deferred(body_of(LONG)).review
    assert review.is_unchecked
    assert review.object_document.unchecked_raw == LONG
    assert review.object_document.check_digest == b""


@pytest.mark.parametrize("name", ["object", "oldObject"])
def test_a_deferred_review_is_the_one_that_was_sent(name: str) -> None:
    body = body_of(LONG, name)
    assert deferred(body) == decode_review(body, ANY_NAMESPACE)


def test_two_long_objects_are_one_check() -> None:
    body = body_of(LONG, oldObject={"filling": "y" * MIN_PROVED_BYTES})
    review = deferred(body).review
    review.old_object_document.checked_elsewhere()
    assert not review.is_unchecked
    assert review.object == {"filling": "x" * MIN_PROVED_BYTES}


def with_filling(written: bytes) -> bytes:
    """An object with a member more, which makes it long."""
    return b"{" + FILLING + b"," + written.lstrip(b" {")


def hostile_body(problem: str) -> bytes:
    return body_of(b"null").replace(b'"object":null', b'"object":' + with_filling(HOSTILE[problem][0]))


@pytest.mark.parametrize("problem", HOSTILE)
def test_reading_a_hostile_object_refuses_the_review_in_the_words_of_the_check_of_all(problem: str) -> None:
    body = hostile_body(problem)
    words = refusal(lambda: decode_review(body, ANY_NAMESPACE))
    assert words
    received = decode_deferring(body, ANY_NAMESPACE)
    if received is None:
        return
    assert service_refuses(received.review.object_document)
    for read in (
        lambda: received.review.object,
        lambda: received.review.object_document.raw,
        received.review.check,
    ):
        assert refusal(read) == words


def test_most_hostile_objects_are_found_by_services() -> None:
    found = [problem for problem in HOSTILE if decode_deferring(hostile_body(problem), ANY_NAMESPACE)]
    assert len(found) >= 10


@pytest.mark.parametrize("problem", HARMLESS)
def test_a_service_accepts_what_only_looks_hostile(problem: str) -> None:
    body = body_of(with_filling(HARMLESS[problem]))
    refused = refusal(lambda: decode_review(body, ANY_NAMESPACE))
    received = decode_deferring(body, ANY_NAMESPACE)
    assert received is None or service_refuses(received.review.object_document) == bool(refused)


@pytest.mark.parametrize("levels", [OBJECT_LEVELS, OBJECT_LEVELS + 1])
def test_a_service_counts_the_levels_around_an_object(levels: int) -> None:
    body = body_of(with_filling(b'{"a":%s}' % (b"[" * (levels - 1) + b"]" * (levels - 1))))
    refused = refusal(lambda: decode_review(body, ANY_NAMESPACE))
    assert bool(refused) == (levels > OBJECT_LEVELS)
    assert service_refuses(deferred(body).review.object_document) == bool(refused)


BEGIN = b'{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":'
REQUEST = body_of(LONG).strip()[len(BEGIN) : -1]


@pytest.mark.parametrize(
    "body",
    [
        body_of(b"{}"),
        json.dumps(review_document(object={"a": "x" * MIN_PROVED_BYTES})).encode(),
        BEGIN + REQUEST + b',"response":null}',
        BEGIN + REQUEST + b',"request":' + REQUEST + b"}",
        BEGIN + b"{}" + b',"request":' + REQUEST + b"}",
        BEGIN + REQUEST[:-1] + b',"object":' + LONG + b"}}",
        BEGIN + b'{"object":{},' + REQUEST[1:] + b"}",
        BEGIN + b'{"\\u006fbject":{},' + REQUEST[1:] + b"}",
        BEGIN + b'{"uid":"other",' + REQUEST[1:] + b"}",
        BEGIN + b'{"more":{"a":1,"a":2},' + REQUEST[1:] + b"}",
        BEGIN + b'{"more":1e400,' + REQUEST[1:] + b"}",
        b'{"x":"{",' + BEGIN[1:] + REQUEST + b',"x":"}"}',
        BEGIN + REQUEST.replace(b'"uid":"', b'"uid":7,"was":"') + b"}",
        BEGIN + REQUEST.replace(b'"uid"', b'"was"') + b"}",
        BEGIN + REQUEST.replace(b'"object":{"', b'"object":[{"')[:-1] + b"]}}",
        BEGIN + REQUEST.replace(b'"name":"', b'"name":"\\u0000') + b"}",
        BEGIN + REQUEST,
        BEGIN + REQUEST + b"}}",
        BEGIN + b'{"more":"' + b"x" * MIN_PROVED_BYTES + b'",' + REQUEST[1:] + b"}",
        b"",
        b"[" * 100_000,
        b"\xff" + BEGIN + REQUEST + b"}",
    ],
)
def test_what_is_not_written_as_an_api_server_writes_it_is_checked_here(body: bytes) -> None:
    assert decode_deferring(body, ANY_NAMESPACE) is None


@given(reviews(), st.booleans())
def test_a_deferred_review_says_the_same_as_a_checked_one(review: Review, long: bool) -> None:  # noqa: FBT001  # drawn
    named = msgspec.structs.replace(review, name="web", namespace="shop")
    body = build_review(named, ["v1"]).body
    if long:
        body = body.replace(b'"object":{', b'"object":{' + FILLING + b",", 1).replace(
            FILLING + b",}", FILLING + b"}"
        )
    received = decode_deferring(body, ANY_NAMESPACE)
    assert received is None or received == decode_review(body, ANY_NAMESPACE)


TEXTS = st.sampled_from(
    [b'"', b"{", b"}", b":", b",", b"null", b'"a"', b'"a":1', b'"request":', b'"object":', LONG]
)
"""Of which texts are made that could be taken for another."""


@given(st.lists(TEXTS, max_size=12).map(b"".join), st.lists(TEXTS, max_size=6).map(b"".join), objects())
def test_what_services_accept_of_a_deferred_review_the_whole_check_accepts(
    head: bytes, tail: bytes, value: object
) -> None:
    parts = BEGIN + head, REQUEST[:-1], b',"more":' + msgspec.json.encode(value) + tail, b"}}"
    for body in (b"".join(parts), parts[0][: -len(head) or None] + parts[1] + b"," + head + parts[3]):
        received = decode_deferring(body, ANY_NAMESPACE)
        if received is not None and not service_refuses(received.review.object_document):
            assert received == decode_review(body, ANY_NAMESPACE)
