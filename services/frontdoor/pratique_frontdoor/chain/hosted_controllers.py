"""Hosted controllers: the mutator and the validators run them, many in one call."""

from __future__ import annotations

import asyncio
import functools
import itertools
import time
from collections.abc import Awaitable, Iterable, Iterator, Mapping, Sequence
from typing import Self, TypeAlias, assert_never

import msgspec

from pratique.admission.controllers import Phase
from pratique.admission.results import (
    Allowed,
    Denied,
    Failed,
    FailureKind,
    Outcome,
    OutcomeDecision,
    OutcomeStatus,
    Patched,
    PolicyOutcome,
)
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import CallError, CallTimeoutError
from pratique.apimachinery.json_values import Document
from pratique.apimachinery.patches import PatchError, patch_document
from pratique.apimachinery.statuses import Status
from pratique.configuration.policy_references import PolicyReferenceKind
from pratique.policies.allow_lists import NO_ALLOW_LISTS, AllowLists
from pratique.policies.exceptions import exemption_annotation, find_exemption
from pratique.policies.rollouts import NO_ROLLOUTS, Rollouts
from pratique.processes.review_threads import work_on_review
from pratique_frontdoor.chain.decisions import AdmissionContext, OutageError, Record, Reinvocation, Step
from pratique_frontdoor.chain.fan_out import FanOut, Share, merge_outcomes
from pratique_frontdoor.chain.policy_rules import ChainMember, PolicyRules
from pratique_frontdoor.chain.shadows import record_shadow, shadow_deadline
from pratique_frontdoor.chain.violations import RestrictedController, mark_violation
from pratique_frontdoor.transports import Transport


async def await_outcomes(
    phase: Phase, asking: Awaitable[Sequence[Outcome]], deadline: Deadline
) -> Sequence[Outcome]:
    """Await the outcomes of a call to a service.

    The service's stream, gRPC, or the front door's limit on the request, which cancels this task, may notice first that
    the deadline has passed: the outage is the same.

    Raises:
        OutageError: there is no usable answer.
    """
    late = deadline.passed
    try:
        return await asking
    except CallTimeoutError:
        raise (OutageError.late if late else OutageError.timeout)(phase) from None
    except CallError as error:
        raise OutageError.of(phase, error) from None
    except asyncio.CancelledError:
        if not deadline.passed:
            raise
        raise OutageError.timeout(phase) from None


