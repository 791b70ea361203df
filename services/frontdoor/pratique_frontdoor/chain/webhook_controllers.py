"""MutatingAdmissionWebhook and ValidatingAdmissionWebhook.

Mutating webhooks run one after another, each on the object as the one before left it. Validating webhooks run side by
side, and all are awaited. Where the API server answers with the denial that came first, all denials are kept here, in
calling order.

Sources: ``mutating/dispatcher.go`` and ``validating/dispatcher.go`` in
``k8s.io/apiserver/pkg/admission/plugin/webhook``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.matching import MatchContext, MatchedResource
from pratique.admission.results import Denied, Failed, FailureKind, Outcome, OutcomeStatus, Patched
from pratique.admission.reviews import Deadline, Review
from pratique.apimachinery import statuses
from pratique.apimachinery.diff import diff, identical
from pratique.apimachinery.errors import ConversionError, PratiqueError
from pratique.apimachinery.json_reading import go_kind
from pratique.apimachinery.json_values import JSON, Document, JSONObject, encode
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.patches import PatchError, patch_document
from pratique.apimachinery.statuses import Status
from pratique.cluster import schemas
from pratique.cluster.api_resources import built_in_resources
from pratique.cluster.conversion import PendingConversionError, convert, fulfil_conversion
from pratique.cluster.go_decoding import TypedDecodingError
from pratique.cluster.typed_decoding import decode_changed
from pratique.policies.allow_lists import AllowList
from pratique.processes.review_threads import estimate_values, threads_for, work_on_review
from pratique.registry.defaults.defaulting import with_defaults_of_changes
from pratique.telemetry.logs import describe_error
from pratique_frontdoor.chain.decisions import AdmissionContext, Record, Step, read_documents
from pratique_frontdoor.chain.shadows import record_shadow
from pratique_frontdoor.chain.violations import mark_violation
from pratique_frontdoor.chain.webhooks import (
    ChainWebhook,
    Matched,
    MatchedWebhook,
    Refused,
    Skipped,
    WebhookIndex,
    WebhookResult,
    call_in_shadow,
    call_webhook,
    violating_result,
)
from pratique_frontdoor.webhooks.answers import mutation_annotation, patch_annotation, webhook_annotations

_TYPE_FIELDS = ("apiVersion", "kind")


class WebhookEffect(msgspec.Struct, frozen=True):
    """What a webhook's answer does to the review."""

    denial: Status | None = None
    """Why the request is denied; None if it is not."""
    code: int = 0
    """The HTTP code of a denial or failure, as the API server's metrics count it."""
    operations: tuple[JSONObject, ...] = ()
    """The operations of the webhook, on the object as it saw it."""
    applied: tuple[JSONObject, ...] = ()
    """The same operations on the object in the version of the request."""
    document: Document | None = None
    """The changed object in the version of the request; None if it has not changed."""
    violation: str = ""
    """What the webhook changed and may not; empty if it may change all of it."""
    pending: PendingConversionError | None = None
    """The conversion to the version of the request, if a webhook has to make it first."""
    is_retyped: bool = False
    """Whether the object became one of another kind that is known, which an API server notices after all webhooks."""

    @property
    def changed(self) -> bool:
        """Whether the object changed."""
        return self.document is not None


