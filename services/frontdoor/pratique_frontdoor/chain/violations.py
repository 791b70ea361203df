"""What the chain makes of a mutation that changes fields which a MutationAllowList does not allow."""

from __future__ import annotations

import msgspec

from pratique.admission.controllers import Controller, FailurePolicy
from pratique.admission.results import (
    ALLOWED,
    Failed,
    FailureKind,
    Outcome,
    OutcomeStatus,
    Patched,
    PolicyOutcome,
)
from pratique.apimachinery.diff import diff
from pratique.apimachinery.json_values import Document
from pratique.policies.allow_lists import AllowList
from pratique_frontdoor.chain.decisions import Record, Step, Violation


class RestrictedController(msgspec.Struct, frozen=True):
    """A mutating controller and its allow-list."""

    allow_list: AllowList
    fails_open: bool
    """Whether a mutation that counts as a failure is dropped as a whole; otherwise the request is denied."""

    @classmethod
    def of(cls, controller: Controller, allow_list: AllowList | None) -> RestrictedController | None:
        """Restrict a controller; None if it has no allow-list."""
        if allow_list is None:
            return None
        return cls(allow_list, controller.failure_policy is FailurePolicy.IGNORE)

    def restrict(self, outcome: Outcome, before: Document, after: Document) -> tuple[Outcome, Document, str]:
        """Return the outcome that the allow-list leaves, the object after it, and what was not allowed."""
        if not isinstance(outcome.decision, Patched):
            return outcome, after, ""
        restriction = self.allow_list.restrict(before.data, after.data)
        if not restriction.paths:
            return outcome, after, ""
        told = self.allow_list.told(restriction.paths)
        if self.allow_list.drops:
            operations = tuple(diff(before.data, restriction.object))
            decision = Patched(operations) if operations else ALLOWED
            document = Document.from_data(restriction.object) if operations else before
            return msgspec.structs.replace(outcome, decision=decision, document=None), document, told
        failed = Failed(FailureKind.ERROR, told, 500)
        if not self.fails_open:
            return msgspec.structs.replace(outcome, decision=failed, document=None), before, told
        opened = PolicyOutcome(name=outcome.controller, status=OutcomeStatus.FAILED_OPEN, reason=told)
        replaced = msgspec.structs.replace(
            outcome, decision=ALLOWED, document=None, policy_outcomes=(opened,)
        )
        return replaced, before, told


def mark_violation(record: Record, allow_list: AllowList, told: str, *names: str) -> None:
    """Say of the last step of a record what it changed that is not allowed, to users and the audit log as well.

    Args:
        record: The record of the review.
        allow_list: What does not allow it.
        told: What is not allowed.
        names: Tell the audit annotation from those of other steps of the controller.
    """
    step = record.steps[-1]
    record.steps[-1] = violating_step(step, allow_list, told)
    if step.shadow is not None:
        return
    if allow_list.drops:
        record.warnings.append(f"{step.controller}/{step.name}: {told}")
    key = ".".join((f"{step.controller.lower()}/allow-list", *filter(None, names)))
    record.annotate({key: told})


def violating_step(step: Step, allow_list: AllowList, told: str) -> Step:
    """Return a step that says what it changed and may not."""
    violation = Violation(allow_list=allow_list.name, action=allow_list.action)
    return msgspec.structs.replace(step, reason=step.reason or told, violation=violation)
