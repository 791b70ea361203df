"""Set checks: whether all mutators together leave an object that none of them changes any more."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from frontdoor.decisions import StepOutcome
from pratique.differences import identical
from pratique_cli.proofs.checks import run_of
from pratique_cli.proofs.fields import changed_values, differing_fields
from pratique_cli.proofs.repetitions import repeat, with_object
from pratique_cli.proofs.violations import Defect, Violation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frontdoor.decisions import Decision
    from frontdoor.mutator_sets import Mutator
    from pratique.reviews import Review
    from pratique_cli.proofs.repetitions import Repetition
    from pratique_cli.proofs.trials import Bench, Outcome


def at_work(decision: Decision, mutators: Iterable[Mutator], *outcomes: StepOutcome) -> tuple[Mutator, ...]:
    """The mutators with a step that ended in one of these ways, in chain order."""
    seen = {
        (step.controller, step.name, step.configuration)
        for step in decision.steps
        if step.outcome in outcomes
    }
    return tuple(one for one in mutators if (one.controller, one.name, one.configuration) in seen)


async def _comes_to_rest(bench: Bench, review: Review, mutator: Mutator) -> bool | None:
    """Whether a mutator leaves its own outcome alone; None where it leaves the object alone already."""
    once = await bench.mutate(review, (mutator,))
    if not once.changed or not once.allowed:
        return None
    return (await repeat(bench, review, once, (mutator,))).holds


@dataclasses.dataclass(frozen=True, slots=True)
class SetCheck:
    """What the mutators have to hold together."""

    mutators: tuple[Mutator, ...]
    """All of the chain, in chain order."""

    async def look(self, bench: Bench, review: Review) -> Sequence[Violation]:
        """Run all of them on the object, then all on their outcome, then each that did something on it."""
        first = await bench.mutate(review)
        if not first.allowed:
            return await self._refused_at_once(bench, review, first)
        if not at_work(first.decision, self.mutators, StepOutcome.MUTATED):
            return []
        repetition = await repeat(bench, review, first, None)
        if not repetition.second.allowed:
            return [self._refusal(first, repetition)]
        if not repetition.holds:
            return await self._unsettled(bench, review, first, repetition)
        return await self._undone(bench, review, first)

    async def _refused_at_once(self, bench: Bench, review: Review, first: Outcome) -> Sequence[Violation]:
        """Tell who refuses what others have made of an object that it would have let through, in one request."""
        refusing = at_work(first.decision, self.mutators, StepOutcome.DENIED, StepOutcome.FAILED)
        alone = [await bench.mutate(review, (one,)) for one in refusing]
        if not refusing or not all(each.allowed for each in alone):
            return []
        return [
            Violation(
                defect=Defect.REFUSES_OWN,
                mutators=refusing,
                text="refuses what the mutators have made together, within one request",
                check=self,
                runs=(run_of(f"{refusing[0]} alone", alone[0]), run_of("all", first)),
            )
        ]

    def _refusal(self, first: Outcome, repetition: Repetition) -> Violation:
        second = repetition.second
        guilty = at_work(second.decision, self.mutators, StepOutcome.DENIED, StepOutcome.FAILED)
        return Violation(
            defect=Defect.REFUSES_OWN,
            mutators=guilty,
            text="refuses what the mutators have made together",
            check=self,
            runs=(run_of("first run of all", first), run_of("second run of all", second)),
        )

    async def _unsettled(
        self, bench: Bench, review: Review, first: Outcome, repetition: Repetition
    ) -> Sequence[Violation]:
        """Tell who changes the outcome of all, of those that would leave their own alone."""
        active = at_work(repetition.second.decision, self.mutators, StepOutcome.MUTATED)
        made = with_object(review, first.object)
        rests = {one: await _comes_to_rest(bench, made, one) for one in active}
        guilty = tuple(one for one, rest in rests.items() if rest is True)
        if not guilty and False in rests.values():
            return []  # one that does not even leave its own outcome alone: that is told of it
        violation = Violation(
            defect=Defect.NOT_SETTLED,
            mutators=guilty or active,
            text=f"changes again what all mutators together have made, which {repetition.ending}",
            check=self,
            fields=differing_fields(first.object, repetition.second.object),
            runs=(run_of("first run of all", first), run_of("second run of all", repetition.second)),
            growth=repetition.growth,
            period=repetition.period,
        )
        return [violation]

    async def _undone(self, bench: Bench, review: Review, first: Outcome) -> Sequence[Violation]:
        """Find those whose change another takes back: the outcome stays the same, and never comes to rest."""
        active = at_work(first.decision, self.mutators, StepOutcome.MUTATED)
        made = with_object(review, first.object)
        for mutator in active:
            once = await bench.mutate(made, (mutator,))
            if not once.changed or not once.allowed:
                continue
            changed = with_object(review, once.object)
            for other in active:
                back = await bench.mutate(changed, (other,))
                if other != mutator and back.allowed and identical(back.object, first.object):
                    return self._fight(mutator, other, once, back)
        return []

    def _fight(self, mutator: Mutator, other: Mutator, once: Outcome, back: Outcome) -> Sequence[Violation]:
        """Tell a loop from two that write what they think right; the latter is found by comparing orders, too."""
        both = tuple(one for one in self.mutators if one in (mutator, other))
        written = changed_values(once.received, once.object)
        taken_back = changed_values(back.received, back.object)
        is_loop = None in (*written.values(), *taken_back.values())
        if not is_loop and not any(one.placed for one in both):
            return []
        loop = "undo each other's changes: in a cluster, each write brings the other one back, without end"
        return [
            Violation(
                defect=Defect.UNDONE if is_loop else Defect.CONFLICT,
                mutators=both,
                text=loop if is_loop else "write different values to the same field: the last one wins",
                check=self,
                fields=differing_fields(once.received, once.object),
                runs=(run_of(f"{mutator} on the outcome", once), run_of(f"{other} on that", back)),
                period=2 if is_loop else 0,
            )
        ]
