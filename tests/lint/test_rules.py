"""Each rule: what violates it, what does not, and how to disable it."""

from __future__ import annotations

import base64
import dataclasses
from pathlib import Path

import pytest
import trustme

from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ANY_NAMESPACE, Cluster, ObjectStore
from pratique.lint.registry import LINT_RULES, RULE_NAMES
from support.lint_findings import (
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


ANNOTATIONS: JSONObject = {"validations": [], "auditAnnotations": [{"key": "a", "valueExpression": "'a'"}]}
PARAM_KIND: JSONObject = {"paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}}


def contradictory(*operators: str) -> JSONObject:
    return {
        "matchExpressions": [
            {"key": "a", "operator": operator, **({"values": ["b"]} if operator.endswith("In") else {})}
            for operator in operators
        ]
    }


def inside(*namespaces: str) -> JSONObject:
    key = "kubernetes.io/metadata.name"
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [*namespaces]}]}


def on(resources: str) -> JSONObject:
    return {"matchConstraints": {"resourceRules": [rule(resources, "apps", "UPDATE")]}}


def at_path(path: str) -> JSONObject:
    return {"service": {"namespace": "hooks", "name": "hook", "path": path}}


def front_door(*flags: str) -> tuple[JSONObject, ...]:
    """A Service, and a front door of Pratique behind it."""
    found, deployment = server(2)
    args = ["serve", "frontdoor", *flags]
    deployment["spec"]["template"]["spec"]["containers"] = [{"name": "c", "image": "i", "args": args}]
    return found, deployment


def mutating_policy(expression: str) -> JSONObject:
    return {
        **policy(),
        "kind": "MutatingAdmissionPolicy",
        "spec": {
            "matchConstraints": {"resourceRules": [rule()]},
            "mutations": [{"patchType": "JSONPatch", "jsonPatch": {"expression": expression}}],
            "failurePolicy": "Fail",
            "reinvocationPolicy": "Never",
        },
    }


def mutating_binding() -> JSONObject:
    return {**binding(), "kind": "MutatingAdmissionPolicyBinding", "spec": {"policyName": "few"}}


