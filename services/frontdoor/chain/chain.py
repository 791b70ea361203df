"""The chain: its phases in order, and how one is assembled."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING

from frontdoor.chain.decisions import Decision, surviving_warnings
from frontdoor.chain.stages import Pass, Record, combine
from pratique.admission.controllers import Phase
from pratique.admission.provisioning import with_provisioned
from pratique.apimachinery import statuses
from pratique.apimachinery.diff import diff
from pratique.apimachinery.patches import PatchError, patch_document

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from frontdoor.chain.stages import MutatingStage, ValidatingStage
    from pratique.admission.calls import Deadline
    from pratique.admission.reviews import Review


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """Every member of the chain, in order. A value: another configuration is another chain."""

    mutating: tuple[MutatingStage, ...]
    """One after another; the first refusal ends the phase."""
    validating: tuple[ValidatingStage, ...]
    """Side by side, all awaited."""
    charging: tuple[ValidatingStage, ...] = ()
    """After all of those have let the request through, one after another, because they charge for it."""
    first_denial_only: bool = False
    """Answer with the first denial in chain order alone, as the API server does."""
    provisions: bool = False
    """Make the namespaces that are missing."""

    async def decide(
        self, review: Review, phases: frozenset[Phase], deadline: Deadline, *, explain: bool = False
    ) -> Decision:
        """Run a review through the phases asked for.

        Raises:
            OutageError: nobody refused the request, and a service that was to be asked gave no usable answer.
        """
        passing = Pass(with_provisioned(review) if self.provisions else review, deadline, explain)
        seconds: dict[Phase, float] = {}
        for phase, run in ((Phase.MUTATE, self._mutate), (Phase.VALIDATE, self._validate)):
            if phase in phases and not passing.record.denials:
                begun = time.monotonic()
                await run(passing)
                seconds[phase] = time.monotonic() - begun
        return self._decision(review, passing, seconds)

    async def _mutate(self, passing: Pass) -> None:
        # Never a third round: k8s.io/apiserver/pkg/admission/reinvocation.go.
        for passing.round in (0, 1):
            for stage in self.mutating:
                if not await stage.admit(passing):
                    return
            if not passing.wants_second_round:
                return

    async def _validate(self, passing: Pass) -> None:
        passing.record.merge(await _side_by_side(self.validating, passing))
        passing.record.settle()
        for stage in self.charging:
            if passing.record.denials:
                return
            passing.record.merge([await _run(stage, passing)])
            passing.record.settle()
        _amend(passing)

    def _decision(self, review: Review, passing: Pass, seconds: Mapping[Phase, float]) -> Decision:
        record = passing.record
        received, final = review.object_document, passing.review.object_document
        return Decision(
            uid=review.uid,
            allowed=not record.denials,
            status=combine(record.denials, first_only=self.first_denial_only) if record.denials else None,
            object_document=final,
            patch=() if final is received else tuple(diff(received.data, final.data)),
            warnings=tuple(surviving_warnings(record.warnings)),
            audit_annotations=record.audit_annotations,
            steps=tuple(record.steps),
            phase_seconds=seconds,
        )


def _amend(passing: Pass) -> None:
    """Do to the object what validating controllers want done to it, now that nothing stands against it."""
    record = passing.record
    if record.denials or not record.amendments:
        return
    try:
        amended = patch_document(passing.review.object_document, record.amendments)
    except PatchError as error:
        record.deny(statuses.internal_error(str(error)))
    else:
        passing.change_object(amended)


async def _side_by_side(stages: Sequence[ValidatingStage], passing: Pass) -> list[Record]:
    if len(stages) == 1:
        # The usual case: a task would cost more than the stage's own work.
        return [await _run(stages[0], passing)]
    running = [asyncio.ensure_future(_run(stage, passing)) for stage in stages]
    try:
        return await asyncio.gather(*running)
    except asyncio.CancelledError:
        # Time is up for all. What some have said until now counts: a refusal, or whose fault it is.
        await asyncio.wait(running)
        said = Record()
        said.merge(one.result() for one in running if not one.cancelled() and one.exception() is None)
        if not passing.deadline.passed:
            raise
        if not said.denials:
            said.settle()
            raise
        return [said]


async def _run(stage: ValidatingStage, passing: Pass) -> Record:
    return await stage.validate(passing.review, passing.deadline, explain=passing.explain)
