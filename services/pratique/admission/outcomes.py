"""Outcomes: what came of one call to a controller, and of each of its policies."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.apimachinery.json_values import Document, JSONObject
    from pratique.apimachinery.statuses import Status


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
