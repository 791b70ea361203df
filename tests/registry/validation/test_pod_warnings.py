"""Odd Pods, and objects that few people write, get the warnings and errors of an API server."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.apimachinery.field_errors import ROOT
from pratique.registry.validation.pod_warnings import pod_template_warnings
from support.manifest_decisions import decide_manifest

KEY = "beta.kubernetes.io/os"
OS = 'deprecated since v1.14; use "kubernetes.io/os" instead'
NO_SELECTOR = "a null labelSelector results in matching no pod"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM: dict[str, Any] = {"matchExpressions": [{"key": KEY, "values": ["a b"]}]}
LABEL = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and"
    " end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is"
    " '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)


@pytest.mark.parametrize(
    ("spec", "warnings"),
    [
        ({"nodeSelector": {KEY: "linux"}}, [f"spec.nodeSelector[{KEY}]: {OS}"]),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [TERM]}}}},
            [
                f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].key: {KEY} is {OS}",
            ],
        ),
        (
            {"affinity": {"nodeAffinity": {PREFERRED: [{"preference": TERM}]}}},
            [
                f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].key: {KEY} is {OS}",
                (
                    f"spec.affinity.nodeAffinity.{PREFERRED}[0].preference.matchExpressions[0].values[0]: a b is"
                    f" invalid, {LABEL}"
                ),
            ],
        ),
        (
            {"topologySpreadConstraints": [{"topologyKey": KEY}]},
            [
                f"spec.topologySpreadConstraints[0].topologyKey: {KEY} is {OS}",
                f"spec.topologySpreadConstraints[0].labelSelector: {NO_SELECTOR}",
            ],
        ),
        (
            {"affinity": {"podAntiAffinity": {REQUIRED: [{}], PREFERRED: [{"weight": 1}]}}},
            [
                f"spec.affinity.podAntiAffinity.{REQUIRED}[0].labelSelector: {NO_SELECTOR}",
                f"spec.affinity.podAntiAffinity.{PREFERRED}[0].podAffinityTerm.labelSelector: {NO_SELECTOR}",
            ],
        ),
        (
            {"volumes": [{"name": "v", "storageos": {}, "rbd": {}}]},
            [
                "spec.volumes[0].storageOS: deprecated in v1.22, non-functional in v1.25+",
                "spec.volumes[0].rbd: deprecated in v1.28, non-functional in v1.31+",
            ],
        ),
        (
            {
                "volumes": [
                    {"name": "v", "configMap": {"name": "m", "items": [{"path": "a"}, {"path": "a/b"}]}}
                ]
            },
            ['volume "v" (ConfigMap "m"): overlapping paths: "a/b" with "a"'],
        ),
        (
            {
                "volumes": [
                    {
                        "name": "v",
                        "projected": {
                            "sources": [
                                {},
                                {"secret": {"name": "s", "items": [{"path": "x/"}]}},
                                {"serviceAccountToken": {"path": "x"}},
                            ]
                        },
                    }
                ]
            },
            [
                'volume "v" (Projected) has no sources provided',
                'volume "v" (Projected): overlapping paths: "x" (ServiceAccountToken) with "x" (Secret "s")',
            ],
        ),
        (
            {"hostAliases": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}], "overhead": {"memory": "100m"}},
            [
                'spec.hostAliases[1].ip: duplicate ip "10.0.0.1"',
                'spec.overhead[memory]: fractional byte value "100m" is invalid, must be an integer',
            ],
        ),
        (
            {"imagePullSecrets": [{"name": "a"}, {"name": "a"}, {}]},
            [
                'spec.imagePullSecrets[1].name: duplicate name "a"',
                'spec.imagePullSecrets[2].name: invalid empty name ""',
            ],
        ),
        (
            {
                "containers": [
                    {"name": "c", "env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}]}
                ]
            },
            [],
        ),
        (
            {"containers": [{"name": "c", "env": [{"name": "A"}, {"name": "A", "value": "2"}]}]},
            [
                'spec.containers[0].env[1]: hides previous definition of "A", which may be dropped when using apply',
            ],
        ),
        (
            {
                "containers": [
                    {"name": "a", "ports": [{"containerPort": 80, "protocol": "TCP", "hostIP": "1.2.3.4"}]},
                    {"name": "b", "ports": [{"containerPort": 80, "protocol": "TCP", "hostPort": 8080}]},
                ]
            },
            [
                (
                    "spec.containers[0].ports[0]: hostIP set without hostPort:"
                    " {Name: HostPort:0 ContainerPort:80 Protocol:TCP HostIP:1.2.3.4}"
                ),
                "spec.containers[1].ports[0]: overlapping port definition with spec.containers[0].ports[0]",
            ],
        ),
        (
            {
                "initContainers": [{"name": "i", "ports": [{"name": "http", "containerPort": 1}]}],
                "containers": [{"name": "c", "ports": [{"name": "http", "containerPort": 2}]}],
                "terminationGracePeriodSeconds": -1,
            },
            [
                (
                    'spec.containers[0].ports[0]: duplicate port name "http" with spec.initContainers[0].ports[0],'
                    " services and probes that select ports by name will use spec.initContainers[0].ports[0]"
                ),
                (
                    "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated"
                    " as 1"
                ),
            ],
        ),
        (
            {"dnsConfig": {"nameservers": ["::FFFF:1.2.3.4"]}},
            [
                'spec.dnsConfig.nameservers[0]: non-standard IP address "::FFFF:1.2.3.4" is invalid: use "1.2.3.4"'
            ],
        ),
    ],
)
def test_an_odd_pod_is_warned_of(spec: dict[str, Any], warnings: list[str]) -> None:
    assert list(pod_template_warnings({"spec": spec}, ROOT)) == warnings


def test_annotations_that_no_field_says_are_warned_of() -> None:
    seccomp, profile = (
        "seccomp.security.alpha.kubernetes.io/pod",
        "container.apparmor.security.beta.kubernetes.io/c",
    )
    annotations = {"security.alpha.kubernetes.io/sysctls": "a", seccomp: "x", profile: "runtime/default"}
    template: dict[str, Any] = {
        "metadata": {"annotations": annotations},
        "spec": {"containers": [{"name": "c"}]},
    }
    own = [
        (
            'metadata.annotations[security.alpha.kubernetes.io/sysctls]: non-functional in v1.11+; use the "sysctls"'
            " field instead"
        ),
        f'metadata.annotations[{seccomp}]: non-functional in v1.27+; use the "seccompProfile" field instead',
    ]
    assert list(pod_template_warnings(template, ROOT)) == own
    found = list(pod_template_warnings(template, ROOT / "spec" / "template"))
    assert found[2:] == [
        (
            f'spec.template.metadata.annotations[{profile}]: deprecated since v1.30; use the "appArmorProfile" field'
            " instead"
        )
    ]
    template["spec"]["securityContext"] = {"appArmorProfile": {"type": "RuntimeDefault"}}
    assert len(list(pod_template_warnings(template, ROOT / "spec" / "template"))) == 2


JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "a"},
    "spec": {
        "completionMode": "Indexed",
        "completions": 100_001,
        "parallelism": 10_001,
        "backoffLimitPerIndex": 0,
        "template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "x"}]}},
    },
}


APP_ARMOR = "container.apparmor.security.beta.kubernetes.io/c"


@pytest.mark.parametrize(
    ("annotation", "changes", "is_warned_of"),
    [
        ("runtime/default", {}, True),
        ("runtime/default", {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}, False),
        ("localhost/p", {"securityContext": {"appArmorProfile": {"type": "RuntimeDefault"}}}, True),
        ("runtime/default", {"os": {"name": "windows"}}, False),
        ("runtime/default", {"dnsPolicy": "None"}, True),
        ("bogus", {}, True),
    ],
    ids=["alone", "as the Pod", "unlike the Pod", "Windows", "of an invalid Pod", "of no profile"],
)
def test_a_profile_that_becomes_a_field_of_a_new_pod_is_warned_of(
    annotation: str, changes: dict[str, Any], *, is_warned_of: bool
) -> None:
    metadata = {"name": "p", "namespace": "default", "annotations": {APP_ARMOR: annotation}}
    spec = {"containers": [{"name": "c", "image": "x"}], **changes}
    decision = decide_manifest({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    text = (
        f'metadata.annotations[{APP_ARMOR}]: deprecated since v1.30; use the "appArmorProfile" field instead'
    )
    assert decision.warnings == ((text,) if is_warned_of else ())


def test_a_job_with_very_many_indexes_has_limits() -> None:
    status = decide_manifest(JOB).status
    assert status is not None
    assert status.message == (
        'Job.batch "a" is invalid: [spec.maxFailedIndexes: Required value: must be specified when completions is above'
        " 100000, spec.parallelism: Invalid value: 10001: must be less than or equal to 10000 when completions are"
        " above 100000 and used with backoff limit per index]"
    )


@pytest.mark.parametrize(
    ("generation", "fault"),
    [("x", "invalid syntax"), ("", "invalid syntax"), ("9" * 5_000, "value out of range"), ("-007", "")],
)
def test_the_generation_of_a_template_is_a_number(generation: str, fault: str) -> None:
    annotations = {"deprecated.daemonset.template.generation": generation}
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    written = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "a", "annotations": annotations},
        "spec": {"selector": {"matchLabels": labels}, "template": template},
    }
    status = decide_manifest(written).status
    assert ("" if status is None else status.message.rpartition(": ")[2]) == fault


def test_an_owner_that_is_there_twice_is_dropped_with_a_warning() -> None:
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    metadata = {"name": "a", "ownerReferences": [owner, owner]}
    decision = decide_manifest({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    assert decision.object_document.data["metadata"]["ownerReferences"] == [owner]
    assert [warning.rpartition(": ")[2] for warning in decision.warnings] == ["u"]


def test_the_volume_in_an_attachment_is_one_of_csi() -> None:
    volume = {"capacity": {"storage": "1Gi"}, "hostPath": {"path": "/"}, "accessModes": ["ReadWriteOnce"]}
    written = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "VolumeAttachment",
        "metadata": {"name": "a"},
        "spec": {"attacher": "a.example.com", "nodeName": "n", "source": {"inlineVolumeSpec": volume}},
    }
    status = decide_manifest(written).status
    assert status is not None
    path, inline = "spec.source.inlineVolumeSpec", "in the context of inline volumes"
    assert status.message == (
        f'VolumeAttachment.storage.k8s.io "a" is invalid: [{path}.capacity: Forbidden: may not be specified {inline},'
        f" {path}.csi: Required value: has to be specified {inline}]"
    )


def test_addresses_of_a_service_that_are_none_are_refused_alone() -> None:
    spec = {"clusterIP": "None", "clusterIPs": ["x", "-a"], "ports": [{"port": 1}]}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "a"}, "spec": spec}
    status = decide_manifest(service).status
    assert status is not None
    assert "spec.ipFamilies" not in status.message
    assert "spec.clusterIPs[1]: Invalid value: " in status.message


def test_a_lifecycle_of_a_signal_alone_goes_with_the_signal() -> None:
    container = {"name": "c", "image": "x", "lifecycle": {"stopSignal": "SIGTERM"}}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}
    stored = decide_manifest(pod).object_document.data["spec"]["containers"][0]
    assert "lifecycle" not in stored


def test_a_selector_that_no_label_was_made_for_is_refused() -> None:
    spec = {**JOB["spec"], "completions": 1, "parallelism": 1, "selector": {"matchLabels": {"a": "b"}}}
    status = decide_manifest({**JOB, "spec": spec}).status
    assert status is not None
    assert ": `selector` not auto-generated, spec.template.metadata.labels: " in status.message
