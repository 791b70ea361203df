# ruff: noqa: ISC004 - messages are longer than lines
"""Refusals that depend on whether something is empty or missing, and warnings of what an update changes."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from support.manifest_decisions import decide_manifest
from support.object_refusals import causes, refusal

APP = {"app": "a"}
GENERATION = "deprecated.daemonset.template.generation"
ODD = [{"name": ""}]
"""Secrets that a template of Pods is warned of."""
EMPTY_NAME = 'spec.template.spec.imagePullSecrets[0].name: invalid empty name ""'


def made(kind: str, spec: JSONObject, name: str = "a", **metadata: JSON) -> JSONObject:
    versions = {
        "Job": "batch/v1",
        "CronJob": "batch/v1",
        "Service": "v1",
        "Secret": "v1",
        "ReplicationController": "v1",
    }
    named = {"name": name, "namespace": "b", **metadata}
    return {"apiVersion": versions.get(kind, "apps/v1"), "kind": kind, "metadata": named, "spec": spec}


def workload(kind: str, pod: JSONObject | None = None, labels: JSONObject = APP, **spec: Any) -> JSONObject:
    containers = [{"name": "c", "image": "i"}]
    template = {"metadata": {"labels": labels}, "spec": {"containers": containers, **(pod or {})}}
    selector = APP if kind == "ReplicationController" else {"matchLabels": APP}
    annotations = {GENERATION: "1"} if kind == "DaemonSet" else {}
    return made(
        kind, {"selector": selector, "template": template, **spec}, generation=1, annotations=annotations
    )


def job(**spec: Any) -> JSONObject:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    return {"template": template, **spec}


def service(**spec: Any) -> JSONObject:
    return made("Service", {"clusterIP": "None", "ports": [{"port": 1}], **spec})


@pytest.mark.parametrize(
    ("manifest", "old", "expected"),
    [
        (
            service(ipFamilies=["IPv4"], ipFamilyPolicy="RequireDualStack", loadBalancerSourceRanges=["x"]),
            service(ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="RequireDualStack"),
            ["spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": must be 'SingleStack' to release the secondary"
             " IP family"],
        ),
        (
            service(ipFamilies=["IPv4", "IPv6"], ipFamilyPolicy="SingleStack"),
            None,
            ["spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when"
             " multiple IP families are specified"],
        ),
        (
            made("Job", job(podFailurePolicy={}, podReplacementPolicy="Failed", selector={"matchLabels": {}})),
            made("Job", job(selector={"matchLabels": {}})),
            ['spec.podFailurePolicy: Invalid value: {"Rules":null}: field is immutable'],
        ),
        (
            {"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
             "metadata": {"name": "a", "namespace": "b"},
             "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "minReplicas": 0,
                      "maxReplicas": 5}},
            None,
            ["spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero"
             " replicas"],
        ),
        (
            workload("ReplicaSet", {"containers": [{"name": "c", "image": "i", "env": [{"name": "é"}]}]}),
            None,
            ['spec.template.spec.containers[0].env[0].name: Invalid value: "é": a valid environment variable name must'
             " consist only of printable ASCII characters other than '='"],
        ),
        (
            {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
             "metadata": {"name": "a", "namespace": "b"},
             "spec": {"metadata": {"finalizers": [], "labels": {}},
                      "spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}},
            None,
            ["spec.metadata.finalizers: Forbidden: cannot be set"],
        ),
    ],
)  # fmt: skip
def test_what_is_empty_is_not_always_what_is_missing(
    manifest: JSONObject, old: JSONObject | None, expected: list[str]
) -> None:
    assert [
        cause for cause in causes(manifest, old) if not cause.startswith(("spec.selector", "warning"))
    ] == expected


def test_an_empty_text_is_a_change_of_a_field_that_can_be_null() -> None:
    def of(**spec: Any) -> JSONObject:
        return {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "a"},
            "spec": spec,
        }

    detail = "a name must be a domain-prefixed path, such as 'example.com/my-prop'"
    assert (
        causes(of(extendedResourceName=""), of())[0]
        == f'spec.extendedResourceName: Invalid value: "": {detail}'
    )


def test_a_slice_without_terms_prints_none() -> None:
    spec = {"driver": "d.e", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeSelector": {}}
    manifest = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "a"},
        "spec": spec,
    }
    path = "spec.nodeSelector.nodeSelectorTerms"
    assert f"{path}: Invalid value: null: must have exactly one node selector term" in causes(manifest)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("-a", "invalid character 'a' in numeric literal"),
        ("{}x", "invalid character 'x' after top-level value"),
        ("[1]", "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ('{"a"', "unexpected end of JSON input"),
        ("-1", "json: cannot unmarshal number into Go value of type map[string]interface {}"),
    ],
)
def test_a_docker_configuration_is_read_as_go_reads_it(text: str, fault: str) -> None:
    data = {".dockerconfigjson": text}
    secret = made("Secret", {}) | {"type": "kubernetes.io/dockerconfigjson", "stringData": data}
    del secret["spec"]
    redacted = 'data[.dockerconfigjson]: Invalid value: "<secret contents redacted>"'
    assert causes(secret) == [f"{redacted}: {fault}"]


@pytest.mark.parametrize(
    ("kind", "changes", "warnings"),
    [
        ("Deployment", {"pod": {"imagePullSecrets": ODD}}, []),
        ("Deployment", {"pod": {"imagePullSecrets": ODD}, "replicas": 2}, [EMPTY_NAME]),
        ("DaemonSet", {"pod": {"imagePullSecrets": ODD}, "minReadySeconds": 2}, []),
        ("DaemonSet", {"pod": {"imagePullSecrets": ODD, "hostPID": True}}, [EMPTY_NAME]),
        ("ReplicationController", {"replicas": 2}, [EMPTY_NAME]),
    ],
)
def test_a_template_is_warned_of_when_it_is_counted_as_changed(
    kind: str, changes: JSONObject, warnings: list[str]
) -> None:
    old = workload(kind, {"imagePullSecrets": ODD})
    assert causes(workload(kind, **changes), old) == [f"warning: {text}" for text in warnings]


def test_an_update_with_a_time_zone_in_its_schedule_is_warned_of() -> None:
    spec = {"schedule": "TZ=UTC * * * * *", "jobTemplate": {"spec": job()}}
    found = causes(made("CronJob", spec), made("CronJob", spec))
    assert [text.partition(",")[0] for text in found] == [
        "warning: cannot use TZ or CRON_TZ in spec.spec.schedule"
    ]


def test_a_name_that_makes_no_good_names_of_pods_is_warned_of() -> None:
    (found,) = causes(made("Job", job(), name="a.b"))
    assert found.startswith(
        "warning: metadata.name: this is used in Pod names and hostnames, which can result in"
    )


def test_a_claim_of_a_stateful_set_is_warned_of_in_each_update() -> None:
    claim = {
        "metadata": {"name": "d"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1.5"}}},
    }
    written = workload("StatefulSet", serviceName="s", volumeClaimTemplates=[claim])
    place = 'resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer'
    assert causes(written) == [f"warning: spec.volumeClaimTemplates[0].{place}"]
    assert causes(written, written) == [f"warning: spec.volumeClaimTemplates[0].Spec.{place}"]


def test_a_stored_policy_without_ranges_allows_no_empty_one() -> None:
    def of(*excluded: JSON) -> JSONObject:
        block = {"cidr": "10.0.0.0/8", "except": list(excluded)}
        spec = {
            "podSelector": {},
            "egress": [{"to": [{"ipBlock": block}]}],
            "ingress": [{"from": [{"podSelector": {}}]}],
        }
        metadata = {"name": "a", "namespace": "b"}
        return {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": metadata,
            "spec": spec,
        }

    found = causes(of(""), of("10.1.0.0/16"))
    assert [cause.rpartition(": must")[0] for cause in found] == [
        'spec.egress[0].to[0].ipBlock.except[0]: Invalid value: ""'
    ]


ROLLBACK = "deprecated.deployment.rollback.to"


@pytest.mark.parametrize(
    ("kind", "annotations", "fault"),
    [
        ("DaemonSet", {GENERATION: ""}, 'strconv.ParseInt: parsing "": invalid syntax'),
        ("Deployment", {ROLLBACK: ""}, 'strict decoding error: unknown field "spec.unknown"'),
        (
            "Deployment",
            {ROLLBACK: "x"},
            f'failed to parse annotation[{ROLLBACK}]=x as int64: strconv.ParseInt: parsing "x": invalid syntax',
        ),
    ],
)
def test_an_annotation_that_is_no_number_comes_before_unknown_fields(
    kind: str, annotations: JSONObject, fault: str
) -> None:
    written = workload(kind, unknown=1)
    written["metadata"]["annotations"] = annotations
    code, status = refusal(written) or (0, {})
    assert (code, status["message"].partition(f"cannot be handled as a {kind}: ")[2]) == (400, fault)


@pytest.mark.parametrize(
    ("key", "is_refused"), [("", False), ("other", True), ("topology.kubernetes.io/zone", False)]
)
def test_a_label_of_a_volume_may_become_stable_or_empty(key: str, *, is_refused: bool) -> None:
    def of(key: str) -> JSONObject:
        terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": ["n"]}]}]
        spec = {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "local": {"path": "/x"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
        }
        return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "a"}, "spec": spec}

    found = causes(
        of(key), of("failure-domain.beta.kubernetes.io/zone" if key.startswith("topology") else "a")
    )
    assert any("except for updating from beta label to GA" in cause for cause in found) == is_refused


@pytest.mark.parametrize(("data", "is_refused"), [({"a": True}, True), ({}, True), ({"a": 1}, False)])
def test_the_text_of_raw_json_counts(data: JSON, *, is_refused: bool) -> None:
    metadata = {"name": "a", "namespace": "b"}
    old = {"apiVersion": "apps/v1", "kind": "ControllerRevision", "metadata": metadata, "data": {"a": 1}}
    assert [cause[:4] for cause in causes({**old, "data": data}, old)] == ["data"] * is_refused


def test_an_update_with_a_node_port_twice_fails_in_the_allocator() -> None:
    ports = [{"name": name, "port": 80, "nodePort": 30080} for name in "ab"]
    old = service(type="NodePort", clusterIP="10.0.0.1", ports=ports[:1])
    status = decide_manifest(service(type="NodePort", clusterIP="10.0.0.1", ports=ports), old=old).status
    assert status is not None
    assert (status.code, status.reason, status.message) == (500, "", "duplicate nodePort: {TCP 30080}")


@pytest.mark.parametrize(
    ("surge", "faults"),
    [
        ("-1", ["a valid", "may not"]),
        ("x", ["a valid"]),
        ("0%", []),
        ("9" * 5_000 + "%", ["must not", "may not"]),
    ],
)
def test_a_text_that_is_a_number_counts_as_one_though_it_is_refused(surge: str, faults: list[str]) -> None:
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": surge}}
    found = [cause.removeprefix("spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: ")
             for cause in causes(workload("DaemonSet", updateStrategy=strategy))]  # fmt: skip
    assert [cause.rpartition('": ')[2][:8].rstrip() for cause in found] == faults


@pytest.mark.parametrize("kind", ["ConfigMap", "Secret"])
@pytest.mark.parametrize(
    ("given", "stored", "is_changed"),
    [({}, None, True), ({}, {"a": "Yg=="}, True), (None, None, False), (None, {}, False)],
)
def test_an_immutable_map_may_not_become_empty_where_there_was_none(
    kind: str, given: JSON, stored: JSON, *, is_changed: bool
) -> None:
    frozen = {
        "apiVersion": "v1",
        "kind": kind,
        "metadata": {"name": "a", "namespace": "b"},
        "immutable": True,
    }
    expected = ["data: Forbidden: field is immutable when `immutable` is set"] if is_changed else []
    assert causes({**frozen, "data": given}, {**frozen, "data": stored}) == expected
