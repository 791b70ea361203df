"""Answering: what policies make of a review, as a controller says it, and without holding its service up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from pratique.admission_policies.sights import Limits
from pratique.admission_policies.verdicts import Outcome
from pratique.answers import Allow, Answer, Deny
from pratique.cel.budgets import Patience
from pratique.cel.errors import SlowEvaluationError
from pratique.parts import Ending, Part

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from pratique.admission_policies.validating import ValidatingPolicies
    from pratique.admission_policies.verdicts import Judgement, Verdict
    from pratique.reviews import Review

PATIENCE = 10_000
"""What all policies may cost on the event loop for one review: about 2 ms; what costs more goes on in a thread."""


def judge(policies: ValidatingPolicies, review: Review) -> Answer | Awaitable[Answer]:
    """Answer at once; or, where that takes long, in a thread that lets others run."""
    until = review.deadline.at if review.deadline is not None else None
    try:
        limits = Limits(until, Patience(PATIENCE, PATIENCE))
        return _answer(policies, review, limits)
    except SlowEvaluationError:
        return _judge_slowly(policies, review, Limits(until))


async def _judge_slowly(policies: ValidatingPolicies, review: Review, limits: Limits) -> Answer:
    return await asyncio.to_thread(_answer, policies, review, limits)


def _answer(policies: ValidatingPolicies, review: Review, limits: Limits) -> Answer:
    verdict = policies.decide(review, limits, explain=review.explain)
    return answer_of(verdict, explain=review.explain)


def answer_of(verdict: Verdict, *, explain: bool) -> Answer:
    """Say a verdict as a controller; unless it is to ``explain``, nothing of policies that had nothing to say."""
    parts = tuple(_part(one) for one in verdict.judgements if explain or one.outcome is not Outcome.ALLOWED)
    if verdict.status is None:
        return Allow(verdict.warnings, verdict.audit_annotations, parts)
    return Deny(verdict.status, "", verdict.warnings, verdict.audit_annotations, parts)


def _part(judgement: Judgement) -> Part:
    return Part(
        name=judgement.policy,
        configuration=judgement.binding,
        ending=Ending(judgement.outcome.value),
        reason=judgement.reason,
        denials=judgement.denials,
        duration_seconds=judgement.seconds,
    )
