"""The examples of Kubernetes' page on validating admission policies."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from pratique.apimachinery.errors import ConfigurationError
from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ObjectStore
from support.validating_policies import decide, denial_text, deployment, deployment_review, loaded

DEPLOYMENTS = (
    "[{apiGroups: [apps], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [deployments]}]"
)


def documents(text: str) -> list[JSONObject]:
    return [
        {"apiVersion": "admissionregistration.k8s.io/v1"} | item
        for item in yaml.safe_load_all(text.replace("DEPLOYMENTS", DEPLOYMENTS))
    ]


def namespace(name: str = "shop", **labels: str) -> JSONObject:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}}


REPLICAS = documents("""
kind: ValidatingAdmissionPolicy
metadata: {name: demo-policy.example.com}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: DEPLOYMENTS}
  validations: [{expression: object.spec.replicas <= 5}]
---
kind: ValidatingAdmissionPolicyBinding
metadata: {name: demo-binding-test.example.com}
spec:
  policyName: demo-policy.example.com
  validationActions: [Deny]
  matchResources: {namespaceSelector: {matchLabels: {environment: test}}}
""")


@pytest.mark.parametrize(
    ("replicas", "environment", "denied"),
    [(5, "test", False), (6, "test", True), (6, "prod", False)],
)
def test_replicas_are_limited_in_test_namespaces(replicas: int, environment: str, denied: bool) -> None:  # noqa: FBT001
    store = ObjectStore([namespace(environment=environment)])
    found = decide(*REPLICAS, review=deployment_review(deployment(replicas), cluster=store))
    if not denied:
        assert found.status is None
        return
    assert found.status is not None
    assert (found.status.code, found.status.reason) == (422, "Invalid")
    text = (
        "ValidatingAdmissionPolicy 'demo-policy.example.com' with binding 'demo-binding-test.example.com' denied "
        "request: failed expression: object.spec.replicas <= 5"
    )
    assert found.status.message == f'deployments.apps "web" is forbidden: {text}'
    assert found.status.details is not None
    assert [cause.message for cause in found.status.details.causes] == [text]


DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "replicalimits.rules.example.com"},
    "spec": {
        "group": "rules.example.com",
        "names": {"plural": "replicalimits", "kind": "ReplicaLimit"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True}],
    },
}
LIMITS = documents("""
kind: ValidatingAdmissionPolicy
metadata: {name: replicalimit-policy.example.com}
spec:
  paramKind: {apiVersion: rules.example.com/v1, kind: ReplicaLimit}
  matchConstraints: {resourceRules: DEPLOYMENTS}
  validations:
  - expression: object.spec.replicas <= params.maxReplicas
    messageExpression: "'object.spec.replicas must be no greater than ' + string(params.maxReplicas)"
    reason: Invalid
---
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicalimit-binding-test.example.com}
spec:
  policyName: replicalimit-policy.example.com
  validationActions: [Deny]
  paramRef: {name: replica-limit-test.example.com, namespace: default, parameterNotFoundAction: Deny}
  matchResources: {namespaceSelector: {matchLabels: {environment: test}}}
---
kind: ValidatingAdmissionPolicyBinding
metadata: {name: replicalimit-binding-nontest}
spec:
  policyName: replicalimit-policy.example.com
  validationActions: [Deny]
  paramRef: {name: replica-limit-prod.example.com, namespace: default, parameterNotFoundAction: Deny}
  matchResources:
    namespaceSelector: {matchExpressions: [{key: environment, operator: NotIn, values: [test]}]}
