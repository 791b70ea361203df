"""Outcomes to messages, and back."""

from __future__ import annotations

import pytest
from hypothesis import given

from pratique.admission.controllers import Phase
from pratique.admission.results import ALLOWED, Denied, Failed, FailureKind, Outcome, Patched
from pratique.admission.reviews import Call
from pratique.admission.v1 import outcome_pb2 as pb
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import BadAnswerError
from pratique.rpc.messages import outcome_from_message, outcome_to_message
from support.strategies.reviews import outcomes


def received(message: pb.Outcome, phase: Phase = Phase.MUTATE) -> Outcome:
    return outcome_from_message(message, Call("c"), phase)


@given(outcomes())
def test_an_outcome_arrives_as_it_was_sent(outcome: Outcome) -> None:
    raw = outcome_to_message(outcome).SerializeToString()
    message = pb.Outcome.FromString(raw)
    assert outcome_from_message(message, Call(outcome.controller), Phase.MUTATE) == outcome


def test_an_empty_allowed_is_a_decision() -> None:
    message = pb.Outcome.FromString(
        outcome_to_message(Outcome(controller="c", decision=ALLOWED)).SerializeToString()
    )
    assert message.WhichOneof("decision") == "allowed"


def test_an_outcome_without_a_decision_is_a_failed_call() -> None:
    with pytest.raises(BadAnswerError, match=r"^received invalid webhook response: .* no decision$"):
        received(pb.Outcome(controller="c"))


@pytest.mark.parametrize("other", ["", "b", "cc", "d"])
def test_an_outcome_of_another_controller_is_a_failed_call(other: str) -> None:
    with pytest.raises(BadAnswerError, match='expected the outcome of "c"'):
        received(pb.Outcome(controller=other, allowed=pb.Allowed()))


def test_a_validator_may_not_patch() -> None:
    with pytest.raises(BadAnswerError, match="a validator may not patch"):
        received(pb.Outcome(controller="c", patched=pb.Patched(patch=b"[]")), Phase.VALIDATE)


def test_a_validator_may_patch_if_the_call_says_so() -> None:
    message = pb.Outcome(controller="c", patched=pb.Patched(patch=b"[]"))
    assert outcome_from_message(message, Call("c", may_patch=True), Phase.VALIDATE).decision == Patched(())


@pytest.mark.parametrize("patch", [b"", b"{", b"{}", b'"x"', b"1", b"[1]", b'["x"]', b"[[]]", b"\xff"])
def test_a_patch_that_is_not_an_array_of_operations_is_a_failed_call(patch: bytes) -> None:
    with pytest.raises(BadAnswerError, match=r"^received undecodable patch in webhook response: "):
        received(pb.Outcome(controller="c", patched=pb.Patched(patch=patch)))


@pytest.mark.parametrize("patch", [b"[]", b" [ ] ", b"null"])
def test_a_patch_of_no_operations_changes_nothing(patch: bytes) -> None:
    outcome = received(pb.Outcome(controller="c", patched=pb.Patched(patch=patch)))
    assert outcome.decision == Patched(())


@pytest.mark.parametrize("code", [-1, 0, 200, 399])
def test_a_denial_has_a_code_of_at_least_400(code: int) -> None:
    outcome = received(
        pb.Outcome(controller="c", denied=pb.Denied(status=pb.Status(code=code, message="no")))
    )
    assert outcome.decision == Denied(statuses.failure(400, "", "no"))


def test_a_denial_without_a_status_is_a_denial() -> None:
    outcome = received(pb.Outcome(controller="c", denied=pb.Denied()))
    assert outcome.decision == Denied(statuses.failure(400, "", ""))


@pytest.mark.parametrize("number", [0, 99])
def test_a_failure_of_unknown_kind_is_an_error(number: int) -> None:
    message = pb.Outcome(controller="c", failed=pb.Failed(message="m"))
    message.failed.MergeFromString(bytes([0x08, number]))
    assert received(message).decision == Failed(FailureKind.ERROR, "m")


def test_negative_retry_seconds_are_read_as_0() -> None:
    details = pb.StatusDetails(retry_after_seconds=-5)
    status = pb.Status(code=429, details=details)
    decision = received(pb.Outcome(controller="c", denied=pb.Denied(status=status))).decision
    assert isinstance(decision, Denied)
    assert decision.status.details == statuses.StatusDetails()


def test_empty_warnings_are_dropped() -> None:
    message = pb.Outcome(controller="c", allowed=pb.Allowed(), warnings=["", "w", ""])
    assert received(message).warnings == ("w",)
