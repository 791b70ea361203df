"""Spans of policies: any division of a review's policies gives what their undivided evaluation gives."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.results import Allow, Deny
from pratique.admission.reviews import Call, Review
from pratique.apimachinery.json_values import JSONObject
from pratique.policies.activation import UNLIMITED
from pratique.policies.audit_annotations import VALIDATION_FAILURE_ANNOTATION, join_annotations
from pratique.policies.policy_spans import PolicySpan, Span, policy_spans
from pratique.policies.validating import ValidatingPolicies, validate
from pratique.policies.validating_decisions import PoliciesDecision
from support.strategies.policies import policy_sets, reviews
from support.validating_policies import (
    EVERYTHING,
    binding,
    contents,
    deployment_review,
    loaded,
    policies_of,
    policy,
    timeless,
)


def spans_of(*documents: JSONObject) -> list[PolicySpan]:
    found = loaded(*documents)
    return policy_spans(found.validating_policies, found.validating_bindings)


def names(spans: Sequence[PolicySpan]) -> list[tuple[str, tuple[str, ...]]]:
    return [(span.policy.name, tuple(bound.name for bound in span.bindings)) for span in spans]


def test_pairs_are_numbered_in_the_order_of_evaluation() -> None:
    documents = [
        policy("true", name="q"),
        policy("true", name="p"),
        policy("true", name="unbound"),
        policy("true", name="z.static.k8s.io"),
        binding("q", name="b2"),
        binding("p", name="b3"),
        binding("q", name="b1"),
        binding("z.static.k8s.io", name="b.static.k8s.io"),
    ]
    expected = [("z.static.k8s.io", "b.static.k8s.io"), ("p", "b3"), ("q", "b1"), ("q", "b2")]
    assert names(spans_of(*documents)) == [(name, (bound,)) for name, bound in expected]
    decisions = policies_of(*documents).decide(deployment_review(), explain=True).decisions
    assert [(decision.policy, decision.binding) for decision in decisions] == expected


def test_a_policy_with_audit_annotations_has_one_number() -> None:
    annotations = [{"key": "k", "valueExpression": "'a'"}]
    documents = [policy("true", auditAnnotations=annotations), binding(name="a"), binding(name="b")]
    assert names(spans_of(*documents)) == [("p", ("a", "b"))]


def test_that_a_policy_does_not_match_is_reported_with_its_first_number_only() -> None:
    constraints = {"resourceRules": [EVERYTHING | {"resources": ["pods"]}]}
    documents = [policy("true", matchConstraints=constraints), binding(name="a"), binding(name="b")]
    policies, review = policies_of(*documents), deployment_review()
    (whole,) = policies.decide(review, explain=True).decisions
    (first,) = policies.decide(review, explain=True, span=(0, 1)).decisions
    assert timeless(first) == timeless(whole)
    assert not policies.decide(review, explain=True, span=(1, 2)).decisions


@pytest.mark.parametrize("span", [(0, 0), (2, 9), (1, 0)])
def test_a_span_without_numbers_evaluates_nothing(span: Span) -> None:
    documents = [policy("false"), binding(name="a"), binding(name="b")]
    assert policies_of(*documents).decide(deployment_review(), explain=True, span=span) == PoliciesDecision()


def test_a_review_says_which_policies_to_evaluate() -> None:
    policies = policies_of(policy("false"), binding(name="a", actions=("Warn",)), binding(name="b"))
    review = deployment_review()
    warned = validate(policies, msgspec.structs.replace(review, span=(0, 1)))
    assert isinstance(warned, Allow)
    assert warned.warnings
    denied = validate(policies, msgspec.structs.replace(review, span=(1, 2)))
    assert isinstance(denied, Deny)
    assert not denied.warnings
    assert not Call("ValidatingAdmissionPolicy", span=(0, 1)).is_plain


def concatenated(parts: Sequence[PoliciesDecision]) -> PoliciesDecision:
    """The decisions of consecutive spans up to the one that finds that the Namespace does not exist."""
    refusal = next((place for place, part in enumerate(parts) if part.refusal), None)
    used = parts if refusal is None else parts[: refusal + 1]
    return PoliciesDecision(
        tuple(decision for part in used for decision in part.decisions),
        join_annotations((part.audit_annotations for part in used), refused=refusal is not None),
        None if refusal is None else parts[refusal].refusal,
        tuple(check for part in used for check in part.checks),
    )


@given(st.data(), policy_sets(), reviews(), st.booleans())
def test_any_division_gives_what_the_undivided_evaluation_gives(
    data: st.DataObject,
    documents: list[JSONObject],
    review: Review,
    explain: bool,  # noqa: FBT001 - drawn
) -> None:
    found = loaded(*documents)
    policies = ValidatingPolicies(found.validating_policies, found.validating_bindings)
    count = len(policy_spans(found.validating_policies, found.validating_bindings))
    cuts = sorted(data.draw(st.lists(st.integers(0, count), max_size=4)))
    spans = zip([0, *cuts], [*cuts, count], strict=True)
    parts = [policies.decide(review, UNLIMITED, explain=explain, span=span) for span in spans]
    whole = policies.decide(review, UNLIMITED, explain=explain)
    assert contents(concatenated(parts)) == contents(whole)


def test_joined_annotations_list_the_first_fifty_failures_last() -> None:
    documents = [policy(*["false"] * 30), binding(name="a", actions=("Audit",)), binding(actions=("Audit",))]
    policies, review = policies_of(*documents), deployment_review()
    parts = [policies.decide(review, span=(number, number + 1)).audit_annotations for number in range(2)]
    whole = policies.decide(review).audit_annotations
    joined = join_annotations([*parts, {"p/k": "<"}])
    assert list(joined) == ["p/k", VALIDATION_FAILURE_ANNOTATION]
    assert joined[VALIDATION_FAILURE_ANNOTATION] == whole[VALIDATION_FAILURE_ANNOTATION]