class _ServiceCall(msgspec.Struct, frozen=True):
    """One call to a service, and the steps that result from it."""

    phase: Phase
    endpoint: str
    limits: Mapping[str, float]
    """The time limits of controllers, in seconds, by name."""
    review: Review
    round: int = 0
    shadows: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The PolicyRollouts that keep controllers in shadow, by the names of these."""
    policy_rollouts: Rollouts = NO_ROLLOUTS
    policy_allow_lists: AllowLists = NO_ALLOW_LISTS

    @classmethod
    def of(
        cls,
        phase: Phase,
        stage: HostedMutators | PolicyMutators | HostedValidators,
        members: Iterable[ChainMember],
        review: Review,
        round_number: int = 0,
    ) -> Self:
        """Prepare a call to the service of a stage, for some of its members."""
        members = tuple(members)
        shadows = {
            member.call.name: member.shadow(review) for member in members if member.rollout is not None
        }
        # Compared by identity: most chains have neither, and asking each would cost every review.
        return cls(
            phase,
            stage.transport.endpoint,
            stage.limits,
            review,
            round_number,
            {name: rollout for name, rollout in shadows.items() if rollout},
            next(
                (member.policy_rollouts for member in members if member.policy_rollouts is not NO_ROLLOUTS),
                NO_ROLLOUTS,
            ),
            next(
                (
                    member.policy_allow_lists
                    for member in members
                    if member.policy_allow_lists is not NO_ALLOW_LISTS
                ),
                NO_ALLOW_LISTS,
            ),
        )

    def select(
        self, members: Sequence[ChainMember], review: Review, record: Record, *, explain: bool
    ) -> list[Call]:
        if not explain:
            return [
                member.call
                for member in members
                if member.rules.matches(review) and not self._exemption(member, review, record)
            ]
        calls = []
        for member in members:
            if reason := member.rules.mismatch(review) or self._exemption(member, review, record):
                record.steps.append(self._skipped_step(member.call.name, reason))
            else:
                calls.append(member.call_for(explain=True))
        return calls

    def _exemption(self, member: ChainMember, review: Review, record: Record) -> str:
        """Return what to say of an exception that exempts the review, and annotate it; empty without one."""
        if not member.exemptions or not (told := find_exemption(member.exemptions, review)):
            return ""
        name = member.call.name
        record.annotate(
            {
                f"{name.lower()}/{key}": value
                for key, value in exemption_annotation(told, str(self.phase.value)).items()
            }
        )
        return told

    def sort_steps(self, members: Sequence[ChainMember], record: Record, begun: int) -> None:
        """Sort the steps since ``begun`` into chain order: skipped ones were recorded first."""
        places = {member.call.name: place for place, member in enumerate(members)}
        record.steps[begun:] = sorted(record.steps[begun:], key=lambda step: places[step.controller])

    def fail(self, call: Call, outage: OutageError, record: Record) -> None:
        """Record a failed step for a call that got no answer, which is an outage unless it is in shadow."""
        self._record_unanswered(call.name, outage, record)

    def _record_unanswered(self, name: str, outage: OutageError, record: Record) -> None:
        step = self._failed_step(name, str(outage))
        if rollout := self.shadows.get(name):
            record_shadow(step, rollout, record, str(self.phase.value))
            return
        record.steps.append(step)
        if outage not in record.outages:
            record.outages.append(outage)

    def record_outcome(
        self, outcome: Outcome, decision: Allowed | Patched | Denied | Failed, record: Record
    ) -> None:
        """Record the outcome of one controller."""
        if isinstance(decision, Failed) and decision.kind is FailureKind.UNKNOWN_CONTROLLER:
            mismatch = OutageError.mismatch(self.phase, outcome.controller)
            self._record_unanswered(outcome.controller, mismatch, record)
            return
        if rollout := self.shadows.get(outcome.controller):
            self._record_in_shadow(outcome, decision, rollout, record)
            return
        ended, denial = self._status_and_denial(outcome, decision)
        record.warnings += outcome.warnings
        if outcome.audit_annotations:
            record.annotate(_prefixed_annotations(outcome))
        refusals: list[Status] = []
        if outcome.policy_outcomes:
            for part in outcome.policy_outcomes:
                self._record_policy(outcome, part, record)
            refusals = [status for part in outcome.policy_outcomes for status in part.denials]
        if not outcome.policy_outcomes or (denial is not None and not self._has_refusal(outcome)):
            record.steps.append(self._controller_step(outcome, decision, ended, denial))
        if denial is not None and not refusals:
            refusals = [denial]
        record.denials += refusals

    def _record_in_shadow(
        self, outcome: Outcome, decision: OutcomeDecision, rollout: str, record: Record
    ) -> None:
        """Record what a controller said that has no effect, or why it was not asked."""
        steps = [self._policy_step(outcome, part) for part in outcome.policy_outcomes]
        if not steps:
            ended, denial = self._status_and_denial(outcome, decision)
            step = self._controller_step(outcome, decision, ended, denial)
            if outcome.warnings and not step.reason:
                step = msgspec.structs.replace(step, reason=outcome.warnings[0])
            steps = [step]
        for step in steps:
            record_shadow(step, rollout, record, str(self.phase.value))

    def _record_policy(self, outcome: Outcome, part: PolicyOutcome, record: Record) -> None:
        step = self._policy_step(outcome, part)
        if rollout := self._policy_shadow(outcome, part):
            record_shadow(step, rollout, record, part.name, part.configuration)
        else:
            record.steps.append(step)
        self._mark_policy_violation(part, record)

    def _mark_policy_violation(self, part: PolicyOutcome, record: Record) -> None:
        """Mark the last step if the service says that the policy changed what it may not."""
        if not self.policy_allow_lists or not part.reason or self.phase is not Phase.MUTATE:
            return
        allow_list = self.policy_allow_lists.of_policy(part.name, part.configuration)
        if allow_list is not None and allow_list.prefix in part.reason:
            mark_violation(record, allow_list, part.reason, part.name, part.configuration)

    def _policy_shadow(self, outcome: Outcome, part: PolicyOutcome) -> str:
        """Return the PolicyRollout that kept a policy in shadow; empty if it was enforced.

        The service has decided that: what it enforced has denials, or a key if it mutates. Both processes go by the
        same rollouts, but labels of a namespace may have changed in between.
        """
        kind = _POLICY_KINDS.get(outcome.controller)
        if kind is None or not self.policy_rollouts or part.denials or part.key:
            return ""
        rollout = self.policy_rollouts.of_policy(kind, part.name, part.configuration)
        if rollout is None:
            return ""
        has_no_effect = part.status in _REFUSING and not isinstance(outcome.decision, Denied)
        return rollout.name if has_no_effect or rollout.in_shadow(self.review) else ""

    def _has_refusal(self, outcome: Outcome) -> bool:
        """Return whether a policy outcome says why the request is denied."""
        return any(
            part.status in _REFUSING and not self._policy_shadow(outcome, part)
            for part in outcome.policy_outcomes
        )

    def _controller_step(
        self,
        outcome: Outcome,
        decision: Allowed | Patched | Denied | Failed,
        ended: OutcomeStatus,
        denial: Status | None,
    ) -> Step:
        return Step(
            controller=outcome.controller,
            phase=self.phase,
            name=outcome.controller,
            round=self.round,
            outcome=ended,
            reason="" if denial is None else denial.message,
            code=0 if denial is None else denial.code,
            patch=decision.operations if isinstance(decision, Patched) else (),
            duration_seconds=outcome.duration_seconds,
            timeout_seconds=self.limits.get(outcome.controller),
            endpoint=outcome.endpoint or self.endpoint,
        )

    def _status_and_denial(
        self, outcome: Outcome, decision: Allowed | Patched | Denied | Failed
    ) -> tuple[OutcomeStatus, Status | None]:
        match decision:
            case Allowed():
                if outcome.warnings:
                    return OutcomeStatus.WARNED, None
                mutating = self.phase is Phase.MUTATE
                return OutcomeStatus.UNCHANGED if mutating else OutcomeStatus.ALLOWED, None
            case Patched():
                return OutcomeStatus.MUTATED, None
            case Denied(status):
                return OutcomeStatus.DENIED, status
            case Failed(_, message):
                reason = f"admission controller {statuses.go_quoted(outcome.controller)} failed: {message}"
                return OutcomeStatus.FAILED, statuses.internal_error(reason)
            case _:
                assert_never(decision)

    def _policy_step(self, outcome: Outcome, part: PolicyOutcome) -> Step:
        return Step(
            controller=outcome.controller,
            phase=self.phase,
            name=part.name,
            configuration=part.configuration,
            round=self.round,
            outcome=part.status,
            reason=part.reason,
            code=part.denials[0].code if part.denials else 0,
            patch=part.operations,
            duration_seconds=part.duration_seconds,
            timeout_seconds=self.limits.get(outcome.controller),
            endpoint=""
            if part.status is OutcomeStatus.SKIPPED
            else part.endpoint or outcome.endpoint or self.endpoint,
            unmet=part.unmet,
        )

    def _skipped_step(self, name: str, reason: str) -> Step:
        limit = self.limits.get(name)
        if len(reason) > _MAX_SHARED_REASON:
            step = _make_skipped_step(name, self.phase, self.round, reason, limit)
            return msgspec.structs.replace(step, ended_at=time.perf_counter_ns())
        return _shared_skipped_step(name, self.phase, self.round, reason, limit)

    def _failed_step(self, name: str, reason: str) -> Step:
        return Step(
            controller=name,
            phase=self.phase,
            name=name,
            round=self.round,
            outcome=OutcomeStatus.FAILED,
            reason=reason,
            timeout_seconds=self.limits.get(name),
            endpoint=self.endpoint,
        )


_MAX_SHARED_REASON = 1024
"""The longest reason of a step that reviews share, in characters. Most name a dozen resources; clients can make longer
ones."""
_SHARED_STEPS = 1024
"""Skipped steps that reviews share: of a dozen controllers for each of 80 kinds of requests."""


def _make_skipped_step(
    name: str, phase: Phase, round_number: int, reason: str, timeout_seconds: float | None
) -> Step:
    return Step(
        controller=name,
        phase=phase,
        name=name,
        round=round_number,
        outcome=OutcomeStatus.SKIPPED,
        reason=reason,
        timeout_seconds=timeout_seconds,
        ended_at=0,
    )


_shared_skipped_step = functools.lru_cache(_SHARED_STEPS)(_make_skipped_step)
"""Offline, nine of a review's dozen steps are skipped ones, and the same for all objects of a kind."""


