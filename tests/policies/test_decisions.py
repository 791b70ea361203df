"""Denials, warnings and audit annotations of failed validations."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pratique.admission.results import OutcomeStatus
from pratique.apimachinery.json_values import JSONObject
from pratique.policies.audit_annotations import VALIDATION_FAILURE_ANNOTATION
from support.validating_policies import (
    binding,
    decide,
    denial_message,
    denial_text,
    deployment,
    deployment_review,
    policy,
)

FALSE = {"expression": "false", "message": "no"}


@pytest.mark.parametrize(
    ("actions", "outcome", "warnings", "failures"),
    [
        (("Deny",), OutcomeStatus.DENIED, 0, 0),
        (("Warn",), OutcomeStatus.WARNED, 1, 0),
        (("Audit",), OutcomeStatus.ALLOWED, 0, 1),
        (("Deny", "Audit"), OutcomeStatus.DENIED, 0, 1),
        (("Warn", "Audit"), OutcomeStatus.WARNED, 1, 1),
    ],
)
def test_the_actions_decide_the_effect_of_a_false_validation(
    actions: tuple[str, ...], outcome: OutcomeStatus, warnings: int, failures: int
) -> None:
    found = decide(policy("true", FALSE), binding(actions=actions))
    (decision,) = found.decisions
    assert (decision.policy, decision.binding, decision.outcome, decision.reason) == (
        "p",
        "b",
        outcome,
        "no",
    )
    assert bool(found.status) is ("Deny" in actions)
    text = "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': no"
    assert list(found.warnings) == [text] * warnings
    reported = json.loads(found.audit_annotations.get(VALIDATION_FAILURE_ANNOTATION, "[]"))
    failure = {"message": "no", "policy": "p", "binding": "b", "expressionIndex": 1}
    assert reported == [failure | {"validationActions": list(actions)}] * failures


@pytest.mark.parametrize(
    ("reason", "code"),
    [("Forbidden", 403), ("Invalid", 422), ("RequestEntityTooLarge", 413), (None, 422)],
)
def test_the_status_has_the_reason_of_the_validation(reason: str | None, code: int) -> None:
    status = decide(policy(FALSE | ({"reason": reason} if reason else {})), binding()).status
    assert status is not None
    assert (status.code, status.reason) == (code, reason or "Invalid")
    text = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: no"
    assert status.message == f'deployments.apps "web" is forbidden: {text}'
    assert status.details is not None
    assert (status.details.name, status.details.group, status.details.kind) == ("web", "apps", "deployments")
    assert [cause.message for cause in status.details.causes] == [text]


@pytest.mark.parametrize(
    ("validation", "message"),
    [
        ({"expression": " false "}, "failed expression: false"),
        ({"expression": "false", "message": " no \n"}, "no"),
        ({"expression": "false", "message": "no", "messageExpression": "' never '"}, "never"),
        ({"expression": "false", "message": "no", "messageExpression": "' '"}, "no"),
        ({"expression": "false", "message": "no", "messageExpression": "'a\\nb'"}, "no"),
        ({"expression": "false", "messageExpression": "'a\\nb'"}, "failed expression: false"),
        ({"expression": "false", "message": "no", "messageExpression": "string(object.none)"}, "no"),
        (
            {
                "expression": "false",
                "message": "no",
                "messageExpression": "lists.range(5121).map(i, 'a').join()",
            },
            "no",
        ),
        (
            {
                "expression": "false",
                "message": "no",
                "messageExpression": "lists.range(5120).map(i, 'a').join()",
            },
            "a" * 5120,
        ),
        (
            {
                "expression": "false",
                "message": "no",
                "messageExpression": "lists.range(2561).map(i, 'é').join()",
            },
            "no",
        ),
    ],
)
def test_the_message_is_the_message_expression_or_the_message_or_the_expression(
    validation: dict[str, str], message: str
) -> None:
    assert denial_message(policy(validation), binding()) == message


def test_a_message_expression_sees_no_authorizer_even_through_a_variable() -> None:
    variable = {"name": "allowed", "expression": "authorizer.path('/x').check('get').allowed()"}
    validation = {"expression": "variables.allowed", "messageExpression": "string(variables.allowed)"}
    assert denial_message(policy(validation | {"message": "no"}, variables=[variable]), binding()) == "no"


def test_denials_come_in_the_order_of_policies_bindings_and_validations() -> None:
    documents = [
        policy("1 == 2", "2 == 3", name="q"),
        policy("3 == 4", name="p"),
        policy("4 == 5", name="z.static.k8s.io"),
        binding("q", name="b2"),
        binding("q", name="b1"),
        binding("p", name="b3"),
        binding("z.static.k8s.io", name="b.static.k8s.io"),
    ]
    found = decide(*documents)
    texts = [status.message.partition(" is forbidden: ")[2].split("'") for status in found.denials]
    assert [(parts[1], parts[3], parts[-1].rpartition(": ")[2]) for parts in texts] == [
        ("z.static.k8s.io", "b.static.k8s.io", "4 == 5"),
        ("p", "b3", "3 == 4"),
        ("q", "b1", "1 == 2"),
        ("q", "b1", "2 == 3"),
        ("q", "b2", "1 == 2"),
        ("q", "b2", "2 == 3"),
    ]
    assert found.status is found.denials[0]


def test_the_first_fifty_failures_are_audited() -> None:
    documents = [policy(*["false"] * 30), binding(name="a", actions=("Audit",)), binding(actions=("Audit",))]
    reported = json.loads(decide(*documents).audit_annotations[VALIDATION_FAILURE_ANNOTATION])
    assert [(failure["binding"], failure["expressionIndex"]) for failure in reported] == [
        *(("a", place) for place in range(30)),
        *(("b", place) for place in range(20)),
    ]


def annotated(*expressions: str, **spec: Any) -> JSONObject:
    keys = [
        {"key": f"k{place}", "valueExpression": expression} for place, expression in enumerate(expressions)
    ]
    return policy(auditAnnotations=keys, **spec)


def test_audit_annotations_are_published_if_they_are_strings() -> None:
    found = decide(annotated("' a '", "' '", "null", "'x' + request.name"), binding())
    assert found.status is None
    assert found.audit_annotations == {"p/k0": "a", "p/k3": "xweb"}


@pytest.mark.parametrize(
    ("policy_name", "outcome"), [("Fail", OutcomeStatus.FAILED), ("Ignore", OutcomeStatus.ALLOWED)]
)
def test_an_audit_annotation_that_fails_denies_whatever_the_actions(
    policy_name: str, outcome: OutcomeStatus
) -> None:
    documents = [
        annotated("'a'", "string(object.none)", failurePolicy=policy_name),
        binding(actions=("Audit",)),
    ]
    found = decide(*documents)
    assert [decision.outcome for decision in found.decisions] == [outcome]
    text = "expression 'string(object.none)' resulted in error: no such key: none"
    assert denial_message(*documents) == ("" if outcome is OutcomeStatus.ALLOWED else text)
    assert found.audit_annotations == {"p/k0": "a"}
    assert [check.seconds for check in found.checks] == ([] if outcome is OutcomeStatus.ALLOWED else [0.0])


BROKEN = "object.none == 1"


@pytest.mark.parametrize(
    ("expressions", "outcome"),
    [((BROKEN, FALSE), OutcomeStatus.FAILED), ((FALSE, BROKEN), OutcomeStatus.DENIED)],
)
@pytest.mark.parametrize("actions", [("Deny",), ("Warn",)])
def test_the_first_denial_or_warning_gives_the_reason_of_the_decision(
    expressions: tuple[str | JSONObject, ...], outcome: OutcomeStatus, actions: tuple[str, ...]
) -> None:
    (decision,) = decide(policy(*expressions), binding(actions=actions)).decisions
    text = f"expression '{BROKEN}' resulted in error: no such key: none"
    assert decision.reason == (text if outcome is OutcomeStatus.FAILED else "no")
    assert decision.outcome is (outcome if actions == ("Deny",) else OutcomeStatus.WARNED)


def test_audit_annotations_see_no_authorizer_as_in_the_api_server() -> None:
    expression = "authorizer.path('/x').check('get').reason()"
    text = f"expression '{expression}' resulted in error: no such attribute(s): authorizer"
    assert denial_message(annotated(expression), binding()) == text


def test_an_audit_annotation_that_is_too_long_is_cut() -> None:
    found = decide(annotated("lists.range(10239).map(i, 'a').join() + 'bcd'"), binding())
    assert found.audit_annotations == {"p/k0": "a" * 10239 + "b"}


def test_an_audit_annotation_joins_the_distinct_values_of_all_bindings() -> None:
    documents = [annotated("'a'"), binding(name="a"), binding(name="b")]
    assert decide(*documents).audit_annotations == {"p/k0": "a"}


def test_the_denial_names_the_object_by_its_future_name() -> None:
    document = deployment()
    del document["metadata"]["name"]
    document["metadata"]["generateName"] = "web-"
    status = decide(policy("false"), binding(), review=deployment_review(document, name="")).status
    assert status is not None
    assert status.message.startswith('deployments.apps "web-" is forbidden: ')


def test_a_validation_that_holds_is_not_counted() -> None:
    documents = [policy("true", "object.spec.replicas == 3"), binding()]
    found = decide(*documents, explain=True)
    assert (denial_text(*documents), found.warnings, found.audit_annotations, found.checks) == (
        "",
        (),
        {},
        (),
    )
    assert [decision.outcome for decision in found.decisions] == [OutcomeStatus.ALLOWED]


def test_a_policy_that_simply_allows_is_listed_only_with_explain() -> None:
    documents = [policy("true"), policy("1 == 2", name="q"), binding(), binding("q", name="c")]
    listed = [decision.policy for decision in decide(*documents).decisions]
    explained = [decision.policy for decision in decide(*documents, explain=True).decisions]
    assert (listed, explained) == (["q"], ["p", "q"])


@pytest.mark.parametrize("action", ["Deny", "Warn", "Audit"])
def test_false_validations_are_listed_whatever_the_actions(action: str) -> None:
    found = decide(policy("true", FALSE, "object.spec.none == 1", FALSE), binding(validationActions=[action]))
    assert [decision.unmet for decision in found.decisions] == [(1, 3)]
