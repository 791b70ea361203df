"""Fields: an object as a tree in which each field remembers the steps that changed it.

The tree is made only where somebody looks: a field that is not opened is one JSON value, all of which the same
steps have changed. An object of megabytes of which a few fields change costs a few fields.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING, Final, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pratique.json_values import JSON

Steps: TypeAlias = tuple[int, ...]
"""Indexes of steps in their order, none twice."""

NOBODY: Final = -1
"""Stands for a step that is not known."""


class Absent(enum.Enum):
    """The type of what is not there, which is not null."""

    ABSENT = "absent"


ABSENT: Final = Absent.ABSENT
"""No value."""


@dataclasses.dataclass(slots=True, eq=False)
class Field:
    """A member of an object, an item of an array, or the whole.

    A member that is taken out and put in again is the same field, and so is an item that is known again.
    """

    raw: JSON
    """The value, where the field is not opened."""
    steps: Steps = ()
    """What changed it: the value of a scalar, whether a container is there."""
    came: JSON | Absent = ABSENT
    """The value in the object received."""
    members: dict[str, Field] | None = None
    """Of an object, once opened."""
    items: list[Field] | None = None
    """Of an array, once opened."""
    came_members: dict[str, Field] = dataclasses.field(default_factory=dict)
    """Those of the object received."""
    came_items: tuple[Field, ...] = ()
    """Those of the array received."""
    gone_members: dict[str, Field] = dataclasses.field(default_factory=dict)
    """Those that were taken out."""
    gone_items: list[Field] = dataclasses.field(default_factory=list)
    """Those that were taken out, oldest first."""
    last: JSON = None
    """The value of an item that was taken out."""
    is_steady: bool = True
    """Never taken out: such items of an array keep their order."""
    displaced: Steps = ()
    """The steps that took an item out and put it in again, perhaps elsewhere, without any other change."""
    kept: Field | None = None
    """The field as it was before the step that took it out; None where it is not out."""

    @property
    def value(self) -> JSON:
        """The value as it is now; not to be changed in place."""
        if self.members is not None:
            return {name: child.value for name, child in self.members.items()}
        if self.items is not None:
            return [child.value for child in self.items]
        return self.raw

    @property
    def is_open(self) -> bool:
        """Whether it has fields in it that can be told apart."""
        return self.members is not None or self.items is not None

    def open(self) -> None:
        """Make fields of what is in it; nothing, where it is open already or a scalar."""
        if self.is_open or not isinstance(self.raw, dict | list):
            return
        has_come = self.raw is self.came
        if isinstance(self.raw, dict):
            self.members = {name: self._child(value, came=has_come) for name, value in self.raw.items()}
            self.came_members = dict(self.members) if has_come else self.came_members
        else:
            self.items = [self._child(value, came=has_come) for value in self.raw]
            self.came_items = tuple(self.items) if has_come else self.came_items
        self.raw = None

    def _child(self, value: JSON, *, came: bool) -> Field:
        # A tombstone's children are not out: it is they whom nobody has taken out of it.
        return Field(value, self.steps, value if came else ABSENT)

    def touch(self, step: int) -> None:
        """Remember a step."""
        if not self.steps or self.steps[-1] != step:
            self.steps = (*self.steps, step)

    def remember(self, steps: Iterable[int]) -> None:
        """Remember earlier steps, here and in all that is in it."""
        self.steps = in_order(self.steps, steps)
        for child in self.children():
            child.remember(steps)

    def children(self) -> Iterator[Field]:
        """What is in it now, as far as it is open."""
        yield from (self.members or {}).values()
        yield from self.items or ()

    def all_steps(self) -> Steps:
        """The steps of the field and of all that is in it, or was."""
        gone = (*self.gone_members.values(), *self.gone_items)
        return in_order(self.steps, *(child.all_steps() for child in (*self.children(), *gone)))


def in_order(*histories: Iterable[int]) -> Steps:
    """Make one history of several. What is not known comes last: it is found at the end."""
    found = {step for history in histories for step in history}
    return tuple(sorted(found, key=lambda step: (step == NOBODY, step)))


def received(value: JSON) -> Field:
    """The root of an object received."""
    return Field(value, came=value)
