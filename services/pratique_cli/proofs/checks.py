"""Checks: each looks for some violations on one object, and can look for them again on a smaller one."""

from __future__ import annotations

import asyncio
import dataclasses
from typing import TYPE_CHECKING, Protocol

from pratique_cli.proofs.fields import differing_fields
from pratique_cli.proofs.repetitions import repeat, with_object
from pratique_cli.proofs.violations import Defect, Run, Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontdoor.mutator_sets import Mutator
    from pratique.reviews import Review
    from pratique_cli.proofs.trials import Bench, Outcome


class Check(Protocol):
    """Looks for violations."""

    async def look(self, bench: Bench, review: Review) -> Sequence[Violation]:
        """Look at one object.

        Raises:
            UnansweredError: a mutator could not be asked.
        """


def run_of(label: str, outcome: Outcome) -> Run:
    """Tell what a trial did."""
    after = outcome.object if outcome.allowed else outcome.received
    return Run(label, outcome.received, after, outcome.refusal)


@dataclasses.dataclass(frozen=True, slots=True)
class AloneCheck:
    """What one mutator has to hold by itself: to decide, always alike, and to leave its own outcome alone."""

    mutator: Mutator

    async def look(self, bench: Bench, review: Review) -> Sequence[Violation]:
        """Run it on the object, on the object once more, and on its outcome."""
        return await self.judge(bench, review, await bench.mutate(review, (self.mutator,)))

    async def judge(self, bench: Bench, review: Review, first: Outcome) -> Sequence[Violation]:
        """Look at one object, of which it is known what comes of it.

        Raises:
            UnansweredError: the mutator could not be asked.
        """
        if first.failure is not None:
            return [self._violation(Defect.FAILS, "comes to no decision", (run_of("run", first),))]
        if not first.changed or not first.allowed:
            return []
        return [*await self._unlike(bench, review, first), *await self._restless(bench, review, first)]

    async def _unlike(self, bench: Bench, review: Review, first: Outcome) -> Sequence[Violation]:
        """Ask the same again."""
        if self.mutator.placed:
            return []  # Kubernetes' own draw names by chance on purpose, as ServiceAccount does
        other = await bench.mutate(review, (self.mutator,))
        return (
            [] if first.same_as(other) else [differently(self, self.mutator, first, other, "the same object")]
        )

    async def _restless(self, bench: Bench, review: Review, first: Outcome) -> Sequence[Violation]:
        """Run it on its own outcome."""
        repetition = await repeat(bench, review, first, (self.mutator,))
        if repetition.holds:
            return []
        runs = (run_of("first run", first), run_of("second run", repetition.second))
        if not repetition.second.allowed:
            return [self._violation(Defect.REFUSES_OWN, "refuses what it has made", runs)]
        text = f"changes again what it has changed, and {repetition.ending}"
        violation = self._violation(Defect.NOT_IDEMPOTENT, text, runs)
        return [dataclasses.replace(violation, growth=repetition.growth, period=repetition.period)]

    def _violation(self, defect: Defect, text: str, runs: tuple[Run, ...]) -> Violation:
        last = runs[-1] if runs else None
        fields = differing_fields(last.before, last.after) if last else ()
        return Violation(
            defect=defect, mutators=(self.mutator,), text=text, check=self, runs=runs, fields=fields
        )


def differently(check: Check, mutator: Mutator, first: Outcome, other: Outcome, when: str) -> Violation:
    """The violation of a mutator that did not do the same twice."""
    return Violation(
        defect=Defect.NOT_DETERMINISTIC,
        mutators=(mutator,),
        text=f"makes something else of {when}",
        check=check,
        fields=differing_fields(first.object, other.object),
        runs=(run_of("once", first), run_of("once more", other)),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class LaterCheck:
    """The same a moment later, for mutators that look at the clock."""

    mutator: Mutator
    seconds: float
    """How much later."""

    async def look(self, bench: Bench, review: Review) -> Sequence[Violation]:
        """Run it now, and later on the object and on its outcome."""
        first = await bench.mutate(review, (self.mutator,))
        await asyncio.sleep(self.seconds)
        return await self.compare(bench, review, first)

    async def compare(self, bench: Bench, review: Review, first: Outcome) -> Sequence[Violation]:
        """Compare what came of it then with what comes of it now."""
        if not first.allowed or not first.changed:
            return []
        found = []
        later = await bench.mutate(review, (self.mutator,))
        if not first.same_as(later):
            found.append(differently(self, self.mutator, first, later, "the same object a moment later"))
        again = await bench.mutate(with_object(review, first.object), (self.mutator,))
        if again.changed and again.allowed:
            found.append(
                Violation(
                    defect=Defect.NOT_IDEMPOTENT,
                    mutators=(self.mutator,),
                    text="changes again, a moment later, what it has changed",
                    check=self,
                    fields=differing_fields(first.object, again.object),
                    runs=(run_of("first run", first), run_of("second run", again)),
                )
            )
        return found
