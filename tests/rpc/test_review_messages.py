"""Reviews to messages, and back."""

from __future__ import annotations

from collections.abc import Callable

import msgspec
import pytest
from hypothesis import given

from pratique.admission.reviews import Review
from pratique.admission.v1 import review_pb2
from pratique.apimachinery.errors import ReviewError
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import ANY_NAMESPACE, ObjectStore
from pratique.rpc.messages import review_from_message, write_review
from support.hostile_json import HOSTILE
from support.services.reviews import review_of
from support.strategies.reviews import reviews


def review_to_message(review: Review) -> review_pb2.Review:
    message = review_pb2.Review()
    write_review(message, review)
    return message


def sent(review: Review) -> Review:
    raw = review_to_message(review).SerializeToString()
    return review_from_message(review_pb2.Review.FromString(raw), ANY_NAMESPACE)


@given(reviews())
def test_a_review_arrives_as_it_was_sent(review: Review) -> None:
    arrived = sent(review)
    assert arrived.received_values > 0
    assert msgspec.structs.replace(arrived, received_values=review.received_values) == review


def test_objects_are_sent_as_their_original_bytes() -> None:
    raw = b'{ "b": 1.0, "a": 9007199254740993, "c": 1e2 }'
    assert sent(review_of(raw)).object_document.raw == raw


@pytest.mark.parametrize("field", ["object", "old_object", "options"])
@pytest.mark.parametrize(("raw", "problem"), HOSTILE.values(), ids=HOSTILE)
def test_json_that_no_api_server_writes_is_rejected_on_arrival(field: str, raw: bytes, problem: str) -> None:
    message = review_to_message(review_of())
    setattr(message, field, raw)
    with pytest.raises(ReviewError) as refusal:
        review_from_message(message, ANY_NAMESPACE)
    assert str(refusal.value) == f"review.{field} {problem}"


def test_null_means_no_object() -> None:
    message = review_to_message(review_of())
    message.object = b"null"
    assert review_from_message(message, ANY_NAMESPACE).object_document.is_null


def test_controllers_look_up_objects_in_the_receivers_cluster() -> None:
    cluster = ObjectStore()
    assert review_from_message(review_to_message(review_of()), cluster).cluster is cluster


@pytest.mark.parametrize("operation", Operation)
def test_every_operation_has_its_number(operation: Operation) -> None:
    message = review_to_message(review_of(operation=operation))
    assert review_pb2.Operation.Name(message.operation) == f"OPERATION_{operation}"


def unknown_operation(message: review_pb2.Review) -> None:
    message.MergeFromString(b"\x10\x63")  # field 2, number 99


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda message: message.ClearField("uid"), "review.uid is missing"),
        (lambda message: message.ClearField("kind"), "review.kind is missing"),
        (lambda message: message.ClearField("resource"), "review.resource is missing"),
        (
            lambda message: message.ClearField("operation"),
            "review.operation must be one of OPERATION_CREATE, ",
        ),
        (unknown_operation, "review.operation must be one of OPERATION_CREATE, "),
    ],
)
def test_the_error_names_the_field_that_breaks_the_contract(
    spoil: Callable[[review_pb2.Review], None], words: str
) -> None:
    message = review_to_message(review_of())
    spoil(message)
    with pytest.raises(ReviewError) as refusal:
        review_from_message(message, ANY_NAMESPACE)
    assert str(refusal.value).startswith(words)


def test_an_empty_kind_is_present() -> None:
    message = review_to_message(review_of())
    message.kind.Clear()
    message.kind.SetInParent()
    assert review_from_message(message, ANY_NAMESPACE).kind.kind == ""


def test_a_document_is_encoded_once_however_often_it_is_sent() -> None:
    review = review_of()
    document = review.object_document
    review_to_message(review)
    assert document.raw is document.raw
    assert Document.from_raw(document.raw) == document
