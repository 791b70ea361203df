"""Hosted controllers: those that the mutator and the validators run, many in one hop."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Protocol, assert_never

from frontdoor.chain.outages import OutageError, answered
from frontdoor.chain.records import Record
from frontdoor.decisions import Step, StepOutcome
from pratique import statuses
from pratique.definitions import Phase
from pratique.outcomes import Allowed, Denied, Failed, FailureKind, Patched
from pratique.parts import Ending, Part
from pratique.patches import PatchError, patch_document

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from frontdoor.chain.stages import Pass
    from frontdoor.transports import Transport
    from pratique.calls import Call, Deadline
    from pratique.outcomes import Outcome
    from pratique.reviews import Review
    from pratique.statuses import Status


class Rules(Protocol):
    """Which requests a controller wants to see."""

    def matches(self, review: Review) -> bool:
        """Tell whether it wants to see the request."""

    def mismatch(self, review: Review) -> str:
        """Say why it does not; empty where it does."""


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """A hosted controller, ready to be matched and called."""

    call: Call
    rules: Rules
    has_members: bool = False
    """Whether it has members of its own, which tell what they did where somebody wants to know."""

    def call_for(self, *, explain: bool) -> Call:
        """How it is called."""
        return dataclasses.replace(self.call, explain=True) if explain and self.has_members else self.call


@dataclasses.dataclass(frozen=True, slots=True)
class _Hop:
    """One call to a service, and the steps that come of it."""

    phase: Phase
    endpoint: str
    round: int = 0

    def select(
        self, members: Sequence[Member], review: Review, record: Record, *, explain: bool
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

    def arrange(self, members: Sequence[Member], record: Record, begun: int) -> None:
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
        return await answered(self.phase, ask(review, calls, deadline), deadline)

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
            record.annotate(_annotations(outcome))
        refusals: list[Status] = []
        if outcome.parts:
            record.steps += [self._part(outcome, part) for part in outcome.parts]
            refusals = [status for part in outcome.parts for status in part.denials]
        if not outcome.parts or (denial is not None and not _fails(outcome.parts)):
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

    def _part(self, outcome: Outcome, part: Part) -> Step:
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
            endpoint="" if part.ending is Ending.SKIPPED else outcome.endpoint or self.endpoint,
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


def _fails(parts: Iterable[Part]) -> bool:
    """Tell whether a part says why the request is refused."""
    return any(part.ending in (Ending.DENIED, Ending.FAILED) for part in parts)


def _annotations(outcome: Outcome) -> dict[str, str]:
    prefix = outcome.controller.lower()
    return {
        key if "/" in key else f"{prefix}/{key}": value for key, value in outcome.audit_annotations.items()
    }


@dataclasses.dataclass(frozen=True, slots=True)
class HostedMutators:
    """Consecutive mutating controllers of the chain, run by the mutator in one call."""

    members: tuple[Member, ...]
    transport: Transport

    async def admit(self, passing: Pass) -> bool:
        """Run those that match, each on what the one before left."""
        await run_mutators(self.members, self.transport, passing)
        return not passing.record.denials


async def run_mutators(
    members: Sequence[Member], transport: Transport, passing: Pass, again: tuple[str, ...] | None = None
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
    hop = _Hop(Phase.MUTATE, transport.endpoint, passing.round)
    begun = len(passing.record.steps)
    calls = hop.select(members, passing.review, passing.record, explain=passing.explain)
    if not calls:
        return ()
    if again is not None:
        calls = [dataclasses.replace(call, again=again) for call in calls]
    outcomes = await hop.ask(transport, passing.review, calls, passing.deadline)
    for outcome in outcomes:
        hop.note(outcome, _applied(outcome, passing), passing.record)
    if passing.record.outages:
        raise passing.record.outages[0]
    if passing.explain:
        hop.arrange(members, passing.record, begun)
    return outcomes


def _applied(outcome: Outcome, passing: Pass) -> Allowed | Patched | Denied | Failed:
    decision = outcome.decision
    if not isinstance(decision, Patched):
        return decision
    document = outcome.document
    if document is None:
        try:
            document = patch_document(passing.review.object_document, decision.operations)
        except PatchError as error:
            return Denied(statuses.internal_error(str(error)))
    passing.change_object(document)
    return decision


@dataclasses.dataclass(frozen=True, slots=True)
class HostedValidators:
    """Validating controllers of the chain, run by one validator in one call."""

    members: tuple[Member, ...]
    transport: Transport

    async def validate(self, review: Review, deadline: Deadline, *, explain: bool) -> Record:
        """Run those that match, side by side. An outage is in the record: somebody else may refuse the request."""
        record = Record()
        hop = _Hop(Phase.VALIDATE, self.transport.endpoint)
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
                record.amendments += outcome.decision.operations
        if explain:
            hop.arrange(self.members, record, 0)
        return record