def effect_of(
    webhook: str,
    result: WebhookResult,
    sent_review: Review,
    requested_review: Review,
    allow_list: AllowList | None = None,
) -> WebhookEffect:
    """Apply a webhook's patch. A patch that cannot be applied denies the request, whatever the failure policy.

    Args:
        webhook: The webhook's name.
        result: The webhook's result.
        sent_review: The review as the webhook saw it.
        requested_review: The same review in the version of the request.
        allow_list: The fields that it may change, in the version that it sees; None means all.
    """
    decision = result.outcome.decision
    if not isinstance(decision, Patched) or not decision.operations:
        return WebhookEffect(result.denial, result.code)
    before = sent_review.object_document
    if before.is_null:
        text = f"admission webhook {statuses.go_quoted(webhook)} attempted to modify the object, "
        return WebhookEffect(statuses.internal_error(text + "which is not supported for this operation"))
    try:
        patched = _restore_type(patch_document(before, decision.operations), before.data, sent_review.kind)
        document = decode_changed(sent_review.kind, before.data, patched)
        told = ""
        if allow_list is not None:
            document, told = _allowed(allow_list, before, document)
        operations = tuple(diff(before.data, document.data)) if told else decision.operations
        if identical(before.data, document.data):
            # A patch of a converted object cannot be applied to the object of the request.
            applied = operations if sent_review is requested_review else ()
            return WebhookEffect(operations=operations, applied=applied, violation=told)
        completed = with_defaults_of_changes(sent_review.kind, before.data, document.data)
        added: Sequence[JSONObject] = ()
        if completed is not document.data:
            added, document = diff(document.data, completed), Document.from_data(completed)
        if sent_review is requested_review:
            applied = (*operations, *added)
            return WebhookEffect(operations=operations, applied=applied, document=document, violation=told)
        document = convert(
            document, requested_review.resource, requested_review.kind, requested_review.cluster
        )
    except PendingConversionError as pending:
        effect = WebhookEffect(operations=operations, violation=told, pending=pending)
    except (PatchError, ConversionError, TypedDecodingError, _RetypedError) as error:
        effect = _refused_effect(error, decision.operations)
    else:
        applied = tuple(diff(requested_review.object, document.data))
        effect = WebhookEffect(operations=operations, applied=applied, document=document, violation=told)
    return effect


async def _with_conversion(
    effect: WebhookEffect, sent_kind: GroupVersionKind, requested_review: Review, deadline: Deadline
) -> WebhookEffect:
    """Return an effect after a webhook has converted the changed object, if one has to."""
    pending = effect.pending
    if pending is None:
        return effect
    await fulfil_conversion(pending, requested_review.conversion_webhooks, deadline.at)
    converted = pending.document.converted_to(pending.api_version)
    if not isinstance(converted, Document):
        return _refused_effect(ConversionError(str(converted)), effect.operations)
    # The next webhook that asks for the webhook's version sees what this one left, as in the API server.
    converted.remember_conversion(sent_kind.api_version, pending.document)
    applied = tuple(diff(requested_review.object, converted.data))
    return msgspec.structs.replace(effect, applied=applied, document=converted, pending=None)


def _allowed(allow_list: AllowList, before: Document, after: Document) -> tuple[Document, str]:
    """Return what an allow-list leaves of a change, and what it does not allow; nothing is left of a failure."""
    restriction = allow_list.restrict(before.data, after.data)
    if not restriction.paths:
        return after, ""
    told = allow_list.told(restriction.paths)
    return (Document.from_data(restriction.object) if allow_list.drops else before), told


def _refused_effect(error: Exception, operations: tuple[JSONObject, ...]) -> WebhookEffect:
    """The effect of a patch that cannot be applied."""
    if not isinstance(error, _RetypedError):
        return WebhookEffect(statuses.internal_error(str(error)))
    told = operations if error.is_known else ()
    return WebhookEffect(error.status, operations=told, is_retyped=error.is_known)


class _RetypedError(PratiqueError):
    """A patch changed the type of the object."""

    def __init__(self, status: Status, *, is_known: bool = False) -> None:
        super().__init__(status.message)
        self.status = status
        self.is_known = is_known


_TYPE_META = (
    'struct { APIVersion string "json:\\"apiVersion,omitempty\\""; Kind string "json:\\"kind,omitempty\\"" }'
)
_SCHEME = "pkg/runtime/scheme.go:111"


