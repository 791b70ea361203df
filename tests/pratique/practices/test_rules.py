"""Each rule: what goes against it, what does not, and how it is switched off."""

from __future__ import annotations

import base64
import dataclasses
from typing import TYPE_CHECKING

import pytest
import trustme

from practising import (
    binding,
    findings_of,
    mutating,
    outside,
    policy,
    rule,
    rules_of,
    service,
    validating,
    webhook,
    write,
)
from pratique.clusters import ANY_NAMESPACE, ObjectStore
from pratique.practices.registry import PRACTICES, RULES

if TYPE_CHECKING:
    from pathlib import Path

    from pratique.clusters import Cluster
    from pratique.json_values import JSONObject

CA = trustme.CA()
DEFINITION: JSONObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": True, "storage": True}],
    },
}
PODS = rule("pods")


def bundle(pem: bytes) -> JSONObject:
    return {"url": "https://hooks.example.com", "caBundle": base64.b64encode(pem).decode()}


def hooks(*webhooks: JSONObject) -> list[JSONObject]:
    return [validating(*webhooks)]


def changes(*webhooks: JSONObject) -> list[JSONObject]:
    return [mutating(*webhooks)]


def server(replicas: int | None) -> tuple[JSONObject, ...]:
    """A Service, and a Deployment behind it."""
    of = {"namespace": "hooks"}
    labels = {"app": "hook"}
    counted = {} if replicas is None else {"replicas": replicas}
    service = {"metadata": {"name": "hook", **of}, "spec": {"selector": labels}}
    spec = {"template": {"metadata": {"labels": labels}, "spec": {"containers": []}}, **counted}
    return (
        {"apiVersion": "v1", "kind": "Service", **service},
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "server", **of}, "spec": spec},
    )


@dataclasses.dataclass(frozen=True)
class Case:
    """A rule, documents that go against it, and documents that nearly do."""

    rule: str
    breaks: list[JSONObject]
    keeps: list[JSONObject]
    cluster: tuple[JSONObject, ...] = ()

    def __str__(self) -> str:
        return self.rule


