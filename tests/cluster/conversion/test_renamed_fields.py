"""Kinds whose fields are renamed or moved between versions.

The tables are those of ``pkg/apis/discovery/v1beta1/conversion_test.go``, ``pkg/apis/node/v1alpha1/…``,
``pkg/apis/rbac/v1alpha1/…`` and ``pkg/apis/flowcontrol/v1beta3/…`` (Kubernetes, Apache-2.0).
"""

from __future__ import annotations

from typing import Any

import pytest

from support.conversions import converted

ZONE, HOSTNAME = "topology.kubernetes.io/zone", "kubernetes.io/hostname"


def endpoint_slice(version: str, endpoint: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"discovery.k8s.io/{version}",
        "kind": "EndpointSlice",
        "addressType": "IPv4",
        "endpoints": [{"addresses": ["10.0.0.1"], **endpoint}],
    }


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param({}, {}, id="no topology field"),
        pytest.param(
            {"topology": {"key1": "val1"}},
            {"deprecatedTopology": {"key1": "val1"}},
            id="non empty topology map, but no zone",
        ),
        pytest.param(
            {"topology": {"key1": "val1", ZONE: "zone1"}},
            {"deprecatedTopology": {"key1": "val1"}, "zone": "zone1"},
            id="non empty topology map, with zone",
        ),
        pytest.param({"topology": {ZONE: "zone1"}}, {"zone": "zone1"}, id="only zone in topology map"),
        pytest.param(
            {"nodeName": "node-1", "topology": {HOSTNAME: "node-2"}},
            {"nodeName": "node-1", "deprecatedTopology": {HOSTNAME: "node-2"}},
            id="nodeName and topology[hostname] are populated with different values",
        ),
        pytest.param(
            {"nodeName": "node-1", "topology": {HOSTNAME: "node-1"}},
            {"nodeName": "node-1"},
            id="nodeName and topology[hostname] are populated with same values",
        ),
        pytest.param(
            {"topology": {HOSTNAME: "node-1"}},
            {"deprecatedTopology": {HOSTNAME: "node-1"}},
            id="only topology[hostname] is populated",
        ),
    ],
)
def test_v1_endpoints_have_zone_and_node_fields(old: dict[str, Any], new: dict[str, Any]) -> None:
    before, after = endpoint_slice("v1beta1", old), endpoint_slice("v1", new)
    assert converted(before, "discovery.k8s.io/v1") == after
    assert converted(after, "discovery.k8s.io/v1beta1") == before


def runtime_class(version: str, **fields: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"node.k8s.io/{version}",
        "kind": "RuntimeClass",
        "metadata": {"name": "puppy"},
    } | fields


@pytest.mark.parametrize("new", ["v1", "v1beta1"])
@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(
            {
                "overhead": {"podFixed": {"cpu": "100"}},
                "scheduling": {"nodeSelector": {"extra-soft": "true"}, "tolerations": [{"key": "stinky"}]},
            },
            id="fully-specified",
        ),
        pytest.param({"overhead": {}}, id="empty-overhead"),
        pytest.param({"scheduling": {}}, id="empty-scheduling"),
        pytest.param({}, id="empty"),
    ],
)
def test_a_v1alpha1_runtime_class_has_a_spec(new: str, rest: dict[str, Any]) -> None:
    before = runtime_class("v1alpha1", spec={"runtimeHandler": "heidi", **rest})
    after = runtime_class(new, handler="heidi", **rest)
    assert converted(before, f"node.k8s.io/{new}") == after
    assert converted(after, "node.k8s.io/v1alpha1") == before


RBAC = "rbac.authorization.k8s.io"


def binding(version: str, *subjects: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": f"{RBAC}/{version}",
        "kind": "RoleBinding",
        "roleRef": {"name": "foo", "apiGroup": RBAC},
        "subjects": list(subjects),
    }


