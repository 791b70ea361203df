"""Evaluations that exceed their inline budget: they continue where that happened."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.results import Allow, Answer
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSONObject
from pratique.cel.costs import InlineBudget
from pratique.cel.errors import SlowEvaluationError
from pratique.policies.activation import UNLIMITED, EvaluationLimits, answer_within_limits
from pratique.policies.validating import ValidatingPolicies
from pratique.policies.validating_decisions import PoliciesDecision
from support.mutating_policies import bound, labelled, mutating, mutating_policies_of, patched
from support.strategies.policies import policy_sets, reviews
from support.validating_policies import (
    binding,
    contents,
    deployment_review,
    policies_of,
    policy,
    timeless,
)


def inline(cost: int) -> EvaluationLimits:
    return EvaluationLimits(None, InlineBudget(cost, cost))


def continued(
    policies: ValidatingPolicies, review: Review, budgets: Sequence[int], *, explain: bool
) -> PoliciesDecision:
    run = policies.begin(review, explain=explain)
    for budget in budgets:
        try:
            return run.decide(inline(budget))
        except SlowEvaluationError:
            continue
    return run.decide(UNLIMITED)


@given(policy_sets(), reviews(), st.lists(st.integers(0, 60), max_size=5), st.booleans())
def test_a_continued_evaluation_decides_as_one_without_a_budget(
    documents: list[JSONObject],
    review: Review,
    budgets: list[int],
    explain: bool,  # noqa: FBT001 - drawn
) -> None:
    policies = policies_of(*documents)
    whole = policies.decide(review, explain=explain)
    assert contents(continued(policies, review, budgets, explain=explain)) == contents(whole)


def costly(number: int) -> list[JSONObject]:
    """Policies and bindings that cost a bit more than 300 each."""
    expression = "lists.range(50).all(x, x >= 0)"
    documents = [policy(expression, name=f"p{place}") for place in range(number)]
    return documents + [binding(f"p{place}", name=f"b{place}") for place in range(number)]


def test_what_was_evaluated_is_not_evaluated_again() -> None:
    policies, review = policies_of(*costly(4)), deployment_review()
    with pytest.raises(SlowEvaluationError):
        policies.decide(review, inline(800))
    run = policies.begin(review)
    with pytest.raises(SlowEvaluationError):
        run.decide(inline(800))
    assert run.decide(inline(800)) == PoliciesDecision()


def test_a_policy_that_is_too_slow_by_its_second_binding_is_recorded_once() -> None:
    annotations = [{"key": "k", "valueExpression": "'a'"}]
    document = policy("lists.range(50).all(x, x < 0 || x >= 0) && false", auditAnnotations=annotations)
    bindings = [binding(name=name, actions=("Deny", "Audit")) for name in ("a", "b")]
    policies, review = policies_of(document, *bindings), deployment_review()
    run = policies.begin(review)
    with pytest.raises(SlowEvaluationError):
        run.decide(inline(800))
    assert contents(run.decide(UNLIMITED)) == contents(policies.decide(review))


def test_a_policy_that_is_too_slow_by_its_second_mutation_is_applied_and_counted_once() -> None:
    slow = "string(lists.range(50).all(x, x >= 0))"
    appended = [
        patched("[JSONPatch{op: 'add', path: '/spec/replicas', value: object.spec.replicas + 1}]"),
        labelled("a", slow),
    ]
    documents = [
        part for name in "pq" for part in (mutating(*appended, name=name), bound(name, name=f"b{name}"))
    ]
    policies, review = mutating_policies_of(*documents), deployment_review()
    run = policies.begin(review)
    for budget in (300, 500):
        with pytest.raises(SlowEvaluationError):
            run.admit(inline(budget))
    found, whole = run.admit(UNLIMITED), policies.admit(review)
    assert found.document.data == whole.document.data
    assert found.document.data["spec"]["replicas"] == review.object["spec"]["replicas"] + 2
    assert [timeless(decision) for decision in found.decisions] == [
        timeless(decision) for decision in whole.decisions
    ]
    assert [timeless(check) for check in found.checks] == [timeless(check) for check in whole.checks]


def test_policies_without_costly_expressions_use_up_the_inline_budget_too() -> None:
    documents = [policy("true", name=f"p{place}") for place in range(20)]
    policies = policies_of(*documents, *(binding(f"p{place}", name=f"b{place}") for place in range(20)))
    assert policies.decide(deployment_review(), inline(1000)) == PoliciesDecision()
    with pytest.raises(SlowEvaluationError):
        policies.decide(deployment_review(), inline(100))


def test_expensive_evaluations_share_two_threads() -> None:
    seen: set[int] = set()
    begun = threading.Barrier(2)

    def decide(limits: EvaluationLimits) -> Answer:
        if limits.inline_budget is not None:
            raise SlowEvaluationError
        begun.wait(120)  # passes only in pairs
        seen.add(threading.get_ident())
        return Allow()

    async def answers() -> list[Answer]:
        found = [answer_within_limits(decide, deployment_review()) for _ in range(8)]
        return await asyncio.gather(*(answer for answer in found if isinstance(answer, Awaitable)))

    assert asyncio.run(answers()) == [Allow()] * 8
    assert len(seen) == 2