CASES = [
    Case("timeout-too-long", hooks(webhook(timeoutSeconds=11)), hooks(webhook(timeoutSeconds=10))),
    Case(
        "mutating-timeouts-over-budget",
        changes(*(webhook(name=f"{name}.example.com", timeoutSeconds=9) for name in "abcd")),
        changes(*(webhook(name=f"{name}.example.com", timeoutSeconds=8) for name in "abcd")),
    ),
    Case(
        "mutating-timeouts-over-budget",
        changes(webhook(timeoutSeconds=30), webhook(name="b.example.com")),
        changes(webhook(timeoutSeconds=30), webhook(rule("secrets"), name="b.example.com")),
    ),
    Case("single-backend", hooks(webhook(clientConfig=service("hooks"))), hooks(webhook()), server(1)),
    Case(
        "single-backend",
        hooks(webhook(clientConfig=service("hooks"))),
        hooks(webhook(clientConfig=service("hooks", "other"))),
        server(None),
    ),
    Case("wildcard-rules", hooks(webhook(rule("*"))), hooks(webhook(rule("services/*")))),
    Case("wildcard-rules", hooks(webhook(rule("*/status"))), hooks(webhook(rule("services/status")))),
    Case("wildcard-rules", hooks(webhook(rule("widgets", "*"))), hooks(webhook(rule("widgets", "x.io")))),
    Case("wildcard-rules", hooks(webhook(rule(operation="*"))), hooks(webhook(rule(operation="DELETE")))),
    Case("no-match-policy-equivalent", hooks(webhook(matchPolicy="Exact")), hooks(webhook())),
    Case(
        "no-match-policy-equivalent",
        [policy(matchConstraints={"matchPolicy": "Exact"}), binding()],
        [policy(matchConstraints={"matchPolicy": "Equivalent"}), binding()],
    ),
    Case(
        "read-only-kinds",
        hooks(webhook(rule("subjectaccessreviews", "authorization.k8s.io"), failurePolicy="Ignore")),
        hooks(webhook(rule("subjectaccessreviews", "example.com"))),
    ),
    Case(
        "read-only-kinds",
        hooks(webhook(rule("validatingwebhookconfigurations", "admissionregistration.k8s.io"))),
        [
            policy(
                matchConstraints={
                    "resourceRules": [rule("validatingwebhookconfigurations", "admissionregistration.k8s.io")]
                }
            )
        ],
    ),
    Case(
        "read-only-kinds",
        hooks(webhook(rule("mutatingadmissionpolicies", "admissionregistration.k8s.io"))),
        [
            validating(
                webhook(rule("mutatingadmissionpolicies", "admissionregistration.k8s.io")),
                name="checks.static.k8s.io",
            )
        ],
    ),
    Case(
        "read-only-kinds",
        [policy(matchConstraints={"resourceRules": [rule("tokenreviews", "authentication.k8s.io")]})],
        [policy()],
    ),
    Case(
        "webhook-for-custom-resources",
        hooks(webhook(rule("widgets", "example.com"))),
        hooks(webhook(rule("gadgets", "example.com"))),
        (DEFINITION,),
    ),
    Case(
        "dodgeable-selector",
        hooks(webhook(objectSelector={"matchLabels": {"checked": "yes"}})),
        changes(webhook(objectSelector={"matchLabels": {"changed": "yes"}})),
    ),
    Case(
        "dodgeable-selector",
        [policy(matchConstraints={"objectSelector": {"matchLabels": {"checked": "yes"}}})],
        [policy(matchConstraints={"objectSelector": {}})],
    ),
    Case(
        "dodgeable-selector",
        [binding(matchResources={"objectSelector": {"matchLabels": {"checked": "yes"}}})],
        [binding(matchResources={"namespaceSelector": {"matchLabels": {"checked": "yes"}}})],
    ),
    Case(
        "deadlock",
        hooks(webhook(PODS, clientConfig=service("hooks"))),
        hooks(webhook(PODS, clientConfig=service("hooks"), namespaceSelector=outside("hooks"))),
    ),
    Case(
        "deadlock",
        hooks(webhook(rule("deployments", "apps"), clientConfig=service("hooks"))),
        hooks(webhook(rule("deployments", "apps"), clientConfig=service("hooks"), failurePolicy="Ignore")),
    ),
    Case(
        "deadlock",
        hooks(webhook(PODS, clientConfig=service("hooks", "other"))),
        hooks(
            webhook(
                PODS,
                clientConfig=service("hooks"),
                objectSelector={"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]},
            )
        ),
        (
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "hook", "namespace": "hooks"},
                "spec": {"selector": {"app": "hook"}},
            },
        ),
    ),
    Case(
        "intercepts-own-namespace",
        hooks(webhook(PODS, clientConfig=service("hooks"), failurePolicy="Ignore")),
        hooks(webhook(PODS, failurePolicy="Ignore")),
    ),
    Case(
        "circular-dependency",
        hooks(
            webhook(PODS, clientConfig=service("one"), namespaceSelector=outside("one")),
            webhook(
                PODS, name="b.example.com", clientConfig=service("two"), namespaceSelector=outside("two")
            ),
        ),
        hooks(
            webhook(PODS, clientConfig=service("one"), namespaceSelector=outside("one")),
            webhook(
                PODS,
                name="b.example.com",
                clientConfig=service("two"),
                namespaceSelector=outside("one", "two"),
            ),
        ),
    ),
    Case("intercepts-kube-system", hooks(webhook(PODS, namespaceSelector={})), hooks(webhook(PODS))),
    Case(
        "intercepts-kube-system",
        changes(webhook(PODS, namespaceSelector={}, failurePolicy="Ignore")),
        changes(webhook(PODS, namespaceSelector={}, objectSelector={"matchLabels": {"change": "yes"}})),
    ),
    Case(
        "intercepts-kube-system",
        changes(
            webhook(
                PODS, namespaceSelector={}, matchConditions=[{"name": "all", "expression": "object != null"}]
            )
        ),
        changes(
            webhook(
                PODS,
                namespaceSelector={},
                matchConditions=[{"name": "ours", "expression": "request.namespace != 'kube-system'"}],
            )
        ),
    ),
    Case(
        "intercepts-node-leases",
        hooks(webhook(rule("leases", "coordination.k8s.io", "UPDATE"))),
        hooks(
            webhook(
                rule("leases", "coordination.k8s.io", "UPDATE"), namespaceSelector=outside("kube-node-lease")
            )
        ),
    ),
    Case(
        "intercepts-nodes",
        hooks(webhook(rule("nodes"))),
        hooks(
            webhook(
                rule("nodes"),
                matchConditions=[
                    {"name": "people", "expression": "!('system:nodes' in request.userInfo.groups)"}
                ],
            )
        ),
    ),
    Case(
        "intercepts-nodes",
        hooks(webhook(rule("nodes/status", operation="UPDATE"))),
        hooks(webhook(rule("nodes/status", operation="UPDATE"), failurePolicy="Ignore")),
    ),
    Case(
        "intercepts-access-reviews",
        changes(webhook(rule("*", "authentication.k8s.io"))),
        changes(webhook(rule("*", "apps"))),
    ),
    Case(
        "intercepts-events",
        changes(webhook(rule("events", "events.k8s.io"))),
        hooks(webhook(rule("events"), failurePolicy="Ignore")),
    ),
    Case(
        "intercepts-pod-status",
        changes(webhook(rule("pods/*", operation="UPDATE"))),
        changes(webhook(rule("pods", operation="UPDATE"))),
    ),
    Case(
        "mutates-mirror-pods",
        changes(webhook(PODS, namespaceSelector={})),
        changes(
            webhook(
                PODS,
                namespaceSelector={},
                matchConditions=[
                    {
                        "name": "mutable",
                        "expression": "!('kubernetes.io/config.mirror' in object.metadata.annotations)",
                    }
                ],
            )
        ),
    ),
    Case("fail-open-security", hooks(webhook(failurePolicy="Ignore")), hooks(webhook())),
    Case("fail-open-security", [policy(failurePolicy="Ignore")], changes(webhook(failurePolicy="Ignore"))),
    Case("mutating-fails-closed", changes(webhook()), changes(webhook(failurePolicy="Ignore"))),
    Case(
        "unverified-mutation",
        [mutating(webhook()), validating(webhook(rule("secrets")))],
        [mutating(webhook()), validating(webhook())],
    ),
    Case("unverified-mutation", [mutating(webhook())], [mutating(webhook()), policy()]),
    Case(
        "side-effects-undeclared",
        [validating(webhook(sideEffects="Some"), version="v1beta1")],
        [validating(webhook(sideEffects="NoneOnDryRun"), version="v1beta1")],
    ),
    Case(
        "admission-review-versions",
        hooks(webhook(admissionReviewVersions=["v1beta1"])),
        hooks(webhook(admissionReviewVersions=["v1beta1", "v1"])),
    ),
    Case(
        "no-reinvocation",
        changes(webhook(), webhook(name="b.example.com")),
        changes(webhook(reinvocationPolicy="IfNeeded"), webhook(name="b.example.com")),
    ),
    Case(
        "no-reinvocation",
        [mutating(webhook(), name="a"), mutating(webhook(), name="b")],
        [mutating(webhook(), name="a"), mutating(webhook(rule("secrets")), name="b")],
    ),
    Case(
        "scattered-webhooks",
        [mutating(webhook(clientConfig=service("x")), name=name) for name in "ab"],
        [
            mutating(
                webhook(clientConfig=service("x")), webhook(name="b.example.com", clientConfig=service("x"))
            )
        ],
    ),
    Case(
        "ca-bundle-unreadable",
        hooks(webhook(clientConfig=bundle(b"-----BEGIN nothing"))),
        hooks(webhook(clientConfig=bundle(CA.cert_pem.bytes()))),
    ),
    Case(
        "ca-bundle-not-a-ca",
        hooks(
            webhook(
                clientConfig=bundle(CA.issue_cert("hooks.example.com").cert_chain_pems[0].bytes()),
            )
        ),
        hooks(webhook(clientConfig=bundle(CA.cert_pem.bytes()))),
    ),
    Case("policy-unbound", [policy()], [policy(), binding()]),
    Case("binding-without-policy", [binding("none")], [policy(), binding()]),
    Case(
        "cel-cannot-match",
        hooks(webhook(matchConditions=[{"name": "no", "expression": "false && object.x"}])),
        hooks(webhook(matchConditions=[{"name": "no", "expression": "false || object.x"}])),
    ),
    Case(
        "cel-cannot-match",
        [policy(matchConditions=[{"name": "no", "expression": "1 > 2"}])],
        [policy(matchConditions=[{"name": "no", "expression": "object != null"}])],
    ),
    Case(
        "cel-cannot-match",
        [
            policy(
                variables=[{"name": "x", "expression": "object"}],
                validations=[{"expression": "variables.x == 1 || true"}],
            )
        ],
        [policy(validations=[{"expression": "false"}])],
    ),
]


