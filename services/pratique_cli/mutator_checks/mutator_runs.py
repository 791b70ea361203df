"""Running mutators on an object: alone, together, in another order, and repeatedly."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

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
"""The part of a reason which shows that a webhook gave no usable answer."""


class UnansweredError(PratiqueError):
    """A mutator could not be called, or did not answer in time, so that its result is unknown."""


@dataclasses.dataclass(frozen=True, slots=True)
class MutatorRun:
    """The result of running mutators on one object."""

    decision: Decision
    received: JSON = dataclasses.field(repr=False)
    """The object before the run."""

    @property
    def object(self) -> JSONObject:
        """The object after the run."""
        data: JSONObject = self.decision.object_document.data
        return data

    @property
    def allowed(self) -> bool:
        """Whether the object was admitted."""
        return self.decision.allowed

    @property
    def changed(self) -> bool:
        """Whether the run changed the object."""
        return bool(self.decision.patch)

    @property
    def refusal(self) -> str:
        """Why it was denied; empty if it was not."""
        return self.decision.status.message if self.decision.status else ""

    @property
    def failure(self) -> Step | None:
        """The first failed step; None if there is none."""
        return next((step for step in self.decision.steps if step.outcome is StepOutcome.FAILED), None)

    def same_as(self, other: MutatorRun) -> bool:
        """Whether both runs had the same result."""
        return (self.allowed, self.refusal) == (other.allowed, other.refusal) and (
            self.decision.object_document == other.decision.object_document
        )


class MutatorRunner(msgspec.Struct, frozen=True):
    """Runs the mutators of a chain on reviews."""

    mutators: MutatorSet
    timeout_seconds: float
    """The time limit of each run."""

    async def mutate(self, review: Review, order: Sequence[Mutator] | None = None) -> MutatorRun:
        """Run the mutating phase with the given mutators in order, or with all in chain order.

        Raises:
            UnansweredError: a mutator could not be called.
        """
        return await self._run(review, MUTATE, order)

    async def admit(self, review: Review, order: Sequence[Mutator] | None = None) -> MutatorRun:
        """Run both phases.

        Raises:
            UnansweredError: a controller could not be called.
        """
        return await self._run(review, BOTH, order)

    async def validate(self, review: Review) -> MutatorRun:
        """Run only the validating phase.

        Raises:
            UnansweredError: a controller could not be called.
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
"""After this many runs, mutators count as never settling: a chain has at most two rounds, and a cluster calls it again
only for a new write."""


@dataclasses.dataclass(frozen=True, slots=True)
class Repetition:
    """The result of running mutators repeatedly on their own results."""

    states: tuple[JSONObject, ...] = dataclasses.field(repr=False)
    """The object after each run, including the first, until it is stable or repeats."""
    second: MutatorRun
    """The second run."""
    period: int = 0
    """The number of runs after which the same object returns; 0 if none does."""
    endless: bool = False
    """Whether every run made a new object."""

    @property
    def holds(self) -> bool:
        """Whether the second run changed nothing."""
        return self.second.allowed and not self.second.changed

    @property
    def growth(self) -> bool:
        """Whether each run made the object larger."""
        sizes = [len(encode(state)) for state in self.states]
        return self.endless and all(smaller < larger for smaller, larger in itertools.pairwise(sizes))

    @property
    def ending(self) -> str:
        """How the repetition ends, for people."""
        if not self.second.allowed:
            return "ends in a denial"
        if self.period:
            return f"repeats every {self.period} runs, forever"
        if self.growth:
            return "grows with every run, forever"
        if self.endless:
            return f"still changes in run {len(self.states)}"
        return f"settles after {len(self.states)} runs"


async def repeat(
    runner: MutatorRunner, review: Review, first: MutatorRun, order: Sequence[Mutator] | None
) -> Repetition:
    """Run mutators repeatedly on their own results.

    Raises:
        UnansweredError: a mutator could not be called.
    """
    states = [first.object]
    second = outcome = await runner.mutate(with_object(review, first.object), order)
    while outcome.allowed and outcome.changed:
        period = next(
            (len(states) - at for at, old in enumerate(states) if identical(old, outcome.object)), 0
        )
        if period or len(states) == MAX_RUNS:
            return Repetition(tuple(states), second, period, endless=not period)
        states.append(outcome.object)
        outcome = await runner.mutate(with_object(review, outcome.object), order)
    return Repetition(tuple(states), second)


def with_object(review: Review, data: JSONObject) -> Review:
    """The same review with another object."""
    return review.with_object(Document.from_data(data))
