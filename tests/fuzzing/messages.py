"""Bytes to messages of the contract: what a service is asked, and what it answers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

from google.protobuf.message import DecodeError

from pratique.admission.results import ALLOWED, Denied, Failed, FailureKind, Outcome, Patched
from pratique.admission.reviews import Call
from pratique.admission.v1 import mutator_service_pb2, validator_service_pb2
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import BadAnswerError, ReviewError
from pratique.cluster.store import ANY_NAMESPACE
from pratique.rpc import messages
from support.services.reviews import review_of

CALLS = [Call("a"), Call("b", may_patch=True)]


@contextlib.contextmanager
def opened(_folder: Path) -> Iterator[Callable[[bytes], bool]]:
    """There is nothing to make."""
    yield attempt


def attempt(data: bytes) -> bool:
    """Read bytes as a request, as the answer of a mutator and as that of a validator."""
    understood = [_is_request(data), _is_mutators(data), _is_validators(data)]
    return any(understood)


def _is_request(data: bytes) -> bool:
    try:
        request = mutator_service_pb2.MutateRequest.FromString(data)
        review, calls = messages.review_and_calls(request, ANY_NAMESPACE)
    except (DecodeError, ReviewError):
        return False
    again = messages.mutate_request(review, calls, review.digest)
    assert messages.review_and_calls(again, ANY_NAMESPACE) == (review, calls)
    return True


def _is_mutators(data: bytes) -> bool:
    try:
        response = mutator_service_pb2.MutateResponse.FromString(data)
        outcomes = messages.outcomes_from_mutate(response, CALLS)
    except (DecodeError, BadAnswerError):
        return False
    messages.mutate_response(outcomes)
    return True


def _is_validators(data: bytes) -> bool:
    try:
        response = validator_service_pb2.ValidateResponse.FromString(data)
        outcomes = messages.outcomes_from_validate(response, CALLS)
    except (DecodeError, BadAnswerError):
        return False
    messages.validate_response(outcomes)
    return True


def seeds() -> Iterator[bytes]:
    """A request, and answers of every kind."""
    yield messages.mutate_request(review_of(), [Call("a", 1.5), Call("b", only=("x",))]).SerializeToString()
    refused = Denied(statuses.failure(403, "Forbidden", "no"))
    patch = Patched(({"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},))
    for decision in (ALLOWED, refused, patch, Failed(FailureKind.TIMEOUT, "late")):
        first = Outcome(controller="a", decision=ALLOWED, warnings=("w",), audit_annotations={"k": "v"})
        second = Outcome(controller="b", decision=decision, duration_seconds=0.5)
        yield messages.mutate_response([first, second]).SerializeToString()
        yield messages.validate_response([first, second]).SerializeToString()