_REFUSING = frozenset({OutcomeStatus.DENIED, OutcomeStatus.FAILED})
_POLICY_KINDS = {
    "MutatingAdmissionPolicy": PolicyReferenceKind.MUTATING_POLICY,
    "ValidatingAdmissionPolicy": PolicyReferenceKind.VALIDATING_POLICY,
}
"""The controllers that run policies, and how these are named."""


def _prefixed_annotations(outcome: Outcome) -> dict[str, str]:
    prefix = outcome.controller.lower()
    return {
        key if "/" in key else f"{prefix}/{key}": value for key, value in outcome.audit_annotations.items()
    }


class HostedMutators(msgspec.Struct, frozen=True):
    """Consecutive mutating controllers of the chain, which the mutator runs in one call."""

    members: tuple[ChainMember, ...]
    transport: Transport
    limits: Mapping[str, float] = msgspec.field(default_factory=dict)
    """The time limits of controllers, in seconds, by name."""

    async def admit(self, context: AdmissionContext) -> bool:
        """Run the matching controllers, each on the object as the one before left it."""
        await run_mutators(self, self.members, context)
        return not context.record.denials


async def run_mutators(
    stage: HostedMutators | PolicyMutators,
    members: Sequence[ChainMember],
    context: AdmissionContext,
    again: tuple[str, ...] | None = None,
) -> Sequence[Outcome]:
    """Run mutating controllers in one call, and record their outcomes.

    Args:
        stage: The stage whose controllers they are.
        members: The controllers; those that match are called.
        context: The review, whose object is changed by their patches.
        again: In the second round, the keys of their policies to run again.

    Returns:
        The outcome of each called controller.

    Raises:
        OutageError: the service gave no usable answer. No earlier stage denied the request, or it would not have been
            called.
    """
    outcomes: list[Outcome] = []
    for in_shadow, group in itertools.groupby(
        members, lambda member: member.rollout is not None and bool(member.shadow(context.review))
    ):
        if in_shadow:
            await _run_in_shadow(stage, tuple(group), context)
            continue
        for together in _until_restricted(group):
            outcomes += await _run_enforced(stage, together, context, again)
    return outcomes


