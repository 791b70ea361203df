"""Answers of policies: at once within the inline budget, and in a thread beyond it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from typing import Any

import msgspec
import pytest

from pratique.admission.results import Allow, Answer, Deny, Patch
from pratique.admission.reviews import Deadline
from pratique.cel.errors import SlowEvaluationError
from pratique.policies.activation import INLINE_COST, EvaluationLimits, answer_within_limits
from pratique.policies.mutating import mutate
from pratique.policies.validating import validate
from pratique.telemetry.policy_metrics import mutating_policy_metrics, validating_policy_metrics
from support.mutating_policies import bound, labelled, mutating, mutating_policies_of
from support.validating_policies import binding, deployment_review, policies_of, policy

SLOW = f"lists.range({INLINE_COST}).all(x, x >= 0)"


def in_thread(answer: Answer | Awaitable[Answer]) -> Answer:
    assert isinstance(answer, Awaitable)

    async def wait() -> Answer:
        return await answer

    return asyncio.run(wait())


def counted(metrics: Any) -> float:
    return sum(
        float(sample.value)
        for family in metrics.collect()
        for sample in family.samples
        if sample.name.endswith("_check_total")
    )


def test_cheap_policies_answer_at_once() -> None:
    assert validate(policies_of(policy("true"), binding()), deployment_review()) == Allow()
    denied = validate(policies_of(policy("1 == 2"), binding()), deployment_review())
    assert isinstance(denied, Deny)
    assert denied.status is not None
    assert "denied request: failed expression: 1 == 2" in denied.status.message
    patched = mutate(mutating_policies_of(mutating(labelled("a", "'b'")), bound()), deployment_review())
    assert isinstance(patched, Patch)
    assert patched.operations == ({"op": "add", "path": "/metadata/labels", "value": {"a": "b"}},)


def test_expensive_policies_answer_in_a_thread_with_the_same_decision() -> None:
    checks = validating_policy_metrics()
    policies = policies_of(policy(SLOW, "1 == 2"), binding())
    answer = in_thread(validate(policies, deployment_review(), checks))
    assert isinstance(answer, Deny)
    assert counted(checks) == 1


def test_an_expensive_mutation_is_applied_and_counted_once() -> None:
    checks = mutating_policy_metrics()
    policies = mutating_policies_of(mutating(labelled("a", f"string({SLOW})")), bound())
    answer = in_thread(mutate(policies, deployment_review(), checks))
    assert isinstance(answer, Patch)
    assert counted(checks) == 1


def test_all_policies_share_one_inline_budget() -> None:
    half = f"lists.range({INLINE_COST // 8}).all(x, x >= 0)"
    single = policies_of(policy(half), binding())
    assert isinstance(validate(single, deployment_review()), Allow)
    documents = [policy(half, name=f"p{number}") for number in range(4)]
    bindings = [binding(f"p{number}", name=f"b{number}") for number in range(4)]
    assert isinstance(in_thread(validate(policies_of(*documents, *bindings), deployment_review())), Allow)


def test_the_thread_keeps_the_deadline_and_has_no_inline_budget() -> None:
    seen: list[tuple[EvaluationLimits, bool]] = []

    def decide(limits: EvaluationLimits) -> Answer:
        seen.append((limits, threading.current_thread() is threading.main_thread()))
        if limits.inline_budget is not None:
            limits.inline_budget.spend(1, 1)
            raise SlowEvaluationError
        return Allow()

    deadline = Deadline.after(60)
    review = msgspec.structs.replace(deployment_review(), deadline=deadline)
    assert in_thread(answer_within_limits(decide, review)) == Allow()
    (first, on_main), (second, still_on_main) = seen
    assert (first.until, second.until) == (deadline.at, deadline.at)
    assert (on_main, still_on_main) == (True, False)
    assert second.inline_budget is None


@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_an_evaluation_after_the_deadline_is_interrupted(failure_policy: str) -> None:
    review = msgspec.structs.replace(deployment_review(), deadline=Deadline.after(0))
    policies = policies_of(policy("lists.range(600).all(x, x >= 0)", failurePolicy=failure_policy), binding())
    answer = validate(policies, review)
    assert isinstance(answer, Deny if failure_policy == "Fail" else Allow)
    (outcome,) = answer.policy_outcomes
    assert outcome.reason.endswith("resulted in error: operation interrupted")