def cluster_of(case: Case) -> Cluster:
    return ObjectStore(case.cluster) if case.cluster else ANY_NAMESPACE


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_goes_against_a_rule_is_found(case: Case, tmp_path: Path) -> None:
    assert case.rule in rules_of(write(tmp_path, case.breaks), cluster_of(case))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_what_keeps_to_a_rule_is_not(case: Case, tmp_path: Path) -> None:
    assert case.rule not in rules_of(write(tmp_path, case.keeps), cluster_of(case))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_comment_above_a_document_switches_a_rule_off(case: Case, tmp_path: Path) -> None:
    cluster = cluster_of(case)
    before = rules_of(write(tmp_path, case.breaks), cluster)
    path = write(tmp_path, case.breaks, comment=f"# pratique: disable={case.rule}")
    assert rules_of(path, cluster) == before - {case.rule}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_only_the_chosen_rules_are_gone_by(case: Case, tmp_path: Path) -> None:
    path, cluster = write(tmp_path, case.breaks), cluster_of(case)
    assert case.rule not in rules_of(path, cluster, RULES - {case.rule})
    assert rules_of(path, cluster, {case.rule}) == {case.rule}


def test_nothing_is_said_of_a_good_configuration(tmp_path: Path) -> None:
    assert findings_of(write(tmp_path, [validating(webhook()), policy(), binding()])) == []


def test_names_of_rules_are_unique_and_in_kebab_case() -> None:
    assert len(RULES) == len(PRACTICES)
    assert all(name.replace("-", "").isalpha() and name.islower() for name in RULES)


@pytest.mark.parametrize(("replicas", "found"), [(0, set()), (1, {"single-backend"}), (2, set())])
def test_replicas_are_counted(replicas: int, found: set[str], tmp_path: Path) -> None:
    path = write(tmp_path, hooks(webhook(clientConfig=service("hooks"))))
    assert rules_of(path, ObjectStore(server(replicas)), {"single-backend"}) == found


def test_every_rule_is_tested() -> None:
    by_time = {"ca-bundle-expired", "ca-bundle-expires-soon"}
    serving = {rule for rule in RULES if rule.startswith("serving-certificate-")}
    assert {case.rule for case in CASES} | by_time | serving == RULES
