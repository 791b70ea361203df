"""Hosted controllers: the mutator and the validators run them, many in one call.

An outage means that a service gave no usable answer, so nobody decided about the review. It is not a decision: it
leaves the front door as HTTP 503 or 504, and the caller's own ``failurePolicy`` decides
(``docs/adr/0021-an-outage-is-the-callers-to-decide.md``).
"""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol, assert_never

from pratique.admission.controllers import Phase
from pratique.admission.matching import RequestKey
from pratique.admission.results import (
    Allowed,
    Denied,
    Failed,
    FailureKind,
    Outcome,
    OutcomeStatus,
    Patched,
    PolicyOutcome,
)
from pratique.admission.results import OutcomeStatus as StepOutcome
from pratique.admission.reviews import Call, Deadline, Review
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import CallError, CallTimeoutError, PratiqueError
from pratique.apimachinery.patches import PatchError, patch_document
from pratique.apimachinery.statuses import Status
from pratique.cluster.api_resources import ApiResources
from pratique.configuration.admissionregistration import (
    MatchResources,
    PolicyBindingSpec,
    PolicyConfiguration,
    PolicySpec,
)
from pratique.policies.matching import ResourceMatcher
from pratique_frontdoor.chain.decisions import AdmissionContext, Record, Reinvocation, Step

if TYPE_CHECKING:
    from typing import Self

    from pratique_frontdoor.transports import Transport


_SERVICES = {Phase.MUTATE: "mutator", Phase.VALIDATE: "validator"}
_DISPLAY_NAMES = {Phase.MUTATE: "the mutator", Phase.VALIDATE: "the validators"}

TIMEOUT = "timeout"
"""The service was asked and did not answer before the review's time was up."""
LATE = "late"
"""The review's time was up before the service could be asked."""
MISMATCH = "mismatch"
"""The service runs another configuration than the front door."""


class OutageError(PratiqueError):
    """Nobody decided about a review, because a service gave no usable answer."""

    def __init__(self, phase: Phase, cause: str, text: str, *, timed_out: bool = False) -> None:
        """Say which service it was, by its phase, why, and what to tell the caller."""
        super().__init__(text)
        self.service = _SERVICES[phase]
        """``mutator`` or ``validator``, as metrics name them."""
        self.cause = cause
        """One of a few words for metrics: ``timeout``, ``late``, ``mismatch``, or the class of the failure:
        ``unreachable``, ``bad_answer``, ``refused``."""
        self.status: Status = statuses.timeout(text) if timed_out else statuses.service_unavailable(text)
        """What the caller is told, with the HTTP code: 504 where time ran out, 503 otherwise."""

    @classmethod
    def timeout(cls, phase: Phase) -> Self:
        """The service was too slow; the text is the same whoever noticed it first."""
        return cls(phase, TIMEOUT, f"{_DISPLAY_NAMES[phase]} did not answer in time", timed_out=True)

    @classmethod
    def late(cls, phase: Phase) -> Self:
        """There was no time left to ask the service."""
        return cls(phase, LATE, f"no time was left to ask {_DISPLAY_NAMES[phase]}", timed_out=True)

    @classmethod
    def mismatch(cls, phase: Phase, controller: str) -> Self:
        """The service does not host a controller that the front door has in its chain."""
        hosted = f"the admission controller {statuses.go_quoted(controller)}"
        return cls(phase, MISMATCH, f"{_DISPLAY_NAMES[phase]} cannot be asked: not configured with {hosted}")

    @classmethod
    def of(cls, phase: Phase, error: CallError) -> Self:
        """Make the outage of a call that failed as a whole, and not for want of time."""
        return cls(phase, _error_cause(error), f"{_DISPLAY_NAMES[phase]} cannot be asked: {error}")


def _error_cause(error: CallError) -> str:
    """The class of a failure as one word: ``BadAnswerError`` is ``bad_answer``."""
    words = re.findall("[A-Z][a-z]+", type(error).__name__.removesuffix("Error"))
    return "_".join(words).lower() if type(error) is not CallError else "refused"


