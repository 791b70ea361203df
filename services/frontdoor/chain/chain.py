"""The chain: its phases in order, and how one is assembled."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from typing import TYPE_CHECKING

from frontdoor.chain.decisions import Decision, limited_warnings
from frontdoor.chain.stages import AdmissionContext, Record, combine_denials
from pratique.admission.controllers import Phase
from pratique.admission.provisioning import with_provisioned_namespace
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
        context = AdmissionContext(with_provisioned_namespace(review) if self.provisions else review, deadline, explain)
        seconds: dict[Phase, float] = {}
        for phase, run in ((Phase.MUTATE, self._mutate), (Phase.VALIDATE, self._validate)):
            if phase in phases and not context.record.denials:
                begun = time.monotonic()
                await run(context)
                seconds[phase] = time.monotonic() - begun
        return self._decision(review, context, seconds)

    async def _mutate(self, context: AdmissionContext) -> None:
        # Never a third round: k8s.io/apiserver/pkg/admission/reinvocation.go.
        for context.round in (0, 1):
            for stage in self.mutating:
                if not await stage.admit(context):
                    return
            if not context.wants_second_round:
                return

    async def _validate(self, context: AdmissionContext) -> None:
        context.record.merge(await _validate_concurrently(self.validating, context))
        context.record.settle()
        for stage in self.charging:
            if context.record.denials:
                return
            context.record.merge([await _validate_stage(stage, context)])
            context.record.settle()
        _apply_pending_operations(context)

    def _decision(self, review: Review, context: AdmissionContext, seconds: Mapping[Phase, float]) -> Decision:
        record = context.record
        received, final = review.object_document, context.review.object_document
        return Decision(
            uid=review.uid,
            allowed=not record.denials,
            status=combine_denials(record.denials, first_only=self.first_denial_only) if record.denials else None,
            object_document=final,
            patch=() if final is received else tuple(diff(received.data, final.data)),
            warnings=tuple(limited_warnings(record.warnings)),
            audit_annotations=record.audit_annotations,
            steps=tuple(record.steps),
            phase_seconds=seconds,
        )


def _apply_pending_operations(context: AdmissionContext) -> None:
    """Do to the object what validating controllers want done to it, now that nothing stands against it."""
    record = context.record
    if record.denials or not record.pending_operations:
        return
    try:
        amended = patch_document(context.review.object_document, record.pending_operations)
    except PatchError as error:
        record.deny(statuses.internal_error(str(error)))
    else:
        context.change_object(amended)


async def _validate_concurrently(stages: Sequence[ValidatingStage], context: AdmissionContext) -> list[Record]:
    if len(stages) == 1:
        # The usual case: a task would cost more than the stage's own work.
        return [await _validate_stage(stages[0], context)]
    running = [asyncio.ensure_future(_validate_stage(stage, context)) for stage in stages]
    try:
        return await asyncio.gather(*running)
    except asyncio.CancelledError:
        # Time is up for all. What some have said until now counts: a refusal, or whose fault it is.
        await asyncio.wait(running)
        said = Record()
        said.merge(one.result() for one in running if not one.cancelled() and one.exception() is None)
        if not context.deadline.passed:
            raise
        if not said.denials:
            said.settle()
            raise
        return [said]


async def _validate_stage(stage: ValidatingStage, context: AdmissionContext) -> Record:
    return await stage.validate(context.review, context.deadline, explain=context.explain)
