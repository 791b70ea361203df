"""Validating policies that cannot be evaluated."""

from __future__ import annotations

import time
from typing import Any

import pytest

from pratique.admission.results import OutcomeStatus
from pratique.apimachinery import statuses
from pratique.cel.costs import InlineBudget
from pratique.cel.errors import SlowEvaluationError
from pratique.cluster.store import ObjectStore
from pratique.policies.activation import UNLIMITED, EvaluationLimits, ReviewActivations
from pratique.policies.compilation import compile_expressions, compile_policy
from pratique.policies.validating import ValidatingPolicyEvaluator
from support.validating_policies import (
    EVERYTHING,
    binding,
    decide,
    denial_message,
    denial_text,
    deployment,
    deployment_review,
    loaded,
    policies_of,
    policy,
)

BROKEN = "object.none == 1"
ERROR = f"expression '{BROKEN}' resulted in error: no such key: none"
OUT_OF_BUDGET = "validation failed due to running out of cost budget, no further validation rules will be run"


@pytest.mark.parametrize("actions", [("Deny",), ("Warn",), ("Audit",)])
@pytest.mark.parametrize("failure_policy", ["Fail", "Ignore"])
def test_the_failure_policy_decides_errors_and_the_actions_decide_denials(
    actions: tuple[str, ...], failure_policy: str
) -> None:
    found = decide(policy(BROKEN, "true", failurePolicy=failure_policy), binding(actions=actions))
    (decision,) = found.decisions
    assert decision.reason == ERROR
    if failure_policy == "Ignore":
        assert (decision.outcome, found.status, found.warnings) == (OutcomeStatus.FAILED_OPEN, None, ())
        assert not found.audit_annotations
        return
    outcomes = {"Deny": OutcomeStatus.FAILED, "Warn": OutcomeStatus.WARNED, "Audit": OutcomeStatus.ALLOWED}
    assert decision.outcome is outcomes[actions[0]]
    if actions == ("Deny",):
        assert found.status is not None
        assert (found.status.code, found.status.reason) == (422, "Invalid")
        assert found.status.message.endswith(f"denied request: {ERROR}")


def test_a_false_validation_is_denied_even_under_failure_policy_ignore() -> None:
    found = decide(policy(BROKEN, "1 == 2", failurePolicy="Ignore"), binding())
    assert [decision.reason for decision in found.decisions] == ["failed expression: 1 == 2"]


def conditions(*expressions: str) -> list[dict[str, str]]:
    return [{"name": f"c{place}", "expression": expression} for place, expression in enumerate(expressions)]


@pytest.mark.parametrize(
    ("expressions", "failure_policy", "outcome", "reason"),
    [
        (("true",), "Fail", OutcomeStatus.DENIED, "failed expression: 1 == 2"),
        (("true", "false"), "Fail", OutcomeStatus.SKIPPED, 'matchCondition "c1" is false'),
        ((BROKEN, "false"), "Fail", OutcomeStatus.SKIPPED, 'matchCondition "c1" is false'),
        ((BROKEN, "true"), "Fail", OutcomeStatus.FAILED, ERROR),
        ((BROKEN, "object.no"), "Fail", OutcomeStatus.FAILED, ""),
        (
            (BROKEN, "true"),
            "Ignore",
            OutcomeStatus.SKIPPED,
            f"matchConditions cannot be evaluated and failurePolicy is Ignore: {ERROR}",
        ),
        (("namespaceObject == null",), "Fail", OutcomeStatus.DENIED, "failed expression: 1 == 2"),
    ],
)
def test_match_conditions_are_evaluated_as_those_of_webhooks(
    expressions: tuple[str, ...], failure_policy: str, outcome: OutcomeStatus, reason: str
) -> None:
    checked = conditions(*expressions)
    if not reason:
        checked[1]["expression"] = "object.none == 2"
        other = "expression 'object.none == 2' resulted in error: no such key: none"
        reason = f"[{ERROR}, {other}]"
    documents = [policy("1 == 2", matchConditions=checked, failurePolicy=failure_policy), binding()]
    (decision,) = decide(*documents, explain=True).decisions
    assert (decision.outcome, decision.reason) == (outcome, reason)
    assert len(decide(*documents).decisions) == (outcome is not OutcomeStatus.SKIPPED)


def test_a_missing_namespace_denies_the_request_whatever_policies_say() -> None:
    review = deployment_review(cluster=ObjectStore())
    documents = [policy("true", failurePolicy="Ignore"), binding(actions=("Audit",))]
    status = decide(*documents, review=review).status
    assert status == statuses.not_found("", "namespaces", "shop")


