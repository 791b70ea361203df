"""Violations: what must not be, seen on one object."""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from frontdoor.mutator_sets import Mutator
    from pratique.json_values import JSON
    from pratique_cli.proofs.checks import Check


class Defect(enum.StrEnum):
    """What is wrong with a mutator, or with several together."""

    FAILS = "fails"
    """It comes to no decision about an object that it is meant for."""
    NOT_DETERMINISTIC = "notDeterministic"
    """Asked the same twice, it does not do the same."""
    NOT_IDEMPOTENT = "notIdempotent"
    """It changes again what it has changed."""
    REFUSES_OWN = "refusesOwnOutput"
    """It refuses what it has made."""
    NOT_SETTLED = "notSettled"
    """It changes again what all mutators together have made, though not its own outcome."""
    UNDONE = "undone"
    """Two undo each other's changes, again and again."""
    CONFLICT = "conflict"
    """Two write different values to one field."""
    ORDER = "order"
    """What comes of them depends on who is first."""
    REFUSED = "refused"
    """A validating controller refuses what was made, and would have let the object through as it came."""


@dataclasses.dataclass(frozen=True, slots=True)
class Run:
    """One of the runs that show a violation."""

    label: str
    """For people: ``first run``, ``b after a``."""
    before: JSON = dataclasses.field(repr=False)
    """The object that was given."""
    after: JSON = dataclasses.field(repr=False)
    """The object that came of it; the same one where it was refused."""
    refusal: str = ""
    """Why it was refused; empty where it was not."""


Key: TypeAlias = "tuple[Defect, tuple[Mutator, ...]]"
"""What makes two violations the same finding."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """Something that must not be, seen on one object."""

    defect: Defect
    mutators: tuple[Mutator, ...]
    """Whose fault it is."""
    text: str
    """What happens, in one sentence."""
    check: Check = dataclasses.field(repr=False)
    """Looks for it again."""
    fields: tuple[str, ...] = ()
    """The fields that it is about, such as ``metadata.labels.env``."""
    runs: tuple[Run, ...] = ()
    """What shows it."""
    growth: bool = False
    """Whether each further run adds something, without end."""
    period: int = 0
    """After how many runs the same object comes back; 0 where none does."""

    @property
    def key(self) -> Key:
        """What makes it the same finding as another."""
        return self.defect, self.mutators
