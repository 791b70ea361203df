"""Answers and outcomes: what a controller returns for a review, and what its call results in.

A controller returns an Answer, made by ``allow``, ``warn``, ``patch`` or ``deny``. The service that runs it turns the answer, or its absence, into an Outcome, with the outcome of every policy or webhook that the controller evaluated.
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
    """Nothing against the request; the object stays as it is."""

    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parts: tuple[PolicyOutcome, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Patch:
    """Nothing against the request; the object changes by ``operations`` (RFC 6902), or becomes ``new_object``.

    Where both are given, as by :class:`pratique.edits.Edits`, the one leads to the other.
    """

    operations: tuple[JSONObject, ...] | None = None
    new_object: JSON = None
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parts: tuple[PolicyOutcome, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class Deny:
    """The request is refused."""

    status: Status | None
    """The refusal whole; None where only ``message`` is given, which is then worded as ``NewForbidden`` does."""
    message: str = ""
    warnings: tuple[str, ...] = ()
    audit_annotations: Mapping[str, str] = dataclasses.field(default_factory=dict)
    parts: tuple[PolicyOutcome, ...] = ()


Answer: TypeAlias = Allow | Patch | Deny
"""What a controller returns."""


def allow(*, audit_annotations: Mapping[str, str] | None = None) -> Allow:
    """Let the request through unchanged."""
    return Allow(audit_annotations=audit_annotations or {})


def warn(*warnings: str, audit_annotations: Mapping[str, str] | None = None) -> Allow:
    """Let the request through unchanged and show ``warnings`` to the user."""
    return Allow(warnings=warnings, audit_annotations=audit_annotations or {})


def patch(
    new_object: JSON = None,
    *,
    operations: tuple[JSONObject, ...] | list[JSONObject] | None = None,
    warnings: tuple[str, ...] = (),
    audit_annotations: Mapping[str, str] | None = None,
) -> Patch:
    """Let the request through and change the object.

    Give the object as it should be (a changed copy, never the reviewed one changed in place), or the JSON Patch
    ``operations`` that lead there. :class:`pratique.Edits` makes such an answer member by member.

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
    """Refuse the request.

    With a message alone, the user reads ``<resource> "<name>" is forbidden: <message>``, as from any built-in
    controller. With another ``code`` and ``reason`` the message stands as it is. ``status`` is used whole.

    Raises:
        ValueError: neither a message nor a status is given, or both.
    """
    if bool(message) == (status is not None):
        raise ValueError("deny() takes either a message or status=…")
    if status is None and (code, reason) != (403, "Forbidden"):
        status = statuses.failure(code, reason, message)
    return Deny(status, message, warnings, audit_annotations or {})


class OutcomeStatus(enum.StrEnum):
    """How a controller, a webhook or a policy ended with a review."""

    ALLOWED = "allowed"
    """It let the request through."""
    MUTATED = "mutated"
    """It changed the object."""
    UNCHANGED = "unchanged"
    """It was to change the object, and nothing came of it."""
    DENIED = "denied"
    """It refused the request."""
    WARNED = "warned"
    """It let the request through with warnings."""
    SKIPPED = "skipped"
    """It had nothing to do with the request; told only where somebody wants to know."""
    FAILED = "failed"
    """It came to no decision, and so the request is refused."""
    FAILED_OPEN = "failedOpen"
    """It came to no decision, and the request goes on all the same."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOutcome:
    """What one member made of the review."""

    name: str
    """The member's, for example a policy's."""
    configuration: str = ""
    """What put it to work, for example a binding's name."""
    ending: OutcomeStatus
    reason: str = ""
    """Why it ended so, for people."""
    denials: tuple[Status, ...] = ()
    """Its own refusals. Where parts have any, they are what the user is told, in place of the controller's."""
    operations: tuple[JSONObject, ...] = ()
    """What it did to the object, by JSON Patch. Only told: what counts is the controller's own patch."""
    key: str = ""
    """What calls it in a second round; empty where it did not run."""
    reinvocable: bool = False
    """Whether it is to run again where something after it changes the object."""
    applied: bool = False
    """Whether something was done to the object, even if nothing came of it."""
    duration_seconds: float = 0.0
    """How long it took; 0 where not measured."""
    unmet: tuple[int, ...] = ()
    """Which of a policy's validations were false, from 0. Told within the process alone."""


class FailureKind(enum.Enum):
    """Why there is no decision."""

    ERROR = "error"
    """The controller broke, or its service could not be called."""
    TIMEOUT = "timeout"
    """It took longer than it may."""
    UNKNOWN_CONTROLLER = "unknown controller"
    """The service does not host a controller of this name."""


@dataclasses.dataclass(frozen=True, slots=True)
class Allowed:
    """Let through unchanged."""


@dataclasses.dataclass(frozen=True, slots=True)
class Patched:
    """Let through, changed by JSON Patch operations against the object that the controller saw."""

    operations: tuple[JSONObject, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Denied:
    """Refused."""

    status: Status


@dataclasses.dataclass(frozen=True, slots=True)
class Failed:
    """No decision: the failure policy decides. ``message`` never holds any part of the reviewed objects."""

    kind: FailureKind
    message: str
    code: int = 503
    """The HTTP code as which the API server's metrics count it."""


OutcomeDecision: TypeAlias = Allowed | Patched | Denied | Failed

ALLOWED = Allowed()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking one controller."""

    controller: str
    """Its name, as it was called."""
    decision: OutcomeDecision
    """What it decided, or that it did not."""
    warnings: tuple[str, ...] = ()
    """Texts for the user."""
    audit_annotations: Mapping[str, str] = {}
    """Entries for the audit log, keyed as the controller wrote them."""
    duration_seconds: float = 0.0
    """How long the controller itself took; 0 where not measured."""
    parts: tuple[PolicyOutcome, ...] = ()
    """What its own members made of it, in the order in which they ran."""
    endpoint: str = ""
    """Who answered, where several can be asked; empty where there is only one."""
    document: Document | None = None
    """The object as the operations of the decision leave it, where one of Kubernetes' own ran in this process, which
    has worked that out already; None where it ran in another one or changed nothing."""