async def await_outcomes(
    phase: Phase, asking: Awaitable[Sequence[Outcome]], deadline: Deadline
) -> Sequence[Outcome]:
    """Wait for what a service answers.

    Whoever notices first that time is up (the service's stream, gRPC, or the front door's limit on the request, which
    cancels this task), it is one and the same outage.

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


@dataclasses.dataclass(frozen=True, slots=True)
class RulesWithSkipReason:
    """Rules, and what the controller says of the requests that they match."""

    rules: Rules
    skip_reason: Callable[[Review], str]
    """Why the controller would do nothing; empty where it may do something."""

    def matches(self, review: Review) -> bool:
        """Tell whether it wants to see the request."""
        return self.rules.matches(review) and not self.skip_reason(review)

    def mismatch(self, review: Review) -> str:
        """Say why it does not; empty where it does."""
        return self.rules.mismatch(review) or self.skip_reason(review)


_CACHED_REQUESTS = 256
"""Kinds of requests that are remembered: the four operations on 64 collections and subresources."""


class PolicyRules:
    """The rules of all policies that are bound."""

    def __init__(
        self,
        policies: Iterable[PolicyConfiguration[PolicySpec]],
        bindings: Iterable[PolicyConfiguration[PolicyBindingSpec]],
    ) -> None:
        """Know the rules of ``policies``, of those only that ``bindings`` put to work."""
        by_policy: dict[tuple[str, bool], list[PolicyBindingSpec]] = {}
        for one in bindings:
            by_policy.setdefault((one.spec.policy_name, one.is_static), []).append(one.spec)
        bound = [(one.spec, by_policy.get((one.name, one.is_static), ())) for one in policies]
        self._policies = tuple(_BoundPolicy.of(spec, found) for spec, found in bound if found)
        self._matches = functools.lru_cache(_CACHED_REQUESTS)(self._find)
        self._is_steady = functools.lru_cache(_CACHED_REQUESTS)(self._find_steady)

    def __bool__(self) -> bool:
        """False where no policy is bound."""
        return any(one.matcher for one in self._policies)

    def matches(self, review: Review) -> bool:
        """Tell whether any policy may mean the request."""
        return self._matches(RequestKey.of(review), review.cluster.resources)

    def mismatch(self, review: Review) -> str:
        """Say why none does; empty where one may."""
        return "" if self.matches(review) else "no policy has a rule that matches"

    def is_steady(self, review: Review) -> bool:
        """Tell whether the same policies mean such a request whatever has become of its object since they saw it.

        That is so where all that can mean it go by nothing but its rules, and need no other version of the object. To
        ask them again, and none to be invoked, then comes to nothing.
        """
        return self._is_steady(RequestKey.of(review), review.cluster.resources)

    def _find(self, request_key: RequestKey, resources: ApiResources) -> bool:
        return any(one.may_match(request_key, resources) for one in self._policies)

    def _find_steady(self, request_key: RequestKey, resources: ApiResources) -> bool:
        concerned = [one for one in self._policies if one.may_match(request_key, resources)]
        return all(one.is_plain and one.matches_requested_resource(request_key) for one in concerned)


@dataclasses.dataclass(frozen=True, slots=True)
class _BoundPolicy:
    """A policy that is bound."""

    matcher: ResourceMatcher | None
    """None where it says nothing of what it matches, which no API server lets pass."""
    is_plain: bool
    """Whether nothing but rules decides about it and its bindings: no selector, condition or parameter."""

    @classmethod
    def of(cls, spec: PolicySpec, bindings: Iterable[PolicyBindingSpec]) -> Self:
        constraints = spec.match_constraints
        matcher = None if constraints is None else ResourceMatcher.compile(constraints)
        goes_by_rules = constraints is not None and _selects_everything(constraints)
        plain = goes_by_rules and not spec.match_conditions and spec.param_kind is None
        return cls(matcher, plain and all(one.match_resources is None for one in bindings))

    def may_match(self, request_key: RequestKey, resources: ApiResources) -> bool:
        return self.matcher is not None and self.matcher.may_match(request_key, resources)

    def matches_requested_resource(self, request_key: RequestKey) -> bool:
        """Whether it means the collection that was asked for, not only an equivalent."""
        return self.matcher is not None and self.matcher.matches_requested_resource(request_key)


def _selects_everything(resources: MatchResources) -> bool:
    # One that is not set at all is an error of each request, which is told each time.
    return all(
        one is not None and one.is_empty for one in (resources.namespace_selector, resources.object_selector)
    )


class Rules(Protocol):
    """Which requests a controller wants to see."""

    def matches(self, review: Review) -> bool:
        """Tell whether it wants to see the request."""

    def mismatch(self, review: Review) -> str:
        """Say why it does not; empty where it does."""


@dataclasses.dataclass(frozen=True, slots=True)
class ChainMember:
    """A hosted controller, ready to be matched and called."""

    call: Call
    rules: Rules
    has_members: bool = False
    """Whether it has members of its own, which tell what they did where somebody wants to know."""

    def call_for(self, *, explain: bool) -> Call:
        """How it is called."""
        return dataclasses.replace(self.call, explain=True) if explain and self.has_members else self.call


@dataclasses.dataclass(frozen=True, slots=True)
class _ServiceCall:
    """One call to a service, and the steps that come of it."""

    phase: Phase
    endpoint: str
    round: int = 0

    def select(
        self, members: Sequence[ChainMember], review: Review, record: Record, *, explain: bool
    ) -> list[Call]:
        if not explain:
            return [member.call for member in members if member.rules.matches(review)]
        calls = []
        for member in members:
            if reason := member.rules.mismatch(review):
                record.steps.append(self._step(member.call.name, StepOutcome.SKIPPED, reason))
            else:
                calls.append(member.call_for(explain=True))
        return calls

    def arrange(self, members: Sequence[ChainMember], record: Record, begun: int) -> None:
        """Put the steps since ``begun`` into chain order: the skipped ones were noted first."""
        places = {member.call.name: place for place, member in enumerate(members)}
        record.steps[begun:] = sorted(record.steps[begun:], key=lambda step: places[step.controller])

    async def ask(
        self, transport: Transport, review: Review, calls: Sequence[Call], deadline: Deadline
    ) -> Sequence[Outcome]:
        """Make the call.

        Raises:
            OutageError: there is no usable answer.
        """
        ask = transport.mutate if self.phase is Phase.MUTATE else transport.validate
        return await await_outcomes(self.phase, ask(review, calls, deadline), deadline)

    def fail(self, calls: Sequence[Call], outage: OutageError, record: Record) -> None:
        """Note what was not answered: nobody decided, so the request is neither refused nor let through."""
        for call in calls:
            record.steps.append(self._step(call.name, StepOutcome.FAILED, str(outage)))
        record.outages.append(outage)

    def note(self, outcome: Outcome, decision: Allowed | Patched | Denied | Failed, record: Record) -> None:
        """Write down what came of asking one controller."""
        if isinstance(decision, Failed) and decision.kind is FailureKind.UNKNOWN_CONTROLLER:
            record.outages.append(OutageError.mismatch(self.phase, outcome.controller))
            record.steps.append(self._step(outcome.controller, StepOutcome.FAILED, str(record.outages[-1])))
            return
        ended, denial = self._ending(outcome, decision)
        record.warnings += outcome.warnings
        if outcome.audit_annotations:
            record.annotate(_prefixed_annotations(outcome))
        refusals: list[Status] = []
        if outcome.parts:
            record.steps += [self._part(outcome, part) for part in outcome.parts]
            refusals = [status for part in outcome.parts for status in part.denials]
        if not outcome.parts or (denial is not None and not _has_refusal(outcome.parts)):
            record.steps.append(self._whole(outcome, decision, ended, denial))
        if denial is not None and not refusals:
            refusals = [denial]
        record.denials += refusals

    def _whole(
        self,
        outcome: Outcome,
        decision: Allowed | Patched | Denied | Failed,
        ended: StepOutcome,
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
            endpoint=outcome.endpoint or self.endpoint,
        )

    def _ending(
        self, outcome: Outcome, decision: Allowed | Patched | Denied | Failed
    ) -> tuple[StepOutcome, Status | None]:
        match decision:
            case Allowed():
                if outcome.warnings:
                    return StepOutcome.WARNED, None
                mutating = self.phase is Phase.MUTATE
                return StepOutcome.UNCHANGED if mutating else StepOutcome.ALLOWED, None
            case Patched():
                return StepOutcome.MUTATED, None
            case Denied(status):
                return StepOutcome.DENIED, status
            case Failed(_, message):
                reason = f"admission controller {statuses.go_quoted(outcome.controller)} failed: {message}"
                return StepOutcome.FAILED, statuses.internal_error(reason)
            case _:
                assert_never(decision)

    def _part(self, outcome: Outcome, part: PolicyOutcome) -> Step:
        return Step(
            controller=outcome.controller,
            phase=self.phase,
            name=part.name,
            configuration=part.configuration,
            round=self.round,
            outcome=part.ending,
            reason=part.reason,
            code=part.denials[0].code if part.denials else 0,
            patch=part.operations,
            duration_seconds=part.duration_seconds,
            endpoint="" if part.ending is OutcomeStatus.SKIPPED else outcome.endpoint or self.endpoint,
            unmet=part.unmet,
        )

    def _step(self, name: str, outcome: StepOutcome, reason: str) -> Step:
        return Step(
            controller=name,
            phase=self.phase,
            name=name,
            round=self.round,
            outcome=outcome,
            reason=reason,
            endpoint="" if outcome is StepOutcome.SKIPPED else self.endpoint,
        )


def _has_refusal(parts: Iterable[PolicyOutcome]) -> bool:
    """Tell whether a part says why the request is refused."""
    return any(part.ending in (OutcomeStatus.DENIED, OutcomeStatus.FAILED) for part in parts)


def _prefixed_annotations(outcome: Outcome) -> dict[str, str]:
    prefix = outcome.controller.lower()
    return {
        key if "/" in key else f"{prefix}/{key}": value for key, value in outcome.audit_annotations.items()
    }


@dataclasses.dataclass(frozen=True, slots=True)
class HostedMutators:
    """Consecutive mutating controllers of the chain, run by the mutator in one call."""

    members: tuple[ChainMember, ...]
    transport: Transport

    async def admit(self, context: AdmissionContext) -> bool:
        """Run those that match, each on what the one before left."""
        await run_mutators(self.members, self.transport, context)
        return not context.record.denials


async def run_mutators(
    members: Sequence[ChainMember],
    transport: Transport,
    context: AdmissionContext,
    again: tuple[str, ...] | None = None,
) -> Sequence[Outcome]:
    """Run mutating controllers in one call, and write down what came of it.

    Args:
        members: The controllers; those that match are asked.
        transport: Reaches who runs them.
        passing: The review, which is changed as they say.
        again: In the second round, the keys of those of their members that are to run again.

    Returns:
        What each that was asked made of it.

    Raises:
        OutageError: the service gave no usable answer. Nothing before it refused the request, or it would not have
            been asked.
    """
    hop = _ServiceCall(Phase.MUTATE, transport.endpoint, context.round)
    begun = len(context.record.steps)
    calls = hop.select(members, context.review, context.record, explain=context.explain)
    if not calls:
        return ()
    if again is not None:
        calls = [dataclasses.replace(call, again=again) for call in calls]
    outcomes = await hop.ask(transport, context.review, calls, context.deadline)
    for outcome in outcomes:
        hop.note(outcome, _apply_decision(outcome, context), context.record)
    if context.record.outages:
        raise context.record.outages[0]
    if context.explain:
        hop.arrange(members, context.record, begun)
    return outcomes


def _apply_decision(outcome: Outcome, context: AdmissionContext) -> Allowed | Patched | Denied | Failed:
    decision = outcome.decision
    if not isinstance(decision, Patched):
        return decision
    document = outcome.document
    if document is None:
        try:
            document = patch_document(context.review.object_document, decision.operations)
        except PatchError as error:
            return Denied(statuses.internal_error(str(error)))
    context.change_object(document)
    return decision


@dataclasses.dataclass(frozen=True, slots=True)
class HostedValidators:
    """Validating controllers of the chain, run by one validator in one call."""

    members: tuple[ChainMember, ...]
    transport: Transport

    async def validate(self, review: Review, deadline: Deadline, *, explain: bool) -> Record:
        """Run those that match, side by side. An outage is in the record: somebody else may refuse the request."""
        record = Record()
        hop = _ServiceCall(Phase.VALIDATE, self.transport.endpoint)
        calls = hop.select(self.members, review, record, explain=explain)
        if not calls:
            return record
        try:
            outcomes = await hop.ask(self.transport, review, calls, deadline)
        except OutageError as outage:
            hop.fail(calls, outage, record)
            return record
        for outcome in outcomes:
            hop.note(outcome, outcome.decision, record)
            if isinstance(outcome.decision, Patched):
                record.pending_operations += outcome.decision.operations
        if explain:
            hop.arrange(self.members, record, 0)
        return record


@dataclasses.dataclass(frozen=True, slots=True)
class PolicyMutators:
    """All mutating policies of the chain."""

    member: ChainMember
    transport: Transport

    async def admit(self, context: AdmissionContext) -> bool:
        """Run the policies that mean the request; in the second round, those that are asked for again."""
        reinvocation = context.policy_reinvocation
        reinvocation.begin(context.review.object_document, context.round)
        again = tuple(sorted(reinvocation.to_reinvoke)) if context.round > 0 else None
        if again == () and not context.explain and self._is_settled(context.review):
            reinvocation.end(context.review.object_document)
            return True
        outcomes = await run_mutators((self.member,), self.transport, context, again)
        if outcomes:
            _record_invocations(reinvocation, outcomes[0].parts)
        reinvocation.end(context.review.object_document)
        return not context.record.denials

    def _is_settled(self, review: Review) -> bool:
        """Tell whether a second round without anything to invoke would come to nothing, so that no call is made."""
        rules = self.member.rules
        return isinstance(rules, PolicyRules) and rules.is_steady(review)


def _record_invocations(reinvocation: Reinvocation, parts: Sequence[PolicyOutcome]) -> None:
    for part in parts:
        if part.key:
            reinvocation.invoked(part.key, changed=bool(part.operations), if_needed=part.reinvocable)
    if any(part.applied for part in parts):
        # What was applied counts for all before the end, even what nothing came of, even for the last.
        reinvocation.changed()
