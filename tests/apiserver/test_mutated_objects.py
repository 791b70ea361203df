"""Objects with one or two random mistakes: object validation against a real API server.

Most of what the API server says of a kind is never written down as a case; here it is asked.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Sequence
from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from pratique.cluster.store import ANY_NAMESPACE
from pratique.manifests.requests import review_of_manifest
from support.api_servers import ApiServer
from support.object_refusals import refusal

STORAGE, DEVICES = "storage.k8s.io/v1", "resource.k8s.io/v1"
FLOW, ADMISSION = "flowcontrol.apiserver.k8s.io/v1", "admissionregistration.k8s.io/v1"
RULE = {"apiGroups": ["apps"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["deployments"]}
USER = {"kind": "User", "user": {"name": "u"}}
LEVEL = {
    "nominalConcurrencyShares": 5,
    "limitResponse": {"type": "Queue", "queuing": {"queues": 64, "handSize": 6, "queueLengthLimit": 50}},
}
REQUEST = {
    "name": "a",
    "exactly": {
        "deviceClassName": "c",
        "count": 2,
        "tolerations": [{"key": "a", "operator": "Equal", "value": "b"}],
    },
}
WEBHOOK = {
    "name": "a.example.com",
    "clientConfig": {"service": {"name": "s", "namespace": "n", "path": "/p", "port": 443}},
    "rules": [RULE],
    "sideEffects": "None",
    "admissionReviewVersions": ["v1", "v1beta1"],
}


def made(api_version: str, kind: str, name: str = "mutated.example.com", **fields: Any) -> JSONObject:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}


KINDS = (
    made(STORAGE, "StorageClass", provisioner="a.b/c", parameters={"a": "b"}, mountOptions=["x"],
         allowedTopologies=[{"matchLabelExpressions": [{"key": "zone", "values": ["a", "b"]}]}]),
    made(STORAGE, "CSIDriver", spec={"attachRequired": True, "fsGroupPolicy": "File",
                                     "tokenRequests": [{"audience": "a", "expirationSeconds": 3600}]}),
    made(STORAGE, "CSINode", spec={"drivers": [{"name": "d", "nodeID": "n", "topologyKeys": ["k"],
                                                "allocatable": {"count": 3}}]}),
    made(STORAGE, "CSIStorageCapacity", storageClassName="a", capacity="1Gi",
         nodeTopology={"matchLabels": {"a": "b"}}),
    made(STORAGE, "VolumeAttachment", spec={"attacher": "a", "nodeName": "n",
                                            "source": {"persistentVolumeName": "v"}}),
    made("scheduling.k8s.io/v1", "PriorityClass", value=5, preemptionPolicy="Never"),
    made("certificates.k8s.io/v1", "CertificateSigningRequest",
         spec={"request": "eA==", "usages": ["client auth"], "signerName": "a.b/c", "expirationSeconds": 700}),
    made(DEVICES, "DeviceClass", spec={"selectors": [{"cel": {"expression": 'device.driver == "a"'}}],
                                       "config": [{"opaque": {"driver": "d", "parameters": {"a": 1}}}]}),
    made(DEVICES, "ResourceClaim", spec={"devices": {
        "requests": [REQUEST, {"name": "b", "firstAvailable": [{"name": "s", "deviceClassName": "d"}]}],
        "constraints": [{"requests": ["a", "b/s"], "matchAttribute": "d/e"}]}}),
    made(DEVICES, "DeviceTaintRule", spec={"deviceSelector": {"driver": "d", "pool": "p"},
                                           "taint": {"key": "k", "value": "v", "effect": "NoExecute"}}),
    made(FLOW, "FlowSchema", spec={"matchingPrecedence": 50, "priorityLevelConfiguration": {"name": "p"}, "rules": [
        {"subjects": [USER], "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/a/*"]}]}]}),
    made(FLOW, "PriorityLevelConfiguration", spec={"type": "Limited", "limited": LEVEL}),
    made("apiregistration.k8s.io/v1", "APIService", "v1.x.y",
         spec={"group": "x.y", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 15,
               "service": {"name": "s", "namespace": "n", "port": 443}}),
    made(ADMISSION, "ValidatingAdmissionPolicy", spec={
        "failurePolicy": "Fail", "matchConstraints": {"resourceRules": [RULE]},
        "validations": [{"expression": "object.spec.replicas < 5", "message": "m", "reason": "Invalid"}]}),
    made(ADMISSION, "ValidatingAdmissionPolicyBinding", spec={
        "policyName": "p", "validationActions": ["Deny", "Audit"],
        "paramRef": {"name": "n", "parameterNotFoundAction": "Deny"}}),
    made(ADMISSION, "MutatingWebhookConfiguration", webhooks=[WEBHOOK]),
)  # fmt: skip
WORDS = ("", "TCP", "-a", "a b", "10.0.0.1/33", "x" * 300, "1e3", "kubernetes.io/x", "Bad_Name", "a/b", "*")
NUMBERS = (-1, 0, 1, 101, 65536, 2**31 - 1)
TYPES: Sequence[Any] = (5, "x", [], {"a": 1}, True)


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every item and member below the names of the object's type, as its container and its name."""
    found: list[tuple[Any, Any]]
    if isinstance(value, dict):
        found = [(value, name) for name in value if name not in {"apiVersion", "kind", "metadata"}]
    else:
        found = [(value, index) for index in range(len(value))] if isinstance(value, list) else []
    return found + [deeper for container, at in found for deeper in places(container[at])]


