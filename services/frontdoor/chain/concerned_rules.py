"""Concerned rules: those of a controller that can tell before any call that it has nothing to do with a request."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from frontdoor.chain.hosted import Rules
    from pratique.reviews import Review


@dataclasses.dataclass(frozen=True, slots=True)
class ConcernedRules:
    """Rules, and what the controller says of the requests that they match."""

    rules: Rules
    unconcerned: Callable[[Review], str]
    """Why the controller would do nothing; empty where it may do something."""

    def matches(self, review: Review) -> bool:
        """Tell whether it wants to see the request."""
        return self.rules.matches(review) and not self.unconcerned(review)

    def mismatch(self, review: Review) -> str:
        """Say why it does not; empty where it does."""
        return self.rules.mismatch(review) or self.unconcerned(review)
