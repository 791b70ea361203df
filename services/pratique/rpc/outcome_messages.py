"""Outcomes as protobuf messages, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from pratique import statuses
from pratique.admission.v1 import outcome_pb2
from pratique.definitions import Phase
from pratique.errors import BadAnswerError
from pratique.json_values import encode
from pratique.outcomes import ALLOWED, Allowed, Denied, Failed, FailureKind, Outcome, Patched
from pratique.patches import PatchDecodeError, decode_patch
from pratique.statuses import Status, StatusCause, StatusDetails

if TYPE_CHECKING:
    from pratique.calls import Call
    from pratique.json_values import JSONObject
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
    _write_decision(message, outcome.decision)
    return message


def _write_decision(message: outcome_pb2.Outcome, decision: Decided) -> None:
    match decision:
        case Allowed():
            message.allowed.SetInParent()
        case Patched(operations):
            message.patched.patch = encode(operations)
        case Denied(status):
            _write_status(message.denied.status, status)
        case Failed(kind, text):
            message.failed.kind = _TO_NUMBER[kind]
            message.failed.message = text
        case _:
            assert_never(decision)


def _write_status(message: outcome_pb2.Status, status: Status) -> None:
    message.code = status.code
    message.reason = status.reason
    message.message = status.message
    if status.details is not None:
        _write_details(message.details, status.details)


def _write_details(message: outcome_pb2.StatusDetails, details: StatusDetails) -> None:
    message.SetInParent()
    message.name = details.name
    message.group = details.group
    message.kind = details.kind
    message.uid = details.uid
    message.retry_after_seconds = details.retry_after_seconds
    for cause in details.causes:
        message.causes.add(reason=cause.reason, message=cause.message, field=cause.field)


def outcome_from_message(message: outcome_pb2.Outcome, call: Call, phase: Phase) -> Outcome:
    """Read the outcome of a call.

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
    )


def bad_answer(text: str) -> BadAnswerError:
    """The error of an answer that breaks the contract, as ``mutating/dispatcher.go`` words it."""
    return BadAnswerError(f"received invalid webhook response: {text}")


def _read_decision(message: outcome_pb2.Outcome, *, may_patch: bool) -> Decided:
    match message.WhichOneof("decision"):
        case "allowed":
            return ALLOWED
        case "patched" if not may_patch:
            raise bad_answer("a validator may not patch")
        case "patched":
            return Patched(_read_operations(message.patched.patch))
        case "denied":
            return Denied(_read_status(message.denied.status))
        case "failed":
            failed = message.failed
            return Failed(_FROM_NUMBER.get(failed.kind, FailureKind.ERROR), failed.message)
        case None:
            raise bad_answer("the outcome holds no decision")


def _read_operations(patch: bytes) -> tuple[JSONObject, ...]:
    try:
        return tuple(decode_patch(patch))
    except PatchDecodeError as error:
        raise BadAnswerError(f"received undecodable patch in webhook response: {error}") from None


def _read_status(message: outcome_pb2.Status) -> Status:
    # Below 400 is read as 400: k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go.
    code = max(message.code, 400)
    details = _read_details(message.details) if message.HasField("details") else None
    return statuses.failure(code, message.reason, message.message, details)


def _read_details(message: outcome_pb2.StatusDetails) -> StatusDetails:
    return StatusDetails(
        name=message.name,
        group=message.group,
        kind=message.kind,
        uid=message.uid,
        causes=tuple(StatusCause(cause.reason, cause.message, cause.field) for cause in message.causes),
        retry_after_seconds=max(message.retry_after_seconds, 0),
    )
