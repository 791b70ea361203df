# ruff: noqa: ISC004 - messages are longer than lines
"""The validation of classes, drivers, requests and services that clusters are set up with."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.object_refusals import causes

GROUPS = {
    "APIService": "apiregistration.k8s.io/v1",
    "CSIDriver": "storage.k8s.io/v1",
    "CSINode": "storage.k8s.io/v1",
    "CSIStorageCapacity": "storage.k8s.io/v1",
    "CertificateSigningRequest": "certificates.k8s.io/v1",
    "ClusterTrustBundle": "certificates.k8s.io/v1",
    "DeviceClass": "resource.k8s.io/v1",
    "IPAddress": "networking.k8s.io/v1",
    "Node": "v1",
    "PriorityClass": "scheduling.k8s.io/v1",
    "RuntimeClass": "node.k8s.io/v1",
    "ServiceCIDR": "networking.k8s.io/v1",
    "StorageClass": "storage.k8s.io/v1",
    "ValidatingAdmissionPolicyBinding": "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
    "VolumeAttachment": "storage.k8s.io/v1",
    "VolumeAttributesClass": "storage.k8s.io/v1",
}


def made(kind: str, name: str = "a.example.com", **fields: Any) -> JSONObject:
    return {"apiVersion": GROUPS[kind], "kind": kind, "metadata": {"name": name}, **fields}


EMPTY_TERM: list[JSONObject] = [{}]
SIGNED = {"signerName": "a.b/c", "usages": ["any"]}
PEM_BLOCK = "spec.request: Invalid value: null: PEM block type must be CERTIFICATE REQUEST"
LABEL = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(made("StorageClass", provisioner="a.b/c"), [], id="a StorageClass"),
        pytest.param(
            made("StorageClass", provisioner="a.b/c", reclaimPolicy="x", parameters={"": "b"},
                 allowedTopologies=[{"matchLabelExpressions": [{"key": "a", "values": ["b", "b"]}, {"key": "a"}]}]),
            [
                'parameters: Invalid value: "": field can not be empty.',
                'reclaimPolicy: Unsupported value: "x": supported values: "Delete", "Retain"',
                'allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "b"',
                "allowedTopologies[0].matchLabelExpressions[1].values: Required value",
                'allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "a"',
            ],
            id="a StorageClass with mistakes",
        ),
        pytest.param(
            made("StorageClass", provisioner="a.b/c", allowedTopologies=EMPTY_TERM),
            ['allowedTopologies[0].matchLabelExpressions: Duplicate value: ""'],
            id="an empty term of a topology counts as a duplicate",
        ),
        pytest.param(
            made("StorageClass", provisioner="a.b/c", allowedTopologies=[
                {"matchLabelExpressions": [{"key": "beta.kubernetes.io/os", "values": ["b"]}]}]),
            ['warning: allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.14; use '
             '"kubernetes.io/os" instead'],
            id="a deprecated label of nodes",
        ),
        pytest.param(
            made("CSIDriver", spec={"fsGroupPolicy": "x", "tokenRequests": [{"audience": "a", "expirationSeconds": 1},
                                                                            {"audience": "a"}]}),
            [
                'spec.fsGroupPolicy: Unsupported value: "x": supported values: "File", "None", '
                '"ReadWriteOnceWithFSType"',
                "spec.tokenRequests[0].expirationSeconds: Invalid value: 1: may not specify a duration less than 10 "
                "minutes",
                'spec.tokenRequests[1].audience: Duplicate value: "a"',
            ],
            id="a CSIDriver with mistakes",
        ),
        pytest.param(
            made("CSIDriver", spec={"tokenRequests": [{"audience": "a"}]}),
            ["warning: spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to "
             "prevent possible logging of tokens in volume attributes"],
            id="a CSIDriver whose tokens may be logged",
        ),
        pytest.param(
            made("CSINode", spec={"drivers": [{"name": "a", "nodeID": "", "topologyKeys": ["b", "b"]},
                                              {"name": "a", "nodeID": "c", "allocatable": {"count": -1}}]}),
            [
                "spec.drivers[0].nodeID: Required value",
                'spec.drivers[0]: Duplicate value: "b"',
                "spec.drivers[1].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
                'spec.drivers[1].name: Duplicate value: "a"',
            ],
            id="a CSINode with mistakes",
        ),
        pytest.param(
            made("CSIStorageCapacity", storageClassName="a", capacity="-1Gi"),
            ['capacity: Invalid value: "-1Gi": must be greater than or equal to 0'],
            id="a negative capacity",
        ),
        pytest.param(
            made("VolumeAttachment", spec={"attacher": "", "nodeName": "a", "source": {}}),
            [
                "spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName",
                "spec.attacher: Required value",
            ],
            id="the error of a tag comes after those that no tag covers",
        ),
        pytest.param(
            made("VolumeAttributesClass", driverName="a"),
            ["parameters: Required value: must contain at least one key/value pair"],
            id="a VolumeAttributesClass without parameters",
        ),
        pytest.param(
            made("PriorityClass", name="system-x", value=1),
            ["metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. "
             "error: system-x is not a known system priority class"],
            id="a PriorityClass with a name of the system's",
        ),
        pytest.param(
            made("PriorityClass", value=1000000001),
            ["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
            id="too high a priority",
        ),
        pytest.param(
            made("CertificateSigningRequest", spec={"signerName": "A.b/c", "usages": ["any", "any"]}),
            [
                PEM_BLOCK,
                'spec.usages[1]: Duplicate value: "any"',
                f'spec.signerName: Invalid value: "A.b": validating label "A": {LABEL}',
            ],
            id="a CertificateSigningRequest with mistakes",
        ),
        pytest.param(
            made("CertificateSigningRequest", spec={**SIGNED, "signerName": "a", "expirationSeconds": 1}),
            [
                PEM_BLOCK,
                'spec.signerName: Invalid value: "a": must be a fully qualified domain and path of the form '
                "'example.com/signer-name'",
                "spec.expirationSeconds: Invalid value: 1: may not specify a duration less than 600 seconds "
                "(10 minutes)",
            ],
            id="a signer without a path",
        ),
        pytest.param(
            made("ClusterTrustBundle", name="x", spec={"signerName": "a.b/c", "trustBundle": ""}),
            [
                'metadata.name: Invalid value: "x": ClusterTrustBundle for signerName a.b/c must be named with prefix '
                "a.b:c:",
                'spec.trustBundle: Invalid value: "<value omitted>": at least one trust anchor must be provided',
            ],
            id="a trust bundle of a signer",
        ),
        pytest.param(
            made("DeviceClass", spec={"selectors": [{"cel": {"expression": "device.driver"}}, {}],
                                      "config": [{"opaque": {"driver": "a", "parameters": [1]}}, {}]}),
            [
                'spec.selectors[0].cel.expression: Invalid value: "device.driver": must evaluate to bool or the '
                "unknown type, not string",
                "spec.selectors[1].cel: Required value",
                'spec.config[0].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object',
                "spec.config[1].opaque: Required value",
            ],
            id="a DeviceClass with mistakes",
        ),
        pytest.param(
            made("DeviceClass", spec={"selectors": [
                {"cel": {"expression": "cel.bind(a, device.attributes['x'], a.y)"}}]}),
            [],
            id="a selector of an unknown type",
        ),
        pytest.param(
            made("APIService", name="v1.a.b", spec={"group": "a.b", "version": "v1", "groupPriorityMinimum": 20001,
                                                    "versionPriority": 0, "insecureSkipTLSVerify": True}),
            [
                "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
                "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
                "spec.insecureSkipTLSVerify: Invalid value: true: local APIServices may not have "
                "insecureSkipTLSVerify",
            ],
            id="an APIService with mistakes",
        ),
        pytest.param(
            made("APIService", name="x", spec={"group": "a.b", "version": "v1", "groupPriorityMinimum": 1,
                                               "versionPriority": 1}),
            ['metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: "v1.a.b"'],
            id="an APIService that is not named after its version",
        ),
        pytest.param(
            made("ValidatingAdmissionPolicyBinding", name="a.static.k8s.io", spec={"validationActions": ["Deny"]}),
            [
                'metadata.name: Invalid value: "a.static.k8s.io": names ending with ".static.k8s.io" are reserved for '
                "static manifest-based configurations and cannot be managed via the API",
                "spec.policyName: Required value",
            ],
            id="the name of a static manifest",
        ),
        pytest.param(
            made("ValidatingWebhookConfiguration", webhooks=[
                {"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                 "clientConfig": {"url": "grpc://a:1"}}]),
            ["webhooks[0].clientConfig.url: Invalid value: \"grpc\": 'https' is the only allowed URL scheme; desired "
             "format: https://host[/path]"],
            id="an API server knows no gRPC",
        ),
        pytest.param(
            made("ValidatingWebhookConfiguration", webhooks=[
                {"name": "a.b.c", "sideEffects": "None", "admissionReviewVersions": ["v1"],
                 "clientConfig": {"url": "https://a"},
                 "rules": [{"apiGroups": ["authentication.k8s.io"], "apiVersions": ["*"], "operations": ["*"],
                            "resources": ["tokenreviews"]}]}]),
            ["warning: webhooks[0].rules[0]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; "
             "this rule will have no effect"],
            id="a rule for what webhooks are not asked about",
        ),
    ],
)  # fmt: skip
def test_a_new_object_is_refused_for_every_cause_in_the_servers_order(
    manifest: JSONObject, expected: list[str]
) -> None:
    assert causes(manifest) == expected


STORED_CLASS = made("StorageClass", provisioner="a.b/c", reclaimPolicy="Delete")
STORED_PRIORITY = made("PriorityClass", value=1)
STORED_NODE = made("CSINode", spec={"drivers": [{"name": "a", "nodeID": "b", "topologyKeys": ["c"]}]})
UNKNOWN_USAGE = made("CertificateSigningRequest", spec={**SIGNED, "usages": ["x", "x"]})


@pytest.mark.parametrize(
    ("manifest", "old", "expected"),
    [
        pytest.param(
            {**STORED_CLASS, "reclaimPolicy": "Retain"}, STORED_CLASS,
            ["reclaimPolicy: Invalid value: null: field is immutable"],
            id="a StorageClass stays as it is",
        ),
        pytest.param(
            {**STORED_PRIORITY, "value": 2, "preemptionPolicy": "Never"}, STORED_PRIORITY,
            [
                "value: Forbidden: may not be changed in an update.",
                'preemptionPolicy: Invalid value: "Never": field is immutable',
            ],
            id="a PriorityClass stays as it is",
        ),
        pytest.param(
            made("CSINode", spec={"drivers": [{"name": "a", "nodeID": "x", "topologyKeys": ["c"],
                                               "allocatable": {"count": 1}}]}),
            STORED_NODE,
            ['spec.drivers: Invalid value: {"Name":"a","NodeID":"x","TopologyKeys":["c"],"Allocatable":null}: field is '
             "immutable"],
            id="of a CSINode's driver, only what is allocatable changes",
        ),
        pytest.param(
            UNKNOWN_USAGE, UNKNOWN_USAGE, [PEM_BLOCK], id="stored usages are tolerated",
        ),
        pytest.param(
            made("VolumeAttributesClass", driverName="b", parameters={"a": "c"}),
            made("VolumeAttributesClass", driverName="a", parameters={"a": "b"}),
            [
                "driverName: Forbidden: updates to driverName are forbidden.",
                "parameters: Forbidden: updates to parameters are forbidden.",
            ],
            id="a VolumeAttributesClass stays as it is",
        ),
    ],
)  # fmt: skip
def test_an_update_may_change_what_the_server_lets_it_change(
    manifest: JSONObject, old: JSONObject, expected: list[str]
) -> None:
    assert causes(manifest, old) == expected


PARENT = {"group": "a.b", "resource": "gateways", "name": "g"}


@pytest.mark.parametrize(
    ("name", "parent", "expected"),
    [
        ("10.0.0.1", PARENT, []),
        ("10.0.0.01", PARENT, ['metadata.name: Invalid value: "10.0.0.01": must not have leading 0s']),
        ("2001:DB8::1", PARENT, ['metadata.name: Invalid value: "2001:DB8::1": must be in canonical form '
                                 '("2001:db8::1")']),
        ("10.0.0.1", None, ["spec.parentRef: Required value"]),
        ("10.0.0.1", {"resource": "a/b", "namespace": ".."}, [
            'spec.parentRef.resource: Invalid value: "a/b": may not contain \'/\'',
            'spec.parentRef.namespace: Invalid value: "..": may not be \'..\'',
            "spec.parentRef.name: Required value"]),
    ],
)  # fmt: skip
def test_addresses_of_services_are_canonical_and_have_a_parent(
    name: str, parent: JSONObject | None, expected: list[str]
) -> None:
    spec = {} if parent is None else {"parentRef": parent}
    assert causes(made("IPAddress", name, spec=spec)) == expected


def test_the_parent_of_an_address_never_changes() -> None:
    stored, changed = (
        made("IPAddress", "10.0.0.1", spec={"parentRef": {**PARENT, "name": name}}) for name in "ab"
    )
    assert causes(changed, stored) == ["spec.parentRef: Invalid value: null: field is immutable"]


ONE_OF_EACH = "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"


@pytest.mark.parametrize(
    ("cidrs", "stored", "expected"),
    [
        (["10.0.0.0/16", "2001:db8::/64"], None, []),
        ([], None, ["spec.cidrs: Required value: at least one CIDR required"]),
        (["10.0.0.0/16"] * 3, None, [
            'spec.cidrs: Invalid value: {"CIDRs":["10.0.0.0/16","10.0.0.0/16","10.0.0.0/16"]}: may only hold up to 2 '
            "values"]),
        (["10.0.0.0/16", "10.1.0.1/16"], None, [
            'spec.cidrs[1]: Invalid value: "10.1.0.1/16": must not have bits set beyond the prefix length',
            f'spec.cidrs: Invalid value: ["10.0.0.0/16","10.1.0.1/16"]: {ONE_OF_EACH}']),
        (["10.0.0.0/16", "2001:db8::/64"], ["10.0.0.0/16"], []),
        (["10.1.0.0/16"], ["10.0.0.0/16"], ['spec.cidrs[0]: Invalid value: "10.1.0.0/16": field is immutable']),
        (["10.0.0.0/16"], ["10.0.0.0/16", "2001:db8::/64"], [
            'spec.cidrs: Invalid value: ["10.0.0.0/16"]: field is immutable']),
    ],
)  # fmt: skip
def test_ranges_of_services_are_one_of_each_family_and_only_grow(
    cidrs: list[str], stored: list[str] | None, expected: list[str]
) -> None:
    old = None if stored is None else made("ServiceCIDR", spec={"cidrs": stored})
    assert causes(made("ServiceCIDR", spec={"cidrs": cidrs}), old) == expected


def test_an_update_of_a_runtime_class_is_validated_as_a_whole() -> None:
    updated = made("RuntimeClass", handler="runsc", scheduling={"tolerations": [{}]})
    assert causes(updated, made("RuntimeClass", handler="runsc")) == [
        'scheduling.tolerations[0].operator: Invalid value: "": operator must be Exists when `key` is empty, which '
        'means "match all values and all keys"'
    ]


_TAINTS = "scheduler.alpha.kubernetes.io/taints"
_OF_A_LIST = "json: cannot unmarshal number into Go value of type []core.Taint"
_OF_AN_EFFECT = "json: cannot unmarshal number into Go struct field Taint.Effect of type core.TaintEffect"


@pytest.mark.parametrize(
    ("written", "detail"),
    [
        ("1e999", _OF_A_LIST),
        ("1" * 5000, _OF_A_LIST),
        ("[" * 2000 + "]" * 2000, "exceeded max depth"),
        ('[{"effect": 1}]', _OF_AN_EFFECT),
    ],
)
def test_an_annotation_that_no_go_value_holds_is_told(written: str, detail: str) -> None:
    node = made("Node", "n")
    node["metadata"]["annotations"] = {_TAINTS: written}
    assert causes(node) == [f"metadata.annotations: Invalid value: {_TAINTS!r}: {detail}".replace("'", '"')]


def test_half_a_character_in_an_annotation_is_another_character() -> None:
    node = made("Node", "n")
    node["metadata"]["annotations"] = {_TAINTS: r'[{"key": "a", "effect": "NoSchedule", "value": "\ud800"}]'}
    assert ["[0].value" in cause and '"\ufffd"' in cause for cause in causes(node)] == [True]