USER = {"kind": "User", "name": "myuser"}
GROUP = {"kind": "Group", "name": "mygroup"}
ACCOUNT = {"kind": "ServiceAccount", "name": "mysa", "namespace": "myns"}
NEW_SUBJECTS = [USER | {"apiGroup": RBAC}, GROUP | {"apiGroup": RBAC}, ACCOUNT]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        pytest.param(
            [USER | {"apiVersion": f"{RBAC}/v1alpha1"}], [USER | {"apiGroup": RBAC}], id="specific user"
        ),
        pytest.param(
            [{"kind": "User", "apiVersion": f"{RBAC}/v1alpha1", "name": "*"}],
            [{"kind": "Group", "apiGroup": RBAC, "name": "system:authenticated"}],
            id="wildcard user matches authenticated",
        ),
        pytest.param([USER, GROUP, ACCOUNT], NEW_SUBJECTS, id="missing api group gets defaulted"),
        pytest.param(
            [subject | {"apiVersion": "rbac/v8"} for subject in (USER, GROUP, ACCOUNT)],
            NEW_SUBJECTS,
            id="bad api group gets defaulted",
        ),
        pytest.param(
            [{"kind": "Robot", "apiVersion": "example.com/v1", "name": "r"}],
            [{"kind": "Robot", "apiGroup": "example.com", "name": "r"}],
            id="unrecognised kind",
        ),
    ],
)
@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_v1alpha1_subjects_name_an_api_version(version: str, old: list[Any], new: list[Any]) -> None:
    assert converted(binding("v1alpha1", *old), f"{RBAC}/{version}") == binding(version, *new)


def test_subjects_regain_their_api_version() -> None:
    versioned = f"{RBAC}/v1alpha1"
    found = converted(
        binding("v1", *NEW_SUBJECTS, {"kind": "X", "apiGroup": "x.com", "name": "x"}), versioned
    )
    assert [subject["apiVersion"] for subject in found["subjects"]] == [versioned, versioned, "v1", "x.com/"]
    assert all("apiGroup" not in subject for subject in found["subjects"])


FLOW = "flowcontrol.apiserver.k8s.io"
ZERO = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"


def level(version: str, limited: dict[str, Any], **annotations: str) -> dict[str, Any]:
    return {
        "apiVersion": f"{FLOW}/{version}",
        "kind": "PriorityLevelConfiguration",
        "metadata": {"name": "a", "annotations": {"foo": "bar", **annotations}},
        "spec": {"type": "Limited", "limited": limited},
    }


@pytest.mark.parametrize("annotations", [{ZERO: ""}, {}], ids=["with annotation", "without"])
def test_the_v1beta3_annotation_is_dropped_in_v1(annotations: dict[str, str]) -> None:
    shares = {"nominalConcurrencyShares": 0}
    before = level("v1beta3", shares, **annotations)
    assert converted(before, f"{FLOW}/v1") == level("v1", shares)


@pytest.mark.parametrize(
    ("shares", "before", "after"),
    [
        (0, {}, {ZERO: ""}),
        (1, {}, {}),
        (0, {ZERO: ""}, {ZERO: ""}),
        (0, {ZERO: "non-empty"}, {ZERO: "non-empty"}),
        (1, {ZERO: "non-empty"}, {ZERO: "non-empty"}),
    ],
)
def test_a_share_of_zero_is_annotated_in_v1beta3(
    shares: int, before: dict[str, str], after: dict[str, str]
) -> None:
    limited = {"nominalConcurrencyShares": shares}
    assert converted(level("v1", limited, **before), f"{FLOW}/v1beta3") == level("v1beta3", limited, **after)


@pytest.mark.parametrize("old", ["v1beta2", "v1beta1", "v1alpha1"])
def test_v1beta2_calls_the_shares_assured(old: str) -> None:
    before = level(old, {"assuredConcurrencyShares": 5, "limitResponse": {"type": "Reject"}})
    after = level("v1", {"nominalConcurrencyShares": 5, "limitResponse": {"type": "Reject"}})
    assert converted(before, f"{FLOW}/v1") == after
    assert converted(after, f"{FLOW}/{old}") == before


CORE_EVENT = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "a"},
    "involvedObject": {"kind": "Pod", "name": "web"},
    "message": "Pulled",
    "source": {"component": "kubelet"},
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-01T00:00:01Z",
    "count": 2,
    "reportingComponent": "kubelet",
    "reportingInstance": "node-1",
    "reason": "Pulled",
    "type": "Normal",
}
NEW_EVENT = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "a"},
    "regarding": {"kind": "Pod", "name": "web"},
    "note": "Pulled",
    "deprecatedSource": {"component": "kubelet"},
    "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
    "deprecatedLastTimestamp": "2026-01-01T00:00:01Z",
    "deprecatedCount": 2,
    "reportingController": "kubelet",
    "reportingInstance": "node-1",
    "reason": "Pulled",
    "type": "Normal",
}


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
def test_events_k8s_io_renames_the_fields_of_events(version: str) -> None:
    new = NEW_EVENT | {"apiVersion": f"events.k8s.io/{version}"}
    assert converted(CORE_EVENT, f"events.k8s.io/{version}") == new
    assert converted(new, "v1") == CORE_EVENT
