"""Checks: each looks for violations on one object, and can look for them again on a smaller one."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.admission.reviews import Review
from pratique.apimachinery.diff import identical
from pratique_cli.mutator_checks.defects import (
    Defect,
    MutatorDefect,
    RunEvidence,
    changed_values,
    differing_fields,
    without_order,
)
from pratique_cli.mutator_checks.mutator_runs import (
    MutatorRun,
    MutatorRunner,
    Repetition,
    repeat,
    with_object,
)
from pratique_cli.outputs.texts import Path, path_text
from pratique_frontdoor.chain.decisions import Decision

if TYPE_CHECKING:
    from pratique_frontdoor.engines.mutator_sets import Mutator


class MutatorCheck(Protocol):
    """Looks for violations."""

    async def look(self, bench: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Look at one object.

        Raises:
            UnansweredError: a mutator could not be asked.
        """


def evidence_of(label: str, outcome: MutatorRun) -> RunEvidence:
    """Tell what a trial did."""
    after = outcome.object if outcome.allowed else outcome.received
    return RunEvidence(label, outcome.received, after, outcome.refusal)


@dataclasses.dataclass(frozen=True, slots=True)
class SingleMutatorCheck:
    """What one mutator has to hold by itself: to decide, always alike, and to leave its own outcome alone."""

    mutator: Mutator

    async def look(self, bench: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Run it on the object, on the object once more, and on its outcome."""
        return await self.judge(bench, review, await bench.mutate(review, (self.mutator,)))

    async def judge(self, bench: MutatorRunner, review: Review, first: MutatorRun) -> Sequence[MutatorDefect]:
        """Look at one object, of which it is known what comes of it.

        Raises:
            UnansweredError: the mutator could not be asked.
        """
        if first.failure is not None:
            return [self._violation(Defect.FAILS, "comes to no decision", (evidence_of("run", first),))]
        if not first.changed or not first.allowed:
            return []
        return [*await self._unlike(bench, review, first), *await self._restless(bench, review, first)]

    async def _unlike(
        self, bench: MutatorRunner, review: Review, first: MutatorRun
    ) -> Sequence[MutatorDefect]:
        """Ask the same again."""
        if self.mutator.placed:
            return []  # Kubernetes' own draw names by chance on purpose, as ServiceAccount does
        other = await bench.mutate(review, (self.mutator,))
        return (
            []
            if first.same_as(other)
            else [nondeterminism(self, self.mutator, first, other, "the same object")]
        )

    async def _restless(
        self, bench: MutatorRunner, review: Review, first: MutatorRun
    ) -> Sequence[MutatorDefect]:
        """Run it on its own outcome."""
        repetition = await repeat(bench, review, first, (self.mutator,))
        if repetition.holds:
            return []
        runs = (evidence_of("first run", first), evidence_of("second run", repetition.second))
        if not repetition.second.allowed:
            return [self._violation(Defect.REFUSES_OWN, "refuses what it has made", runs)]
        text = f"changes again what it has changed, and {repetition.ending}"
        violation = self._violation(Defect.NOT_IDEMPOTENT, text, runs)
        return [dataclasses.replace(violation, growth=repetition.growth, period=repetition.period)]

    def _violation(self, defect: Defect, text: str, runs: tuple[RunEvidence, ...]) -> MutatorDefect:
        last = runs[-1] if runs else None
        fields = differing_fields(last.before, last.after) if last else ()
        return MutatorDefect(
            defect=defect, mutators=(self.mutator,), text=text, check=self, runs=runs, fields=fields
        )


def nondeterminism(
    check: MutatorCheck, mutator: Mutator, first: MutatorRun, other: MutatorRun, when: str
) -> MutatorDefect:
    """The violation of a mutator that did not do the same twice."""
    return MutatorDefect(
        defect=Defect.NOT_DETERMINISTIC,
        mutators=(mutator,),
        text=f"makes something else of {when}",
        check=check,
        fields=differing_fields(first.object, other.object),
        runs=(evidence_of("once", first), evidence_of("once more", other)),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class LaterCheck:
    """The same a moment later, for mutators that look at the clock."""

    mutator: Mutator
    seconds: float
    """How much later."""

    async def look(self, bench: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Run it now, and later on the object and on its outcome."""
        first = await bench.mutate(review, (self.mutator,))
        await asyncio.sleep(self.seconds)
        return await self.compare(bench, review, first)

    async def compare(
        self, bench: MutatorRunner, review: Review, first: MutatorRun
    ) -> Sequence[MutatorDefect]:
        """Compare what came of it then with what comes of it now."""
        if not first.allowed or not first.changed:
            return []
        found = []
        later = await bench.mutate(review, (self.mutator,))
        if not first.same_as(later):
            found.append(nondeterminism(self, self.mutator, first, later, "the same object a moment later"))
        again = await bench.mutate(with_object(review, first.object), (self.mutator,))
        if again.changed and again.allowed:
            found.append(
                MutatorDefect(
                    defect=Defect.NOT_IDEMPOTENT,
                    mutators=(self.mutator,),
                    text="changes again, a moment later, what it has changed",
                    check=self,
                    fields=differing_fields(first.object, again.object),
                    runs=(evidence_of("first run", first), evidence_of("second run", again)),
                )
            )
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class PairCheck:
    """What two mutators have to hold, whose order nothing but their names decides."""

    first: Mutator
    second: Mutator

    async def look(self, bench: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Run them in both orders, and compare what each writes."""
        pair = (self.first, self.second)
        forwards = await bench.mutate(review, pair)
        backwards = await bench.mutate(review, pair[::-1])
        if same_result(forwards, backwards):
            return []
        fields = await self._written_by_both(bench, review)
        runs = (
            evidence_of(f"{self.first}, then {self.second}", forwards),
            evidence_of(f"{self.second}, then {self.first}", backwards),
        )
        if fields:
            text = "write different values to the same field: the last one wins"
            return [MutatorDefect(
                defect=Defect.CONFLICT, mutators=pair, text=text, check=self, fields=fields, runs=runs
            )]  # fmt: skip
        return [order_defect(self, pair, forwards, backwards)]

    async def _written_by_both(self, bench: MutatorRunner, review: Review) -> tuple[str, ...]:
        """The fields that both write, on the object as it came, or one on what the other has made of it."""
        alone = await bench.mutate(review, (self.first,)), await bench.mutate(review, (self.second,))
        paths: dict[Path, None] = {}
        paths |= dict.fromkeys(_conflicting_fields(*alone))
        for outcome, other in zip(alone, (self.second, self.first), strict=True):
            if outcome.allowed:
                after = await bench.mutate(with_object(review, outcome.object), (other,))
                paths |= dict.fromkeys(_overwritten_fields(outcome, after))
        return tuple(path_text(path) for path in paths)


@dataclasses.dataclass(frozen=True, slots=True)
class PermutationCheck:
    """What several mutators have to hold in any order, where every two of them hold it."""

    orders: tuple[tuple[Mutator, ...], ...]
    """The orders that are tried; the first one is that of the chain."""

    async def look(self, bench: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Run them in every order."""
        usual = await bench.mutate(review, self.orders[0])
        for order in self.orders[1:]:
            other = await bench.mutate(review, order)
            if not same_result(usual, other):
                check = dataclasses.replace(self, orders=(self.orders[0], order))
                return [order_defect(check, self.orders[0], usual, other, order)]
        return []


def same_result(one: MutatorRun, other: MutatorRun) -> bool:
    """Whether two orders come to the same; which of several named items stands first does not count."""
    if not one.allowed or not other.allowed:
        return one.allowed == other.allowed
    return identical(without_order(one.object), without_order(other.object))


def order_defect(
    check: PairCheck | PermutationCheck,
    usual_order: tuple[Mutator, ...],
    usual: MutatorRun,
    other: MutatorRun,
    order: tuple[Mutator, ...] = (),
) -> MutatorDefect:
    """The violation of mutators that come to something else in another order."""
    order = order or usual_order[::-1]
    both = usual.allowed and other.allowed
    return MutatorDefect(
        defect=Defect.ORDER,
        mutators=usual_order,
        text="come to something else in another order"
        if both
        else "are refused in one order and not in another",
        check=check,
        fields=differing_fields(usual.object, other.object) if both else (),
        runs=(
            evidence_of(", then ".join(map(str, usual_order)), usual),
            evidence_of(", then ".join(map(str, order)), other),
        ),
    )


def _conflicting_fields(one: MutatorRun, other: MutatorRun) -> list[Path]:
    """The fields to which both write, and not the same."""
    mine, theirs = _written_values(one), _written_values(other)
    return [path for path, value in mine.items() if path in theirs and not identical(value, theirs[path])]


def _overwritten_fields(before: MutatorRun, after: MutatorRun) -> list[Path]:
    """The fields that one wrote and the next one wrote again."""
    mine, theirs = _written_values(before), _written_values(after)
    return [path for path in mine if path in theirs]


def _written_values(outcome: MutatorRun) -> dict[Path, object]:
    """What was written, by fields that are the same ones whoever writes: positions in lists are not."""
    if not outcome.allowed:
        return {}
    values = changed_values(outcome.received, outcome.object)
    return {path: value for path, value in values.items() if not any(isinstance(step, int) for step in path)}


def mutators_with_outcome(
    decision: Decision, mutators: Iterable[Mutator], *outcomes: StepOutcome
) -> tuple[Mutator, ...]:
    """The mutators with a step that ended in one of these ways, in chain order."""
    seen = {
        (step.controller, step.name, step.configuration)
        for step in decision.steps
        if step.outcome in outcomes
    }
    return tuple(one for one in mutators if (one.controller, one.name, one.configuration) in seen)


async def _is_stable(bench: MutatorRunner, review: Review, mutator: Mutator) -> bool | None:
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

    async def look(self, bench: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Run all of them on the object, then all on their outcome, then each that did something on it."""
        first = await bench.mutate(review)
        if not first.allowed:
            return await self._refused_at_once(bench, review, first)
        if not mutators_with_outcome(first.decision, self.mutators, StepOutcome.MUTATED):
            return []
        repetition = await repeat(bench, review, first, None)
        if not repetition.second.allowed:
            return [self._refusal(first, repetition)]
        if not repetition.holds:
            return await self._unsettled(bench, review, first, repetition)
        return await self._undone(bench, review, first)

    async def _refused_at_once(
        self, bench: MutatorRunner, review: Review, first: MutatorRun
    ) -> Sequence[MutatorDefect]:
        """Tell who refuses what others have made of an object that it would have let through, in one request."""
        refusing = mutators_with_outcome(
            first.decision, self.mutators, StepOutcome.DENIED, StepOutcome.FAILED
        )
        alone = [await bench.mutate(review, (one,)) for one in refusing]
        if not refusing or not all(each.allowed for each in alone):
            return []
        return [
            MutatorDefect(
                defect=Defect.REFUSES_OWN,
                mutators=refusing,
                text="refuses what the mutators have made together, within one request",
                check=self,
                runs=(evidence_of(f"{refusing[0]} alone", alone[0]), evidence_of("all", first)),
            )
        ]

    def _refusal(self, first: MutatorRun, repetition: Repetition) -> MutatorDefect:
        second = repetition.second
        guilty = mutators_with_outcome(second.decision, self.mutators, StepOutcome.DENIED, StepOutcome.FAILED)
        return MutatorDefect(
            defect=Defect.REFUSES_OWN,
            mutators=guilty,
            text="refuses what the mutators have made together",
            check=self,
            runs=(evidence_of("first run of all", first), evidence_of("second run of all", second)),
        )

    async def _unsettled(
        self, bench: MutatorRunner, review: Review, first: MutatorRun, repetition: Repetition
    ) -> Sequence[MutatorDefect]:
        """Tell who changes the outcome of all, of those that would leave their own alone."""
        active = mutators_with_outcome(repetition.second.decision, self.mutators, StepOutcome.MUTATED)
        made = with_object(review, first.object)
        rests = {one: await _is_stable(bench, made, one) for one in active}
        guilty = tuple(one for one, rest in rests.items() if rest is True)
        if not guilty and False in rests.values():
            return []  # one that does not even leave its own outcome alone: that is told of it
        violation = MutatorDefect(
            defect=Defect.NOT_SETTLED,
            mutators=guilty or active,
            text=f"changes again what all mutators together have made, which {repetition.ending}",
            check=self,
            fields=differing_fields(first.object, repetition.second.object),
            runs=(
                evidence_of("first run of all", first),
                evidence_of("second run of all", repetition.second),
            ),
            growth=repetition.growth,
            period=repetition.period,
        )
        return [violation]

    async def _undone(
        self, bench: MutatorRunner, review: Review, first: MutatorRun
    ) -> Sequence[MutatorDefect]:
        """Find those whose change another takes back: the outcome stays the same, and never comes to rest."""
        active = mutators_with_outcome(first.decision, self.mutators, StepOutcome.MUTATED)
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

    def _fight(
        self, mutator: Mutator, other: Mutator, once: MutatorRun, back: MutatorRun
    ) -> Sequence[MutatorDefect]:
        """Tell a loop from two that write what they think right; the latter is found by comparing orders, too."""
        both = tuple(one for one in self.mutators if one in (mutator, other))
        written = changed_values(once.received, once.object)
        taken_back = changed_values(back.received, back.object)
        is_loop = None in (*written.values(), *taken_back.values())
        if not is_loop and not any(one.placed for one in both):
            return []
        loop = "undo each other's changes: in a cluster, each write brings the other one back, without end"
        return [
            MutatorDefect(
                defect=Defect.UNDONE if is_loop else Defect.CONFLICT,
                mutators=both,
                text=loop if is_loop else "write different values to the same field: the last one wins",
                check=self,
                fields=differing_fields(once.received, once.object),
                runs=(evidence_of(f"{mutator} on the outcome", once), evidence_of(f"{other} on that", back)),
                period=2 if is_loop else 0,
            )
        ]


_REFUSING = (StepOutcome.DENIED, StepOutcome.FAILED)


@dataclasses.dataclass(frozen=True, slots=True)
class ValidatorCheck:
    """What the mutators owe to the validators."""

    mutators: tuple[Mutator, ...]
    """All of the chain, in chain order."""

    async def look(self, bench: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Run both phases, and where that is refused, the validating one on the object as it came."""
        admitted = await bench.admit(review)
        if admitted.allowed or not admitted.changed or not _is_refused_by_validators(admitted):
            return []
        if not (await bench.validate(review)).allowed:
            return []
        guilty = await self._guilty(bench, review, admitted)
        mutated = await bench.mutate(review)
        return [
            MutatorDefect(
                defect=Defect.REFUSED,
                mutators=guilty,
                text="what is made is refused, and what came would have been let through",
                check=self,
                fields=differing_fields(mutated.received, mutated.object),
                runs=(evidence_of("mutating phase", mutated), evidence_of("both phases", admitted)),
            )
        ]

    async def _guilty(
        self, bench: MutatorRunner, review: Review, admitted: MutatorRun
    ) -> tuple[Mutator, ...]:
        """The mutators that bring the refusal about by themselves; all that did something, where none does."""
        active = mutators_with_outcome(admitted.decision, self.mutators, StepOutcome.MUTATED)
        alone = [one for one in active if not (await bench.admit(review, (one,))).allowed]
        return tuple(alone) or active


def _is_refused_by_validators(outcome: MutatorRun) -> bool:
    steps = outcome.decision.steps
    return any(step.outcome in _REFUSING and step.phase is Phase.VALIDATE for step in steps)
