"""Object validation as steps of the chain: what an API server makes of an object around the mutating phase."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.apimachinery.diff import diff
from pratique.apimachinery.json_values import Document, JSONObject
from pratique.processes.review_threads import estimate_values, work_beside_loop, work_on_review
from pratique.registry import object_validation
from pratique.registry.object_validation import ObjectRefusedError
from pratique_frontdoor.chain.decisions import OBJECT_VALIDATION, AdmissionContext, Step, check_documents

DEFAULTS = "defaults"
"""The step that decodes an object and fills in defaults."""
VALIDATION = "validation"
"""The step that prepares an object for storage and validates it."""


class _Result(NamedTuple):
    """What was made of an object."""

    review: Review
    document: Document
    """The object to continue with."""
    patch: tuple[JSONObject, ...] = ()
    """What tells it from the object before."""
    warnings: tuple[str, ...] = ()


class _Begun(NamedTuple):
    """A step that has begun."""

    name: str
    phase: Phase
    at: float
    """When, in seconds on the monotonic clock."""


def object_stages(context: AdmissionContext, first: Phase) -> _ObjectStages | None:
    """The stages of a review; None, and a skipped step, if nothing is made of its object.

    ``first`` is the first phase that runs.
    """
    reason = object_validation.skip_reason(context.review)
    if not reason:
        return _ObjectStages(first, context.review.object_document)
    skipped = Step(
        controller=OBJECT_VALIDATION,
        phase=first,
        name=VALIDATION,
        outcome=OutcomeStatus.SKIPPED,
        reason=reason,
        ended_at=0,
    )
    context.record.steps.append(skipped)
    return None


class _ObjectStages(msgspec.Struct):
    first: Phase
    received: Document
    """The object as it was received; then, before the mutating phase, with its defaults."""
    is_received: bool = False
    """Whether it could be decoded."""

    async def receive(self, context: AdmissionContext) -> None:
        """Decode the object strictly and fill in its defaults, before the mutating phase."""
        step = _Begun(DEFAULTS, self.first, time.monotonic())
        context.record.warnings += object_validation.deprecation_warnings(context.review)
        if await self._run(context, _receive, step):
            self.received = context.review.object_document
            self.is_received = True

    async def complete(self, context: AdmissionContext) -> None:
        """Fill in the defaults of what mutations have added; there is a step only if they left something out."""
        received = self.received
        if not self.is_received or context.review.object_document is received:
            return  # nothing was mutated

        def make(review: Review) -> _Result | None:
            completed = object_validation.complete(review, received.data)
            return None if completed is review else _result(review, completed, completed.object_document)

        await self._run(context, make, _Begun(DEFAULTS, Phase.MUTATE, time.monotonic()))

    async def store(self, context: AdmissionContext) -> None:
        """Prepare and validate the object, between the phases."""
        result = await self._run(context, _store, _Begun(VALIDATION, Phase.VALIDATE, time.monotonic()))
        if result is not None:
            context.validated = result.review

    async def _run(
        self, context: AdmissionContext, make: Callable[[Review], _Result | None], step: _Begun
    ) -> _Result | None:
        """Make something of the object and continue with it; None if that is nothing, or with a denial if refused."""
        review = context.review
        await check_documents(review)
        try:
            values = self._values_of(review)
            # The rules of a custom resource take as long as they may cost, whatever its size.
            beside_loop = values and object_validation.is_custom(review)
            result = await (work_beside_loop if beside_loop else work_on_review)(values, make, review)
        except ObjectRefusedError as error:
            _deny(context, error, step)
            return None
        if result is not None:
            _continue_with(context, result, step)
        return result

    def _values_of(self, review: Review) -> int:
        """About how many values there are to work on; 0 if the objects were made here, where nobody else waits."""
        values = review.received_values
        if values and review.object_document is not self.received:
            values += estimate_values(review.object_document.raw)  # what mutations have made of it
        return values


def _receive(review: Review) -> _Result:
    received = object_validation.receive(review)
    warnings = object_validation.owner_warnings(review)
    return _result(review, received, received.object_document, warnings)


def _store(review: Review) -> _Result:
    stored = object_validation.store(review, time.time())
    shown = _without_made_up(stored.review.object, review.object)
    return _result(review, stored.review, Document.from_data(shown), stored.warnings)


def _result(before: Review, review: Review, document: Document, warnings: tuple[str, ...] = ()) -> _Result:
    patch = () if document.data is before.object else tuple(diff(before.object, document.data))
    return _Result(review, document, patch, warnings)


def _deny(context: AdmissionContext, error: ObjectRefusedError, step: _Begun) -> None:
    status = error.status
    context.record.warnings += error.warnings
    context.record.deny(status)
    denied = Step(
        controller=OBJECT_VALIDATION,
        phase=step.phase,
        name=step.name,
        outcome=OutcomeStatus.DENIED,
        reason=status.message,
        code=status.code,
        duration_seconds=time.monotonic() - step.at,
    )
    context.record.steps.append(denied)


def _continue_with(context: AdmissionContext, result: _Result, step: _Begun) -> None:
    """Continue with a document in the place of the object of a review that differs in nothing else."""
    review, patch = result.review, result.patch
    unchanged = OutcomeStatus.ALLOWED if step.phase is Phase.VALIDATE else OutcomeStatus.UNCHANGED
    ended = Step(
        controller=OBJECT_VALIDATION,
        phase=step.phase,
        name=step.name,
        outcome=OutcomeStatus.MUTATED if patch else unchanged,
        patch=patch,
        duration_seconds=time.monotonic() - step.at,
    )
    context.record.steps.append(ended)
    context.record.warnings += result.warnings
    if patch or review.old_object_document is not context.review.old_object_document:
        context.continue_with(
            review.with_object(result.document if patch else context.review.object_document), patch
        )


_MADE_UP = ("uid", "creationTimestamp", "resourceVersion")


def _without_made_up(stored: JSONObject, before: JSONObject) -> JSONObject:
    """What is stored, without what only an API server can know, and validating controllers are shown a stand-in of."""
    metadata, own = stored.get("metadata"), before.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(own, dict):
        return stored
    made_up = [name for name in _MADE_UP if name in metadata and name not in own]
    if not made_up:
        return stored
    return {**stored, "metadata": {key: value for key, value in metadata.items() if key not in made_up}}
