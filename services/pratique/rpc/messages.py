"""Requests and answers of the services: what goes into one call, and what comes out of it."""

from __future__ import annotations

import asyncio
import logging
import math
from typing import TYPE_CHECKING

from pratique.admission.v1 import mutator_service_pb2, outcome_pb2, review_pb2, validator_service_pb2
from pratique.calls import Call
from pratique.definitions import Phase
from pratique.errors import ReviewError
from pratique.json_limits import LARGE_BYTES, read_document
from pratique.large_texts.readers import WORTH_BYTES
from pratique.outcomes import Denied, Failed, FailureKind, Outcome
from pratique.rpc.bad_answers import bad_answer
from pratique.rpc.outcome_messages import outcome_from_message, outcome_to_message
from pratique.rpc.review_messages import review_from_message, write_review

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pratique.clusters import Cluster
    from pratique.large_texts.readers import Reader
    from pratique.reviews import Review
    from pratique.rpc.handlers import Incoming
    from pratique.rpc.review_messages import ReadDocument

_log = logging.getLogger(__name__)


def mutate_request(
    review: Review, calls: Sequence[Call], digest: str = ""
) -> mutator_service_pb2.MutateRequest:
    """Ask a mutator to run controllers, one after another, by the inputs of a digest."""
    controllers = [_call_to_message(call) for call in calls]
    request = mutator_service_pb2.MutateRequest(controllers=controllers, digest=digest)
    write_review(request.review, review)
    return request


def validate_request(
    review: Review, calls: Sequence[Call], digest: str = ""
) -> validator_service_pb2.ValidateRequest:
    """Ask a validator to run controllers, side by side, by the inputs of a digest."""
    controllers = [_call_to_message(call) for call in calls]
    request = validator_service_pb2.ValidateRequest(controllers=controllers, digest=digest)
    write_review(request.review, review)
    return request


def _call_to_message(call: Call) -> review_pb2.ControllerCall:
    message = review_pb2.ControllerCall(name=call.name)
    if call.timeout_seconds is not None:
        # Rounded up, and never to 0, which would mean no limit.
        message.timeout_millis = max(1, math.ceil(call.timeout_seconds * 1000))
    if not call.is_plain:
        message.explain = call.explain
        if call.again is not None:
            message.again.SetInParent()
            message.again.keys.extend(call.again)
    return message


async def read_request(
    request: Incoming[mutator_service_pb2.MutateRequest] | Incoming[validator_service_pb2.ValidateRequest],
    cluster: Cluster,
    reader: Reader,
) -> tuple[Review, list[Call]]:
    """Read what a service is asked to do: off the event loop where it is long, by ``reader`` where it is very long.

    Raises:
        ReviewError: as :func:`review_and_calls`.
        ReaderEndedError: it could not be read.
    """
    message, size = request
    if size <= LARGE_BYTES:
        return review_and_calls(message, cluster)
    if size <= WORTH_BYTES:
        return await asyncio.to_thread(review_and_calls, message, cluster)
    return await reader.run(review_and_calls, message, cluster, reader.read_document)


def review_and_calls(
    request: mutator_service_pb2.MutateRequest | validator_service_pb2.ValidateRequest,
    cluster: Cluster,
    read: ReadDocument = read_document,
) -> tuple[Review, list[Call]]:
    """Read what a service is asked to do, its documents by ``read``.

    Raises:
        ReviewError: the request breaks the contract. The text names the field, never its content.
    """
    if not request.HasField("review"):
        raise ReviewError("review is missing")
    if not request.controllers:
        raise ReviewError("controllers is empty: name at least one controller to run")
    return (
        review_from_message(request.review, cluster, read, request.digest),
        [_call_from_message(message) for message in request.controllers],
    )


def _call_from_message(message: review_pb2.ControllerCall) -> Call:
    millis = message.timeout_millis
    if millis < 0:
        raise ReviewError("controllers.timeout_millis must be 0, which means no limit of its own, or more")
    again = tuple(message.again.keys) if message.HasField("again") else None
    return Call(message.name, millis / 1000 if millis else None, again=again, explain=message.explain)