@dataclasses.dataclass(frozen=True)
class Case:
    """A rule, documents that violate it, and documents that almost do."""

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
        hooks(webhook(matchConditions=[{"name": "all", "expression": "true || object.x"}])),
        hooks(webhook(matchConditions=[{"name": "all", "expression": "true && object.x"}])),
    ),
    Case(
        "cel-cannot-match",
        [policy(matchConditions=[{"name": "all", "expression": "1 < 2"}])],
        [policy(matchConditions=[{"name": "all", "expression": "object != null"}])],
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
    Case("matches-nothing", hooks(webhook(rule("service"))), hooks(webhook(rule("services")))),
    Case("matches-nothing", hooks(webhook(rule("pods", "app"))), hooks(webhook(rule("deployments", "apps")))),
    Case(
        "matches-nothing",
        hooks(webhook(rule("pods", "apps"))),
        hooks(webhook(rule("gadgets", "example.com"))),
    ),
    Case(
        "matches-nothing",
        hooks(webhook({**rule("pods"), "apiVersions": ["v2"]})),
        hooks(webhook({**rule("pods"), "apiVersions": ["v1"]})),
    ),
    Case(
        "matches-nothing",
        hooks(webhook(rule("pods/foo"))),
        hooks(webhook(rule("pods/status", operation="UPDATE"))),
    ),
    Case(
        "matches-nothing",
        hooks(webhook(rule("pods/exec"))),
        hooks(webhook(rule("pods/exec", operation="CONNECT"))),
    ),
    Case(
        "matches-nothing",
        hooks(webhook({**rule("nodes"), "scope": "Namespaced"})),
        hooks(webhook({**rule("nodes"), "scope": "Cluster"})),
    ),
    Case(
        "matches-nothing",
        hooks(webhook({**rule(), "scope": "Cluster"})),
        hooks(webhook({**rule("namespaces"), "scope": "Cluster"})),
    ),
    Case("matches-nothing", hooks({**webhook(), "rules": []}), hooks(webhook())),
    Case(
        "matches-nothing",
        hooks(webhook(objectSelector=contradictory("In", "NotIn"))),
        hooks(webhook(objectSelector=contradictory("In", "In"))),
    ),
    Case(
        "matches-nothing",
        hooks(webhook(namespaceSelector={"matchLabels": {"a": "b"}, **contradictory("DoesNotExist")})),
        hooks(webhook(namespaceSelector={"matchLabels": {"a": "b"}, **contradictory("Exists")})),
    ),
    Case(
        "matches-nothing",
        [policy(matchConstraints={"excludeResourceRules": [rule("*", operation="*")]}), binding()],
        [policy(matchConstraints={"excludeResourceRules": [{**rule(), "resourceNames": ["a"]}]}), binding()],
    ),
    Case(
        "matches-nothing",
        [policy(), binding(matchResources={"resourceRules": [rule("pods")]})],
        [policy(), binding(matchResources={"resourceRules": [rule("services pods")]})],
    ),
    Case(
        "matches-nothing",
        [
            policy(matchConstraints={"namespaceSelector": outside("a")}),
            binding(matchResources={"namespaceSelector": inside("a")}),
        ],
        [
            policy(matchConstraints={"namespaceSelector": outside("a")}),
            binding(matchResources={"namespaceSelector": inside("a", "b")}),
        ],
    ),
    Case(
        "matches-nothing",
        hooks(webhook(matchConditions=[{"name": "no", "expression": "false && object.x"}])),
        hooks(webhook(matchConditions=[{"name": "no", "expression": "false || object.x"}])),
    ),
    Case(
        "matches-nothing",
        [policy(matchConditions=[{"name": "no", "expression": "1 > 2"}])],
        [policy(matchConditions=[{"name": "no", "expression": "object != null"}])],
    ),
    Case(
        "may-match-nothing",
        hooks(webhook(rule("widgets", "example.com"))),
        hooks(webhook(rule("deployments", "apps"))),
    ),
    Case(
        "may-match-nothing",
        hooks(webhook(rule("gadgets", "example.com"))),
        hooks(webhook(rule("widgets", "example.com"))),
        (DEFINITION,),
    ),
    Case(
        "may-match-nothing",
        hooks(webhook({**rule("podsecuritypolicies", "policy"), "apiVersions": ["v1beta1"]})),
        hooks(webhook(rule("poddisruptionbudgets", "policy"))),
    ),
    Case(
        "may-match-nothing",
        hooks(webhook(rule("networkpolicy", "networking.k8s.io"))),
        hooks(webhook(rule("networkpolicies", "networking.k8s.io"))),
    ),
    Case("without-effect", [validating()], [validating(webhook())]),
    Case("without-effect", hooks(webhook(rule("nodes"))), hooks(webhook(rule("namespaces")))),
    Case(
        "without-effect",
        [policy(failurePolicy="Ignore", **ANNOTATIONS), binding()],
        [policy(failurePolicy="Fail", **ANNOTATIONS), binding()],
    ),
    Case(
        "params-not-found",
        [policy(**PARAM_KIND), binding(paramRef={"name": "b", "parameterNotFoundAction": "Allow"})],
        [policy(**PARAM_KIND), binding(paramRef={"name": "a", "parameterNotFoundAction": "Allow"})],
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}},),
    ),
    Case(
        "params-not-found",
        [
            policy(**PARAM_KIND),
            binding(paramRef={"selector": inside("a"), "parameterNotFoundAction": "Allow"}),
        ],
        [
            policy(**PARAM_KIND),
            binding(paramRef={"selector": inside("a"), "parameterNotFoundAction": "Deny"}),
        ],
        ({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "shop"}},),
    ),
    Case(
        "pod-subresources-uncovered",
        hooks(webhook(PODS)),
        hooks(webhook(PODS, rule("pods/ephemeralcontainers pods/resize", operation="UPDATE"))),
    ),
    Case(
        "pod-subresources-uncovered",
        [policy(matchConstraints={"resourceRules": [rule("pods pods/resize", operation="*")]}), binding()],
        [policy(matchConstraints={"resourceRules": [rule("pods/*", operation="*")]}), binding()],
    ),
    Case(
        "pod-subresources-uncovered",
        changes(webhook(rule("pods", operation="UPDATE"))),
        changes(webhook(PODS)),
    ),
    Case(
        "scale-uncovered",
        [policy(validations=[{"expression": "object.spec.replicas < 9"}], **on("deployments")), binding()],
        [policy(validations=[{"expression": "object.spec.replicas < 9"}], **on("deployments/*")), binding()],
    ),
    Case(
        "enforcing-mutation-fails-open",
        changes(webhook(PODS, clientConfig=at_path("/mutate"), failurePolicy="Ignore")),
        changes(webhook(PODS, clientConfig=at_path("/mutate"))),
        front_door("--enable-admission-plugins=NodeRestriction"),
    ),
    Case(
        "enforcing-mutation-fails-open",
        changes(webhook(PODS, clientConfig=at_path("/admit"), failurePolicy="Ignore")),
        changes(webhook(PODS, clientConfig=at_path("/validate"), failurePolicy="Ignore")),
        front_door("--disable-admission-plugins", "LimitRanger"),
    ),
    *(
        Case("local-host", hooks(webhook(clientConfig={"url": url})), hooks(webhook()))
        for url in (
            "https://localhost/a",
            "https://hooks.localhost.:8443",
            "https://127.0.0.1:8443",
            "https://127.1",
            "https://2130706433/",
            "https://0.0.0.0",
            "https://[::1]:8443",
            "https://[::ffff:127.0.0.1]",
            "https://[fe80::1%25eth0]:8443",
            "https://169.254.169.254/latest",
            "https://[fd00:ec2::254]",
            "https://metadata.google.internal",
        )
    ),
    *(
        Case(
            "local-host",
            hooks(webhook(clientConfig={"url": "https://localhost"})),
            hooks(webhook(clientConfig={"url": url})),
        )
        for url in (
            "https://localhost.example.com",
            "https://10.0.0.1",
            "https://[2001:db8::1]:8443",
            "https://hooks",
        )
    ),
    Case(
        "duplicate-webhook-name",
        [validating(webhook(), webhook(), version="v1beta1")],
        [validating(webhook(), webhook(name="b.example.com"), version="v1beta1")],
    ),
    Case("unstable-version", [validating(webhook(), version="v1beta1")], [validating(webhook())]),
    Case(
        "unstable-version",
        [{**policy(), "apiVersion": "admissionregistration.k8s.io/v1alpha1"}, binding()],
        [policy(), binding()],
    ),
    Case(
        "unstable-version",
        hooks(webhook({**rule("cronjobs", "batch"), "apiVersions": ["v1beta1"]})),
        hooks(webhook({**rule("cronjobs", "batch"), "apiVersions": ["v1beta1", "v1"]})),
    ),
    *(
        Case(
            "overwrites-arrays-or-labels",
            [
                mutating_policy(f'[JSONPatch{{op: "{bad[0]}", path: "{bad[1]}", value: {{}}}}]'),
                mutating_binding(),
            ],
            [
                mutating_policy(f'[JSONPatch{{op: "{good[0]}", path: "{good[1]}", value: {{}}}}]'),
                mutating_binding(),
            ],
        )
        for bad, good in (
            (("replace", "/spec/containers"), ("add", "/spec/containers/-")),
            (("add", "/metadata/labels"), ("add", "/metadata/labels/team")),
            (("replace", "/metadata/labels/app"), ("replace", "/spec/replicas")),
            (("remove", "/spec/template/metadata/labels/app"), ("remove", "/metadata/annotations/a")),
        )
    ),
    Case(
        "depends-on-namespace",
        [
            policy(**PARAM_KIND),
            binding(paramRef={"name": "a", "namespace": "x", "parameterNotFoundAction": "Deny"}),
        ],
        [policy(**PARAM_KIND), binding(paramRef={"name": "a", "parameterNotFoundAction": "Deny"})],
    ),
    Case(
        "depends-on-namespace",
        hooks(webhook(clientConfig=service("hooks"))),
        hooks(webhook(clientConfig=service("hooks"), namespaceSelector=outside("kube-system", "hooks"))),
    ),
]