""")


def limit(name: str, maximum: int) -> JSONObject:
    return {
        "apiVersion": "rules.example.com/v1",
        "kind": "ReplicaLimit",
        "metadata": {"name": name, "namespace": "default"},
        "maxReplicas": maximum,
    }


@pytest.mark.parametrize(
    ("replicas", "environment", "message"),
    [
        (3, "test", ""),
        (4, "test", "object.spec.replicas must be no greater than 3"),
        (100, "prod", ""),
        (101, "prod", "object.spec.replicas must be no greater than 100"),
    ],
)
def test_each_binding_has_its_own_parameter(replicas: int, environment: str, message: str) -> None:
    limits = [limit("replica-limit-test.example.com", 3), limit("replica-limit-prod.example.com", 100)]
    store = ObjectStore([DEFINITION, *limits, namespace(environment=environment)])
    found = denial_text(*LIMITS, review=deployment_review(deployment(replicas), cluster=store))
    assert found.partition(" denied request: ")[2] == message


CONDITIONS = documents("""
kind: ValidatingAdmissionPolicy
metadata: {name: demo-policy.example.com}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*']}]
  matchConditions:
  - name: exclude-leases
    expression: '!(request.resource.group == "coordination.k8s.io" && request.resource.resource == "leases")'
  - {name: exclude-kubelet-requests, expression: '!("system:nodes" in request.userInfo.groups)'}
  - {name: rbac, expression: 'request.resource.group != "rbac.authorization.k8s.io"'}
  validations: [{expression: "!object.metadata.name.contains('demo') || object.metadata.namespace == 'demo'"}]
---
kind: ValidatingAdmissionPolicyBinding
metadata: {name: everywhere}
spec: {policyName: demo-policy.example.com, validationActions: [Deny]}
""")


@pytest.mark.parametrize(
    ("changes", "skipped"),
    [
        ({}, ""),
        ({"userInfo": {"groups": ["system:nodes"]}}, 'matchCondition "exclude-kubelet-requests" is false'),
        (
            {"resource": {"group": "rbac.authorization.k8s.io", "version": "v1", "resource": "roles"}},
            'matchCondition "rbac" is false',
        ),
    ],
)
def test_match_conditions_exempt_requests(changes: dict[str, Any], skipped: str) -> None:
    review = deployment_review(deployment() | {"metadata": {"name": "demo", "namespace": "shop"}}, **changes)
    user: dict[str, Any] = {"userInfo": {"groups": ["system:authenticated"]}}
    if "userInfo" not in changes:
        review = deployment_review(review.object, **user, **changes)
    found = decide(*CONDITIONS, review=review, explain=True)
    assert [decision.reason for decision in found.decisions if decision.outcome.value == "skipped"] == [
        skipped
    ] * bool(skipped)
    assert bool(found.status) is not bool(skipped)


ANNOTATED = documents("""
kind: ValidatingAdmissionPolicy
metadata: {name: demo-policy.example.com}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: DEPLOYMENTS}
  validations:
  - expression: object.spec.replicas > 50
    messageExpression: "'Deployment spec.replicas set to ' + string(object.spec.replicas)"
  auditAnnotations:
  - {key: high-replica-count, valueExpression: "'Deployment spec.replicas set to ' + string(object.spec.replicas)"}
---
kind: ValidatingAdmissionPolicyBinding
metadata: {name: demo-binding}
spec: {policyName: demo-policy.example.com, validationActions: [Warn, Audit]}
""")


def test_audit_annotations_and_failures_are_published() -> None:
    found = decide(*ANNOTATED, review=deployment_review(deployment(5)))
    assert found.status is None
    assert found.warnings == (
        (
            "Validation failed for ValidatingAdmissionPolicy 'demo-policy.example.com' with binding 'demo-binding': "
            "Deployment spec.replicas set to 5"
        ),
    )
    assert found.audit_annotations == {
        "demo-policy.example.com/high-replica-count": "Deployment spec.replicas set to 5",
        "validation.policy.admission.k8s.io/validation_failure": '[{"message":"Deployment spec.replicas set to 5",'
        '"policy":"demo-policy.example.com","binding":"demo-binding","expressionIndex":0,'
        '"validationActions":["Warn","Audit"]}]',
    }


IMAGES = documents("""
kind: ValidatingAdmissionPolicy
metadata: {name: image-matches-namespace-environment.policy.example.com}
spec:
  failurePolicy: Fail
  matchConstraints: {resourceRules: DEPLOYMENTS}
  variables:
  - name: environment
    expression: >-
      'environment' in namespaceObject.metadata.labels ? namespaceObject.metadata.labels['environment'] : 'prod'
  - {name: exempt, expression: "'exempt' in object.metadata.labels && object.metadata.labels['exempt'] == 'true'"}
  - {name: containers, expression: object.spec.template.spec.containers}
  - {name: containersToCheck, expression: "variables.containers.filter(c, c.image.contains('example.com/'))"}
  validations:
  - expression: >-
      variables.exempt || variables.containersToCheck.all(c, c.image.startsWith(variables.environment + '.'))
    messageExpression: >-
      'only ' + variables.environment + ' images are allowed in namespace ' + namespaceObject.metadata.name
