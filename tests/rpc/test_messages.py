"""Requests and answers as a whole."""

from __future__ import annotations

import logging

import pytest

from pratique.admission.results import ALLOWED, Allowed, Denied, Failed, FailureKind, Outcome, Patched
from pratique.admission.reviews import Call
from pratique.admission.v1 import mutator_service_pb2, outcome_pb2, review_pb2, validator_service_pb2
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import BadAnswerError, ReviewError
from pratique.cluster.store import ANY_NAMESPACE
from pratique.rpc import messages
from support.services.controllers import SECRET
from support.services.reviews import review_of

CALLS = [Call("a"), Call("b"), Call("c")]
REFUSED = Denied(statuses.failure(403, "Forbidden", "no"))
BROKEN = Failed(FailureKind.ERROR, "raised KeyError")


def outcomes(*decisions: Allowed | Denied | Failed) -> list[Outcome]:
    return [
        Outcome(controller=name, decision=decision) for name, decision in zip("abc", decisions, strict=False)
    ]


@pytest.mark.parametrize(
    ("seconds", "millis"), [(None, 0), (10.0, 10_000), (0.0015, 2), (0.0, 1), (1e-9, 1), (29.9999, 30_000)]
)
def test_a_timeout_is_rounded_up_and_never_to_0(seconds: float | None, millis: int) -> None:
    request = messages.mutate_request(review_of(), [Call("a", seconds)])
    assert request.controllers[0].timeout_millis == millis


def test_calls_arrive_in_the_order_in_which_they_were_sent() -> None:
    request = messages.validate_request(review_of(), [Call("b", 1.5), Call("a")])
    _, calls = messages.review_and_calls(request, ANY_NAMESPACE)
    assert calls == [Call("b", 1.5), Call("a", None)]


@pytest.mark.parametrize(
    "message", [mutator_service_pb2.MutateRequest, validator_service_pb2.ValidateRequest]
)
def test_a_request_without_a_review_or_controllers_is_rejected(
    message: type[mutator_service_pb2.MutateRequest | validator_service_pb2.ValidateRequest],
) -> None:
    with pytest.raises(ReviewError, match=r"^review is missing$"):
        messages.review_and_calls(message(controllers=[review_pb2.ControllerCall(name="a")]), ANY_NAMESPACE)
    with pytest.raises(ReviewError, match=r"^controllers is empty: "):
        messages.review_and_calls(messages.mutate_request(review_of(), []), ANY_NAMESPACE)


def test_a_negative_timeout_is_rejected() -> None:
    request = messages.mutate_request(review_of(), CALLS)
    request.controllers[1].timeout_millis = -1
    with pytest.raises(ReviewError, match=r"^controllers.timeout_millis must be 0, "):
        messages.review_and_calls(request, ANY_NAMESPACE)


@pytest.mark.parametrize(
    "sent",
    [
        outcomes(ALLOWED, ALLOWED, ALLOWED),
        outcomes(ALLOWED, REFUSED),
        outcomes(BROKEN),
        outcomes(ALLOWED, ALLOWED, BROKEN),
    ],
    ids=["all", "up to a refusal", "up to a failure", "a failure at the end"],
)
def test_a_mutators_response_arrives(sent: list[Outcome]) -> None:
    assert messages.outcomes_from_mutate(messages.mutate_response(sent), CALLS) == sent


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ("", "0 steps for 3 controllers, and none is denied or failed"),
        ("ab", "2 steps for 3 controllers, and none is denied or failed"),
        ("abca", "4 steps for 3 controllers"),
        ("bac", 'expected the outcome of "a"'),
    ],
)
def test_a_mutators_response_with_the_wrong_steps_is_bad(names: str, words: str) -> None:
    steps = [outcome_pb2.Outcome(controller=name, allowed=outcome_pb2.Allowed()) for name in names]
    with pytest.raises(BadAnswerError, match=words):
        messages.outcomes_from_mutate(mutator_service_pb2.MutateResponse(steps=steps), CALLS)


