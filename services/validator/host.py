"""Running validating controllers, side by side."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pratique.admission.controllers import Phase
from pratique.hosting.running import ControllerHost, unknown_controller_outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.admission.calls import Call, Deadline
    from pratique.admission.outcomes import Outcome
    from pratique.admission.reviews import Review
    from pratique.cluster.store import Cluster
    from pratique.hosting.configured_controllers import HostedController


class ValidatorHost(ControllerHost):
    """Hosts the validating halves of controllers. It knows no transport, so that offline runs share it."""

    def __init__(
        self, hosted: Sequence[HostedController], cluster: Cluster, *, provisions: bool = False
    ) -> None:
        """Host ``hosted``, which look things up in ``cluster``.

        With ``provisions`` their chain makes the namespaces that are missing.
        """
        super().__init__(hosted, cluster, Phase.VALIDATE, provisions=provisions)

    async def validate(
        self, review: Review, calls: Sequence[Call], deadline: Deadline | None = None
    ) -> list[Outcome]:
        """Run controllers side by side on the same object; one outcome for each call, in their order.

        Where one takes longer than its call or the deadline allows, that is its outcome.

        Raises:
            ReviewError: the reviewed object is not JSON.
        """
        review = self.in_cluster(review)
        if len(calls) == 1 or all(self._is_immediate(call) for call in calls):
            # The usual case: tasks would cost more than the controllers' own work.
            return [await self._run(review, call, deadline) for call in calls]
        tasks = [asyncio.ensure_future(self._run(review, call, deadline)) for call in calls]
        try:
            return await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()

    def _is_immediate(self, call: Call) -> bool:
        runner = self.runners.get(call.name)
        return runner is None or runner.immediate

    async def _run(self, review: Review, call: Call, deadline: Deadline | None) -> Outcome:
        runner = self.runners.get(call.name)
        if runner is None:
            return unknown_controller_outcome(call)
        return (await runner.run(review, call, deadline)).outcome