def _until_restricted(members: Iterable[ChainMember]) -> Iterator[tuple[ChainMember, ...]]:
    """Divide members into calls that one with an allow-list ends: the next see what is left of its changes."""
    together: list[ChainMember] = []
    for member in members:
        together.append(member)
        if member.restricted is not None:
            yield tuple(together)
            together = []
    if together:
        yield tuple(together)


async def _run_enforced(
    stage: HostedMutators | PolicyMutators,
    members: Sequence[ChainMember],
    context: AdmissionContext,
    again: tuple[str, ...] | None,
) -> Sequence[Outcome]:
    """Run mutating controllers in one call, until one denies the request."""
    if context.record.denials:
        return ()
    transport, deadline = stage.transport, context.deadline
    hop = _ServiceCall.of(Phase.MUTATE, stage, members, context.review, context.round)
    begun = len(context.record.steps)
    calls = hop.select(members, context.review, context.record, explain=context.explain)
    if not calls:
        return ()
    if again is not None:
        calls = [msgspec.structs.replace(call, only=again) for call in calls]
    asking = transport.mutate(context.review, calls, deadline)
    outcomes = await await_outcomes(Phase.MUTATE, asking, deadline)
    restricted = {member.call.name: member.restricted for member in members if member.restricted is not None}

    def take_outcomes(document: Document) -> Document:
        for outcome in outcomes:
            allow_list = restricted.get(outcome.controller)
            document = _take_outcome(hop, outcome, document, allow_list, context.record)
        return document

    values = _with_answers(context.review, outcomes)
    context.change_object(await work_on_review(values, take_outcomes, context.review.object_document))
    if context.record.outages:
        raise context.record.outages[0]
    if context.explain:
        hop.sort_steps(members, context.record, begun)
    return outcomes


async def _run_in_shadow(
    stage: HostedMutators | PolicyMutators, members: Sequence[ChainMember], context: AdmissionContext
) -> None:
    """Run mutating controllers in calls of their own, on the same object, and record what they would have done.

    They run in the first round only. A call that fails is their failure, and no outage.
    """
    if context.record.denials or context.round > 0:
        return
    for member in members:
        hop = _ServiceCall.of(Phase.MUTATE, stage, (member,), context.review)
        calls = hop.select((member,), context.review, context.record, explain=context.explain)
        if not calls:
            continue
        try:
            asking = stage.transport.mutate(context.review, calls, shadow_deadline(context.deadline))
            outcomes = await asking
        except CallError as error:
            hop.fail(calls[0], OutageError.of(Phase.MUTATE, error), context.record)
        else:
            for outcome in outcomes:
                await work_on_review(
                    _with_answers(context.review, outcomes),
                    _take_outcome,
                    *(hop, outcome, context.review.object_document, member.restricted, context.record),
                )