def mutate(draw: random.Random, manifest: JSONObject) -> None:
    """Make one mistake."""
    container, at = draw.choice(places(manifest))
    value = container[at]
    ways: list[Any] = [None, draw.choice(TYPES)]
    if isinstance(value, str):
        ways += [draw.choice(WORDS), draw.choice(WORDS), value.upper(), value[:-1]]
    elif isinstance(value, bool):
        ways.append(not value)
    elif isinstance(value, int):
        ways += [draw.choice(NUMBERS), value - 1]
    elif isinstance(value, list):
        ways += [[], [*value, *value]]
    elif isinstance(value, dict):
        ways += [{}, {**value, "unknown": "x"}]
    container[at] = copy.deepcopy(draw.choice(ways))


def collection(manifest: JSONObject) -> str:
    review = review_of_manifest(manifest, ANY_NAMESPACE.resources, object_validation=True)
    resource = review.resource
    namespace = f"/namespaces/{review.namespace}" if review.namespace else ""
    return f"/apis/{resource.group}/{resource.version}{namespace}/{resource.resource}"


def told(code: int, status: Any) -> tuple[int, str, list[str]]:
    """A refusal without the order of its causes, which the API server finds in random order in maps."""
    causes = (status.get("details") or {}).get("causes", [])
    if code != 422:
        return code, status.get("message", ""), []
    return code, "", sorted({f"{cause.get('field', '')}: {cause['message']}" for cause in causes})


@pytest.mark.parametrize("manifest", KINDS, ids=lambda manifest: manifest["kind"])
def test_a_mutated_object_is_refused_as_a_real_api_server_refuses_it(
    api_server: ApiServer, manifest: JSONObject
) -> None:
    draw = random.Random(manifest["kind"])
    path = f"{collection(manifest)}?dryRun=All&fieldValidation=Strict"
    for _ in range(25):
        mutated = copy.deepcopy(manifest)
        for _ in range(draw.choice((1, 1, 2))):
            mutate(draw, mutated)
        reply = api_server.ask("POST", path, mutated)
        expected = told(reply.code, reply.body) if reply.code >= 400 else (201, "", [])
        status = refusal(mutated)
        assert (told(*status) if status else (201, "", [])) == expected, mutated
