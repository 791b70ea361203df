"""Running mutating controllers, one after another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.admission.controllers import Phase
from pratique.admission.outcomes import Denied, Failed
from pratique.cluster import schemas
from pratique.hosting.running import ControllerHost, unknown_controller_outcome

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pratique.admission.calls import Call, Deadline
    from pratique.admission.outcomes import Outcome
    from pratique.admission.reviews import Review
    from pratique.cluster.store import Cluster
    from pratique.hosting.configured_controllers import HostedController


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
