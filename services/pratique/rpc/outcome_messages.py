"""Outcomes as protobuf messages, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from pratique import statuses
from pratique.admission.v1 import outcome_pb2
from pratique.definitions import Phase
from pratique.json_values import encode
from pratique.outcomes import ALLOWED, Allowed, Denied, Failed, FailureKind, Outcome, Patched
from pratique.rpc.bad_answers import bad_answer, read_operations
from pratique.rpc.part_messages import part_from_message, part_to_message
from pratique.rpc.status_messages import read_status, write_status

if TYPE_CHECKING:
    from pratique.calls import Call
    from pratique.outcomes import Decided

_TO_NUMBER = {
    FailureKind.ERROR: outcome_pb2.Failed.KIND_ERROR,
    FailureKind.TIMEOUT: outcome_pb2.Failed.KIND_TIMEOUT,
    FailureKind.UNKNOWN_CONTROLLER: outcome_pb2.Failed.KIND_UNKNOWN_CONTROLLER,
}
_FROM_NUMBER = {number: kind for kind, number in _TO_NUMBER.items()}


def outcome_to_message(outcome: Outcome) -> outcome_pb2.Outcome:
    """Write an outcome as a message.

    Raises:
        Exception: the controller answered with what no message can hold: a text that is no text or no UTF-8, a
            number out of range, a patch that is no JSON or refers to itself.
    """
    message = outcome_pb2.Outcome(
        controller=outcome.controller,
        warnings=outcome.warnings,
        audit_annotations=outcome.audit_annotations,
        duration_micros=round(outcome.duration_seconds * 1_000_000),
    )
    if outcome.parts:
        message.parts.extend(part_to_message(part) for part in outcome.parts)
    _write_decision(message, outcome.decision)
    return message


def _write_decision(message: outcome_pb2.Outcome, decision: Decided) -> None:
    match decision:
        case Allowed():
            message.allowed.SetInParent()
        case Patched(operations):
            message.patched.patch = encode(operations)
        case Denied(status):
            write_status(message.denied.status, status)
        case Failed(kind, text):
            message.failed.kind = _TO_NUMBER[kind]
            message.failed.message = text
        case _:
            assert_never(decision)


def outcome_from_message(
    message: outcome_pb2.Outcome, call: Call, phase: Phase, endpoint: str = ""
) -> Outcome:
    """Read the outcome of a call, which ``endpoint`` has answered.

    Raises:
        BadAnswerError: it answers for another controller, decides nothing, or patches what it may not.
    """
    if message.controller != call.name:
        name = statuses.go_quoted(call.name)
        raise bad_answer(f"expected the outcome of {name}, got that of another controller")
    return Outcome(
        controller=call.name,
        decision=_read_decision(message, may_patch=phase is Phase.MUTATE or call.amends),
        warnings=tuple(warning for warning in message.warnings if warning),
        audit_annotations=dict(message.audit_annotations),
        duration_seconds=message.duration_micros / 1_000_000,
        parts=tuple(map(part_from_message, message.parts)),
        endpoint=endpoint,
    )


def _read_decision(message: outcome_pb2.Outcome, *, may_patch: bool) -> Decided:
    match message.WhichOneof("decision"):
        case "allowed":
            return ALLOWED
        case "patched" if not may_patch:
            raise bad_answer("a validator may not patch")
        case "patched":
            return Patched(read_operations(message.patched.patch))
        case "denied":
            return Denied(read_status(message.denied.status))
        case "failed":
            failed = message.failed
            return Failed(_FROM_NUMBER.get(failed.kind, FailureKind.ERROR), failed.message)
        case None:
            raise bad_answer("the outcome holds no decision")
