"""Stages: the members of the chain, as the chain sees them."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

from frontdoor.chain.records import Record
from frontdoor.chain.reinvocations import Reinvocation
from pratique.subjects import Subject

if TYPE_CHECKING:
    from pratique.calls import Deadline
    from pratique.json_values import Document
    from pratique.reviews import Review


@dataclasses.dataclass(slots=True)
class Pass:
    """One review on its way through the chain."""

    review: Review
    """With the object as it is now."""
    deadline: Deadline
    """When the answer must be there."""
    explain: bool = False
    """Record a step for what does not match, too."""
    round: int = 0
    """0, or 1 when the mutating stages run once more."""
    record: Record = dataclasses.field(default_factory=Record)
    """What has happened so far."""
    reinvocation: Reinvocation = dataclasses.field(default_factory=Reinvocation)
    """What decides about that second round for webhooks."""
    policy_reinvocation: Reinvocation = dataclasses.field(default_factory=Reinvocation)
    """The same for mutating policies."""

    subject: Subject = dataclasses.field(init=False)
    """The review as selectors look at it."""

    def __post_init__(self) -> None:
        """Begin with the review as it came."""
        self.subject = Subject(self.review)

    @property
    def wants_second_round(self) -> bool:
        """Whether anything that ran has changed what others saw before."""
        return self.reinvocation.wanted or self.policy_reinvocation.wanted

    def change_object(self, document: Document) -> None:
        """Go on with another object."""
        self.review = self.review.with_object(document)
        self.subject = Subject(self.review)


class MutatingStage(Protocol):
    """A member of the mutating phase."""

    async def admit(self, passing: Pass) -> bool:
        """Run on the object as it is now; False where the request is refused, and the refusal is in the record."""


class ValidatingStage(Protocol):
    """A member of the validating phase."""

    async def validate(self, review: Review, deadline: Deadline, *, explain: bool) -> Record:
        """Run side by side with other stages; refusals are in the record that comes back."""
