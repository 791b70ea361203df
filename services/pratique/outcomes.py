"""What came of asking one controller: its decision, and what it says beside it."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, TypeAlias

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.json_values import Document, JSONObject
    from pratique.parts import Part
    from pratique.statuses import Status


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


Decided: TypeAlias = Allowed | Patched | Denied | Failed

ALLOWED = Allowed()


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What came of asking one controller."""

    controller: str
    """Its name, as it was called."""
    decision: Decided
    """What it decided, or that it did not."""
    warnings: tuple[str, ...] = ()
    """Texts for the user."""
    audit_annotations: Mapping[str, str] = {}
    """Entries for the audit log, keyed as the controller wrote them."""
    duration_seconds: float = 0.0
    """How long the controller itself took; 0 where not measured."""
    parts: tuple[Part, ...] = ()
    """What its own members made of it, in the order in which they ran."""
    endpoint: str = ""
    """Who answered, where several can be asked; empty where there is only one."""
    document: Document | None = None
    """The object as the operations of the decision leave it, where one of Kubernetes' own ran in this process, which
    has worked that out already; None where it ran in another one or changed nothing."""
