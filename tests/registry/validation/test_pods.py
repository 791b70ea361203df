# ruff: noqa: ISC004 - messages are longer than lines
"""The validation of Pods and of what is in them."""

from __future__ import annotations

from typing import Any

import pytest

from pratique.apimachinery.json_values import JSONObject
from support.object_refusals import causes

BOTH_CLAIMS = '{"Name":"c","ResourceClaimName":"a","ResourceClaimTemplateName":"b"}'
CPU_BY_TWO = {"resource": "limits.cpu", "divisor": "2"}
TWO_CLAIMS = {"name": "c", "resourceClaimName": "a", "resourceClaimTemplateName": "b"}


def pod(annotations: JSONObject | None = None, **spec: Any) -> JSONObject:
    metadata = {"name": "a", "namespace": "b", "annotations": annotations or {}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }


def container(**fields: Any) -> JSONObject:
    return pod(containers=[{"name": "c", "image": "i", **fields}])


def volume(**source: Any) -> JSONObject:
    return pod(volumes=[{"name": "v", **source}])


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(pod(), [], id="a Pod"),
        pytest.param(
            pod({"kubernetes.io/config.mirror": "m"}, nodeName="n", resourceClaims=[TWO_CLAIMS]),
            ["[]: Forbidden: static pods do not support resource claims"],
            id="claims of a static Pod",
        ),
        pytest.param(
            pod(hostNetwork=True, hostIPC=True, securityContext={"sysctls": [
                {"name": "net.core.somaxconn", "value": "1"}, {"name": "kernel/shmmax", "value": "1"},
                {"name": "a.b", "value": "1"}, {"name": "a.b", "value": "2"}]}),
            [
                'spec.securityContext.sysctls[0].name: Invalid value: "net.core.somaxconn": may not be specified when '
                "'hostNetwork' is true",
                'spec.securityContext.sysctls[1].name: Invalid value: "kernel/shmmax": may not be specified when '
                "'hostIPC' is true",
                'spec.securityContext.sysctls[3].name: Duplicate value: "a.b"',
            ],
            id="sysctls of the host",
        ),
        pytest.param(
            pod(topologySpreadConstraints=[
                {"maxSkew": 0, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 1,
                 "nodeTaintsPolicy": "x", "matchLabelKeys": ["b"]},
                {"maxSkew": 1, "topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway"}]),
            [
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                'spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: '
                '"{a, ScheduleAnyway}"',
                "spec.topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if "
                "whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
                'spec.topologySpreadConstraints[0].nodeTaintsPolicy: Unsupported value: "x": supported values: '
                '"Honor", "Ignore"',
                "spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when "
                "labelSelector is not set",
            ],
            id="topology spread constraints",
        ),
        pytest.param(
            pod(os={"name": "windows"}, hostPID=True, securityContext={"runAsUser": 1}),
            [
                "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
                "spec.hostPID: Forbidden: cannot be set for a windows pod",
            ],
            id="what Windows has not",
        ),
        pytest.param(
            pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}, {"key": "a", "operator": "Lt"}]),
            [
                'spec.tolerations[0].operator: Invalid value: "b": value must be empty when `operator` is \'Exists\'',
                'spec.tolerations[1].operator: Unsupported value: "Lt": supported values: "Equal", "Exists", "Lt", '
                '"Gt"',
            ],
            id="tolerations",
        ),
        pytest.param(
            pod(hostUsers=False, hostPID=True, dnsConfig={"nameservers": ["a"], "options": [{"value": "b"}]}),
            [
                'spec.dnsConfig.nameservers[0]: Invalid value: "a": must be a valid IP address, (e.g. 10.9.8.7 or '
                "2001:db8::ffff)",
                "spec.dnsConfig.options[0]: Required value: must not be empty",
                "spec.HostPID: Forbidden: when `hostUsers` is false",
            ],
            id="DNS and users",
        ),
        pytest.param(
            pod(resourceClaims=[TWO_CLAIMS], schedulingGates=[{"name": "a"}, {"name": "a"}]),
            [
                f"spec.resourceClaims[0]: Invalid value: {BOTH_CLAIMS}: at most one of `resourceClaimName` or "
                "`resourceClaimTemplateName` may be specified",
                'spec.schedulingGates[1]: Duplicate value: "a"',
            ],
            id="claims and gates",
        ),
        pytest.param(
            pod({"seccomp.security.alpha.kubernetes.io/pod": "x",
                 "container.apparmor.security.beta.kubernetes.io/z": "y"}),
            [
                'metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "x": must be a valid '
                "seccomp profile",
                'metadata.annotations[container.apparmor.security.beta.kubernetes.io/z]: Invalid value: "z": '
                "container not found",
                'metadata.annotations[container.apparmor.security.beta.kubernetes.io/z]: Invalid value: "y": invalid '
                'AppArmor profile name: "y"',
            ],
            id="profiles in annotations",
        ),
    ],
)  # fmt: skip
def test_a_pod_is_refused_in_the_api_servers_words(manifest: JSONObject, expected: list[str]) -> None:
    assert causes(manifest) == expected


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        pytest.param(
            container(resizePolicy=[{"resourceName": "cpu", "restartPolicy": ""}], terminationMessagePolicy="x"),
            [
                'spec.containers[0].terminationMessagePolicy: Unsupported value: "x": supported values: "File", '
                '"FallbackToLogsOnError"',
                "spec.containers[0].resizePolicy: Required value",
            ],
            id="policies",
        ),
        pytest.param(
            container(env=[{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.phase"}}},
                           {"name": "B", "valueFrom": {"resourceFieldRef": CPU_BY_TWO}}]),
            [
                'spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.phase": error converting '
                "fieldPath: field label not supported: spec.phase",
                'spec.containers[0].env[1].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only '
                "divisor's values 1m and 1 are supported with the cpu resource",
            ],
            id="variables",
        ),
        pytest.param(
            container(restartPolicyRules=[{"action": "x"}]),
            [
                "spec.containers[0].restartPolicy: Required value: must specify restartPolicy when restart rules are "
                "used",
                'spec.containers[0].restartPolicyRules[0].action: Unsupported value: "x": supported values: '
                '"Restart", "RestartAllContainers"',
                "spec.containers[0].restartPolicyRules[0].exitCodes: Required value: must be specified",
            ],
            id="restart rules",
        ),
        pytest.param(
            volume(iscsi={"targetPortal": "a", "iqn": "b", "lun": 300}),
            [
                'spec.volumes[0].iscsi.iqn: Invalid value: "b": must be valid format starting with iqn, eui, or naa',
                "spec.volumes[0].iscsi.lun: Invalid value: 300: must be between 0 and 255, inclusive",
            ],
            id="iSCSI",
        ),
        pytest.param(
            volume(projected={"sources": [{"clusterTrustBundle": {"path": "a"}},
                                          {"podCertificate": {"signerName": "a.b/c", "keyType": "x"}}]}),
            [
                "spec.volumes[0].projected.sources[0].clusterTrustBundle: Required value: either name or signerName "
                "must be specified",
                'spec.volumes[0].projected.sources[1].podCertificate.keyType: Unsupported value: "x": supported '
                'values: "RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"',
                "spec.volumes[0].projected.sources[1].podCertificate: Required value: specify at least one of "
                "credentialBundlePath, keyPath, and certificateChainPath",
            ],
            id="projected sources",
        ),
    ],
)  # fmt: skip
def test_a_container_or_volume_is_refused_in_the_api_servers_words(
    manifest: JSONObject, expected: list[str]
) -> None:
    assert causes(manifest) == expected


@pytest.mark.parametrize(
    ("group", "expected"),
    [
        ({"podGroupName": "a"}, []),
        ({}, ["spec.schedulingGroup.podGroupName: Invalid value: null: must specify one of: `podGroupName`"]),
    ],
)
def test_the_scheduling_group_of_a_stored_pod_is_kept_and_validated(
    group: JSONObject, expected: list[str]
) -> None:
    assert causes(pod(schedulingGroup=group), pod(schedulingGroup=group)) == expected
    assert causes(pod(schedulingGroup=group)) == []