def _restore_type(document: Document, before: JSON, kind: GroupVersionKind) -> Document:
    """Return a patched object with the type it had: a patch may omit the type, but not change it.

    ``kind`` is that of the review. Sources: ``k8s.io/apimachinery/pkg/runtime/serializer/json/{json,meta}.go`` for what
    is refused at once, ``pkg/conversion/converter.go`` and ``k8s.io/apiextensions-apiserver/pkg/apiserver/conversion``
    for what an API server refuses after the last webhook.
    """
    patched = document.data
    _check_type_fields(patched)
    had = {name: before[name] for name in _TYPE_FIELDS if isinstance(before, dict) and name in before}
    if any((patched.get(name) or value) != value for name, value in had.items()):
        group, _, version = str(patched.get("apiVersion") or had.get("apiVersion") or "").rpartition("/")
        found = GroupVersionKind(group, version, patched.get("kind") or had.get("kind") or "")
        status = _retyped_status(kind, found)
        is_known = (
            built_in_resources().for_kind(found) is not None and schemas.built_in_schema(kind) is not None
        )
        if is_known:
            decode_changed(found, {}, document)  # as what it has become, before anything else is noticed
        raise _RetypedError(status, is_known=is_known)
    return document if patched.items() >= had.items() else Document.from_data(patched | had)


def _check_type_fields(patched: JSON) -> None:
    """Refuse type fields that cannot be read."""
    prefix, fault = "couldn't get version/kind; json parse error: json: cannot unmarshal ", ""
    if not isinstance(patched, dict):
        fault = f"{prefix}{go_kind(patched)} into Go value of type {_TYPE_META}"
    else:
        for name in _TYPE_FIELDS:
            value = patched.get(name)
            if value is not None and not isinstance(value, str):
                fault = fault or f"{prefix}{go_kind(value)} into Go struct field .{name} of type string"
        if not fault and str(patched.get("apiVersion")).count("/") > 1:
            fault = f"unexpected GroupVersion string: {patched['apiVersion']}"
    if fault:
        raise _RetypedError(statuses.internal_error(fault))


def _retyped_status(kind: GroupVersionKind, found: GroupVersionKind) -> Status:
    """Return the Status of a patch that makes an object of one kind another one."""
    version = f"{found.group}/{found.version}" if found.group else found.version
    if schemas.built_in_schema(kind) is None:
        if found.group != kind.group:
            wanted = statuses.go_quoted(f"{kind.group}/{kind.version}")
            return statuses.plain_error(
                f"{found} is unstructured and is not suitable for converting to {wanted}"
            )
        text = f"request to convert CR from an invalid group/version: {version}"
        return statuses.plain_error(text if found.version != kind.version else f"{found} is not {kind}")
    if built_in_resources().for_kind(found) is None and schemas.built_in_schema(found) is None:
        unknown = f"no kind {statuses.go_quoted(found.kind)} is registered for version {statuses.go_quoted(version)}"
        return statuses.internal_error(f"{unknown} in scheme {statuses.go_quoted(_SCHEME)}")
    package = kind.group.partition(".")[0] or "core"
    return statuses.plain_error(
        f"converting ({found.version}.{found.kind}) to ({package}.{kind.kind}): unknown conversion"
    )


class MutatingWebhooks(msgspec.Struct, frozen=True):
    """The mutating webhooks of the chain."""

    hooks: WebhookIndex

    def __post_init__(self) -> None:
        """Load the schemas that patched objects are checked against, before the first review."""
        schemas.load()

    async def admit(self, context: AdmissionContext) -> bool:
        """Call the matching webhooks one after another; the first denial ends the phase."""
        if context.round > 0:
            document = context.review.object_document
            await work_on_review(context.values, context.reinvocation.begin, document, context.round)
        try:
            every = context.explain and context.round == 0
            candidates = self.hooks.candidates(context.review, every=every)
            if candidates:
                await read_documents(context.review)
            for hook, target in candidates:
                if not await _dispatch(hook, target, context):
                    return False
            return True
        finally:
            context.reinvocation.end(context.review.object_document)


