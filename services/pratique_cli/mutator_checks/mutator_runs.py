"""Mutators run on an object: alone, together, in another order, on their own outcome."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from pratique.admission.controllers import BOTH, MUTATE, VALIDATE, Phase
from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery.diff import identical
from pratique.apimachinery.errors import PratiqueError
from pratique.apimachinery.json_values import JSON, Document, JSONObject, encode
from pratique_frontdoor.chain.decisions import Decision, Step
from pratique_frontdoor.chain.webhooks import CONTROLLERS

if TYPE_CHECKING:
    from pratique_frontdoor.engines.mutator_sets import Mutator, MutatorSet

_WEBHOOK_CONTROLLERS = frozenset(CONTROLLERS.values())
_UNANSWERED = "failed calling webhook "
"""What a reason holds where a webhook gave no answer that could be used."""


class UnansweredError(PratiqueError):
    """Something could not be asked, or not in time: nothing is known of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class MutatorRun:
    """What came of a trial."""

    decision: Decision
    received: JSON = dataclasses.field(repr=False)
    """The object as it was given."""

    @property
    def object(self) -> JSONObject:
        """The object as the trial leaves it."""
        data: JSONObject = self.decision.object_document.data
        return data

    @property
    def allowed(self) -> bool:
        """Whether nobody refused it."""
        return self.decision.allowed

    @property
    def changed(self) -> bool:
        """Whether the object is another one now."""
        return bool(self.decision.patch)

    @property
    def refusal(self) -> str:
        """Why it was refused; empty where it was not."""
        return self.decision.status.message if self.decision.status else ""

    @property
    def failure(self) -> Step | None:
        """The step that came to no decision; None where there is none."""
        return next((step for step in self.decision.steps if step.outcome is StepOutcome.FAILED), None)

    def same_as(self, other: MutatorRun) -> bool:
        """Whether both came to the same."""
        return (self.allowed, self.refusal) == (other.allowed, other.refusal) and (
            self.decision.object_document == other.decision.object_document
        )


@dataclasses.dataclass(frozen=True, slots=True)
class MutatorRunner:
    """Where mutators are tried out."""

    mutators: MutatorSet
    timeout_seconds: float
    """How long each trial may take."""

    async def mutate(self, review: Review, order: Sequence[Mutator] | None = None) -> MutatorRun:
        """Run the mutating phase: of the mutators in the order given, or of all in chain order.

        Raises:
            UnansweredError: one of them could not be asked.
        """
        return await self._run(review, MUTATE, order)

    async def admit(self, review: Review, order: Sequence[Mutator] | None = None) -> MutatorRun:
        """Run both phases.

        Raises:
            UnansweredError: something could not be asked.
        """
        return await self._run(review, BOTH, order)

    async def validate(self, review: Review) -> MutatorRun:
        """Run the validating phase alone.

        Raises:
            UnansweredError: something could not be asked.
        """
        return await self._run(review, VALIDATE, None)

    async def _run(
        self, review: Review, phases: frozenset[Phase], order: Sequence[Mutator] | None
    ) -> MutatorRun:
        try:
            deadline = Deadline.after(self.timeout_seconds)
            decision = await self.mutators.decide(review, phases, deadline, order)
        except TimeoutError:
            raise UnansweredError(
                f"no decision within {self.timeout_seconds:g} s; --timeout allows more"
            ) from None
        for step in decision.steps:
            lost = step.outcome in {StepOutcome.FAILED, StepOutcome.FAILED_OPEN}
            if lost and step.controller in _WEBHOOK_CONTROLLERS and _UNANSWERED in step.reason:
                raise UnansweredError(step.reason)
        return MutatorRun(decision, review.object)


MAX_RUNS = 10
"""What has not come to rest by then is taken never to: a chain has at most two rounds, and a cluster asks again only
when somebody writes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Repetition:
    """What came of running mutators on their own outcome."""

    states: tuple[JSONObject, ...] = dataclasses.field(repr=False)
    """The object after each run, the first included; the last one is not changed any more, or comes back."""
    second: MutatorRun
    """What the second run made of the first one's outcome."""
    period: int = 0
    """After how many runs the same object comes back; 0 where none does."""
    endless: bool = False
    """Whether each run made something new."""

    @property
    def holds(self) -> bool:
        """Whether the second run left the object alone."""
        return self.second.allowed and not self.second.changed

    @property
    def growth(self) -> bool:
        """Whether each run made the object larger."""
        sizes = [len(encode(state)) for state in self.states]
        return self.endless and all(one < another for one, another in itertools.pairwise(sizes))

    @property
    def ending(self) -> str:
        """How it ends, for people."""
        if not self.second.allowed:
            return "refuses it"
        if self.period:
            return f"comes back to the same object every {self.period} runs, without end"
        if self.growth:
            return "adds to it at every run, without end"
        if self.endless:
            return f"still changes it at run {len(self.states)}"
        return f"comes to rest after {len(self.states)} runs"


async def repeat(
    bench: MutatorRunner, review: Review, first: MutatorRun, order: Sequence[Mutator] | None
) -> Repetition:
    """Run mutators on what they have made of a review's object.

    Raises:
        UnansweredError: one of them could not be asked.
    """
    states = [first.object]
    second = outcome = await bench.mutate(with_object(review, first.object), order)
    while outcome.allowed and outcome.changed:
        period = next(
            (len(states) - at for at, old in enumerate(states) if identical(old, outcome.object)), 0
        )
        if period or len(states) == MAX_RUNS:
            return Repetition(tuple(states), second, period, endless=not period)
        states.append(outcome.object)
        outcome = await bench.mutate(with_object(review, outcome.object), order)
    return Repetition(tuple(states), second)


def with_object(review: Review, data: JSONObject) -> Review:
    """The same request for another object."""
    return review.with_object(Document.from_data(data))
