"""Budgets: what several expressions may cost together."""

from __future__ import annotations

import dataclasses

from pratique.cel.errors import OutOfBudgetError


@dataclasses.dataclass(slots=True)
class Budget:
    """What is left of it."""

    remaining: int

    def charge(self, cost: int) -> None:
        """Take off what an expression cost. Raises OutOfBudgetError where that is more than is left.

        It is looked at when the expression has ended, as the API server does, which then drops what it gave.
        """
        if cost > self.remaining:
            raise OutOfBudgetError
        self.remaining -= cost


@dataclasses.dataclass(slots=True)
class Patience:
    """What may be spent on expressions where others wait, such as on an event loop."""

    cost: int
    """By cel-go's count; a step of it takes about 0.2 µs."""
    toil: int
    """Of what cel-go does not count."""

    def spend(self, cost: int, toil: int) -> None:
        """Take off what an expression took."""
        self.cost -= cost
        self.toil -= toil
