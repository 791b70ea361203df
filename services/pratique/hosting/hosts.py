"""Hosts: run mutating controllers one after another, and validating controllers concurrently.

Hosts know no transport, so that services and offline runs share them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from pratique.admission.controllers import Phase
from pratique.admission.results import Denied, Failed, Outcome
from pratique.admission.reviews import Call, Deadline, Review
from pratique.cluster import schemas
from pratique.cluster.store import Cluster
from pratique.hosting.catalogue import HostedController
from pratique.hosting.running import ControllerHost, unknown_controller_outcome


class MutatorHost(ControllerHost):
    """Hosts the mutating halves of controllers. It knows no transport, so that offline runs share it."""

    def __init__(
        self, hosted: Sequence[HostedController], cluster: Cluster, *, provisions: bool = False
    ) -> None:
        """Host ``hosted``, which look things up in ``cluster``.

        With ``provisions`` their chain makes the namespaces that are missing.
        """
        super().__init__(hosted, cluster, Phase.MUTATE, provisions=provisions)
        if self.runners:
            schemas.load()  # what controllers change is held against schemas, from the first review on

    async def mutate(
        self, review: Review, calls: Sequence[Call], deadline: Deadline | None = None
    ) -> list[Outcome]:
        """Run controllers in the order of ``calls``, each on the object as the one before left it.

        The list ends with the first outcome that is denied or failed. Where one takes longer than its call or
        the deadline allows, that is its outcome.

        Raises:
            ReviewError: the reviewed object is not JSON.
        """
        review = self.in_cluster(review)
        outcomes: list[Outcome] = []
        for call in calls:
            runner = self.runners.get(call.name)
            if runner is None:
                return [*outcomes, unknown_controller_outcome(call)]
            ran = await runner.run(review, call, deadline)
            outcomes.append(ran.outcome)
            if isinstance(ran.outcome.decision, Denied | Failed):
                break
            if ran.document is not review.object_document:
                review = review.with_object(ran.document)
        return outcomes


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
