"""Answers and outcomes: what a controller returns for a review, and what its call results in.

A controller returns an Answer, created by ``allow``, ``warn``, ``patch`` or ``deny``. The host that runs it turns the
answer, or its absence, into an Outcome, which also has the outcomes of the controller's policies.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import TypeAlias

import msgspec

from pratique.apimachinery import statuses
from pratique.apimachinery.json_values import JSON, Document, JSONObject
from pratique.apimachinery.statuses import Status


@dataclasses.dataclass(frozen=True, slots=True)
class Allow:
    """The request is allowed, and the object stays unchanged."""

    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    policy_outcomes: tuple[PolicyOutcome, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Patch:
    """The request is allowed, and the object changes by ``operations`` (RFC 6902) or becomes ``new_object``.

    If both are given, as by :class:`pratique.Edits`, the operations must lead to ``new_object``.
    """

    operations: tuple[JSONObject, ...] | None = None
    new_object: JSON = None
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    policy_outcomes: tuple[PolicyOutcome, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Deny:
    """The request is denied."""

    status: Status | None
    """The complete Status; None if there is only ``message``, which is then worded as ``NewForbidden`` does it."""
    message: str = ""
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    policy_outcomes: tuple[PolicyOutcome, ...] = ()


Answer: TypeAlias = Allow | Patch | Deny
"""What a controller returns."""


def allow(*, audit_annotations: Mapping[str, str] | None = None) -> Allow:
    """Allow the request and leave the object unchanged."""
    return Allow(audit_annotations=audit_annotations or {})


def warn(*warnings: str, audit_annotations: Mapping[str, str] | None = None) -> Allow:
    """Allow the request, leave the object unchanged, and show ``warnings`` to the user."""
    return Allow(warnings=warnings, audit_annotations=audit_annotations or {})


def patch(
    new_object: JSON = None,
    *,
    operations: tuple[JSONObject, ...] | list[JSONObject] | None = None,
    warnings: tuple[str, ...] = (),
    audit_annotations: Mapping[str, str] | None = None,
) -> Patch:
    """Allow the request and change the object.

    Give either the new object, as a changed copy of the reviewed one, or the JSON Patch ``operations`` that lead to
    it. Never change the reviewed object in place. :class:`pratique.Edits` creates such an answer member by member.

    Raises:
        ValueError: both or neither are given.
    """
    if (new_object is None) == (operations is None):
        raise ValueError("patch() takes either the new object or operations=[…]")
    return Patch(
        operations=None if operations is None else tuple(operations),
        new_object=new_object,
        warnings=warnings,
        audit_annotations=audit_annotations or {},
    )


def deny(
    message: str = "",
    *,
    status: Status | None = None,
    code: int = 403,
    reason: str = "Forbidden",
    warnings: tuple[str, ...] = (),
    audit_annotations: Mapping[str, str] | None = None,
) -> Deny:
    """Deny the request.

    With only a message, the user reads ``<resource> "<name>" is forbidden: <message>``, as from any built-in
    controller. With a different ``code`` or ``reason``, the message is used unchanged. A ``status`` is used as it is.

    Raises:
        ValueError: both or neither of message and status are given.
    """
    if bool(message) == (status is not None):
        raise ValueError("deny() takes either a message or status=…")
    if status is None and (code, reason) != (403, "Forbidden"):
        status = statuses.failure(code, reason, message)
    return Deny(status, message, warnings, audit_annotations or {})


class OutcomeStatus(enum.StrEnum):
    """The result of a controller, a webhook or a policy for one review."""

    ALLOWED = "allowed"
    """It allowed the request."""
    MUTATED = "mutated"
    """It changed the object."""
    UNCHANGED = "unchanged"
    """It mutates, but left the object unchanged."""
    DENIED = "denied"
    """It denied the request."""
    WARNED = "warned"
    """It allowed the request with warnings."""
    SKIPPED = "skipped"
    """It does not apply to the request; reported only if the caller asks for explanations."""
    FAILED = "failed"
    """It reached no decision, so the request is denied."""
    FAILED_OPEN = "failedOpen"
    """It reached no decision, and the request continues nevertheless."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOutcome:
    """The outcome of one policy of a controller, by one binding."""

    name: str
    """The policy's name."""
    configuration: str = ""
    """What applies the policy, for example the name of its binding."""
    status: OutcomeStatus
    reason: str = ""
    """The reason for the status, for people."""
    denials: tuple[Status, ...] = ()
    """The policy's own denials. If any policy has denials, the user sees these instead of the controller's."""
    operations: tuple[JSONObject, ...] = ()
    """The policy's changes, as JSON Patch. For information only: the controller's own patch is applied."""
    key: str = ""
    """Identifies the policy in the second round of the mutating phase; empty if it did not run."""
    reinvocable: bool = False
    """Whether the policy runs again if a later step changes the object."""
    applied: bool = False
    """Whether the policy's mutations were applied, even if they left the object unchanged."""
    duration_seconds: float = 0.0
    """The policy's duration in seconds; 0 if not measured."""
    unmet: tuple[int, ...] = ()
    """The indexes of the validations that were false. Available only within the process."""


class FailureKind(enum.Enum):
    """Why there is no decision."""

    ERROR = "error"
    """The controller raised an error or crashed, or its service could not be called."""
    TIMEOUT = "timeout"
    """The controller exceeded its time limit."""
    UNKNOWN_CONTROLLER = "unknown controller"
    """The service does not host a controller with this name."""


@dataclasses.dataclass(frozen=True, slots=True)
class Allowed:
    """The request is allowed and the object unchanged."""


@dataclasses.dataclass(frozen=True, slots=True)
class Patched:
    """The request is allowed, and JSON Patch operations change the object that the controller received."""

    operations: tuple[JSONObject, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Denied:
    """The request is denied."""

    status: Status


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    """There is no decision: the failure policy decides. ``message`` never contains any part of the reviewed objects."""

    kind: FailureKind
    message: str
    code: int = 503
    """The HTTP code under which the API server's metrics count it."""


OutcomeDecision: TypeAlias = Allowed | Patched | Denied | Failed

ALLOWED = Allowed()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """The outcome of one call to a controller."""

    controller: str
    """The controller's name, as it was called."""
    decision: OutcomeDecision
    """The controller's decision, or why there is none."""
    warnings: tuple[str, ...] = ()
    """Texts for the user."""
    audit_annotations: Mapping[str, str] = {}
    """Entries for the audit log, with keys as the controller wrote them."""
    duration_seconds: float = 0.0
    """The controller's own duration in seconds; 0 if not measured."""
    policy_outcomes: tuple[PolicyOutcome, ...] = ()
    """The outcomes of the controller's policies, in the order in which they ran."""
    endpoint: str = ""
    """The replica that answered; empty if there is only one."""
    document: Document | None = None
    """The object after the decision's operations, if a trusted controller in this process already computed it.

    None if the controller ran in another process or changed nothing."""
