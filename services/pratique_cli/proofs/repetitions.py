"""Repetitions: mutators run on their own outcome, until nothing changes or it is plain that something always will."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

from pratique.differences import identical
from pratique.json_values import Document, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontdoor.mutator_sets import Mutator
    from pratique.json_values import JSONObject
    from pratique.reviews import Review
    from pratique_cli.proofs.trials import Bench, Outcome

RUNS = 10
"""What has not come to rest by then is taken never to: a chain has at most two rounds, and a cluster asks again only
when somebody writes."""


@dataclasses.dataclass(frozen=True, slots=True)
class Repetition:
    """What came of running mutators on their own outcome."""

    states: tuple[JSONObject, ...] = dataclasses.field(repr=False)
    """The object after each run, the first included; the last one is not changed any more, or comes back."""
    second: Outcome
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


async def repeat(bench: Bench, review: Review, first: Outcome, order: Sequence[Mutator] | None) -> Repetition:
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
        if period or len(states) == RUNS:
            return Repetition(tuple(states), second, period, endless=not period)
        states.append(outcome.object)
        outcome = await bench.mutate(with_object(review, outcome.object), order)
    return Repetition(tuple(states), second)


def with_object(review: Review, data: JSONObject) -> Review:
    """The same request for another object."""
    return review.with_object(Document.from_data(data))
