"""Hosts: run mutating controllers one after another, and validating controllers concurrently.

Hosts know no transport, so that services and offline runs share them.
"""

from __future__ import annotations

import asyncio
import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Self

from pratique.admission.controllers import Handler, Phase
from pratique.admission.namespace_provisioning import with_provisioned_namespace
from pratique.admission.results import Denied, Failed, FailureKind, Outcome
from pratique.admission.reviews import Call, Deadline, Review
from pratique.cluster import schemas
from pratique.cluster.store import Cluster
from pratique.hosting.catalogue import HostedController
from pratique.hosting.running import HandlerRunner, handler_runners


class ControllerHost:
    """Hosts the controllers' handlers for one phase."""

    def __init__(
        self, hosted: Sequence[HostedController], cluster: Cluster, phase: Phase, *, provisions: bool = False
    ) -> None:
        """Host the handlers of ``hosted`` for a phase.

        Args:
            hosted: The controllers, in chain order.
            cluster: The objects that they look up.
            phase: The phase to run.
            provisions: Whether the chain creates missing namespaces.
        """
        self.hosted = tuple(hosted)
        """The controllers, in chain order."""
        self.cluster = cluster
        """The objects that they look up."""
        self.runners: Mapping[str, HandlerRunner] = handler_runners(hosted, phase)
        """The runner of each handler, by its controller's name."""
        self._provisions = provisions

    def in_cluster(self, review: Review) -> Review:
        """Return the review with this host's cluster."""
        if review.cluster is not self.cluster:
            review = dataclasses.replace(review, cluster=self.cluster)
        return with_provisioned_namespace(review) if self._provisions else review

    def with_inputs(self, cluster: Cluster, handlers: Mapping[str, Handler]) -> Self:
        """Return a host with another cluster, and with other handlers for the controllers that ``handlers`` names.

        Both hosts share threads and metrics.
        """
        other = copy.copy(self)
        other.cluster = cluster
        other.runners = {
            name: dataclasses.replace(runner, handler=handlers[name]) if name in handlers else runner
            for name, runner in self.runners.items()
        }
        return other


class MutatorHost(ControllerHost):
    """Hosts mutating handlers."""

    def __init__(
        self, hosted: Sequence[HostedController], cluster: Cluster, *, provisions: bool = False
    ) -> None:
        """Host the mutating handlers of ``hosted``, as :class:`ControllerHost` does."""
        super().__init__(hosted, cluster, Phase.MUTATE, provisions=provisions)
        if self.runners:
            schemas.load()  # checks mutated objects; loaded now so that the first review need not wait for it

    async def mutate(
        self, review: Review, calls: Sequence[Call], deadline: Deadline | None = None
    ) -> list[Outcome]:
        """Run controllers in the order of ``calls``, each on the object as the previous one left it.

        The list ends with the first outcome that is denied or failed. If a controller exceeds its call's time limit or
        the deadline, its outcome is failed.

        Raises:
            ReviewError: the reviewed object is not JSON.
        """
        review = self.in_cluster(review)
        outcomes: list[Outcome] = []
        for call in calls:
            runner = self.runners.get(call.name)
            if runner is None:
                return [*outcomes, _unknown_controller(call)]
            result = await runner.run(review, call, deadline)
            outcomes.append(result.outcome)
            if isinstance(result.outcome.decision, Denied | Failed):
                break
            if result.document is not review.object_document:
                review = review.with_object(result.document)
        return outcomes


class ValidatorHost(ControllerHost):
    """Hosts validating handlers."""

    def __init__(
        self, hosted: Sequence[HostedController], cluster: Cluster, *, provisions: bool = False
    ) -> None:
        """Host the validating handlers of ``hosted``, as :class:`ControllerHost` does."""
        super().__init__(hosted, cluster, Phase.VALIDATE, provisions=provisions)

    async def validate(
        self, review: Review, calls: Sequence[Call], deadline: Deadline | None = None
    ) -> list[Outcome]:
        """Run controllers concurrently on the same object; return one outcome for each call, in their order.

        If a controller exceeds its call's time limit or the deadline, its outcome is failed.

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
            return _unknown_controller(call)
        return (await runner.run(review, call, deadline)).outcome


def _unknown_controller(call: Call) -> Outcome:
    return Outcome(
        controller=call.name,
        decision=Failed(FailureKind.UNKNOWN_CONTROLLER, "this service hosts no controller of that name"),
    )
