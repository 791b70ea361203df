"""Parts: what a controller's own members made of a review, where it has any: each policy, by each binding."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pratique.json_values import JSONObject
    from pratique.statuses import Status


class Ending(enum.StrEnum):
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
class Part:
    """What one member made of the review."""

    name: str
    """The member's, for example a policy's."""
    configuration: str = ""
    """What put it to work, for example a binding's name."""
    ending: Ending
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
