# ruff: noqa: ISC004 - messages are longer than lines
"""The validation of flow control, of groups of Pods, and of claims and slices of devices."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.object_refusals import causes

GROUPS = {
    "DeviceTaintRule": "resource.k8s.io/v1",
    "Event": "events.k8s.io/v1",
    "FlowSchema": "flowcontrol.apiserver.k8s.io/v1",
    "PodGroup": "scheduling.k8s.io/v1beta1",
    "PriorityLevelConfiguration": "flowcontrol.apiserver.k8s.io/v1",
    "ResourceClaim": "resource.k8s.io/v1",
    "ResourceClaimTemplate": "resource.k8s.io/v1",
    "ResourceSlice": "resource.k8s.io/v1",
    "StorageVersionMigration": "storagemigration.k8s.io/v1",
    "Workload": "scheduling.k8s.io/v1beta1",
}


def made(kind: str, spec: Any = None, name: str = "a", **fields: Any) -> JSONObject:
    written = {"apiVersion": GROUPS[kind], "kind": kind, "metadata": {"name": name}, **fields}
    return written if spec is None else {**written, "spec": spec}


def schema(**changes: Any) -> JSONObject:
    spec = {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 5, **changes}
    return made("FlowSchema", spec)


def level(**limited: Any) -> JSONObject:
    return made("PriorityLevelConfiguration", {"type": "Limited", "limited": limited})


def claim(*requests: Any, **devices: Any) -> JSONObject:
    return made("ResourceClaim", {"devices": {"requests": list(requests), **devices}})


def slice_of(*devices: Any, **changes: Any) -> JSONObject:
    pool = {"name": "p", "resourceSliceCount": 1}
    spec = {"driver": "d.e", "pool": pool, "allNodes": True, "devices": list(devices), **changes}
    return made("ResourceSlice", spec)


def shared(value: str, **policy: Any) -> JSONObject:
    capacity = {"m": {"value": value, "requestPolicy": policy}}
    return slice_of({"name": "a", "allowMultipleAllocations": True, "capacity": capacity})


EXACTLY = {"name": "r", "exactly": {"deviceClassName": "c"}}
REFERENCE = (
    "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
)
CAPACITY = "spec.devices[0].capacity[m].requestPolicy"


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(schema(), [], id="a FlowSchema without rules"),
        pytest.param(
            schema(matchingPrecedence=1, rules=[
                {"subjects": [{"kind": "User", "group": {"name": "g"}}, {"kind": "x"}],
                 "nonResourceRules": [{"verbs": ["*", "get"], "nonResourceURLs": ["a", "/a/*/b"]}]},
                {"subjects": [{"kind": "ServiceAccount", "serviceAccount": {"name": "*"}}],
                 "resourceRules": [{"verbs": ["x"], "apiGroups": ["*", "a"], "resources": []}]}]),
            [
                "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence "
                "1",
                "spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'",
                "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
                'spec.rules[0].subjects[1].kind: Unsupported value: "x": supported values: "Group", "ServiceAccount", '
                '"User"',
                'spec.rules[0].nonResourceRules[0].verbs: Invalid value: ["*","get"]: if \'*\' is present, must not '
                "specify other verbs",
                'spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "a": must start with slash',
                'spec.rules[0].nonResourceRules[0].nonResourceURLs[1]: Invalid value: "/a/*/b": wildcard can only do '
                "suffix matching",
                "spec.rules[1].subjects[0].serviceAccount.namespace: Required value: must specify namespace for "
                "service account",
                'spec.rules[1].resourceRules[0].verbs: Unsupported value: ["x"]: supported values: "create", "delete", '
                '"deletecollection", "get", "list", "patch", "proxy", "update", "watch"',
                'spec.rules[1].resourceRules[0].apiGroups: Invalid value: ["*","a"]: if \'*\' is present, must not '
                "specify other api groups",
                "spec.rules[1].resourceRules[0].resources: Required value: resource rules must supply at least one "
                "resource",
                "spec.rules[1].resourceRules[0].namespaces: Required value: resource rules that are not cluster "
                "scoped must supply at least one namespace",
            ],
            id="a FlowSchema with mistakes",
        ),
        pytest.param(
            made("FlowSchema", {"priorityLevelConfiguration": {"name": "p"}, "matchingPrecedence": 2}, "catch-all"),
            ['spec: Invalid value: {"PriorityLevelConfiguration":{"Name":"p"},"MatchingPrecedence":2,'
             '"DistinguisherMethod":null,"Rules":null}: spec of \'catch-all\' must equal the fixed value'],
            id="a FlowSchema that has to be as it is",
        ),
        pytest.param(
            level(limitResponse={"type": "Queue", "queuing": {"queues": 64, "handSize": 20, "queueLengthLimit": -1}},
                  lendablePercent=101),
            [
                "spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive",
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 20: required entropy bits of deckSize 64 "
                "and handSize 20 should not be greater than 60",
                "spec.limited.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive",
            ],
            id="queues that cannot be shuffled",
        ),
        pytest.param(
            made("PriorityLevelConfiguration", {"type": "Limited"}),
            ["spec.limited: Required value"],
            id="the error of a tag stands in the place of the handwritten one",
        ),
        pytest.param(
            made("Workload", {"podGroupTemplates": [
                {"name": "a", "schedulingPolicy": {"basic": {}}, "priorityClassName": "x"},
                {"name": "b", "schedulingPolicy": {"basic": {}}}]}),
            ["spec: Invalid value: null: detected multiple priority configurations"],
            id="templates with different priorities",
        ),
        pytest.param(claim(EXACTLY), [], id="a claim"),
        pytest.param(
            claim({"name": "A"}, {**EXACTLY, "firstAvailable": [{"name": "s", "deviceClassName": "c"}]},
                  constraints=[{"requests": ["r/s", "x", "a/b/c"]}], config=[{}]),
            [
                'spec.devices.requests[0].name: Invalid value: "A": a lowercase RFC 1123 label must consist of lower '
                "case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. "
                "'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')",
                "spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required",
                "spec.devices.requests[1]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is "
                "required, but multiple fields are set",
                f'spec.devices.constraints[0].requests[1]: Invalid value: "x": {REFERENCE}',
                f'spec.devices.constraints[0].requests[2]: Invalid value: "a/b/c": {REFERENCE}',
                'spec.devices.constraints[0]: Required value: exactly one of "matchAttribute" or "distinctAttribute" '
                "is required, but multiple fields are set",
                "spec.devices.config[0].opaque: Required value",
            ],
            id="a claim with mistakes",
        ),
        pytest.param(
            claim(EXACTLY, EXACTLY),
            ['spec.devices.requests[1]: Duplicate value: {"name":"r","exactly":{"deviceClassName":"c","allocationMode":'
             '"ExactCount","count":1}}'],
            id="an item that prints as Go writes its type",
        ),
        pytest.param(
            claim({"name": "r", "exactly": {"deviceClassName": "", "allocationMode": "All", "count": 2,
                                            "tolerations": [{"operator": "Exists", "value": "x", "effect": "y"}]}}),
            [
                "spec.devices.requests[0].exactly.deviceClassName: Required value",
                "spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode "
                "is 'All'",
                'spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: "x": must be empty for operator '
                "`Exists`",
                'spec.devices.requests[0].exactly.tolerations[0].effect: Unsupported value: "y": supported values: '
                '"NoExecute", "NoSchedule", "None"',
            ],
            id="a request with mistakes",
        ),
        pytest.param(
            claim({"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": True}}),
            ["spec.devices.requests[0].adminAccess: Forbidden: admin access to devices requires the "
             "`resource.kubernetes.io/admin-access: true` label on the containing namespace"],
            id="admin access needs a label of the namespace",
        ),
        pytest.param(
            made("ResourceClaimTemplate",
                 {"metadata": {"name": "x"}, "spec": {"devices": {"requests": [{"name": "r"}]}}}),
            [
                "spec.metadata.name: Forbidden: cannot be set",
                "spec.spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is "
                "required",
            ],
            id="a template of claims",
        ),
        pytest.param(
            slice_of({"name": "a", "attributes": {"b": {"version": "1"}, "c": {"bool": True, "int": 1}}},
                     {"name": "a", "capacity": {"m": {"value": "1", "requestPolicy": {}}}}),
            [
                'spec.devices[0].attributes[b].version: Invalid value: "1": must be a string compatible with '
                "semver.org spec 2.0.0",
                "spec.devices[1].capacity[m].requestPolicy: Forbidden: allowMultipleAllocations must be true",
                'spec.devices[1]: Duplicate value: "a"',
                'spec.devices[0].attributes[c]: Invalid value: "{int, bool}": must specify exactly one of: `int`, '
                "`bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`",
            ],
            id="a slice with mistakes",
        ),
        pytest.param(
            slice_of(nodeName="n", pool={"name": "p"}),
            [
                "spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero",
                'spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, '
                "`allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set",
            ],
            id="a slice of one node and of all",
        ),
        pytest.param(shared("4", default="1", validRange={"min": "1", "max": "3", "step": "1"}), [], id="a range"),
        pytest.param(
            shared("4", default="2", validRange={"min": "1", "max": "5", "step": "3"}),
            [
                f'{CAPACITY}.validRange.max: Invalid value: "5": max is larger than capacity value: 4',
                f'{CAPACITY}.validRange.step: Invalid value: "2": value is not a multiple of a given step (3) from (1)',
                f'{CAPACITY}.validRange.step: Invalid value: "5": value is not a multiple of a given step (3) from (1)',
            ],
            id="a range with a step that does not fit",
        ),
        pytest.param(
            shared("4", default="3", validValues=["2", "1", "1"]),
            [
                f'{CAPACITY}.validValues[1]: Invalid value: "1": values must be sorted in ascending order',
                f'{CAPACITY}.validValues[2]: Duplicate value: "1"',
                f'{CAPACITY}.validValues: Invalid value: "3": default value is not valid according to the '
                "requestPolicy",
            ],
            id="values that a request may have",
        ),
        pytest.param(
            slice_of(driver="D.e"),
            ['warning: spec.driver: driver names should be lowercase; "D.e" contains uppercase characters'],
            id="a driver with capitals",
        ),
        pytest.param(
            made("DeviceTaintRule", {"deviceSelector": {"pool": ""}, "taint": {"key": "k", "effect": "x"}}),
            [
                "spec.deviceSelector.pool: Required value",
                'spec.taint.effect: Unsupported value: "x": supported values: "NoExecute", "NoSchedule", "None"',
            ],
            id="a taint with an unknown effect",
        ),
        pytest.param(
            made("Event", regarding={"namespace": "b"}, type="x"),
            [
                'involvedObject.namespace: Invalid value: "b": does not match event.namespace',
                "eventTime: Required value",
                'type: Invalid value: "": has invalid value: x',
            ],
            id="an Event with mistakes",
        ),
        pytest.param(
            made("Event", eventTime="2026-01-01T00:00:00.000000Z", type="Normal", deprecatedCount=1,
                 reportingController="a.b/c", reportingInstance="i", action="a", reason="r"),
            ['count: Invalid value: "": needs to be unset'],
            id="a new Event with an old field",
        ),
        pytest.param(
            made("StorageVersionMigration", {"resource": {"group": "A", "resource": ""}}),
            [
                "spec.resource.resource: Required value: resource is required to be set",
                'spec.resource.group: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case '
                "alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. "
                "'example.com', regex used for validation is "
                r"'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ],
            id="a migration of nothing",
        ),
    ],
)  # fmt: skip
def test_a_new_object_is_refused_for_every_cause(manifest: JSONObject, expected: list[str]) -> None:
    assert causes(manifest) == expected


def test_the_spec_of_a_claim_may_not_change() -> None:
    changed, stored = claim({"name": "r", "exactly": {"deviceClassName": "d"}}), claim(EXACTLY)
    stored["metadata"]["namespace"] = "default"
    assert causes(changed, stored) == ["spec: Invalid value: null: field is immutable"]


def test_capacity_that_stays_is_not_validated_again() -> None:
    stored = shared("4", default="9", validValues=["1"])
    changed = {**stored, "metadata": {**stored["metadata"], "labels": {"a": "b"}}}
    assert causes(changed, stored) == []
    assert causes(changed)
