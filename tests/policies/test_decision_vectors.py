"""Validations are decided as in Kubernetes' own tests."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSONObject
from pratique.cel.errors import EvaluationError
from pratique.configuration.admissionregistration import AuditAnnotation, Validation
from pratique.policies.compilation import EvaluationResult
from pratique.policies.validating_decisions import (
    ValidationDecision,
    decide_annotations,
    decide_failure,
    decide_validations,
)
from support.vector_cases import kind, source


def finding(result: JSONObject | None) -> EvaluationResult:
    if result is None:
        return None
    return EvaluationError(result["error"]) if "error" in result else result["result"]


def decisions(given: JSONObject, *, fails_open: bool) -> tuple[ValidationDecision, ...]:
    if "evaluationAborted" in given:
        return (decide_failure(given["evaluationAborted"], fails_open=fails_open),)
    results = given["validationResults"]
    messages = given.get("messageExpressionResults", [None] * len(results))
    validations = [
        Validation(result.get("expression", ""), result.get("message", ""), result.get("reason"))
        for result in results
    ]
    found = [finding(result) for result in results]
    return decide_validations(validations, found, list(map(finding, messages)), fails_open=fails_open)


@pytest.mark.parametrize("case", kind("policyDecision"), ids=source)
def test_a_policy_decides_as_in_kubernetes(case: JSONObject) -> None:
    given, expected = case["input"], case["expected"]
    fails_open = given["failurePolicy"] == "Ignore"
    decided = decisions(given, fails_open=fails_open)
    assert [decision.action.value for decision in decided] == [
        decision["action"] for decision in expected["decisions"]
    ]
    for decision, wanted in zip(decided, expected["decisions"], strict=True):
        assert wanted.get("messageContains", "") in decision.message
        assert decision.reason == wanted.get("reason", decision.reason)
    results = given.get("auditAnnotationResults", [])
    annotations = [AuditAnnotation("key", result["valueExpression"]) for result in results]
    published = decide_annotations(annotations, list(map(finding, results)), fails_open=fails_open)
    assert [
        {"action": annotation.action.value, "value": annotation.text} for annotation in published
    ] == expected.get("auditAnnotations", [])
