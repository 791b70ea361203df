"""Trials: mutators run on an object, alone, together or in another order."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.chain.hooks import CONTROLLERS
from frontdoor.decisions import StepOutcome
from pratique.calls import Deadline
from pratique.definitions import BOTH, MUTATE, VALIDATE
from pratique.errors import PratiqueError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontdoor.decisions import Decision, Step
    from frontdoor.mutator_sets import Mutator, MutatorSet
    from pratique.definitions import Phase
    from pratique.json_values import JSON, JSONObject
    from pratique.reviews import Review

_CALLERS = frozenset(CONTROLLERS.values())
_UNANSWERED = "failed calling webhook "
"""What a reason holds where a webhook gave no answer that could be used."""


class UnansweredError(PratiqueError):
    """Something could not be asked, or not in time: nothing is known of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class Outcome:
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

    def same_as(self, other: Outcome) -> bool:
        """Whether both came to the same."""
        return (self.allowed, self.refusal) == (other.allowed, other.refusal) and (
            self.decision.object_document == other.decision.object_document
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Bench:
    """Where mutators are tried out."""

    mutators: MutatorSet
    timeout_seconds: float
    """How long each trial may take."""

    async def mutate(self, review: Review, order: Sequence[Mutator] | None = None) -> Outcome:
        """Run the mutating phase: of the mutators in the order given, or of all in chain order.

        Raises:
            UnansweredError: one of them could not be asked.
        """
        return await self._run(review, MUTATE, order)

    async def admit(self, review: Review, order: Sequence[Mutator] | None = None) -> Outcome:
        """Run both phases.

        Raises:
            UnansweredError: something could not be asked.
        """
        return await self._run(review, BOTH, order)

    async def validate(self, review: Review) -> Outcome:
        """Run the validating phase alone.

        Raises:
            UnansweredError: something could not be asked.
        """
        return await self._run(review, VALIDATE, None)

    async def _run(
        self, review: Review, phases: frozenset[Phase], order: Sequence[Mutator] | None
    ) -> Outcome:
        try:
            deadline = Deadline.after(self.timeout_seconds)
            decision = await self.mutators.decide(review, phases, deadline, order)
        except TimeoutError:
            raise UnansweredError(
                f"no decision within {self.timeout_seconds:g} s; --timeout allows more"
            ) from None
        for step in decision.steps:
            lost = step.outcome in {StepOutcome.FAILED, StepOutcome.FAILED_OPEN}
            if lost and step.controller in _CALLERS and _UNANSWERED in step.reason:
                raise UnansweredError(step.reason)
        return Outcome(decision, review.object)
