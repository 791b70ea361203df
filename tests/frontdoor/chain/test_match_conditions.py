"""Match conditions: which webhooks are called, which skipped, which requests refused."""

from __future__ import annotations

import asyncio
import base64
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import NULL, Document
from pratique.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.cel.errors import EvaluationError
from pratique.cluster.authorization import AuthorizationAttributes, AuthorizationDecision
from pratique.configuration.admissionregistration import MatchCondition
from pratique.configuration.loading import load_configurations
from pratique_frontdoor.chain.match_conditions import MatchConditions
from pratique_frontdoor.chain.webhooks import Match, Matched, Refused, Skipped
from support import vector_cases
from support.chains import decide, pod_review, webhook_controllers
from support.webhook_servers import allowed, patched, serve


class Permitting:
    """Says yes to everybody."""

    def authorize(self, attributes: AuthorizationAttributes) -> AuthorizationDecision:
        return AuthorizationDecision(allowed=True)


def compiled(*expressions: str, fails_open: bool = False) -> MatchConditions:
    conditions = [MatchCondition(f"c{place}", expression) for place, expression in enumerate(expressions)]
    return MatchConditions.compile(conditions, fails_open=fails_open)


def matched(review: Review, *expressions: str, **options: Any) -> Match:
    return asyncio.run(compiled(*expressions, **options).decide(review))


OUTCOMES = vector_cases.kind("matchConditionOutcome")


@pytest.mark.parametrize("case", OUTCOMES, ids=vector_cases.source)
def test_match_conditions_are_evaluated_as_in_the_api_server(case: Any) -> None:
    conditions = compiled(fails_open=case["input"]["failurePolicy"] == "Ignore")
    aborted = case["input"]["evaluationAborted"]
    if aborted:
        match = conditions.failed(pod_review(), [aborted])
    else:
        findings = [
            (
                evaluation["name"],
                EvaluationError(evaluation["error"]) if "error" in evaluation else evaluation["result"],
            )
            for evaluation in case["input"]["evaluations"]
        ]
        match = conditions.conclude(pod_review(), findings)
    expected = case["expected"]
    if "error" in expected:
        assert isinstance(match, Refused)
        assert match.status.message == f'pods "web" is forbidden: {expected["error"]}'
    elif expected["matches"]:
        assert isinstance(match, Matched)
    else:
        assert match == Skipped(
            f"matchCondition {statuses.go_quoted(expected['failedConditionName'])} is false"
        )


@pytest.mark.parametrize("case", vector_cases.kind("matchCondition"), ids=vector_cases.source)
def test_conditions_over_budget_end_as_in_the_api_server(case: Any) -> None:
    conditions = [match_condition["expression"] for match_condition in case["input"]["matchConditions"]]
    review = pod_review(**case["input"]["createPods"][0], authorizer=Permitting())
    text = case["expected"]["messageContains"]
    refused = matched(review, *conditions)
    assert isinstance(refused, Refused)
    assert (refused.status.code, refused.status.reason) == (403, "Forbidden")
    assert text in refused.status.message
    skipped = matched(review, *conditions, fails_open=True)
    assert isinstance(skipped, Skipped)
    assert text in skipped.reason


REVIEW = pod_review(
    user=UserInfo("ann", "u-1", ("staff", "admins"), {"scope": ("a", "b")}),
    options_document=Document.from_data({"kind": "CreateOptions", "fieldManager": "kubectl"}),
)


@pytest.mark.parametrize(
    "expression",
    [
        "object.metadata.name == 'web' && oldObject == null",
        "request.operation == 'CREATE' && request.name == 'web' && request.namespace == 'shop'",
        "request.kind == request.requestKind && request.kind.kind == 'Pod' && request.kind.group == ''",
        "request.resource == request.requestResource && request.resource.resource == 'pods'",
        "!has(request.subResource) && !has(request.requestSubResource)",
        "request.userInfo.username == 'ann' && request.userInfo.uid == 'u-1'",
        "'admins' in request.userInfo.groups && request.userInfo.extra['scope'] == ['a', 'b']",
        "request.dryRun == false && request.options.fieldManager == 'kubectl'",
        "namespaceObject == null",
        "!(request.userInfo.username.startsWith('system:'))",
    ],
)
def test_a_condition_sees_the_request(expression: str) -> None:
    assert matched(REVIEW, expression) == Matched(REVIEW)