async def _dispatch(hook: ChainWebhook, target: MatchedResource | None, context: AdmissionContext) -> bool:
    match = await hook.matcher.match_converted(context.match_context, target, context.deadline)
    match = hook.apply_exceptions(match, context.review)
    if hook.matcher.conditions is not None:
        match = await hook.matcher.apply_conditions(match, context.deadline)
    if isinstance(match, Skipped):
        if match.is_exempted:
            context.record.annotate(hook.exemption_annotation(Phase.MUTATE, match.reason))
        if context.explain:
            _record_step(hook, context, OutcomeStatus.SKIPPED, match.reason)
        return True
    if rollout := hook.shadow(context.review):
        await _run_in_shadow(hook, match, context, rollout)
        return True
    if isinstance(match, Refused):
        status = statuses.internal_error(match.status.message) if match.inconvertible else match.status
        _record_step(hook, context, OutcomeStatus.FAILED, status.message)
        context.record.deny(status)
        return False
    if context.reinvocation.skips(hook.uid, context.round):
        if context.explain:
            _record_step(
                hook, context, OutcomeStatus.SKIPPED, "nothing changed after it that asks for it again"
            )
        return True
    called = await call_webhook(hook, match.review, Phase.MUTATE, context.deadline)
    result, effect = await _webhook_effect(hook, context, match.review, called)
    values = context.values + len(result.outcome.audit_annotations)
    return await work_on_review(values, _conclude, hook, context, result, effect)


async def _run_in_shadow(
    hook: ChainWebhook, match: Matched | Refused, context: AdmissionContext, rollout: str
) -> None:
    """Call a webhook once, and record what it would have done."""
    if isinstance(match, Refused):
        step = hook.step(Phase.MUTATE, OutcomeStatus.FAILED, reason=match.status.message)
        record_shadow(step, rollout, context.record, hook.configuration, hook.name)
    elif context.round == 0:
        result = await call_in_shadow(hook, match.review, Phase.MUTATE, context.deadline)
        if isinstance(result, Skipped):
            _record_step(hook, context, OutcomeStatus.SKIPPED, result.reason)
            return
        result, effect = await _webhook_effect(hook, context, match.review, result)
        step = _mutating_step(hook, context.round, result, effect)
        record_shadow(step, rollout, context.record, hook.configuration, hook.name)
        if effect.violation and hook.allow_list is not None:
            mark_violation(context.record, hook.allow_list, effect.violation)


async def _webhook_effect(
    hook: ChainWebhook, context: AdmissionContext, sent_review: Review, result: WebhookResult
) -> tuple[WebhookResult, WebhookEffect]:
    """Return what a patch does, and the result, which is a failure if the patch counts as one."""
    decision = result.outcome.decision
    reviews, allow_list = (sent_review, context.review), hook.allow_list
    values = context.values
    if isinstance(decision, Patched):
        added = len(decision.operations)
        if threads_for(added) is None:
            added = estimate_values(encode(decision.operations))  # a few can add large values
        values += added
        context.add_values(added)
    effect = await work_on_review(values, effect_of, hook.name, result, *reviews, allow_list)
    effect = await _with_conversion(effect, sent_review.kind, context.review, context.deadline)
    if not effect.violation or allow_list is None or allow_list.drops:
        return result, effect
    failed = violating_result(hook, result, effect.violation)
    return failed, WebhookEffect(failed.denial, failed.code, violation=effect.violation)


def _record_step(hook: ChainWebhook, context: AdmissionContext, outcome: OutcomeStatus, reason: str) -> None:
    context.record.steps.append(hook.step(Phase.MUTATE, outcome, reason=reason, round_number=context.round))


def _conclude(
    hook: ChainWebhook, context: AdmissionContext, result: WebhookResult, effect: WebhookEffect
) -> bool:
    applied = effect.denial is None and bool(effect.operations)
    changed = effect.changed or effect.is_retyped or (applied and context.has_unrounded_times)
    context.patched = context.patched or applied
    if effect.document is not None:
        context.change_object(effect.document)
    context.reinvocation.invoked(
        hook.uid, changed=changed, if_needed=hook.webhook.reinvocation_policy == "IfNeeded"
    )
    _record_effect(hook, context, result, effect, changed=changed)
    denial = effect.denial
    if result.failed_open and context.deadline.passed:
        # The request's own deadline has passed, not only the webhook's: no later stage can be called.
        denial = statuses.timeout("request did not complete within requested timeout")
    if denial is not None:
        context.record.deny(denial)
    return denial is None