def cluster_of(case: Case) -> Cluster:
    return ObjectStore(case.cluster) if case.cluster else ANY_NAMESPACE


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_rule_finds_its_violations(case: Case, tmp_path: Path) -> None:
    assert case.rule in rules_of(write(tmp_path, case.breaks), cluster_of(case))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_rule_accepts_configurations_that_follow_it(case: Case, tmp_path: Path) -> None:
    assert case.rule not in rules_of(write(tmp_path, case.keeps), cluster_of(case))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_comment_above_a_document_switches_a_rule_off(case: Case, tmp_path: Path) -> None:
    cluster = cluster_of(case)
    before = rules_of(write(tmp_path, case.breaks), cluster)
    path = write(tmp_path, case.breaks, comment=f"# pratique: disable={case.rule}")
    assert rules_of(path, cluster) == before - {case.rule}


@pytest.mark.parametrize("case", CASES, ids=str)
def test_only_the_selected_rules_are_checked(case: Case, tmp_path: Path) -> None:
    path, cluster = write(tmp_path, case.breaks), cluster_of(case)
    assert case.rule not in rules_of(path, cluster, RULE_NAMES - {case.rule})
    assert rules_of(path, cluster, {case.rule}) == {case.rule}


def test_a_good_configuration_has_no_findings(tmp_path: Path) -> None:
    assert findings_of(write(tmp_path, [validating(webhook()), policy(), binding()])) == []


