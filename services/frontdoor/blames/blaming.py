"""Blaming: a decision and the object received make a blame."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.blames.changes import Change, changes
from frontdoor.blames.denials import BlamedDenial, denials
from frontdoor.blames.replays import replay

if TYPE_CHECKING:
    from frontdoor.decisions import Decision
    from pratique.json_values import JSON


@dataclasses.dataclass(frozen=True, slots=True)
class Blame:
    """Who changed what, and what came of it."""

    changes: tuple[Change, ...] = ()
    """What differs between the object received and the object that came out, in the object's order."""
    denials: tuple[BlamedDenial, ...] = ()
    """The fields that denials speak of, in the order of the causes."""


def blame_of(decision: Decision, object_received: JSON) -> Blame:
    """Find who changed what.

    Args:
        decision: The decision with its steps; they have their patches only where the chain was to record them.
        object_received: The object as it came in, or None where there is none; it is not changed.
    """
    root = replay(decision, object_received)
    return Blame(tuple(changes(root)), tuple(denials(decision, root)))
