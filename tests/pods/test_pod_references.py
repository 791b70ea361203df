"""The objects that Pods refer to."""

from __future__ import annotations

import pytest
from hypothesis import given

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.pods import pod_spec
from support.strategies.json_values import objects


def with_volume(**source: JSON) -> JSONObject:
    return {"spec": {"volumes": [{"name": "v", **source}]}}


def with_projection(**source: JSON) -> JSONObject:
    return with_volume(projected={"sources": [{"downwardAPI": {}}, source]})


def with_container(field: str = "containers", **members: JSON) -> JSONObject:
    return {"spec": {field: [{"name": "c", **members}]}}


def variable(**source: JSON) -> list[JSON]:
    return [{"name": "A", "value": "plain"}, {"name": "B", "valueFrom": source}]


REFERENCE = {"name": "x"}
SECRETS = [
    {"spec": {"imagePullSecrets": [REFERENCE]}},
    with_container("initContainers", env=variable(secretKeyRef=REFERENCE)),
    with_container("containers", envFrom=[{"secretRef": REFERENCE}]),
    with_container("ephemeralContainers", env=variable(secretKeyRef=REFERENCE)),
    with_volume(secret={"secretName": "x"}),
    with_volume(azureFile={"secretName": "x"}),
    with_volume(csi={"driver": "d", "nodePublishSecretRef": REFERENCE}),
    with_projection(secret=REFERENCE),
    *(
        with_volume(**{kind: {"secretRef": REFERENCE}})
        for kind in ("cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos")
    ),
]
CONFIG_MAPS = [
    with_container("initContainers", envFrom=[{"configMapRef": REFERENCE}]),
    with_container("containers", env=variable(configMapKeyRef=REFERENCE)),
    with_volume(configMap=REFERENCE),
    with_projection(configMap=REFERENCE),
]


@pytest.mark.parametrize("pod", SECRETS)
def test_every_secret_reference_is_found(pod: JSONObject) -> None:
    assert list(pod_spec.secret_names(pod)) == ["x"]
    assert pod_spec.first_reference(pod) == "secrets"


@pytest.mark.parametrize("pod", CONFIG_MAPS)
def test_every_config_map_reference_is_found(pod: JSONObject) -> None:
    assert list(pod_spec.config_map_names(pod)) == ["x"]
    assert pod_spec.first_reference(pod) == "configmaps"


@pytest.mark.parametrize(
    ("pod", "resource"),
    [
        ({"spec": {"serviceAccountName": "a", "imagePullSecrets": [REFERENCE]}}, "serviceaccounts"),
        ({"spec": {"serviceAccount": "a"}}, "serviceaccounts"),
        ({"spec": {"resourceClaims": [REFERENCE]}}, "resourceclaims"),
        (with_volume(csi={"driver": "d"}), "csidrivers (via CSI volumes)"),
        (with_volume(persistentVolumeClaim={"claimName": "x"}), "persistentvolumeclaims"),
        (with_volume(ephemeral={}), "persistentvolumeclaims (via ephemeral volumes)"),
        (with_volume(glusterfs={}), "endpoints (via glusterFS volumes)"),
        (with_volume(secret={}), "secrets (via secret volumes)"),
        (with_projection(serviceAccountToken={}), "serviceaccounts (via projected volumes)"),
        (with_projection(clusterTrustBundle={}), "clustertrustbundles"),
        (with_projection(podCertificate={}), "podcertificates"),
        (with_projection(downwardAPI={}), ""),
        (with_volume(emptyDir={}), ""),
        (with_volume(hostPath={"path": "/"}), ""),
        ({"spec": {"serviceAccountName": ""}}, ""),
        ({}, ""),
    ],
)
def test_the_first_reference_of_any_kind_is_named(pod: JSONObject, resource: str) -> None:
    assert pod_spec.first_reference(pod) == resource


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [({"kubernetes.io/config.mirror": ""}, True), ({}, False), (None, False), ("x", False)],
)
def test_a_mirror_pod_is_recognized_by_its_annotation(annotations: JSON, *, expected: bool) -> None:
    assert pod_spec.is_mirror({"metadata": {"annotations": annotations}}) is expected


@given(objects())
def test_malformed_pods_do_not_crash(spec: JSONObject) -> None:
    for pod in ({"spec": spec}, {"spec": {"volumes": [spec], "containers": [spec]}}):
        assert isinstance(pod_spec.first_reference(pod), str)