def test_rule_names_are_unique_and_in_kebab_case() -> None:
    assert len(RULE_NAMES) == len(LINT_RULES)
    assert all(name.replace("-", "").isalpha() and name.islower() for name in RULE_NAMES)


@pytest.mark.parametrize(("replicas", "found"), [(0, set()), (1, {"single-backend"}), (2, set())])
def test_a_single_replica_is_reported(replicas: int, found: set[str], tmp_path: Path) -> None:
    path = write(tmp_path, hooks(webhook(clientConfig=service("hooks"))))
    assert rules_of(path, ObjectStore(server(replicas)), {"single-backend"}) == found


def cluster_role(verb: str, group: str, resource: str) -> JSONObject:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "writer"},
        "rules": [{"verbs": [verb], "apiGroups": [group], "resources": [resource]}],
    }


def cluster_role_binding(kind: str, name: str, role: str = "writer") -> JSONObject:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "writers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role},
        "subjects": [{"kind": kind, "name": name}],
    }


ADMISSION = "admissionregistration.k8s.io"


@pytest.mark.parametrize(
    ("verb", "group", "resource"),
    [
        ("*", "*", "*"),
        ("patch", ADMISSION, "validatingadmissionpolicies"),
        ("delete", "*", "mutatingwebhookconfigurations"),
    ],
)
@pytest.mark.parametrize(
    "whom", [("Group", "system:authenticated"), ("User", "jane"), ("ServiceAccount", "ci")]
)
def test_other_writers_of_admission_configurations_are_reported(
    verb: str, group: str, resource: str, whom: tuple[str, str], tmp_path: Path
) -> None:
    cluster = ObjectStore([cluster_role(verb, group, resource), cluster_role_binding(*whom)])
    (finding,) = findings_of(write(tmp_path, hooks(webhook())), cluster, {"configurations-writable"})
    assert f'lets {whom[0]} "{whom[1]}"' in str(finding)


def test_roles_for_one_configuration_and_cluster_admin_are_reported(tmp_path: Path) -> None:
    one = cluster_role("update", ADMISSION, "validatingwebhookconfigurations")
    one["rules"][0]["resourceNames"] = ["checks"]
    path = write(tmp_path, hooks(webhook()))
    for objects in (
        [one, cluster_role_binding("User", "jane")],
        [cluster_role_binding("User", "jane", "cluster-admin")],
    ):
        assert rules_of(path, ObjectStore(objects), {"configurations-writable"})


@pytest.mark.parametrize(
    "objects",
    [
        [cluster_role("*", "*", "*")],
        [cluster_role("get", "*", "*"), cluster_role_binding("User", "jane")],
        [cluster_role("*", "apps", "*"), cluster_role_binding("User", "jane")],
        [cluster_role("*", "*", "*"), cluster_role_binding("Group", "system:masters")],
        [cluster_role_binding("Group", "system:masters", "cluster-admin")],
    ],
)
def test_administrators_and_readers_are_not_reported(objects: list[JSONObject], tmp_path: Path) -> None:
    path = write(tmp_path, hooks(webhook()))
    assert rules_of(path, ObjectStore(objects), {"configurations-writable"}) == set()


def test_every_rule_is_tested() -> None:
    by_time = {"ca-bundle-expired", "ca-bundle-expires-soon"}
    by_roles = {"configurations-writable"}
    elsewhere = ("allow-list-", "exception-", "rollout-", "serving-certificate-")
    tested_elsewhere = {rule for rule in RULE_NAMES if rule.startswith(elsewhere)}
    assert {case.rule for case in CASES} | by_time | by_roles | tested_elsewhere == RULE_NAMES
