"""The examples of Kubernetes' page on mutating admission policies."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from pratique.admission.results import OutcomeStatus
from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from support.admissions import pod_review
from support.mutating_policies import failure_messages, mutate, mutating, patched
from support.pods import container, pod
from support.validating_policies import deployment, deployment_review

SIDECARS: JSONObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "sidecars.mutations.example.com"},
    "spec": {
        "group": "mutations.example.com",
        "names": {"kind": "Sidecar", "plural": "sidecars"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {}}],
    },
}
POLICY = """
apiVersion: admissionregistration.k8s.io/VERSION
kind: MutatingAdmissionPolicy
metadata: {name: sidecar-policy.example.com}
spec:
  paramKind: {kind: Sidecar, apiVersion: mutations.example.com/v1}
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE], resources: [pods]}]
  matchConditions:
  - name: does-not-already-have-sidecar
    expression: '!object.spec.initContainers.exists(ic, ic.name == "mesh-proxy")'
  failurePolicy: Fail
  reinvocationPolicy: IfNeeded
  mutations: [MUTATION]
"""
BINDING: JSONObject = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "MutatingAdmissionPolicyBinding",
    "metadata": {"name": "sidecar-policy.example.com"},
    "spec": {"matchResources": {"namespaceSelector": {}}, "policyName": "sidecar-policy.example.com"},
}
CONFIGURATION = """
  patchType: ApplyConfiguration
  applyConfiguration:
    expression: >
      Object{
        spec: Object.spec{
          initContainers: [
            Object.spec.initContainers{
              name: "mesh-proxy",
              image: "mesh/proxy:v1.0.0",
              restartPolicy: "Always"
            }
          ]
        }
      }
"""
JSON_PATCH = """
  patchType: JSONPatch
  jsonPatch:
    expression: >
      [
        JSONPatch{
          op: "add", path: "/spec/initContainers/-",
          value: Object.spec.initContainers{
            name: "mesh-proxy",
            image: "mesh-proxy/v1.0.0",
            restartPolicy: "Always"
          }
        }
      ]
"""
BY_CONFIGURATION = {"name": "mesh-proxy", "image": "mesh/proxy:v1.0.0", "restartPolicy": "Always"}
BY_PATCH = {"name": "mesh-proxy", "image": "mesh-proxy/v1.0.0", "restartPolicy": "Always"}
OWN = {"name": "myapp-initializer", "image": "example/initializer:v1.0.0"}


def sidecar_policy(mutation: str, version: str = "v1") -> JSONObject:
    document: JSONObject = yaml.safe_load(POLICY.replace("VERSION", version).replace("[MUTATION]", "[]"))
    document["spec"]["mutations"] = [yaml.safe_load(mutation)]
    return document


def pod_with_init_containers(*init_containers: JSON) -> JSONObject:
    return pod(container("myapp", "example/myapp:v1.0.0"), initContainers=list(init_containers))


def review_of_pod(*init_containers: JSON) -> Review:
    request: dict[str, Any] = {
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
    }
    store = ObjectStore([SIDECARS], assume_namespaces=True)
    return deployment_review(pod_with_init_containers(*init_containers), cluster=store, **request)


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
@pytest.mark.parametrize(("mutation", "sidecar"), [(CONFIGURATION, BY_CONFIGURATION), (JSON_PATCH, BY_PATCH)])
def test_a_pod_gets_a_sidecar(mutation: str, sidecar: JSONObject, version: str) -> None:
    found = mutate(sidecar_policy(mutation, version), BINDING, review=review_of_pod(OWN))
    assert found.document.data == pod_with_init_containers(OWN, sidecar)
    assert found.decisions[0].reinvocable


def test_an_atomic_list_is_never_merged() -> None:
    # An earlier edition of the page set arguments in its sidecar, which an API server refuses, too.
    mutation = CONFIGURATION.replace('restartPolicy: "Always"', 'args: ["proxy", "sidecar"]')
    assert failure_messages(mutate(sidecar_policy(mutation), BINDING, review=review_of_pod(OWN))) == [
        (
            "policy 'sidecar-policy.example.com' with binding 'sidecar-policy.example.com' denied request: error "
            "applying patch: invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: "
            ".spec.initContainers[0].args"
        )
    ]


def test_a_pod_that_has_the_sidecar_stays_unchanged() -> None:
    review = review_of_pod(BY_CONFIGURATION)
    found = mutate(sidecar_policy(CONFIGURATION), BINDING, review=review, explain=True)
    (decision,) = found.decisions
    assert decision.outcome is OutcomeStatus.SKIPPED
    assert decision.reason == 'matchCondition "does-not-already-have-sidecar" is false'
    assert found.document is review.object_document


def test_a_param_kind_that_does_not_exist_denies_the_pod() -> None:
    found = mutate(sidecar_policy(CONFIGURATION), BINDING, review=pod_review(pod_with_init_containers(OWN)))
    assert failure_messages(found) == [
        (
            'policy "sidecar-policy.example.com" denied request: failed to configure policy: failed to find resource '
            "referenced by paramKind: 'mutations.example.com/v1, Kind=Sidecar'"
        )
    ]


@pytest.mark.parametrize(
    ("expression", "before", "after"),
    [
        (
            (
                '[JSONPatch{op: "test", path: "/spec/replicas", value: 3},'
                ' JSONPatch{op: "replace", path: "/spec/replicas", value: 4}]'
            ),
            deployment(3),
            deployment(4),
        ),
        (
            (
                '[JSONPatch{op: "test", path: "/spec/replicas", value: 3},'
                ' JSONPatch{op: "replace", path: "/spec/replicas", value: 4}]'
            ),
            deployment(5),
            deployment(5),
        ),
        (
            (
                '[JSONPatch{op: "add", path: "/spec/selector",'
                ' value: Object.spec.selector{matchLabels: {"environment": "test"}}}]'
            ),
            deployment(),
            deployment() | {"spec": {"replicas": 3, "selector": {"matchLabels": {"environment": "test"}}}},
        ),
        (
            (
                '[JSONPatch{op: "add", path: "/metadata/labels/" + jsonpatch.escapeKey("example.com/environment"),'
                ' value: "test"}]'
            ),
            deployment(labels={}),
            deployment(labels={"example.com/environment": "test"}),
        ),
    ],
)
def test_json_patches_may_test_construct_objects_and_escape_keys(
    expression: str, before: JSONObject, after: JSONObject
) -> None:
    documents = [mutating(patched(expression), name="sidecar-policy.example.com"), BINDING]
    assert mutate(*documents, review=deployment_review(before)).document.data == after