def test_a_namespace_request_has_no_namespace_object() -> None:
    request: dict[str, Any] = {
        "kind": {"group": "", "version": "v1", "kind": "Namespace"},
        "resource": {"group": "", "version": "v1", "resource": "namespaces"},
        "namespace": "new",
    }
    document = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "new"}}
    review = deployment_review(document, cluster=ObjectStore(), **request)
    assert decide(policy("namespaceObject == null"), binding(), review=review).status is None


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("namespaceObject.metadata.name == 'shop'", True),
        ("namespaceObject.metadata.labels['a'] == 'b'", True),
        ("has(namespaceObject.metadata.annotations)", False),
        ("namespaceObject.status.phase == 'Active'", True),
        ("has(dyn(namespaceObject).metadata.managedFields)", False),
        ("has(dyn(namespaceObject).kind)", False),
    ],
)
def test_the_namespace_object_has_only_kubernetes_fields(expression: str, holds: bool) -> None:  # noqa: FBT001
    metadata = {"name": "shop", "labels": {"a": "b"}, "annotations": {}, "managedFields": [{"manager": "m"}]}
    store = ObjectStore([{"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}])
    assert (
        denial_text(policy(expression), binding(), review=deployment_review(cluster=store)) == ""
    ) is holds


def test_an_object_that_cannot_be_converted_is_a_binding_error() -> None:
    rule = EVERYTHING | {"apiGroups": ["autoscaling"], "apiVersions": ["v1"]}
    request: dict[str, Any] = {
        "kind": {"group": "autoscaling", "version": "v2", "kind": "HorizontalPodAutoscaler"},
        "resource": {"group": "autoscaling", "version": "v2", "resource": "horizontalpodautoscalers"},
    }
    review = deployment_review({"metadata": {"name": "web"}}, **request)
    found = denial_text(policy("true", matchConstraints={"resourceRules": [rule]}), binding(), review=review)
    assert found.startswith(
        "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: failed to configure binding: "
        "failed to convert object version: "
    )


def evaluator(budget: int, *validations: Any, **spec: Any) -> ValidatingPolicyEvaluator:
    (configured,) = loaded(policy(*validations, **spec)).validating_policies
    compiled, compiler = compile_policy(configured)
    return ValidatingPolicyEvaluator(compiled, compile_expressions(compiled.spec, compiler), budget)


NAME = "object.metadata.name == 'web'"  # costs 4: three for the attribute, one for the comparison


@pytest.mark.parametrize(
    ("budget", "validations", "messages"),
    [
        (8, [NAME, NAME], []),
        (9, [NAME, {"expression": "object.kind == ''"}], ["", "failed expression: object.kind == ''"]),
        (7, [NAME, NAME], [OUT_OF_BUDGET]),
        (
            7,
            [NAME, {"expression": "true", "messageExpression": "object.metadata.name + 'a'"}],
            [f"failed messageExpression: {OUT_OF_BUDGET}"] * 2,
        ),
        (
            7,
            [
                BROKEN,
                {"expression": "false", "messageExpression": "object.metadata.name + object.kind + 'a'"},
            ],
            [ERROR, f"failed messageExpression: {OUT_OF_BUDGET}"],
        ),
    ],
)
def test_all_expressions_of_a_policy_share_one_budget(
    budget: int, validations: list[Any], messages: list[str]
) -> None:
    decided = evaluator(budget, *validations).evaluate(
        ReviewActivations(deployment_review(), None), None, UNLIMITED
    )
    assert [validation.message for validation in decided.validations] == messages


def test_audit_annotations_have_their_own_budget() -> None:
    annotation = [{"key": "k", "valueExpression": "string(object.metadata.name)"}]
    for budget, published in ((4, True), (3, False)):
        found = evaluator(budget, "true", auditAnnotations=annotation)
        decided = found.evaluate(ReviewActivations(deployment_review(), None), None, UNLIMITED)
        assert bool(decided.annotations) is published
        assert [validation.message for validation in decided.validations] == [
            "" if published else OUT_OF_BUDGET
        ]


def test_the_expressions_of_a_policy_together_may_cost_the_runtime_budget() -> None:
    costly = "lists.range(500).all(i, lists.range(200).all(j, i + j >= 0))"
    text = denial_message(policy(costly, *[f"{costly} || {place} == 1" for place in range(20)]), binding())
    assert text == OUT_OF_BUDGET
    assert denial_message(policy(costly), binding()) == ""


def test_one_expression_may_cost_the_per_call_limit() -> None:
    costly = "lists.range(2000).all(i, lists.range(2000).all(j, i + j >= 0))"
    assert denial_message(policy(costly), binding()) == (
        f"expression '{costly}' resulted in error: operation cancelled: actual cost limit exceeded"
    )


SLOW = "lists.range(300).all(i, lists.range(300).all(j, i + j >= 0))"


@pytest.mark.parametrize("hidden", [False, True])
def test_an_evaluation_ends_at_the_reviews_deadline(hidden: bool) -> None:  # noqa: FBT001
    limits = EvaluationLimits(until=time.monotonic() - 1)
    if hidden:
        documents = [policy("variables.a", variables=[{"name": "a", "expression": SLOW}]), binding()]
        text = "expression 'variables.a' resulted in error: composited variable \"a\" fails to evaluate: "
    else:
        documents = [policy(SLOW), binding()]
        text = f"expression '{SLOW}' resulted in error: "
    (decision,) = decide(*documents, limits=limits).decisions
    assert (decision.outcome, decision.reason) == (OutcomeStatus.FAILED, f"{text}operation interrupted")


@pytest.mark.parametrize(
    "spec",
    [
        {"validations": [{"expression": SLOW}]},
        {"variables": [{"name": "a", "expression": SLOW}], "validations": [{"expression": "variables.a"}]},
        {"matchConditions": conditions(SLOW)},
        {"validations": [{"expression": "true", "messageExpression": f"string({SLOW})"}]},
        {"auditAnnotations": [{"key": "k", "valueExpression": f"string({SLOW})"}]},
    ],
)
def test_a_slow_evaluation_can_be_repeated_with_a_larger_inline_budget(spec: dict[str, Any]) -> None:
    policies, review = policies_of(policy("true", **spec), binding()), deployment_review(deployment())
    with pytest.raises(SlowEvaluationError):
        policies.decide(review, EvaluationLimits(inline_budget=InlineBudget(10_000, 10_000)))
    assert policies.decide(review).status is None
    assert (
        policies.decide(review, EvaluationLimits(inline_budget=InlineBudget(10_000_000, 10_000_000))).status
        is None
    )