---
kind: ValidatingAdmissionPolicyBinding
metadata: {name: demo-binding-test.example.com}
spec: {policyName: image-matches-namespace-environment.policy.example.com, validationActions: [Deny]}
""")


@pytest.mark.parametrize(
    ("image", "environment", "exempt", "allowed"),
    [
        ("dev.example.com/nginx", "prod", "false", False),
        ("dev.example.com/nginx", "prod", "true", True),
        ("dev.example.com/nginx", "dev", "false", True),
        ("prod.example.com/nginx", "", "false", True),
        ("dev.example.com/nginx", "", "false", False),
        ("nginx", "prod", "false", True),
    ],
)
def test_images_match_the_environment_of_the_namespace(
    image: str, environment: str, exempt: str, *, allowed: bool
) -> None:
    document = deployment(labels={"exempt": exempt})
    document["spec"]["template"] = {"spec": {"containers": [{"name": "web", "image": image}]}}
    labels = {"environment": environment} if environment else {"a": "b"}
    store = ObjectStore([namespace(**labels)])
    found = denial_text(*IMAGES, review=deployment_review(document, cluster=store))
    expected = (
        "ValidatingAdmissionPolicy 'image-matches-namespace-environment.policy.example.com' with binding "
        f"'demo-binding-test.example.com' denied request: only {environment or 'prod'} images are allowed in "
        "namespace shop"
    )
    assert found == ("" if allowed else expected)


FOO = documents("""
kind: ValidatingAdmissionPolicy
metadata: {name: foo.example.com}
spec:
  matchConstraints: {resourceRules: DEPLOYMENTS}
  variables:
  - {name: foo, expression: "'foo' in object.metadata.labels ? object.metadata.labels['foo'] : 'default'"}
  validations: [{expression: "variables.foo == 'bar'"}]
---
kind: ValidatingAdmissionPolicyBinding
metadata: {name: foo}
spec: {policyName: foo.example.com, validationActions: [Deny]}
""")


@pytest.mark.parametrize(("labels", "allowed"), [({"foo": "bar"}, True), ({"foo": "x"}, False), ({}, False)])
def test_a_variable_stands_for_an_expression(labels: dict[str, str], *, allowed: bool) -> None:
    assert (denial_text(*FOO, review=deployment_review(deployment(labels=labels))) == "") is allowed


def test_using_a_missing_field_is_an_error() -> None:
    """Type checking against schemas warns of this example; the object decides."""
    spec = FOO[0]["spec"] | {"variables": [], "validations": [{"expression": "object.replicas > 1"}]}
    changed = [FOO[0] | {"spec": spec}, FOO[1]]
    assert denial_text(*changed).endswith(
        "denied request: expression 'object.replicas > 1' resulted in error: no such key: replicas"
    )


def test_an_expression_of_the_wrong_type_fails_loading() -> None:
    changed = FOO[0] | {"spec": FOO[0]["spec"] | {"validations": [{"expression": "variables.foo"}]}}
    with pytest.raises(ConfigurationError) as refused:
        loaded(changed)
    assert "must evaluate to bool but got dyn" in str(refused.value)