def test_empty_fields_of_the_request_are_absent() -> None:
    review = msgspec.structs.replace(REVIEW, name="", namespace="", user=UserInfo())
    absent = "[has(request.name), has(request.namespace), has(request.userInfo.username), has(request.userInfo.groups)]"
    assert isinstance(matched(review, f"{absent} == [false, false, false, false]"), Matched)
    refused = matched(review, "request.name == ''")
    assert isinstance(refused, Refused)
    assert refused.status.message == (
        "pods is forbidden: expression 'request.name == ''' resulted in error: no such key: name"
    )


def test_only_the_old_object_exists_on_delete() -> None:
    review = pod_review(
        operation=Operation.DELETE, object_document=NULL, old_object_document=REVIEW.object_document
    )
    assert isinstance(matched(review, "object == null && oldObject.metadata.name == 'web'"), Matched)


def test_kind_is_the_converted_one_and_resource_the_requested_one() -> None:
    review = pod_review(
        kind=GroupVersionKind("apps", "v1", "Deployment"),
        resource=GroupVersionResource("apps", "v1", "deployments"),
        request_kind=GroupVersionKind("extensions", "v1beta1", "Deployment"),
        request_resource=GroupVersionResource("extensions", "v1beta1", "deployments"),
    )
    expression = (
        "request.kind.group == 'apps' && request.resource.group == 'extensions'"
        " && request.requestKind.group == 'extensions' && request.requestResource.group == 'extensions'"
    )
    assert isinstance(matched(review, expression), Matched)
    refused = matched(review, "object.missing == 1")
    assert isinstance(refused, Refused)
    assert refused.status.message.startswith('deployments.extensions "web" is forbidden: ')


def test_a_false_condition_skips_whatever_the_others_return() -> None:
    for policy in (False, True):
        match = matched(REVIEW, "object.missing == 1", "false", "true", fails_open=policy)
        assert match == Skipped('matchCondition "c1" is false')


def test_errors_are_reported_together_and_once_each() -> None:
    match = matched(REVIEW, "object.a == 1", "object.a == 1", "1 / int(request.name.size() - 3) == 1")
    assert isinstance(match, Refused)
    assert match.status.message == (
        "pods \"web\" is forbidden: [expression 'object.a == 1' resulted in error: no such key: a, "
        "expression '1 / int(request.name.size() - 3) == 1' resulted in error: division by zero]"
    )


def test_an_error_under_ignore_skips_the_webhook() -> None:
    match = matched(REVIEW, "object.a == 1", fails_open=True)
    assert isinstance(match, Skipped)
    assert "expression 'object.a == 1' resulted in error: no such key: a" in match.reason


def test_the_budget_counts_even_when_a_condition_is_false() -> None:
    check = "authorizer.group('').resource('pods').check('create').allowed()"
    conditions = ["false", *[f"{check} && {check}"] * 4]
    match = matched(msgspec.structs.replace(REVIEW, authorizer=Permitting()), *conditions)
    assert isinstance(match, Refused)
    assert "validation failed due to running out of cost budget" in match.status.message


def test_an_authorizer_check_without_rbac_is_denied() -> None:
    check = "authorizer.group('').resource('pods').check('create')"
    assert isinstance(matched(REVIEW, f"!{check}.allowed() && {check}.reason() == ''"), Matched)
    master = msgspec.structs.replace(REVIEW, user=UserInfo("root", groups=("system:masters",)))
    assert isinstance(matched(master, f"{check}.allowed()"), Matched)


def test_an_expensive_condition_does_not_delay_other_reviews() -> None:
    """One second of evaluation, while the event loop iterates thousands of times."""
    conditions = compiled("object.l.all(x, object.l.all(y, x + y >= 0)) || true")
    review = pod_review({"l": list(range(100_000))})

    async def turns_meanwhile() -> tuple[int, Match]:
        deciding = asyncio.create_task(conditions.decide(review))
        turns = 0
        while not deciding.done():
            await asyncio.sleep(0)
            turns += 1
        return turns, deciding.result()

    turns, match = asyncio.run(turns_meanwhile())
    assert turns > 20
    assert isinstance(match, Refused)
    assert "operation cancelled: actual cost limit exceeded" in match.status.message


def test_a_condition_is_stopped_at_the_deadline_of_the_request() -> None:
    conditions = compiled("object.l.all(x, object.l.all(y, true))")
    review = pod_review({"l": list(range(100_000))})
    match = asyncio.run(conditions.decide(review, time.monotonic() - 1))
    assert isinstance(match, Refused)
    assert match.status.message.endswith("operation interrupted")


