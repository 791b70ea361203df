"""Object validation as steps of the chain: what an API server makes of an object around the mutating phase."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from pratique.admission.controllers import Phase
from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.apimachinery.diff import diff
from pratique.apimachinery.json_reading import LARGE_BYTES
from pratique.apimachinery.json_values import Document, JSONObject
from pratique.registry import object_validation
from pratique.registry.object_validation import ObjectRefusedError, StoredObject
from pratique_frontdoor.chain.decisions import OBJECT_VALIDATION, AdmissionContext, Step, check_documents

DEFAULTS = "defaults"
"""The step that decodes an object and fills in defaults."""
VALIDATION = "validation"
"""The step that prepares an object for storage and validates it."""

_Made = TypeVar("_Made")


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
        return _ObjectStages(first, is_large=context.review.object_document.received_bytes > LARGE_BYTES)
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


@dataclasses.dataclass(slots=True)
class _ObjectStages:
    first: Phase
    is_large: bool
    """Whether the object is worth a thread."""
    received: Document | None = None
    """The object with its defaults, before the mutating phase."""

    async def receive(self, context: AdmissionContext) -> None:
        """Decode the object strictly and fill in its defaults, before the mutating phase."""
        step = _Begun(DEFAULTS, self.first, time.monotonic())
        context.record.warnings += object_validation.deprecation_warnings(context.review)
        received = await _run(context, object_validation.receive, step, is_large=self.is_large)
        if received is not None:
            context.record.warnings += object_validation.owner_warnings(context.review)
            _continue_with(context, received, received.object_document, step)
            self.received = context.review.object_document

    async def complete(self, context: AdmissionContext) -> None:
        """Fill in the defaults of what mutations have added; there is a step only if they left something out."""
        received = self.received
        if received is None or context.review.object_document is received:
            return  # nothing was mutated

        def make(review: Review) -> Review:
            return object_validation.complete(review, received.data)

        step = _Begun(DEFAULTS, Phase.MUTATE, time.monotonic())
        completed = await _run(context, make, step, is_large=self.is_large)
        if completed is not None and completed is not context.review:
            _continue_with(context, completed, completed.object_document, step)

    async def store(self, context: AdmissionContext) -> None:
        """Prepare and validate the object, between the phases."""
        step = _Begun(VALIDATION, Phase.VALIDATE, time.monotonic())
        stored = await _run(context, _store, step, is_large=self.is_large)
        if stored is None:
            return
        shown = _without_made_up(stored.review.object, context.review.object)
        _continue_with(context, stored.review, Document.from_data(shown), step)
        context.validated = stored.review
        context.record.warnings += stored.warnings


def _store(review: Review) -> StoredObject:
    return object_validation.store(review, time.time())


async def _run(
    context: AdmissionContext, make: Callable[[Review], _Made], step: _Begun, *, is_large: bool
) -> _Made | None:
    """Make something of the object, in a thread if it is large; None, with a denial, if it is refused."""
    review = context.review
    await check_documents(review)
    try:
        if is_large:
            return await asyncio.to_thread(make, review)
        return make(review)
    except ObjectRefusedError as error:
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
        return None


def _continue_with(context: AdmissionContext, review: Review, document: Document, step: _Begun) -> None:
    """Continue with a document in the place of the object of a review that differs in nothing else."""
    before = context.review.object
    patch = () if document.data is before else tuple(diff(before, document.data))
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
    if patch or review.old_object_document is not context.review.old_object_document:
        context.continue_with(
            review.with_object(document if patch else context.review.object_document), patch
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