def _record_effect(
    hook: ChainWebhook,
    context: AdmissionContext,
    result: WebhookResult,
    effect: WebhookEffect,
    *,
    changed: bool,
) -> None:
    record = context.record
    record.warnings += result.outcome.warnings
    record.annotate(webhook_annotations(hook.name, result.outcome.audit_annotations))
    record.annotate(_mutation_annotations(hook, context.round, result, effect, changed=changed))
    record.steps.append(_mutating_step(hook, context.round, result, effect))
    if effect.violation and hook.allow_list is not None:
        mark_violation(record, hook.allow_list, effect.violation, hook.configuration, hook.name)


def _mutating_step(
    hook: ChainWebhook, round_number: int, result: WebhookResult, effect: WebhookEffect
) -> Step:
    return Step(
        controller="MutatingAdmissionWebhook",
        phase=Phase.MUTATE,
        name=hook.name,
        configuration=hook.configuration,
        round=round_number,
        outcome=_mutating_status(result, effect),
        reason=result.reason if effect.denial is None else effect.denial.message,
        code=effect.code,
        patch=effect.applied,
        duration_seconds=result.duration_seconds,
        timeout_seconds=hook.call.timeout_seconds,
        endpoint=hook.transport.endpoint,
    )


def _mutating_status(result: WebhookResult, effect: WebhookEffect) -> OutcomeStatus:
    if result.failed:
        return OutcomeStatus.FAILED_OPEN if result.failed_open else OutcomeStatus.FAILED
    if effect.denial is not None:
        denied = isinstance(result.outcome.decision, Denied)
        return OutcomeStatus.DENIED if denied else OutcomeStatus.FAILED
    if effect.changed:
        return OutcomeStatus.MUTATED
    return OutcomeStatus.WARNED if result.outcome.warnings else OutcomeStatus.UNCHANGED


def _mutation_annotations(
    hook: ChainWebhook, round_number: int, result: WebhookResult, effect: WebhookEffect, *, changed: bool
) -> dict[str, str]:
    place = f"round_{round_number}_index_{hook.index}"
    annotations = {
        f"mutation.webhook.admission.k8s.io/{place}": mutation_annotation(
            hook.configuration, hook.name, mutated=changed
        )
    }
    if effect.operations:
        annotations[f"patch.webhook.admission.k8s.io/{place}"] = patch_annotation(
            hook.configuration, hook.name, effect.operations
        )
    if result.failed_open:
        annotations[f"failed-open.mutation.webhook.admission.k8s.io/{place}"] = hook.name
    return annotations


_log = logging.getLogger(__name__)


class ValidatingWebhooks(msgspec.Struct, frozen=True):
    """The validating webhooks of the chain."""

    hooks: WebhookIndex

    async def validate(self, review: Review, deadline: Deadline, *, explain: bool) -> Record:
        """Match all webhooks first, then call the matching ones concurrently."""
        record = Record()
        candidates = self.hooks.candidates(review, every=explain)
        if candidates:
            await read_documents(review)
        matching = await _matching_webhooks(candidates, review, deadline, record, explain=explain)
        if record.denials or not matching:
            return record
        if deadline.passed and not all(call.rollout for call in matching):
            record.deny(statuses.timeout("request did not complete within requested timeout"))
            return record
        results = await asyncio.gather(*(_call_validating(call, deadline) for call in matching))
        values = review.received_values + sum(
            len(result.outcome.audit_annotations) for result in results if isinstance(result, WebhookResult)
        )
        await work_on_review(values, _record_results, matching, results, record)
        return record


class _ValidatingCall(NamedTuple):
    """A webhook to call."""

    hook: ChainWebhook
    review: Review
    """The review, converted for the webhook."""
    rollout: str
    """The PolicyRollout that keeps it in shadow; empty if it is enforced."""


