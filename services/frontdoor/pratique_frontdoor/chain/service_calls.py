"""Calls to the services that host controllers: what is asked, and the steps that come of the outcomes."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, Self, assert_never

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
from pratique.admission.reviews import Call, Review
from pratique.apimachinery import statuses
from pratique.apimachinery.statuses import Status
from pratique.configuration.policy_references import PolicyReferenceKind
from pratique.policies.allow_lists import NO_ALLOW_LISTS, AllowLists
from pratique.policies.exceptions import Exemption, exemption_annotation, find_exemption
from pratique.policies.rollouts import NO_ROLLOUTS, Rollout, Rollouts
from pratique_frontdoor.chain.decisions import OutageError, Record, Step
from pratique_frontdoor.chain.policy_rules import Rules
from pratique_frontdoor.chain.shadows import record_shadow
from pratique_frontdoor.chain.violations import RestrictedController, mark_violation
from pratique_frontdoor.transports import Transport


@dataclasses.dataclass(frozen=True, slots=True)
class ChainMember:
    """A hosted controller of the chain with its rules."""

    call: Call
    rules: Rules
    has_members: bool = False
    """Whether an explanation has outcomes of its parts: of policies, or that selectors or conditions kept it out."""
    exemptions: tuple[Exemption, ...] = ()
    """The exceptions from the controller."""
    rollout: Rollout | None = None
    """The controller's rollout, if it is not enforced everywhere."""
    policy_rollouts: Rollouts = NO_ROLLOUTS
    """The rollouts of its policies, if it runs policies."""
    restricted: RestrictedController | None = None
    """The controller with its allow-list, if it has one."""
    policy_allow_lists: AllowLists = NO_ALLOW_LISTS
    """The allow-lists of its policies, if it runs policies."""

    def shadow(self, review: Review) -> str:
        """Return the name of the PolicyRollout that keeps it in shadow for a review; empty if none does."""
        return self.rollout.name if self.rollout is not None and self.rollout.in_shadow(review) else ""

    def call_for(self, *, explain: bool) -> Call:
        """Return the call to make."""
        return dataclasses.replace(self.call, explain=True) if explain and self.has_members else self.call


class ServiceStage(Protocol):
    """Consecutive controllers of the chain that one service runs."""

    @property
    def transport(self) -> Transport:
        """What calls the service."""

    @property
    def limits(self) -> Mapping[str, float]:
        """The time limits of controllers, in seconds, by name."""


@dataclasses.dataclass(frozen=True, slots=True)
class ServiceCall:
    """One call to a service, and the steps that result from it."""

    phase: Phase
    endpoint: str
    limits: Mapping[str, float]
    """The time limits of controllers, in seconds, by name."""
    review: Review
    round: int = 0
    shadows: Mapping[str, str] = dataclasses.field(default_factory=dict)
    """The PolicyRollouts that keep controllers in shadow, by the names of these."""
    policy_rollouts: Rollouts = NO_ROLLOUTS
    policy_allow_lists: AllowLists = NO_ALLOW_LISTS

    @classmethod
    def of(
        cls,
        phase: Phase,
        stage: ServiceStage,
        members: Iterable[ChainMember],
        review: Review,
        round_number: int = 0,
    ) -> Self:
        """Prepare a call to the service of a stage, for some of its members."""
        members = tuple(members)
        shadows = {
            member.call.name: member.shadow(review) for member in members if member.rollout is not None
        }
        return cls(
            phase,
            stage.transport.endpoint,
            stage.limits,
            review,
            round_number,
            {name: rollout for name, rollout in shadows.items() if rollout},
            next((member.policy_rollouts for member in members if member.policy_rollouts), NO_ROLLOUTS),
            next(
                (member.policy_allow_lists for member in members if member.policy_allow_lists),
                NO_ALLOW_LISTS,
            ),
        )

    def select(
        self, members: Sequence[ChainMember], review: Review, record: Record, *, explain: bool
    ) -> list[Call]:
        """Return the calls of the controllers that match a review; with ``explain``, record why the others do not."""
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