def test_a_mutators_response_that_goes_on_after_a_denial_is_bad() -> None:
    steps = [
        outcome_pb2.Outcome(controller="a", denied=outcome_pb2.Denied()),
        outcome_pb2.Outcome(controller="b", allowed=outcome_pb2.Allowed()),
    ]
    with pytest.raises(BadAnswerError, match="go on after one that is denied or failed"):
        messages.outcomes_from_mutate(mutator_service_pb2.MutateResponse(steps=steps), CALLS)


def test_a_validators_response_arrives_whatever_was_decided() -> None:
    sent = outcomes(BROKEN, REFUSED, ALLOWED)
    assert messages.outcomes_from_validate(messages.validate_response(sent), CALLS) == sent


@pytest.mark.parametrize("names", ["", "ab", "abcc", "acb"])
def test_a_validators_response_with_the_wrong_number_of_verdicts_is_bad(names: str) -> None:
    verdicts = [outcome_pb2.Outcome(controller=name, allowed=outcome_pb2.Allowed()) for name in names]
    response = validator_service_pb2.ValidateResponse(verdicts=verdicts)
    with pytest.raises(BadAnswerError, match=r"^received invalid webhook response: "):
        messages.outcomes_from_validate(response, CALLS)


ENDLESS: dict[str, object] = {"op": "add", "path": "/x"}
ENDLESS["value"] = ENDLESS
UNTELLABLE = [
    Outcome(controller="b", decision=Patched((ENDLESS,))),
    Outcome(controller="b", decision=Denied(statuses.failure(2**40, "", SECRET))),
    Outcome(controller="b", decision=Denied(statuses.failure(403, "", f"{SECRET}\ud800"))),
    Outcome(controller="b", decision=Patched(({"op": "add", "path": "/x", "value": object()},))),
    Outcome(controller="b", decision=ALLOWED, warnings=(SECRET, 1)),  # type: ignore[arg-type]  # on purpose
]


@pytest.mark.parametrize("outcome", UNTELLABLE, ids=["endless", "number", "surrogate", "no JSON", "no text"])
def test_an_outcome_that_cannot_be_encoded_fails_alone(
    outcome: Outcome, caplog: pytest.LogCaptureFixture
) -> None:
    allowed = Outcome(controller="a", decision=ALLOWED)
    after = Outcome(controller="c", decision=ALLOWED)
    with caplog.at_level(logging.DEBUG):
        response = messages.validate_response([allowed, outcome, after])
    failed = Outcome(
        controller="b", decision=Failed(FailureKind.ERROR, "answered with values that cannot be sent")
    )
    assert messages.outcomes_from_validate(response, CALLS) == [allowed, failed, after]
    assert SECRET not in caplog.text


def test_steps_end_with_the_first_that_cannot_be_encoded() -> None:
    sent = [*outcomes(ALLOWED), UNTELLABLE[0], Outcome(controller="c", decision=REFUSED)]
    assert len(messages.mutate_response(sent).steps) == 2


@pytest.mark.parametrize(
    ("uid", "ours", "complaint"),
    [
        ("2", True, ""),
        ("2", False, ""),
        ("", False, ""),
        ("", True, "the answer names no review"),
        ("1", True, "the answer is to another review"),
        ("3", True, "the answer is to another review"),
        ("1", False, "the answer is to another review"),
        ("3", False, "the answer is to another review"),
    ],
)
def test_a_response_to_another_review_is_rejected(uid: str, *, ours: bool, complaint: str) -> None:
    response = validator_service_pb2.ValidateResponse(uid=uid)
    if not complaint:
        messages.check_answered_review(response, "2", ours=ours)
        return
    with pytest.raises(BadAnswerError, match=complaint):
        messages.check_answered_review(response, "2", ours=ours)
