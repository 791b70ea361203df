"""What requests to subresources may change, and what of them is refused, in the words of a real kube-apiserver."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import Document, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import ObjectStore
from pratique.manifests.requests import review_of_manifest
from pratique_frontdoor.chain.decisions import Decision
from support.chains import decide
from support.manifest_decisions import decide_manifest

TIME = "2026-01-01T00:00:00Z"
CONTAINER: JSONObject = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "100m"}}}
TEMPLATE: JSONObject = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [CONTAINER]}}
WORKLOAD: JSONObject = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": TEMPLATE}
JOB_POD: JSONObject = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
NAMED: JSONObject = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "a", "namespace": "shop"},
}
STORED: dict[str, JSONObject] = {
    "Deployment": {**NAMED, "spec": WORKLOAD, "status": {"collisionCount": 2}},
    "StatefulSet": {**NAMED, "kind": "StatefulSet", "spec": {**WORKLOAD, "serviceName": "s"}},
    "DaemonSet": {
        **NAMED,
        "kind": "DaemonSet",
        "spec": {"selector": WORKLOAD["selector"], "template": TEMPLATE},
    },
    "Job": {
        **NAMED,
        "apiVersion": "batch/v1",
        "kind": "Job",
        "spec": {"template": JOB_POD, "completions": 3, "completionMode": "Indexed"},
        "status": {"failed": 1, "startTime": TIME},
    },
    "Pod": {
        **NAMED,
        "apiVersion": "v1",
        "kind": "Pod",
        "spec": {"restartPolicy": "Never", "containers": [CONTAINER]},
        "status": {
            "qosClass": "Burstable",
            "containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 0}}}],
        },
    },
    "Service": {**NAMED, "apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}},
    "Namespace": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}},
    "PodDisruptionBudget": {
        **NAMED,
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "spec": {"maxUnavailable": 1},
    },
    "ResourceQuota": {
        **NAMED,
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "spec": {"hard": {"pods": "1"}},
    },
}


def message(decision: Decision) -> str:
    """The errors of an object that is invalid."""
    assert decision.status is not None
    return decision.status.message.partition("is invalid: ")[2] or decision.status.message


def stored(decision: Decision) -> Any:
    """What an admitted request stores."""
    assert decision.allowed, decision.status
    return decision.object_document.data


def with_status(kind: str, status: Any) -> Decision:
    return decide_manifest({**STORED[kind], "status": status}, old=STORED[kind], subresource="status")


def test_a_status_is_all_that_a_request_to_it_changes() -> None:
    written = {**copy.deepcopy(STORED["Deployment"]), "status": {"replicas": 1, "collisionCount": 2}}
    written["spec"]["replicas"] = 7
    written["metadata"]["labels"] = {"of": "deployments"}
    written["metadata"]["annotations"] = {"are": "kept"}
    made = stored(decide_manifest(written, old=STORED["Deployment"], subresource="status"))
    assert made["spec"]["replicas"] == 2
    assert made["status"] == {"replicas": 1, "collisionCount": 2}
    assert made["metadata"] == {"name": "a", "namespace": "shop", "annotations": {"are": "kept"}}


@pytest.mark.parametrize(
    ("kind", "status", "errors"),
    [
        (
            "Deployment",
            {"replicas": 1, "readyReplicas": 2, "collisionCount": 2},
            "status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas",
        ),
        ("Deployment", {}, "status.collisionCount: Invalid value: 0: cannot be decremented"),
        (
            "StatefulSet",
            {"replicas": 2, "availableReplicas": 1},
            "status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas",
        ),
        (
            "DaemonSet",
            {"numberReady": -1},
            "status.numberReady: Invalid value: -1: must be greater than or equal to 0",
        ),
        ("Job", {"startTime": TIME}, "status.failed: Invalid value: 0: cannot decrease the failed counter"),
        (
            "Job",
            {"failed": 1, "startTime": TIME, "completedIndexes": "0,2,1"},
            (
                'status.completedIndexes: Invalid value: "0,2,1": error parsing completedIndexes: non-increasing order,'
                " previous: 2, current: 1"
            ),
        ),
        (
            "Job",
            {"failed": 1, "startTime": TIME, "completionTime": TIME},
            (
                'status.completionTime: Invalid value: "2026-01-01T00:00:00Z": cannot set completionTime when there is'
                " no Complete=True condition"
            ),
        ),
        (
            "Pod",
            {"qosClass": "Burstable", "containerStatuses": [{"name": "c", "state": {"running": {}}}]},
            "status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state",
        ),
        (
            "Pod",
            {"qosClass": "BestEffort", "containerStatuses": []},
            'status.qosClass: Invalid value: "BestEffort": field is immutable',
        ),
        (
            "Service",
            {"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}},
            "status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'",
        ),
        (
            "Namespace",
            {"phase": "Terminating"},
            "status.Phase: Invalid value: \"Terminating\": may only be 'Active' if `deletionTimestamp` is empty",
        ),
        (
            "PodDisruptionBudget",
            {"conditions": [{"type": "A", "status": "Maybe", "reason": "R", "lastTransitionTime": TIME}]},
            'status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown"',
        ),
        (
            "ResourceQuota",
            {"used": {"cups": "1"}},
            (
                '[status.used[cups]: Invalid value: "cups": must be a standard resource type or fully qualified,'
                ' status.used[cups]: Invalid value: "cups": must be a standard resource for quota]'
            ),
        ),
    ],
)
def test_a_status_is_held_against_the_rules_of_its_kind(kind: str, status: Any, errors: str) -> None:
    assert message(with_status(kind, status)) == errors


def test_an_index_of_thousands_of_digits_is_read_as_the_number_that_it_is() -> None:
    status = {"failed": 1, "startTime": TIME, "completedIndexes": "0" * 5000 + "7"}
    assert "error parsing completedIndexes: too large index" in message(with_status("Job", status))


def test_a_status_that_breaks_a_rule_already_can_change_elsewhere() -> None:
    finished = {"failed": 1, "active": 1, "conditions": [{"type": "Failed", "status": "True"}]}
    old = {**STORED["Job"], "status": finished}
    written = {**old, "status": {**finished, "failed": 2}}
    assert decide_manifest(written, old=old, subresource="status").allowed


# Scales


def test_a_scale_changes_replicas_alone() -> None:
    scale = stored(
        decide_manifest(
            {**STORED["Deployment"], "spec": {**WORKLOAD, "replicas": 5}},
            old=STORED["Deployment"],
            subresource="scale",
        )
    )
    assert (scale["spec"], scale["status"]) == ({"replicas": 5}, {"replicas": 0, "selector": "a=b"})


def test_a_scale_has_no_negative_replicas() -> None:
    written = {**STORED["Deployment"], "spec": {**WORKLOAD, "replicas": -1}}
    decision = decide_manifest(written, old=STORED["Deployment"], subresource="scale")
    assert decision.status is not None
    assert decision.status.message == (
        'Scale.autoscaling "a" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    )


# Pods


def resized(**changed: Any) -> Decision:
    containers = [{**CONTAINER, **changed}]
    written = {**STORED["Pod"], "spec": {**STORED["Pod"]["spec"], "containers": containers}}
    return decide_manifest(written, old=STORED["Pod"], subresource="resize")


def test_a_resize_changes_resources_alone() -> None:
    made = stored(resized(image="other", resources={"requests": {"cpu": "200m"}}))
    (container,) = made["spec"]["containers"]
    assert (container["image"], container["resources"]) == ("x", {"requests": {"cpu": "200m"}})


@pytest.mark.parametrize(
    ("changed", "errors"),
    [
        (
            {"resources": {}},
            (
                '[spec: Invalid value: "Burstable": Pod QOS Class may not change as a result of resizing,'
                " spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed]"
            ),
        ),
        (
            {"resources": {"requests": {"cpu": "100m", "ephemeral-storage": "1Gi"}}},
            "spec: Forbidden: only cpu and memory resources are mutable",
        ),
        (
            {"name": "d"},
            "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize",
        ),
    ],
)
def test_a_resize_changes_amounts_of_processor_and_memory_alone(changed: Any, errors: str) -> None:
    assert message(resized(**changed)) == errors


def test_ephemeral_containers_are_only_added() -> None:
    debugging = [{"name": "d", "image": "x"}]
    pod = {**STORED["Pod"], "spec": {**STORED["Pod"]["spec"], "ephemeralContainers": debugging}}
    made = stored(decide_manifest(pod, old=STORED["Pod"], subresource="ephemeralcontainers"))
    assert [container["name"] for container in made["spec"]["ephemeralContainers"]] == ["d"]
    refused = decide_manifest(STORED["Pod"], old=made, subresource="ephemeralcontainers")
    assert message(refused) == (
        'spec.ephemeralContainers: Forbidden: existing ephemeral containers "d" may not be removed\n'
    )


# Objects that are created, and never stored


def named(kind: str, api_version: str = "v1", **members: Any) -> JSONObject:
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {"name": "a", "namespace": "shop"},
        **members,
    }


@pytest.mark.parametrize(
    ("written", "subresource", "code", "text"),
    [
        (
            named("Binding", target={"kind": "Pod"}),
            "binding",
            500,
            '[target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>", target.name: Required value]',
        ),
        (
            named("Eviction", "policy/v1", deleteOptions={"dryRun": ["All"]}, spec=1),
            "eviction",
            400,
            'Eviction in version "v1" cannot be handled as a Eviction: strict decoding error: unknown field "spec"',
        ),
        (
            named("TokenRequest", "authentication.k8s.io/v1", spec={"audiences": [], "expirationSeconds": 1}),
            "token",
            422,
            (
                'TokenRequest.authentication.k8s.io "" is invalid: spec.expirationSeconds: Invalid value: 1: may not'
                " specify a duration less than 10 minutes"
            ),
        ),
    ],
)
def test_what_is_created_in_a_subresource_is_checked(
    written: JSONObject, subresource: str, code: int, text: str
) -> None:
    decision = decide_manifest(written, subresource=subresource)
    assert decision.status is not None
    assert (decision.status.code, decision.status.message) == (code, text)


WEBHOOK = {
    "apiVersion": "admissionregistration.k8s.io/v1",
    "kind": "ValidatingWebhookConfiguration",
    "name": "w",
}
ATTESTATIONS = "spec.attestations[admissionReviewAPIGroups]"


def token_refusal(spec: JSONObject, cluster: ObjectStore | None = None) -> str:
    """Why a token for the ServiceAccount ``a`` is refused; empty if it is not."""
    spec = {"audiences": ["x"], "expirationSeconds": 3600, **spec}
    review = review_of_manifest(
        named("TokenRequest", "authentication.k8s.io/v1", spec=spec),
        ObjectStore().resources,
        subresource="token",
        cluster=cluster or ObjectStore(assume_namespaces=True),
        object_validation=True,
    )
    status = decide(review).status
    return (
        ""
        if status is None
        else status.message.removeprefix('TokenRequest.authentication.k8s.io "" is invalid: ')
    )


@pytest.mark.parametrize(
    ("attestations", "error"),
    [
        ({"admissionReviewAPIGroups": ["*"]}, (
            "cannot bind token to object of type admissionregistration.k8s.io/v1, Kind=ValidatingWebhookConfiguration"
            " (feature gate APIServerWebhookAuthenticationToken is disabled)"
        )),
        ({}, (
            "spec.attestations: Invalid value: {}: webhook bound requests require exactly one admissionReviewAPIGroups"
            " attestation"
        )),
        ({"x": ["*"]}, 'spec.attestations[x]: Unsupported value: "x": supported values: "admissionReviewAPIGroups"'),
        ({"admissionReviewAPIGroups": []}, f"{ATTESTATIONS}: Invalid value: []: must specify a single value"),
        ({"admissionReviewAPIGroups": [""]}, f'{ATTESTATIONS}[0]: Invalid value: "": may not be an empty string'),
    ],
)  # fmt: skip
def test_a_token_for_a_webhook_is_for_one_group(attestations: JSONObject, error: str) -> None:
    assert token_refusal({"boundObjectRef": WEBHOOK, "attestations": attestations}) == error


def test_a_token_is_bound_to_its_own_pods_nodes_and_secrets() -> None:
    store = ObjectStore(assume_namespaces=True)
    store.put(named("Pod", spec={"serviceAccountName": "b"}))
    store.put(named("Secret", metadata={"name": "a", "namespace": "shop", "uid": "1"}))

    def refusal(**reference: str) -> str:
        return token_refusal({"boundObjectRef": {"apiVersion": "v1", "name": "a", **reference}}, store)

    assert refusal(kind="ConfigMap") == "cannot bind token to object of type /v1, Kind=ConfigMap"
    assert refusal(kind="Pod") == (
        'cannot bind token for serviceaccount "a" to pod running with different serviceaccount name.'
    )
    assert refusal(kind="Secret", uid="1") == ""
    assert refusal(kind="Secret", uid="2") == (
        'Operation cannot be fulfilled on Secret "a": the UID in the bound object reference (2) does not match the UID'
        " in record. The object might have been deleted and then recreated"
    )
    assert refusal(kind="Node") == ""


def test_an_eviction_of_a_pod_is_no_other_pods() -> None:
    pod = review_of_manifest(
        named("Pod"), ObjectStore().resources, subresource="eviction", object_validation=True
    )
    decision = decide(msgspec.structs.replace(pod, name="other"))
    assert decision.status is not None
    assert decision.status.message == "name in URL does not match name in Eviction object"


# Custom resources

FLEETS: JSONObject = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "fleets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "fleets", "singular": "fleet", "kind": "Fleet", "listKind": "FleetList"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {
                    "status": {},
                    "scale": {"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"},
                },
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {
                            "spec": {
                                "type": "object",
                                "properties": {"size": {"type": "integer", "maximum": 5}},
                            },
                            "status": {
                                "type": "object",
                                "required": ["phase"],
                                "properties": {"phase": {"type": "string"}, "size": {"type": "integer"}},
                                "x-kubernetes-validations": [
                                    {"rule": "self.size >= oldSelf.size", "message": "fleets grow"}
                                ],
                            },
                        },
                    }
                },
            }
        ],
    },
}
FLEET = named("Fleet", "example.com/v1", spec={"size": 2}, status={"phase": "A", "size": 2})


def fleet_status(status: JSONObject) -> Decision:
    written = {**FLEET, "spec": {"size": 9}, "status": status}
    return decide_manifest(written, old=FLEET, definitions=[FLEETS], subresource="status")


def test_the_status_of_a_custom_resource_is_all_that_changes() -> None:
    made = stored(fleet_status({"phase": "B", "size": 3}))
    assert (made["spec"], made["status"]) == ({"size": 2}, {"phase": "B", "size": 3})


@pytest.mark.parametrize(
    ("status", "errors"),
    [
        ({"phase": "B", "size": 1}, "status: Invalid value: fleets grow"),
        ({"phase": "B", "size": -3}, ".status.size: Invalid value: -3: should be a non-negative integer"),
        (
            {"phase": 1, "size": 3},
            'status.phase: Invalid value: "integer": phase in body must be of type string',
        ),
        ({"size": 3}, "status.phase: Required value"),
    ],
)
def test_the_status_of_a_custom_resource_has_its_schema_and_rules(status: JSONObject, errors: str) -> None:
    assert errors in message(fleet_status(status))


def fleet_scale(replicas: int) -> Decision:
    """A Scale of a fleet that the cluster has."""
    store = ObjectStore(assume_namespaces=True)
    store.put(FLEETS)
    store.put(FLEET)
    review: Review = review_of_manifest(
        FLEET,
        store.resources,
        operation=Operation.UPDATE,
        subresource="status",
        cluster=store,
        object_validation=True,
    )
    scale = named("Scale", "autoscaling/v1", spec={"replicas": replicas})
    old = named("Scale", "autoscaling/v1", spec={"replicas": 2}, status={"replicas": 2})
    return decide(
        msgspec.structs.replace(
            review,
            kind=GroupVersionKind("autoscaling", "v1", "Scale"),
            subresource="scale",
            object_document=Document.from_data(scale),
            old_object_document=Document.from_data(old),
        )
    )


def test_a_scale_of_a_custom_resource_is_an_update_of_it() -> None:
    assert stored(fleet_scale(5))["spec"] == {"replicas": 5}
    assert message(fleet_scale(6)) == (
        "spec.size: Invalid value: 6: spec.size in body should be less than or equal to 5"
    )
    assert ".spec.size: Invalid value: -1: should be a non-negative integer" in message(fleet_scale(-1))
