"""ValidatingAdmissionWebhook: webhooks side by side, all awaited.

Source: ``k8s.io/apiserver/pkg/admission/plugin/webhook/validating/dispatcher.go``. Where the API server answers with
the denial that came first, all are kept here, in calling order.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from typing import TYPE_CHECKING

from frontdoor.chain.decisions import Step
from frontdoor.chain.stages import Record
from frontdoor.chain.webhooks import ChainWebhook, Matched, Refused, WebhookResult, call_webhook
from frontdoor.webhooks.answers import webhook_annotations
from pratique.admission.controllers import Phase
from pratique.admission.label_subjects import MatchContext
from pratique.admission.outcomes import OutcomeStatus as StepOutcome
from pratique.admission.outcomes import Failed, FailureKind, Outcome
from pratique.apimachinery import statuses
from pratique.telemetry.logs import describe_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from frontdoor.chain.webhooks import MatchedWebhook, WebhookIndex
    from pratique.admission.calls import Deadline
    from pratique.admission.reviews import Review

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class ValidatingWebhooks:
    """All validating webhooks of the chain."""

    hooks: WebhookIndex

    async def validate(self, review: Review, deadline: Deadline, *, explain: bool) -> Record:
        """Match all of them first, then call those that match, side by side."""
        record = Record()
        candidates = self.hooks.candidates(review, every=explain)
        matching = await _matching_webhooks(candidates, review, deadline, record, explain=explain)
        if record.denials or not matching:
            return record
        if deadline.passed:
            record.deny(statuses.timeout("request did not complete within requested timeout"))
            return record
        results = await asyncio.gather(*(_call_validating(hook, matched.review, deadline) for hook, matched in matching))
        for place, ((hook, _), result) in enumerate(zip(matching, results, strict=True)):
            _record_result(hook, result, place, record)
        return record


async def _matching_webhooks(
    candidates: Sequence[MatchedWebhook], review: Review, deadline: Deadline, record: Record, *, explain: bool
) -> list[tuple[ChainWebhook, Matched]]:
    """The hooks to call. One that cannot be matched refuses the request before any is called."""
    matching, subject = [], MatchContext(review)
    for hook, target in candidates:
        match = hook.matcher.match(subject, target)
        if hook.matcher.conditions is not None:
            match = await hook.matcher.apply_conditions(match, deadline)
        if isinstance(match, Matched):
            matching.append((hook, match))
        elif isinstance(match, Refused):
            record.steps.append(hook.step(Phase.VALIDATE, StepOutcome.FAILED, reason=match.status.message))
            record.deny(match.status)
            return []
        elif explain:
            record.steps.append(hook.step(Phase.VALIDATE, StepOutcome.SKIPPED, reason=match.reason))
    return matching


async def _call_validating(hook: ChainWebhook, review: Review, deadline: Deadline) -> WebhookResult:
    """Ask one hook. What breaks here breaks for this one alone, as a panic does in the API server."""
    try:
        return await call_webhook(hook, review, Phase.VALIDATE, deadline)
    except Exception as error:  # noqa: BLE001 - whatever it is, the others are still to be heard
        _log.error("validating webhook broke", extra={"webhook": hook.name, "error": describe_error(error)})
        text = f"ValidatingAdmissionWebhook/{hook.name} has panicked: {type(error).__name__}"
        return WebhookResult(
            outcome=Outcome(controller=hook.name, decision=Failed(FailureKind.ERROR, text, 500)),
            denial=None if hook.fails_open else statuses.internal_error(text),
        )


def _record_result(hook: ChainWebhook, result: WebhookResult, place: int, record: Record) -> None:
    record.warnings += result.outcome.warnings
    record.annotate(webhook_annotations(hook.name, result.outcome.audit_annotations))
    if result.failed_open:
        record.annotate({f"failed-open.validating.webhook.admission.k8s.io/round_0_index_{place}": hook.name})
    if result.denial is not None:
        record.deny(result.denial)
    record.steps.append(
        Step(
            controller="ValidatingAdmissionWebhook",
            phase=Phase.VALIDATE,
            name=hook.name,
            configuration=hook.configuration,
            outcome=_validating_status(result),
            reason=result.reason if result.denial is None else result.denial.message,
            code=result.code,
            duration_seconds=result.duration_seconds,
            endpoint=hook.transport.endpoint,
        )
    )


def _validating_status(result: WebhookResult) -> StepOutcome:
    if result.failed:
        return StepOutcome.FAILED_OPEN if result.failed_open else StepOutcome.FAILED
    if result.denial is not None:
        return StepOutcome.DENIED
    return StepOutcome.WARNED if result.outcome.warnings else StepOutcome.ALLOWED
