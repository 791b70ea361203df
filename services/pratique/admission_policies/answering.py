"""Answering: what policies make of a review, as a controller says it, and without holding its service up."""

from __future__ import annotations

import asyncio
import functools
from typing import TYPE_CHECKING

from pratique.admission_policies.sights import Limits
from pratique.answers import Allow, Answer, Deny, Patch
from pratique.cel.budgets import Patience
from pratique.cel.errors import SlowEvaluationError
from pratique.parts import Ending, Part
from pratique.patches import diff

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from pratique.admission_policies.mutating import MutatingPolicies
    from pratique.admission_policies.mutating_judgements import Admittance, MutationJudgement
    from pratique.admission_policies.validating import ValidatingPolicies
    from pratique.admission_policies.verdicts import Judgement
    from pratique.measures.policy_checks import PolicyChecks
    from pratique.reviews import Review

PATIENCE = 10_000
"""What all policies may cost on the event loop for one review: about 2 ms; what costs more goes on in a thread."""


def judge(
    policies: ValidatingPolicies, review: Review, checks: PolicyChecks | None = None
) -> Answer | Awaitable[Answer]:
    """Ask validating policies about a review, and count among ``checks`` what they come to."""
    return _ask(functools.partial(_judged, policies, review, checks), review)


def admit(
    policies: MutatingPolicies, review: Review, checks: PolicyChecks | None = None
) -> Answer | Awaitable[Answer]:
    """Have mutating policies change the object of a review, and count among ``checks`` what they come to."""
    return _ask(functools.partial(_admitted, policies, review, checks), review)


def _ask(decide: Callable[[Limits], Answer], review: Review) -> Answer | Awaitable[Answer]:
    """Answer at once; or, where that takes long, in a thread that lets others run."""
    until = review.deadline.at if review.deadline is not None else None
    try:
        return decide(Limits(until, Patience(PATIENCE, PATIENCE)))
    except SlowEvaluationError:
        return asyncio.to_thread(decide, Limits(until))


def _judged(
    policies: ValidatingPolicies, review: Review, checks: PolicyChecks | None, limits: Limits
) -> Answer:
    verdict = policies.decide(review, limits, explain=review.explain)
    if checks is not None and verdict.checks:
        checks.observe(verdict.checks)
    # Those that have nothing to say are told of only where somebody wants to know: a hundred of them cost as much to
    # tell as a review does.
    parts = tuple(
        _validating_part(one)
        for one in verdict.judgements
        if review.explain or one.outcome is not Ending.ALLOWED
    )
    if verdict.status is None:
        return Allow(verdict.warnings, verdict.audit_annotations, parts)
    return Deny(verdict.status, "", verdict.warnings, verdict.audit_annotations, parts)


def _validating_part(judgement: Judgement) -> Part:
    return Part(
        name=judgement.policy,
        configuration=judgement.binding,
        ending=judgement.outcome,
        reason=judgement.reason,
        denials=judgement.denials,
        duration_seconds=judgement.seconds,
        unmet=judgement.unmet,
    )


def _admitted(
    policies: MutatingPolicies, review: Review, checks: PolicyChecks | None, limits: Limits
) -> Answer:
    admittance = policies.admit(review, limits, again=review.again, explain=review.explain)
    if checks is not None and admittance.checks:
        checks.observe(admittance.checks)
    parts = tuple(_mutating_part(one, admittance) for one in admittance.judgements)
    if admittance.refusal is not None:
        return Deny(admittance.refusal, parts=parts)
    if admittance.document is review.object_document:
        return Allow(parts=parts)
    changed = admittance.document.data
    operations = admittance.operations
    if operations is None:
        operations = tuple(diff(review.object, changed))
    return Patch(operations, changed, parts=parts)


def _mutating_part(judgement: MutationJudgement, admittance: Admittance) -> Part:
    return Part(
        name=judgement.policy,
        configuration=judgement.binding,
        ending=judgement.outcome,
        reason=judgement.reason,
        operations=judgement.operations,
        key=judgement.key if judgement.ran else "",
        reinvocable=judgement.reinvocable,
        applied=judgement.ran and admittance.dirty,
        duration_seconds=judgement.seconds,
    )