def _with_answers(review: Review, outcomes: Iterable[Outcome]) -> int:
    """About how many values a review and the outcomes of it have; 0 of a review that was made here."""
    values = review.received_values
    if values:
        for outcome in outcomes:
            values += len(outcome.warnings) + len(outcome.audit_annotations)
            if isinstance(outcome.decision, Patched):
                values += len(outcome.decision.operations)
    return values


def _take_outcome(
    hop: _ServiceCall,
    outcome: Outcome,
    before: Document,
    restricted: RestrictedController | None,
    record: Record,
) -> Document:
    """Record what a mutating controller did to an object, and return the object after it."""
    decision, document = _apply_decision(outcome, before)
    told = ""
    if restricted is not None and isinstance(decision, Patched):
        outcome, document, told = restricted.restrict(outcome, before, document)
        decision = outcome.decision
    hop.record_outcome(outcome, decision, record)
    if told and restricted is not None:
        mark_violation(record, restricted.allow_list, told, str(hop.phase.value))
    return document


def _apply_decision(outcome: Outcome, document: Document) -> tuple[OutcomeDecision, Document]:
    """Return the decision, and the object after it."""
    decision = outcome.decision
    if not isinstance(decision, Patched):
        return decision, document
    if outcome.document is not None:
        return decision, outcome.document
    try:
        return decision, patch_document(document, decision.operations)
    except PatchError as error:
        return Denied(statuses.internal_error(str(error))), document


class HostedValidators(msgspec.Struct, frozen=True):
    """Validating controllers of the chain, which the validators run."""

    members: tuple[ChainMember, ...]
    transport: Transport
    limits: Mapping[str, float] = msgspec.field(default_factory=dict)
    """The time limits of controllers, in seconds, by name."""
    fan_out: FanOut | None = None
    """Divides their work among replicas; None makes one call."""
    first_denial_only: bool = False
    """Whether nothing counts that a controller says after another one in chain order has denied the request."""

    async def validate(self, review: Review, deadline: Deadline, *, explain: bool) -> Record:
        """Run the matching controllers concurrently.

        The record holds an outage, as another stage may deny the request.
        """
        record = Record()
        hop = _ServiceCall.of(Phase.VALIDATE, self, self.members, review)
        calls = hop.select(self.members, review, record, explain=explain)
        if not calls:
            return record
        if hop.shadows:
            calls = _limited_in_shadow(calls, hop.shadows, deadline)
        if self.fan_out is None:
            asking = self.transport.validate(review, calls, deadline)
            answers: _Answers = [(calls, await _outcomes_or_outage(asking, deadline))]
        else:
            answers = await _ask_shares(self.fan_out, review, calls, deadline, explain=explain)
        outcomes = itertools.chain.from_iterable(
            answer for _, answer in answers if not isinstance(answer, OutageError)
        )
        await work_on_review(
            _with_answers(review, outcomes),
            _record_answers,
            *(hop, calls, answers, record),
            until_denied=self.first_denial_only,
        )
        if explain:
            hop.sort_steps(self.members, record, 0)
        return record


def _limited_in_shadow(calls: Sequence[Call], shadows: Mapping[str, str], deadline: Deadline) -> list[Call]:
    """Give controllers in shadow no more than their share of the time that is left."""
    seconds = shadow_deadline(deadline).remaining_seconds
    return [
        msgspec.structs.replace(call, timeout_seconds=min(call.timeout_seconds or seconds, seconds))
        if call.name in shadows
        else call
        for call in calls
    ]


_Answers: TypeAlias = "Sequence[tuple[Sequence[Call], Sequence[Outcome] | OutageError]]"
"""The calls of each share, and their outcomes or why there are none."""


async def _outcomes_or_outage(
    asking: Awaitable[Sequence[Outcome]], deadline: Deadline
) -> Sequence[Outcome] | OutageError:
    try:
        return await await_outcomes(Phase.VALIDATE, asking, deadline)
    except OutageError as outage:
        return outage


