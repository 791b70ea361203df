"""Mutating policies in the second round: which are invoked again."""

from __future__ import annotations

import pytest

from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.json_values import JSONObject
from pratique.policies.mutating_decisions import MutatingPoliciesDecision
from support.mutating_policies import applied, bound, labelled, mutate, mutating
from support.validating_policies import deployment, deployment_review

NOT_AGAIN = "nothing changed after it that asks for it again"


def counting(name: str) -> JSONObject:
    """A policy that increments a counter and adds its own label."""
    return applied(
        'Object{metadata: Object.metadata{annotations: {"count": '
        f'string(int(object.metadata.annotations["count"]) + 1), "{name}": "true"}}}}}}'
    )


def keys_to_ask_again(found: MutatingPoliciesDecision) -> frozenset[str]:
    """The keys to invoke again, as in an API server: all reinvocable ones if anything was applied."""
    ran = frozenset(decision.key for decision in found.decisions if decision.ran and decision.reinvocable)
    return ran if found.dirty else frozenset()


def test_a_policy_is_reinvoked_if_it_asks_for_it() -> None:
    documents = [
        mutating(counting("first"), name="p1", reinvocationPolicy="IfNeeded"),
        mutating(counting("second"), name="p2", reinvocationPolicy="IfNeeded"),
        mutating(counting("third"), name="p3"),
        *(bound(name, name=name) for name in ("p1", "p2", "p3")),
    ]
    review = deployment_review(deployment(annotations={"count": "0"}))
    first = mutate(*documents, review=review)
    again = keys_to_ask_again(first)
    assert again == {"p1/p1//", "p2/p2//"}
    second = mutate(*documents, review=review.with_object(first.document), again=again, explain=True)
    assert second.document.data["metadata"]["annotations"] == {
        "count": "5",
        "first": "true",
        "second": "true",
        "third": "true",
    }
    assert [decision.ran for decision in second.decisions] == [True, True, False]
    last = second.decisions[-1]
    assert (last.outcome, last.reason) == (OutcomeStatus.SKIPPED, NOT_AGAIN)


@pytest.mark.parametrize(
    ("expression", "outcome", "reason"),
    [
        ("true", OutcomeStatus.SKIPPED, NOT_AGAIN),
        ("false", OutcomeStatus.SKIPPED, 'matchCondition "only" is false'),
        (
            "object.none == 1",
            OutcomeStatus.FAILED,
            "expression 'object.none == 1' resulted in error: no such key: none",
        ),
    ],
)
def test_match_conditions_are_evaluated_before_reinvocation_is_decided(
    expression: str, outcome: OutcomeStatus, reason: str
) -> None:
    policy = mutating(labelled("a", "'b'"), matchConditions=[{"name": "only", "expression": expression}])
    found = mutate(policy, bound(), again=(), explain=True)
    (decision,) = found.decisions
    assert (decision.outcome, decision.reason, decision.ran) == (outcome, reason, False)
    assert (found.refusal is not None) is (outcome is OutcomeStatus.FAILED)
    assert found.document.data == deployment()


def test_reinvocation_distinguishes_parameters() -> None:
    found = mutate(
        mutating(labelled("a", "'b'"), name="p1", reinvocationPolicy="IfNeeded"),
        mutating(labelled("a", "'c'"), name="p2", reinvocationPolicy="IfNeeded"),
        bound("p1", name="b"),
        bound("p2", name="b2"),
        again={"p2/b2//"},
    )
    assert [decision.key for decision in found.decisions] == ["p2/b2//"]
    assert found.document.data == deployment(labels={"a": "c"})


def test_a_mutation_without_effect_still_causes_reinvocation() -> None:
    found = mutate(
        mutating(labelled("a", "'b'")), bound(), review=deployment_review(deployment(labels={"a": "b"}))
    )
    assert (found.decisions[0].changed, found.dirty) == (False, True)
