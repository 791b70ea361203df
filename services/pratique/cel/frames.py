"""Frames: one evaluation's variables, and what it has cost so far.

The cost is cel-go's, counted step by step as ``interpreter/runtimecost.go`` does. Beside it stands the toil: work that
cel-go holds for constant because its lists share structure, and that is not constant here. It has its own limit, so
that every step that takes time is bounded by one of the two.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pratique.cel.errors import CostLimitError, InterruptedEvaluationError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pratique.cel.values import Value

TOIL_LIMIT = 4_000_000
"""Elements copied, characters joined and nodes compared that cost nothing by cel-go's count: a second's worth."""
_MUCH = 1_000
"""Toil after which it is time to look at the clock."""

_STEPS_BETWEEN_BREATHS = 256
"""Iterations between looks at the clock: about 0.2 ms, so that no other thread waits longer for the interpreter."""


class Frame:
    """The state of one evaluation of one expression."""

    __slots__ = ("_steps", "_until", "cost", "limit", "slots", "toil", "toil_limit", "variables")

    def __init__(
        self,
        variables: Mapping[str, Value],
        slots: int,
        limit: int,
        toil_limit: int = TOIL_LIMIT,
        until: float | None = None,
    ) -> None:
        """Begin an evaluation.

        Args:
            variables: The values of the environment's variables.
            slots: How many variables its comprehensions have.
            limit: What it may cost.
            toil_limit: What it may toil.
            until: When it is cut off, by ``time.monotonic``; None means never.
        """
        self.variables = variables
        self.slots: list[Value] = [None] * slots
        self.cost = 0
        self.limit = limit
        self.toil = 0
        self.toil_limit = toil_limit
        self._until = until
        self._steps = 0

    def spend(self, cost: int) -> None:
        """Charge for a step. Raises CostLimitError where that is too much."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitError

    def work(self, amount: int) -> None:
        """Note work that costs nothing by cel-go's count. Raises CostLimitError where it is too much."""
        self.toil += amount
        if self.toil > self.toil_limit:
            raise CostLimitError
        if amount > _MUCH:
            self.breathe()

    def step(self, cost: int) -> None:
        """Charge for another iteration of a comprehension; now and then, let other threads run."""
        self.cost += cost
        if self.cost > self.limit:
            raise CostLimitError
        self._steps += 1
        if self._steps % _STEPS_BETWEEN_BREATHS == 0:
            self.breathe()

    def breathe(self) -> None:
        """Let other threads run. Raises InterruptedEvaluationError where the time is up."""
        time.sleep(0)
        if self._until is not None and time.monotonic() > self._until:
            raise InterruptedEvaluationError