async def _matching_webhooks(
    candidates: Sequence[MatchedWebhook], review: Review, deadline: Deadline, record: Record, *, explain: bool
) -> list[_ValidatingCall]:
    """Return the webhooks to call. One that cannot be matched denies the request before any is called."""
    matching, subject = [], MatchContext(review)
    for hook, target in candidates:
        match = hook.apply_exceptions(await hook.matcher.match_converted(subject, target, deadline), review)
        if hook.matcher.conditions is not None:
            match = await hook.matcher.apply_conditions(match, deadline)
        if isinstance(match, Matched):
            matching.append(_ValidatingCall(hook, match.review, hook.shadow(review)))
        elif isinstance(match, Refused) and (rollout := hook.shadow(review)):
            step = hook.step(Phase.VALIDATE, OutcomeStatus.FAILED, reason=match.status.message)
            record_shadow(step, rollout, record, hook.configuration, hook.name)
        elif isinstance(match, Refused):
            record.steps.append(hook.step(Phase.VALIDATE, OutcomeStatus.FAILED, reason=match.status.message))
            record.deny(match.status)
            return []
        else:
            _record_skipped(hook, match, record, explain=explain)
    return matching


def _record_skipped(hook: ChainWebhook, match: Skipped, record: Record, *, explain: bool) -> None:
    if match.is_exempted:
        record.annotate(hook.exemption_annotation(Phase.VALIDATE, match.reason))
    if explain:
        record.steps.append(hook.step(Phase.VALIDATE, OutcomeStatus.SKIPPED, reason=match.reason))


async def _call_validating(call: _ValidatingCall, deadline: Deadline) -> WebhookResult | Skipped:
    """Call one webhook. An exception here fails this webhook alone, as a panic does in the API server."""
    hook = call.hook
    try:
        run = call_in_shadow if call.rollout else call_webhook
        return await run(hook, call.review, Phase.VALIDATE, deadline)
    except Exception as error:  # noqa: BLE001 - the other webhooks must still be called
        _log.error(
            "a validating webhook raised an exception",
            extra={"webhook": hook.name, "error": describe_error(error)},
        )
        text = f"ValidatingAdmissionWebhook/{hook.name} has panicked: {type(error).__name__}"
        return WebhookResult(
            outcome=Outcome(controller=hook.name, decision=Failed(FailureKind.ERROR, text, 500)),
            denial=None if hook.fails_open else statuses.internal_error(text),
        )


def _record_results(
    calls: Sequence[_ValidatingCall], results: Sequence[WebhookResult | Skipped], record: Record
) -> None:
    for place, (call, result) in enumerate(zip(calls, results, strict=True)):
        _record_result(call, result, place, record)


def _record_result(
    call: _ValidatingCall, result: WebhookResult | Skipped, place: int, record: Record
) -> None:
    hook = call.hook
    if isinstance(result, Skipped):
        record.steps.append(hook.step(Phase.VALIDATE, OutcomeStatus.SKIPPED, reason=result.reason))
        return
    step = _validating_step(hook, result)
    if call.rollout:
        record_shadow(step, call.rollout, record, hook.configuration, hook.name)
        return
    record.warnings += result.outcome.warnings
    record.annotate(webhook_annotations(hook.name, result.outcome.audit_annotations))
    if result.failed_open:
        record.annotate({f"failed-open.validating.webhook.admission.k8s.io/round_0_index_{place}": hook.name})
    if result.denial is not None:
        record.deny(result.denial)
    record.steps.append(step)


def _validating_step(hook: ChainWebhook, result: WebhookResult) -> Step:
    return Step(
        controller="ValidatingAdmissionWebhook",
        phase=Phase.VALIDATE,
        name=hook.name,
        configuration=hook.configuration,
        outcome=_validating_status(result),
        reason=result.reason if result.denial is None else result.denial.message,
        code=result.code,
        duration_seconds=result.duration_seconds,
        timeout_seconds=hook.call.timeout_seconds,
        endpoint=hook.transport.endpoint,
    )


def _validating_status(result: WebhookResult) -> OutcomeStatus:
    if result.failed:
        return OutcomeStatus.FAILED_OPEN if result.failed_open else OutcomeStatus.FAILED
    if result.denial is not None:
        return OutcomeStatus.DENIED
    return OutcomeStatus.WARNED if result.outcome.warnings else OutcomeStatus.ALLOWED
