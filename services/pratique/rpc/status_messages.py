"""Statuses as protobuf messages, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique import statuses
from pratique.statuses import Status, StatusCause, StatusDetails

if TYPE_CHECKING:
    from pratique.admission.v1 import outcome_pb2


def write_status(message: outcome_pb2.Status, status: Status) -> None:
    """Write a refusal into a message."""
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


def read_status(message: outcome_pb2.Status) -> Status:
    """Read a refusal; a code that is none of a refusal becomes 400."""
    # k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go.
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