def configuration(kind: str, url: str, ca_bundle: bytes, *conditions: str, **fields: Any) -> dict[str, Any]:
    named = [{"name": f"c{place}", "expression": item} for place, item in enumerate(conditions)]
    webhook = {
        "name": "a.tests.example.com",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(ca_bundle).decode()},
        "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "matchConditions": named,
    }
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": f"{kind}WebhookConfiguration",
        "metadata": {"name": "tests"},
        "webhooks": [webhook | fields],
    }


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
@pytest.mark.parametrize(
    ("condition", "calls", "outcome"),
    [
        ("object.metadata.labels.app == 'web'", 1, None),
        ("object.metadata.labels.app == 'db'", 0, OutcomeStatus.SKIPPED),
        ("object.metadata.annotations.x == 'y'", 0, OutcomeStatus.FAILED),
    ],
)
def test_a_webhook_is_called_when_its_conditions_hold(
    kind: str, condition: str, calls: int, outcome: OutcomeStatus | None, tmp_path: Path
) -> None:
    with serve({"/a": allowed()}) as server:
        document = configuration(kind, f"{server.url}/a", server.ca_bundle, condition)
        (tmp_path / "webhooks.yaml").write_text(yaml.safe_dump(document))
        configurations = load_configurations([tmp_path])
        decision = decide(pod_review(), webhook_controllers(), configurations, explain=True)
    assert len(server.received) == calls
    (step,) = decision.steps
    if outcome is not None:
        assert step.outcome is outcome
    if outcome is OutcomeStatus.SKIPPED:
        assert step.reason == 'matchCondition "c0" is false'
    assert decision.allowed is (outcome is not OutcomeStatus.FAILED)
    if decision.status is not None:
        assert decision.status.code == 403
        assert decision.status.message == (
            f"pods \"web\" is forbidden: expression '{condition}' resulted in error: no such key: annotations"
        )


@pytest.mark.parametrize("kind", ["Mutating", "Validating"])
def test_conditions_are_not_evaluated_when_the_rules_do_not_match(kind: str, tmp_path: Path) -> None:
    with serve({"/a": allowed()}) as server:
        nodes = [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["nodes"]}]
        document = configuration(kind, f"{server.url}/a", server.ca_bundle, "object.none == 1", rules=nodes)
        (tmp_path / "webhooks.yaml").write_text(yaml.safe_dump(document))
        configurations = load_configurations([tmp_path])
        decision = decide(pod_review(), webhook_controllers(), configurations, explain=True)
    assert [step.outcome for step in decision.steps] == [OutcomeStatus.SKIPPED]
    assert decision.steps[0].reason.startswith("no rule matches: ")
    assert (decision.allowed, server.received) == (True, [])


def test_conditions_of_a_mutating_webhook_see_earlier_changes(tmp_path: Path) -> None:
    added = patched([{"op": "add", "path": "/metadata/labels/team", "value": "blue"}])
    with serve({"/a": added, "/b": allowed()}) as server:
        first = configuration(
            "Mutating", f"{server.url}/a", server.ca_bundle, "!has(object.metadata.labels.team)"
        )
        second = configuration(
            "Mutating", f"{server.url}/b", server.ca_bundle, "object.metadata.labels.team == 'blue'"
        )
        second["metadata"]["name"] = "zeta"
        (tmp_path / "webhooks.yaml").write_text(yaml.safe_dump_all([first, second]))
        decision = decide(pod_review(), webhook_controllers(), load_configurations([tmp_path]))
    assert decision.allowed
    assert [item.path.partition("?")[0] for item in server.received] == ["/a", "/b"]


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (
            "object.x == foo",
            "compilation failed: ERROR: <input>:1:13: undeclared reference to 'foo' (in container '')",
        ),
        ("6", "must evaluate to bool but got int"),
        ("params == null", "undeclared reference to 'params'"),
    ],
)
def test_a_configuration_with_a_bad_expression_is_refused(
    expression: str, words: str, tmp_path: Path
) -> None:
    document = configuration("Validating", "https://localhost/", b"", expression)
    (tmp_path / "webhooks.yaml").write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigurationError) as caught:
        load_configurations([tmp_path])
    assert "webhooks[0].matchConditions[0].expression: Invalid value: " in str(caught.value)
    assert words in str(caught.value)


def test_configurations_without_conditions_do_not_import_cel(tmp_path: Path) -> None:
    document = configuration("Validating", "https://localhost/", b"")
    (tmp_path / "webhooks.yaml").write_text(yaml.safe_dump(document))
    program = (
        "import sys; from pratique.configuration.loading import load_configurations\n"
        "import pratique_frontdoor.chain.assembly\n"
        f"assert load_configurations([{str(tmp_path)!r}]).validating\n"
        "print(sorted(name for name in sys.modules if name.startswith(('cel_', 'pratique.cel'))))"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stdout == "[]\n"
