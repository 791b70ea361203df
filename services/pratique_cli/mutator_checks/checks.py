"""The checks: each looks for defects with one object, and can repeat that with a smaller one."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

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
from pratique_cli.outputs.changes import ObjectPath, path_text
from pratique_frontdoor.chain.decisions import Decision

if TYPE_CHECKING:
    from pratique_frontdoor.engines.mutator_sets import Mutator


class MutatorCheck(Protocol):
    """Looks for defects."""

    async def find_defects(self, runner: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Check one object.

        Raises:
            UnansweredError: a mutator could not be called.
        """


def evidence_of(label: str, outcome: MutatorRun) -> RunEvidence:
    """Describe a run as evidence of a defect."""
    after = outcome.object if outcome.allowed else outcome.received
    return RunEvidence(label, outcome.received, after, outcome.refusal)


class SingleMutatorCheck(msgspec.Struct, frozen=True):
    """Checks one mutator by itself: it must decide, be deterministic, and be idempotent."""

    mutator: Mutator

    async def find_defects(self, runner: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Run it on the object, again on the object, and on its own result."""
        return await self.find_defects_after(runner, review, await runner.mutate(review, (self.mutator,)))

    async def find_defects_after(
        self, runner: MutatorRunner, review: Review, first: MutatorRun
    ) -> Sequence[MutatorDefect]:
        """Check one object, given the first run.

        Raises:
            UnansweredError: the mutator could not be called.
        """
        if first.failure is not None:
            return [self._violation(Defect.FAILS, "comes to no decision", (evidence_of("run", first),))]
        if not first.changed or not first.allowed:
            return []
        return [
            *await self._find_nondeterminism(runner, review, first),
            *await self._find_non_idempotence(runner, review, first),
        ]

    async def _find_nondeterminism(
        self, runner: MutatorRunner, review: Review, first: MutatorRun
    ) -> Sequence[MutatorDefect]:
        """Run it again on the same object."""
        if self.mutator.placed:
            return []  # built-in mutators may generate random names, as ServiceAccount does
        other = await runner.mutate(review, (self.mutator,))
        return (
            []
            if first.same_as(other)
            else [nondeterminism(self, self.mutator, first, other, "the same object")]
        )

    async def _find_non_idempotence(
        self, runner: MutatorRunner, review: Review, first: MutatorRun
    ) -> Sequence[MutatorDefect]:
        """Run it on its own result."""
        repetition = await repeat(runner, review, first, (self.mutator,))
        if repetition.holds:
            return []
        runs = (evidence_of("first run", first), evidence_of("second run", repetition.second))
        if not repetition.second.allowed:
            return [self._violation(Defect.REFUSES_OWN, "denies its own result", runs)]
        text = f"changes its own result again, and {repetition.ending}"
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
    """The defect of a mutator that gave two different results."""
    return MutatorDefect(
        defect=Defect.NOT_DETERMINISTIC,
        mutators=(mutator,),
        text=f"gives a different result for {when}",
        check=check,
        fields=differing_fields(first.object, other.object),
        runs=(evidence_of("once", first), evidence_of("once more", other)),
    )


class LaterCheck(msgspec.Struct, frozen=True):
    """Checks one mutator again a moment later, to find those that depend on the clock."""

    mutator: Mutator
    seconds: float
    """How much later, in seconds."""

    async def find_defects(self, runner: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Run it now, and later on the object and on its result."""
        first = await runner.mutate(review, (self.mutator,))
        await asyncio.sleep(self.seconds)
        return await self.compare(runner, review, first)

    async def compare(
        self, runner: MutatorRunner, review: Review, first: MutatorRun
    ) -> Sequence[MutatorDefect]:
        """Compare the earlier result with results now."""
        if not first.allowed or not first.changed:
            return []
        found = []
        later = await runner.mutate(review, (self.mutator,))
        if not first.same_as(later):
            found.append(nondeterminism(self, self.mutator, first, later, "the same object a moment later"))
        again = await runner.mutate(with_object(review, first.object), (self.mutator,))
        if again.changed and again.allowed:
            found.append(
                MutatorDefect(
                    defect=Defect.NOT_IDEMPOTENT,
                    mutators=(self.mutator,),
                    text="changes its own result again, a moment later",
                    check=self,
                    fields=differing_fields(first.object, again.object),
                    runs=(evidence_of("first run", first), evidence_of("second run", again)),
                )
            )
        return found


class PairCheck(msgspec.Struct, frozen=True):
    """Checks two mutators whose order depends only on their names."""

    first: Mutator
    second: Mutator

    async def find_defects(self, runner: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Run them in both orders, and compare the results."""
        pair = (self.first, self.second)
        forwards = await runner.mutate(review, pair)
        backwards = await runner.mutate(review, pair[::-1])
        if same_result(forwards, backwards):
            return []
        fields = await self._written_by_both(runner, review)
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

    async def _written_by_both(self, runner: MutatorRunner, review: Review) -> tuple[str, ...]:
        """The fields that both write, on the original object or one after the other."""
        alone = await runner.mutate(review, (self.first,)), await runner.mutate(review, (self.second,))
        paths: dict[ObjectPath, None] = {}
        paths |= dict.fromkeys(_conflicting_fields(*alone))
        for outcome, other in zip(alone, (self.second, self.first), strict=True):
            if outcome.allowed:
                after = await runner.mutate(with_object(review, outcome.object), (other,))
                paths |= dict.fromkeys(_overwritten_fields(outcome, after))
        return tuple(path_text(path) for path in paths)


class PermutationCheck(msgspec.Struct, frozen=True):
    """Checks several mutators in all orders, if every two of them passed."""

    orders: tuple[tuple[Mutator, ...], ...]
    """The orders to try; the first one is chain order."""

    async def find_defects(self, runner: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Run them in every order."""
        usual = await runner.mutate(review, self.orders[0])
        for order in self.orders[1:]:
            other = await runner.mutate(review, order)
            if not same_result(usual, other):
                check = msgspec.structs.replace(self, orders=(self.orders[0], order))
                return [order_defect(check, self.orders[0], usual, other, order)]
        return []


def same_result(first: MutatorRun, second: MutatorRun) -> bool:
    """Whether two runs have the same result, ignoring the order of named list items."""
    if not first.allowed or not second.allowed:
        return first.allowed == second.allowed
    return identical(without_order(first.object), without_order(second.object))


def order_defect(
    check: PairCheck | PermutationCheck,
    usual_order: tuple[Mutator, ...],
    usual: MutatorRun,
    other: MutatorRun,
    order: tuple[Mutator, ...] = (),
) -> MutatorDefect:
    """The defect of mutators whose result depends on their order."""
    order = order or usual_order[::-1]
    both = usual.allowed and other.allowed
    return MutatorDefect(
        defect=Defect.ORDER,
        mutators=usual_order,
        text="have a different result in another order"
        if both
        else "are denied in one order and not in another",
        check=check,
        fields=differing_fields(usual.object, other.object) if both else (),
        runs=(
            evidence_of(", then ".join(map(str, usual_order)), usual),
            evidence_of(", then ".join(map(str, order)), other),
        ),
    )


def _conflicting_fields(first: MutatorRun, second: MutatorRun) -> list[ObjectPath]:
    """The fields to which both write different values."""
    mine, theirs = _written_values(first), _written_values(second)
    return [path for path, value in mine.items() if path in theirs and not identical(value, theirs[path])]


def _overwritten_fields(before: MutatorRun, after: MutatorRun) -> list[ObjectPath]:
    """The fields that both runs wrote."""
    mine, theirs = _written_values(before), _written_values(after)
    return [path for path in mine if path in theirs]


def _written_values(outcome: MutatorRun) -> dict[ObjectPath, object]:
    """The written values by path, without paths through list indexes, which mean different items in different runs."""
    if not outcome.allowed:
        return {}
    values = changed_values(outcome.received, outcome.object)
    return {path: value for path, value in values.items() if not any(isinstance(step, int) for step in path)}


def mutators_with_outcome(
    decision: Decision, mutators: Iterable[Mutator], *outcomes: StepOutcome
) -> tuple[Mutator, ...]:
    """The mutators with a step of one of these outcomes, in chain order."""
    seen = {
        (step.controller, step.name, step.configuration)
        for step in decision.steps
        if step.outcome in outcomes
    }
    return tuple(
        mutator for mutator in mutators if (mutator.controller, mutator.name, mutator.configuration) in seen
    )


async def _is_stable(runner: MutatorRunner, review: Review, mutator: Mutator) -> bool | None:
    """Whether a mutator leaves its own result unchanged; None if it does not change the object at all."""
    once = await runner.mutate(review, (mutator,))
    if not once.changed or not once.allowed:
        return None
    return (await repeat(runner, review, once, (mutator,))).holds


class SetCheck(msgspec.Struct, frozen=True):
    """Checks all mutators together."""

    mutators: tuple[Mutator, ...]
    """All mutators of the chain, in chain order."""

    async def find_defects(self, runner: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Run all of them on the object, all again on the result, then each active one on the result."""
        first = await runner.mutate(review)
        if not first.allowed:
            return await self._refused_at_once(runner, review, first)
        if not mutators_with_outcome(first.decision, self.mutators, StepOutcome.MUTATED):
            return []
        repetition = await repeat(runner, review, first, None)
        if not repetition.second.allowed:
            return [self._refusal(first, repetition)]
        if not repetition.holds:
            return await self._find_unsettled(runner, review, first, repetition)
        return await self._find_undone_changes(runner, review, first)

    async def _refused_at_once(
        self, runner: MutatorRunner, review: Review, first: MutatorRun
    ) -> Sequence[MutatorDefect]:
        """Find mutators that deny, within one request, an object that they would admit alone."""
        refusing = mutators_with_outcome(
            first.decision, self.mutators, StepOutcome.DENIED, StepOutcome.FAILED
        )
        alone = [await runner.mutate(review, (mutator,)) for mutator in refusing]
        if not refusing or not all(run.allowed for run in alone):
            return []
        return [
            MutatorDefect(
                defect=Defect.REFUSES_OWN,
                mutators=refusing,
                text="denies what the mutators have made together, within one request",
                check=self,
                runs=(evidence_of(f"{refusing[0]} alone", alone[0]), evidence_of("all", first)),
            )
        ]

    def _refusal(self, first: MutatorRun, repetition: Repetition) -> MutatorDefect:
        second = repetition.second
        responsible = mutators_with_outcome(
            second.decision, self.mutators, StepOutcome.DENIED, StepOutcome.FAILED
        )
        return MutatorDefect(
            defect=Defect.REFUSES_OWN,
            mutators=responsible,
            text="denies what the mutators have made together",
            check=self,
            runs=(evidence_of("first run of all", first), evidence_of("second run of all", second)),
        )

    async def _find_unsettled(
        self, runner: MutatorRunner, review: Review, first: MutatorRun, repetition: Repetition
    ) -> Sequence[MutatorDefect]:
        """Find the mutators that change the common result, though not their own."""
        active = mutators_with_outcome(repetition.second.decision, self.mutators, StepOutcome.MUTATED)
        remade = with_object(review, first.object)
        rests = {mutator: await _is_stable(runner, remade, mutator) for mutator in active}
        responsible = tuple(mutator for mutator, rest in rests.items() if rest is True)
        if not responsible and False in rests.values():
            return []  # a mutator that changes even its own result has a finding of its own
        violation = MutatorDefect(
            defect=Defect.NOT_SETTLED,
            mutators=responsible or active,
            text=f"changes the common result of all mutators again, which {repetition.ending}",
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

    async def _find_undone_changes(
        self, runner: MutatorRunner, review: Review, first: MutatorRun
    ) -> Sequence[MutatorDefect]:
        """Find mutators that undo each other's changes, so that the result only seems stable."""
        active = mutators_with_outcome(first.decision, self.mutators, StepOutcome.MUTATED)
        remade = with_object(review, first.object)
        for mutator in active:
            once = await runner.mutate(remade, (mutator,))
            if not once.changed or not once.allowed:
                continue
            changed = with_object(review, once.object)
            for other in active:
                back = await runner.mutate(changed, (other,))
                if other != mutator and back.allowed and identical(back.object, first.object):
                    return self._undo_defects(mutator, other, once, back)
        return []

    def _undo_defects(
        self, mutator: Mutator, other: Mutator, once: MutatorRun, back: MutatorRun
    ) -> Sequence[MutatorDefect]:
        """Distinguish an undo loop from two mutators that write different values, which the order checks find."""
        both = tuple(candidate for candidate in self.mutators if candidate in (mutator, other))
        written = changed_values(once.received, once.object)
        taken_back = changed_values(back.received, back.object)
        is_loop = None in (*written.values(), *taken_back.values())
        if not is_loop and not any(candidate.placed for candidate in both):
            return []
        loop = "undo each other's changes: in a cluster, they loop forever"
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


class ValidatorCheck(msgspec.Struct, frozen=True):
    """Checks that validators do not deny what the mutators made."""

    mutators: tuple[Mutator, ...]
    """All mutators of the chain, in chain order."""

    async def find_defects(self, runner: MutatorRunner, review: Review) -> Sequence[MutatorDefect]:
        """Run both phases and, if that is denied, the validating phase on the original object."""
        admitted = await runner.admit(review)
        if admitted.allowed or not admitted.changed or not _is_refused_by_validators(admitted):
            return []
        if not (await runner.validate(review)).allowed:
            return []
        responsible = await self._responsible(runner, review, admitted)
        mutated = await runner.mutate(review)
        return [
            MutatorDefect(
                defect=Defect.REFUSED,
                mutators=responsible,
                text="the mutated object is denied, but the original would be admitted",
                check=self,
                fields=differing_fields(mutated.received, mutated.object),
                runs=(evidence_of("mutating phase", mutated), evidence_of("both phases", admitted)),
            )
        ]

    async def _responsible(
        self, runner: MutatorRunner, review: Review, admitted: MutatorRun
    ) -> tuple[Mutator, ...]:
        """The mutators that cause the denial by themselves; all active ones if there is none."""
        active = mutators_with_outcome(admitted.decision, self.mutators, StepOutcome.MUTATED)
        alone = [mutator for mutator in active if not (await runner.admit(review, (mutator,))).allowed]
        return tuple(alone) or active


def _is_refused_by_validators(outcome: MutatorRun) -> bool:
    steps = outcome.decision.steps
    return any(step.outcome in _REFUSING and step.phase is Phase.VALIDATE for step in steps)
