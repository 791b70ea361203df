"""The in-process transport: the hosts of the mutator and the validator, without a wire between.

``pratique review`` and tests run the whole chain this way.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mutator.host import MutatorHost
    from pratique.admission.calls import Call, Deadline
    from pratique.admission.outcomes import Outcome
    from pratique.admission.reviews import Review
    from validator.host import ValidatorHost


@dataclasses.dataclass(frozen=True, slots=True)
class InProcessTransport:
    """Asks hosts that live in this process."""

    mutator: MutatorHost
    validator: ValidatorHost
    endpoint: str = "in-process"

    async def mutate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run mutating halves one after another."""
        return await self.mutator.mutate(review, calls, deadline)

    async def validate(self, review: Review, calls: Sequence[Call], deadline: Deadline) -> Sequence[Outcome]:
        """Run validating halves side by side."""
        return await self.validator.validate(review, calls, deadline)

    async def close(self) -> None:
        """Let the controllers go of what they hold; one that is hosted twice is closed once."""
        hosted = {id(one): one for one in (*self.mutator.hosted, *self.validator.hosted)}
        for one in hosted.values():
            await one.handlers.close()
