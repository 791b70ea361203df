"""Validator checks: whether validating controllers let through what the mutators make."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.decisions import StepOutcome
from pratique.definitions import Phase
from pratique_cli.proofs.checks import run_of
from pratique_cli.proofs.fields import differing_fields
from pratique_cli.proofs.set_checks import at_work
from pratique_cli.proofs.violations import Defect, Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontdoor.mutator_sets import Mutator
    from pratique.reviews import Review
    from pratique_cli.proofs.trials import Bench, Outcome

_REFUSING = (StepOutcome.DENIED, StepOutcome.FAILED)


@dataclasses.dataclass(frozen=True, slots=True)
class ValidatorCheck:
    """What the mutators owe to the validators."""

    mutators: tuple[Mutator, ...]
    """All of the chain, in chain order."""

    async def look(self, bench: Bench, review: Review) -> Sequence[Violation]:
        """Run both phases, and where that is refused, the validating one on the object as it came."""
        admitted = await bench.admit(review)
        if admitted.allowed or not admitted.changed or not _is_refused_by_validators(admitted):
            return []
        if not (await bench.validate(review)).allowed:
            return []
        guilty = await self._guilty(bench, review, admitted)
        mutated = await bench.mutate(review)
        return [
            Violation(
                defect=Defect.REFUSED,
                mutators=guilty,
                text="what is made is refused, and what came would have been let through",
                check=self,
                fields=differing_fields(mutated.received, mutated.object),
                runs=(run_of("mutating phase", mutated), run_of("both phases", admitted)),
            )
        ]

    async def _guilty(self, bench: Bench, review: Review, admitted: Outcome) -> tuple[Mutator, ...]:
        """The mutators that bring the refusal about by themselves; all that did something, where none does."""
        active = at_work(admitted.decision, self.mutators, StepOutcome.MUTATED)
        alone = [one for one in active if not (await bench.admit(review, (one,))).allowed]
        return tuple(alone) or active


def _is_refused_by_validators(outcome: Outcome) -> bool:
    steps = outcome.decision.steps
    return any(step.outcome in _REFUSING and step.phase is Phase.VALIDATE for step in steps)
