"""The field and the exact text of findings."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pytest

from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from support.lint_findings import (
    binding,
    findings_of,
    mutating,
    policy,
    rule,
    service,
    validating,
    webhook,
    write,
)

EXACT = "requests for the same objects in another version or group are not matched (matchPolicy is Exact)"
LABELS = "users can set the labels of an object so that it is not checked"
SELECTED = {"matchLabels": {"checked": "yes"}}
CONTRADICTION = {
    "matchExpressions": [
        {"key": "team", "operator": "In", "values": ["a"]},
        {"key": "team", "operator": "NotIn", "values": ["a"]},
    ]
}


class Case(NamedTuple):
    """Documents, the only violation of a rule in them, and its field."""

    rule: str
    documents: list[JSONObject]
    field: tuple[str | int, ...]
    text: str


def hooks(*rules: JSONObject, **fields: object) -> list[JSONObject]:
    return [validating(webhook(*rules, **fields))]


CASES = [
    Case(
        "timeout-too-long",
        hooks(timeoutSeconds=11),
        ("webhooks", 0, "timeoutSeconds"),
        "a request may wait 11 s for this webhook alone, more than 10 s",
    ),
    Case(
        "wildcard-rules",
        hooks(rule(), {**rule(), "operations": ["*"], "resources": ["*/*"]}),
        ("webhooks", 0, "rules", 1, "operations"),
        "rule 2 has the wildcard * in operations, resources",
    ),
    Case("no-match-policy-equivalent", hooks(matchPolicy="Exact"), ("webhooks", 0, "matchPolicy"), EXACT),
    Case(
        "no-match-policy-equivalent",
        [policy(matchConstraints={"matchPolicy": "Exact"}), binding()],
        ("spec", "matchConstraints", "matchPolicy"),
        EXACT,
    ),
    Case(
        "read-only-kinds",
        hooks(rule("tokenreviews", "authentication.k8s.io")),
        ("webhooks", 0, "rules", 0, "resources"),
        "no webhook is ever called for tokenreviews.authentication.k8s.io",
    ),
    Case("dodgeable-selector", hooks(objectSelector=SELECTED), ("webhooks", 0, "objectSelector"), LABELS),
    Case(
        "dodgeable-selector",
        [policy(), binding(matchResources={"objectSelector": SELECTED})],
        ("spec", "matchResources", "objectSelector"),
        LABELS,
    ),
    Case(
        "fail-open-security",
        hooks(failurePolicy="Ignore"),
        ("webhooks", 0, "failurePolicy"),
        "admits everything while it does not answer",
    ),
    Case(
        "fail-open-security",
        [policy(failurePolicy="Ignore"), binding()],
        ("spec", "failurePolicy"),
        "admits requests that it cannot evaluate",
    ),
    Case(
        "mutating-fails-closed",
        [mutating(webhook(failurePolicy="Fail"))],
        ("webhooks", 0, "failurePolicy"),
        "while it does not answer, even requests that need no change are denied",
    ),
    Case(
        "unverified-mutation",
        [mutating(webhook())],
        ("webhooks", 0, "rules"),
        "nothing here validates what it changes",
    ),
    Case(
        "side-effects-undeclared",
        [validating(webhook(sideEffects="Unknown", admissionReviewVersions=["v1beta1"]), version="v1beta1")],
        ("webhooks", 0, "sideEffects"),
        "sideEffects is Unknown: dry-run requests are denied",
    ),
    Case(
        "admission-review-versions",
        [validating(webhook(admissionReviewVersions=["v1beta1"]), version="v1beta1")],
        ("webhooks", 0, "admissionReviewVersions"),
        "supports AdmissionReview only in v1beta1",
    ),
    Case(
        "scattered-webhooks",
        [
            mutating(webhook(clientConfig=service("hooks"))),
            mutating(webhook(name="b.example.com", clientConfig=service("hooks")), name="others"),
        ],
        ("webhooks", 0, "clientConfig"),
        'it has the same Service as webhook "a.example.com" of "changes"',
    ),
    Case(
        "ca-bundle-unreadable",
        hooks(clientConfig={"url": "https://hooks.example.com", "caBundle": "bm9uZQ=="}),
        ("webhooks", 0, "clientConfig", "caBundle"),
        "holds no certificates in PEM: the webhook cannot be called",
    ),
    Case("policy-unbound", [policy()], ("metadata", "name"), "no binding here names it: it does nothing"),
    Case(
        "binding-without-policy",
        [binding("many")],
        ("spec", "policyName"),
        'there is no policy "many" here: it does nothing',
    ),
    Case(
        "cel-cannot-match",
        [policy(validations=[{"expression": "1 < 2"}]), binding()],
        ("spec", "validations", 0, "expression"),
        "is true for every request: it denies nothing",
    ),
    Case(
        "matches-nothing",
        hooks(matchConditions=[{"name": "never", "expression": "1 > 2"}]),
        ("webhooks", 0, "matchConditions", 0, "expression"),
        "is false for every request: nothing matches",
    ),
    Case(
        "matches-nothing",
        hooks(objectSelector=CONTRADICTION),
        ("webhooks", 0, "objectSelector"),
        'contradicts itself about label "team": no object is selected',
    ),
    Case(
        "matches-nothing",
        [
            policy(matchConstraints={"excludeResourceRules": [rule("services", operation="*")]}),
            binding(),
        ],
        ("spec", "matchConstraints", "excludeResourceRules"),
        "excludes everything that resourceRules match: the policy does nothing",
    ),
    Case(
        "matches-nothing",
        [policy(), binding(matchResources={"resourceRules": [rule("secrets")]})],
        ("spec", "matchResources", "resourceRules"),
        'matches nothing that policy "few" matches: the binding does nothing',
    ),
    Case(
        "without-effect",
        hooks(rule("nodes")),
        ("webhooks", 0, "namespaceSelector"),
        "the rules match only cluster-scoped resources, which namespaceSelector does not exclude",
    ),
    Case(
        "pod-subresources-uncovered",
        hooks(rule("pods")),
        ("webhooks", 0, "rules"),
        "matches Pods, but not pods/ephemeralcontainers and pods/resize, which change their containers",
    ),
    Case(
        "local-host",
        hooks(clientConfig={"url": "https://127.0.0.1:8443"}),
        ("webhooks", 0, "clientConfig", "url"),
        "the host of its URL is 127.0.0.1, which is the calling machine",
    ),
    Case(
        "depends-on-namespace",
        [
            policy(paramKind={"apiVersion": "v1", "kind": "ConfigMap"}),
            binding(paramRef={"name": "a", "namespace": "shop", "parameterNotFoundAction": "Deny"}),
        ],
        ("spec", "paramRef", "namespace"),
        "decides for other namespaces with objects in namespace shop",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.rule}: {case.text}")
def test_a_finding_names_its_field_and_its_problem(tmp_path: Path, case: Case) -> None:
    found = findings_of(write(tmp_path, case.documents), rules={case.rule})
    assert [(finding.violation.path, finding.violation.text) for finding in found] == [
        (case.field, case.text)
    ]


def test_a_deadlock_names_the_service_and_what_it_needs(tmp_path: Path) -> None:
    documents = hooks(rule("pods"), clientConfig=service("hooks"), failurePolicy="Fail")
    (finding,) = findings_of(write(tmp_path, documents), rules={"deadlock"})
    assert finding.violation.text == (
        "denies, while Service hooks/hook is down, requests that it needs to start:"
        ' CREATE of pods in namespace hooks for Deployment "hook"'
    )


def test_a_webhook_that_fails_open_delays_its_own_start_by_its_timeout(tmp_path: Path) -> None:
    documents = hooks(rule("pods"), clientConfig=service("hooks"), failurePolicy="Ignore")
    (finding,) = findings_of(write(tmp_path, documents), rules={"intercepts-own-namespace"})
    assert finding.violation.text == (
        "once Service hooks/hook is down, requests that it needs to start wait for its timeout:"
        ' CREATE of pods in namespace hooks for Deployment "hook"'
    )


def test_a_writer_of_configurations_is_named_with_role_and_verb(tmp_path: Path) -> None:
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "operators"},
        "rules": [{"apiGroups": ["*"], "resources": ["validatingwebhookconfigurations"], "verbs": ["patch"]}],
    }
    bound = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "all"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "operators"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "dev"}],
    }
    path = write(tmp_path, hooks())
    (finding,) = findings_of(path, ObjectStore([role, bound]), rules={"configurations-writable"})
    assert finding.violation.text == (
        'ClusterRoleBinding "all" of "operators" lets Group "dev" patch validatingwebhookconfigurations,'
        " and thereby turn admission off"
    )
