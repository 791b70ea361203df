"""Order checks: whether it matters which mutator is first, and whether several write the same field."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.differences import identical
from pratique_cli.outputs.changes import path_text
from pratique_cli.proofs.checks import run_of
from pratique_cli.proofs.fields import changed_values, differing_fields, without_order
from pratique_cli.proofs.repetitions import with_object
from pratique_cli.proofs.violations import Defect, Violation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontdoor.mutator_sets import Mutator
    from pratique.reviews import Review
    from pratique_cli.outputs.changes import Path
    from pratique_cli.proofs.trials import Bench, Outcome


@dataclasses.dataclass(frozen=True, slots=True)
class PairCheck:
    """What two mutators have to hold, whose order nothing but their names decides."""

    first: Mutator
    second: Mutator

    async def look(self, bench: Bench, review: Review) -> Sequence[Violation]:
        """Run them in both orders, and compare what each writes."""
        pair = (self.first, self.second)
        forwards = await bench.mutate(review, pair)
        backwards = await bench.mutate(review, pair[::-1])
        if same(forwards, backwards):
            return []
        fields = await self._written_by_both(bench, review)
        runs = (
            run_of(f"{self.first}, then {self.second}", forwards),
            run_of(f"{self.second}, then {self.first}", backwards),
        )
        if fields:
            text = "write different values to the same field: the last one wins"
            return [Violation(
                defect=Defect.CONFLICT, mutators=pair, text=text, check=self, fields=fields, runs=runs
            )]  # fmt: skip
        return [out_of_order(self, pair, forwards, backwards)]

    async def _written_by_both(self, bench: Bench, review: Review) -> tuple[str, ...]:
        """The fields that both write, on the object as it came, or one on what the other has made of it."""
        alone = await bench.mutate(review, (self.first,)), await bench.mutate(review, (self.second,))
        paths: dict[Path, None] = {}
        paths |= dict.fromkeys(_contested(*alone))
        for outcome, other in zip(alone, (self.second, self.first), strict=True):
            if outcome.allowed:
                after = await bench.mutate(with_object(review, outcome.object), (other,))
                paths |= dict.fromkeys(_overwritten(outcome, after))
        return tuple(path_text(path) for path in paths)


@dataclasses.dataclass(frozen=True, slots=True)
class PermutationCheck:
    """What several mutators have to hold in any order, where every two of them hold it."""

    orders: tuple[tuple[Mutator, ...], ...]
    """The orders that are tried; the first one is that of the chain."""

    async def look(self, bench: Bench, review: Review) -> Sequence[Violation]:
        """Run them in every order."""
        usual = await bench.mutate(review, self.orders[0])
        for order in self.orders[1:]:
            other = await bench.mutate(review, order)
            if not same(usual, other):
                check = dataclasses.replace(self, orders=(self.orders[0], order))
                return [out_of_order(check, self.orders[0], usual, other, order)]
        return []


def same(one: Outcome, other: Outcome) -> bool:
    """Whether two orders come to the same; which of several named items stands first does not count."""
    if not one.allowed or not other.allowed:
        return one.allowed == other.allowed
    return identical(without_order(one.object), without_order(other.object))


def out_of_order(
    check: PairCheck | PermutationCheck,
    usual_order: tuple[Mutator, ...],
    usual: Outcome,
    other: Outcome,
    order: tuple[Mutator, ...] = (),
) -> Violation:
    """The violation of mutators that come to something else in another order."""
    order = order or usual_order[::-1]
    both = usual.allowed and other.allowed
    return Violation(
        defect=Defect.ORDER,
        mutators=usual_order,
        text="come to something else in another order"
        if both
        else "are refused in one order and not in another",
        check=check,
        fields=differing_fields(usual.object, other.object) if both else (),
        runs=(
            run_of(", then ".join(map(str, usual_order)), usual),
            run_of(", then ".join(map(str, order)), other),
        ),
    )


def _contested(one: Outcome, other: Outcome) -> list[Path]:
    """The fields to which both write, and not the same."""
    mine, theirs = _written(one), _written(other)
    return [path for path, value in mine.items() if path in theirs and not identical(value, theirs[path])]


def _overwritten(before: Outcome, after: Outcome) -> list[Path]:
    """The fields that one wrote and the next one wrote again."""
    mine, theirs = _written(before), _written(after)
    return [path for path in mine if path in theirs]


def _written(outcome: Outcome) -> dict[Path, object]:
    """What was written, by fields that are the same ones whoever writes: positions in lists are not."""
    if not outcome.allowed:
        return {}
    values = changed_values(outcome.received, outcome.object)
    return {path: value for path, value in values.items() if not any(isinstance(step, int) for step in path)}