def mutate_response(
    outcomes: Iterable[Outcome], uid: str = "", digest: str = ""
) -> mutator_service_pb2.MutateResponse:
    """Answer with what mutating controllers made of the review of a uid, by the inputs of a digest."""
    steps = []
    for outcome in outcomes:
        steps.append(_tellable(outcome))
        if steps[-1].HasField("denied") or steps[-1].HasField("failed"):
            break  # what came after an outcome that cannot be told is built on a patch that nobody gets
    return mutator_service_pb2.MutateResponse(steps=steps, uid=uid, digest=digest)


def validate_response(
    outcomes: Iterable[Outcome], uid: str = "", digest: str = ""
) -> validator_service_pb2.ValidateResponse:
    """Answer with what validating controllers made of the review of a uid, by the inputs of a digest."""
    verdicts = [_tellable(outcome) for outcome in outcomes]
    return validator_service_pb2.ValidateResponse(verdicts=verdicts, uid=uid, digest=digest)


def _tellable(outcome: Outcome) -> outcome_pb2.Outcome:
    """Write an outcome; one that no message can hold is its controller's failure, and nobody else's."""
    try:
        return outcome_to_message(outcome)
    except Exception as error:  # noqa: BLE001 - protobuf, msgspec and Python each have errors of their own
        where = {"controller": outcome.controller, "error": type(error).__name__}
        _log.error("an answer cannot be sent", extra=where)
        failed = Failed(FailureKind.ERROR, "answered with what cannot be sent")
        return outcome_to_message(Outcome(controller=outcome.controller, decision=failed))


def outcomes_from_mutate(
    response: mutator_service_pb2.MutateResponse, calls: Sequence[Call], endpoint: str = ""
) -> list[Outcome]:
    """Read a mutator's answer: one outcome for each call, up to the first that is denied or failed.

    ``endpoint`` is who answered.

    Raises:
        BadAnswerError: the answer breaks the contract.
    """
    steps = response.steps
    if len(steps) > len(calls):
        raise bad_answer(f"{len(steps)} steps for {len(calls)} controllers")
    outcomes = [
        outcome_from_message(message, call, Phase.MUTATE, endpoint)
        for message, call in zip(steps, calls, strict=False)
    ]
    ends = [isinstance(outcome.decision, Denied | Failed) for outcome in outcomes]
    if True in ends[:-1]:
        raise bad_answer("steps go on after one that is denied or failed")
    if len(steps) < len(calls) and not (ends and ends[-1]):
        raise bad_answer(f"{len(steps)} steps for {len(calls)} controllers, and none is denied or failed")
    return outcomes


def outcomes_from_validate(
    response: validator_service_pb2.ValidateResponse, calls: Sequence[Call], endpoint: str = ""
) -> list[Outcome]:
    """Read a validator's answer: one outcome for each call, in their order. ``endpoint`` is who answered.

    Raises:
        BadAnswerError: the answer breaks the contract.
    """
    verdicts = response.verdicts
    if len(verdicts) != len(calls):
        raise bad_answer(f"{len(verdicts)} verdicts for {len(calls)} controllers")
    return [
        outcome_from_message(message, call, Phase.VALIDATE, endpoint)
        for message, call in zip(verdicts, calls, strict=True)
    ]


def check_review(
    response: mutator_service_pb2.MutateResponse | validator_service_pb2.ValidateResponse,
    uid: str,
    *,
    ours: bool,
) -> None:
    """See that an answer is to the review of a uid.

    Services of this suite say so; others that were made before there was a field for it, say nothing.

    Raises:
        BadAnswerError: it is to another review.
    """
    if response.uid != uid and (ours or response.uid):
        raise bad_answer("the answer is to another review" if response.uid else "the answer names no review")
