"""Stages: the members of the chain, and what has happened to a review so far."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol

import msgspec

from pratique.admission.label_subjects import MatchContext
from pratique.apimachinery.diff import identical
from pratique.apimachinery.statuses import StatusCause, StatusDetails

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from frontdoor.chain.decisions import Step
    from frontdoor.chain.outages import OutageError
    from pratique.admission.calls import Deadline
    from pratique.admission.reviews import Review
    from pratique.apimachinery.json_values import Document, JSONObject
    from pratique.apimachinery.statuses import Status


def combine_denials(denials: Sequence[Status], *, first_only: bool) -> Status:
    """Make the Status that the user reads.

    The first denial in chain order gives code, reason and message; ``details.causes`` has one entry for each. A
    denial that is alone and brings causes of its own stays as it is. ``denials`` is not empty.
    """
    first = denials[0]
    if first_only or (len(denials) == 1 and first.details is not None and first.details.causes):
        return first
    details = first.details or StatusDetails()
    causes = tuple(_cause_of_denial(denial) for denial in denials)
    return msgspec.structs.replace(first, details=msgspec.structs.replace(details, causes=causes))


def _cause_of_denial(denial: Status) -> StatusCause:
    own = denial.details.causes if denial.details is not None else ()
    field = own[0].field if own else ""
    return StatusCause(reason=denial.reason, message=denial.message, field=field)


@dataclasses.dataclass(slots=True)
class Record:
    """What some steps did. Each stage of the validating phase fills one of its own, merged in chain order."""

    steps: list[Step] = dataclasses.field(default_factory=list)
    """In the order in which they happened."""
    denials: list[Status] = dataclasses.field(default_factory=list)
    """In chain order."""
    warnings: list[str] = dataclasses.field(default_factory=list)
    """As they came."""
    audit_annotations: dict[str, str] = dataclasses.field(default_factory=dict)
    """By full key."""

    pending_operations: list[JSONObject] = dataclasses.field(default_factory=list)
    """What validating controllers do to the object, should it be let through."""

    outages: list[OutageError] = dataclasses.field(default_factory=list)
    """Services that gave no usable answer. They count where nobody refused the request."""

    def deny(self, status: Status) -> None:
        """Add a refusal."""
        self.denials.append(status)

    def annotate(self, annotations: Mapping[str, str]) -> None:
        """Add audit annotations; a key that is there keeps its first value, as in the API server."""
        for key, value in annotations.items():
            self.audit_annotations.setdefault(key, value)

    def merge(self, others: Iterable[Record]) -> None:
        """Add what others recorded, in the order given."""
        for other in others:
            self.steps += other.steps
            self.denials += other.denials
            self.warnings += other.warnings
            self.annotate(other.audit_annotations)
            self.pending_operations += other.pending_operations
            self.outages += other.outages

    def settle(self) -> None:
        """See that the request was decided: a refusal stands, whoever else could not be asked.

        Raises:
            OutageError: nobody refused the request, and somebody who might have could not be asked.
        """
        if self.outages and not self.denials:
            raise self.outages[0]


@dataclasses.dataclass(slots=True)
class Reinvocation:
    """Decides about the second round, for one review."""

    wanted: bool = False
    """Whether the mutating phase runs once more."""
    last: Document | None = None
    """The object as the webhooks' last run left it."""
    previously_invoked: set[str] = dataclasses.field(default_factory=set)
    """Webhooks that would run again if the object changed after them."""
    to_reinvoke: set[str] = dataclasses.field(default_factory=set)
    """Webhooks that run in the second round."""

    def begin(self, document: Document, round_number: int) -> None:
        """Note what has changed since the webhooks' last run."""
        if round_number > 0 and (self.last is None or not identical(self.last.data, document.data)):
            self._require_previous()

    def skips(self, uid: str, round_number: int) -> bool:
        """Tell whether a webhook sits this round out."""
        return round_number > 0 and uid not in self.to_reinvoke

    def invoked(self, uid: str, *, changed: bool, if_needed: bool) -> None:
        """Note that a webhook ran. Its own change never brings itself back."""
        if changed:
            self.changed()
        if if_needed:
            self.previously_invoked.add(uid)

    def changed(self) -> None:
        """Note that the object changed: all that ran before and want to see it again do."""
        self._require_previous()
        self.wanted = True

    def end(self, document: Document) -> None:
        """Note how this run leaves the object."""
        self.last = document

    def _require_previous(self) -> None:
        self.to_reinvoke |= self.previously_invoked
        self.previously_invoked.clear()


@dataclasses.dataclass(slots=True)
class AdmissionContext:
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

    subject: MatchContext = dataclasses.field(init=False)
    """The review as selectors look at it."""

    def __post_init__(self) -> None:
        """Begin with the review as it came."""
        self.subject = MatchContext(self.review)

    @property
    def wants_second_round(self) -> bool:
        """Whether anything that ran has changed what others saw before."""
        return self.reinvocation.wanted or self.policy_reinvocation.wanted

    def change_object(self, document: Document) -> None:
        """Go on with another object."""
        self.review = self.review.with_object(document)
        self.subject = MatchContext(self.review)


class MutatingStage(Protocol):
    """A member of the mutating phase."""

    async def admit(self, context: AdmissionContext) -> bool:
        """Run on the object as it is now; False where the request is refused, and the refusal is in the record."""


class ValidatingStage(Protocol):
    """A member of the validating phase."""

    async def validate(self, review: Review, deadline: Deadline, *, explain: bool) -> Record:
        """Run side by side with other stages; refusals are in the record that comes back."""