async def _ask_shares(
    fan_out: FanOut, review: Review, calls: Sequence[Call], deadline: Deadline, *, explain: bool
) -> _Answers:
    """Divide the calls, and make all of them at the same time."""
    shares = fan_out.divide(review, calls)
    began = time.perf_counter()
    if len(shares) == 1:
        # The usual case: a task would cost more than the controllers.
        answers: _Answers = [(shares[0].calls, await _ask_share(fan_out, shares[0], review, deadline, None))]
    else:
        answers = await _ask_side_by_side(fan_out, shares, review, deadline)
    if not explain and not any(isinstance(answer, OutageError) for _, answer in answers):
        fan_out.trial(review).observe(time.perf_counter() - began, divided=len(shares) > 1)
    return answers


async def _ask_side_by_side(
    fan_out: FanOut, shares: Sequence[Share], review: Review, deadline: Deadline
) -> _Answers:
    sent_to: set[str] = set()
    running = [
        asyncio.ensure_future(_ask_share(fan_out, share, review, deadline, sent_to)) for share in shares
    ]
    try:
        await asyncio.wait(running)
    except asyncio.CancelledError:
        for task in running:
            task.cancel()
        await asyncio.wait(running)
        if not deadline.passed:
            raise
    return [(share.calls, task.result()) for share, task in zip(shares, running, strict=True)]


async def _ask_share(
    fan_out: FanOut, share: Share, review: Review, deadline: Deadline, sent_to: set[str] | None
) -> Sequence[Outcome] | OutageError:
    asking = fan_out.transport.validate(
        review, share.calls, deadline, sent_to=sent_to, expected_seconds=share.expected_seconds
    )
    outcomes = await _outcomes_or_outage(asking, deadline)
    if not isinstance(outcomes, OutageError):
        fan_out.observe(review, outcomes, share.calls)
    return outcomes


def _record_answers(
    hop: _ServiceCall, calls: Sequence[Call], answers: _Answers, record: Record, *, until_denied: bool
) -> None:
    """Record the outcomes of all shares in chain order, each controller's together.

    With ``until_denied``, only those up to the first controller that denies the request.
    """
    outcomes: dict[str, list[Outcome]] = {}
    outages: dict[str, OutageError] = {}
    for share, answer in answers:
        if isinstance(answer, OutageError):
            outages |= {call.name: answer for call in share if call.name not in outages}
        else:
            for outcome in answer:
                outcomes.setdefault(outcome.controller, []).append(outcome)
    for call in calls:
        if until_denied and record.denials:
            break
        if call.name in outcomes:
            try:
                _record_merged(hop, outcomes[call.name], record)
            except CallError as error:
                outages[call.name] = OutageError.of(Phase.VALIDATE, error)
        if call.name in outages:
            hop.fail(call, outages[call.name], record)


def _record_merged(hop: _ServiceCall, found: Sequence[Outcome], record: Record) -> None:
    outcome = found[0] if len(found) == 1 else merge_outcomes(found)
    hop.record_outcome(outcome, outcome.decision, record)
    if isinstance(outcome.decision, Patched):
        record.pending_operations += outcome.decision.operations


class PolicyMutators(msgspec.Struct, frozen=True):
    """The mutating policies of the chain."""

    member: ChainMember
    transport: Transport
    limits: Mapping[str, float] = msgspec.field(default_factory=dict)
    """The time limits of controllers, in seconds, by name."""

    async def admit(self, context: AdmissionContext) -> bool:
        """Run the matching policies; in the second round, those to reinvoke."""
        reinvocation = context.policy_reinvocation
        reinvocation.begin(context.review.object_document, context.round)
        again = tuple(sorted(reinvocation.to_reinvoke)) if context.round > 0 else None
        if again == () and not context.explain and self._skips_second_round(context.review):
            reinvocation.end(context.review.object_document)
            return True
        outcomes = await run_mutators(self, (self.member,), context, again)
        if outcomes:
            _record_invocations(reinvocation, outcomes[0].policy_outcomes)
        reinvocation.end(context.review.object_document)
        return not context.record.denials

    def _skips_second_round(self, review: Review) -> bool:
        """Return whether a second round with no policy to reinvoke would have no effect, so that no call is needed."""
        rules = self.member.rules
        return isinstance(rules, PolicyRules) and rules.is_steady(review)


def _record_invocations(reinvocation: Reinvocation, parts: Sequence[PolicyOutcome]) -> None:
    for part in parts:
        if part.key:
            reinvocation.invoked(part.key, changed=bool(part.operations), if_needed=part.reinvocable)
    if any(part.applied for part in parts):
        # An applied patch counts as a change for all policies before it, even if it changed nothing or came last.
        reinvocation.changed()
