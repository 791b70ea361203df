"""The CSI drivers of volumes."""

from __future__ import annotations

import pytest

from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.pods.volumes import driver_of_volume, wants_audience

POD = {"metadata": {"name": "web", "namespace": "shop"}}


def claim(name: str, volume: str | None) -> JSONObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"volumeName": volume},
    }


def volume(name: str, **source: JSON) -> JSONObject:
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": source}


CLUSTER = ObjectStore(
    [
        claim("data", "disk"),
        claim("web-scratch", "disk"),
        claim("waiting", None),
        claim("lost", "gone"),
        claim("old", "ebs"),
        volume("disk", csi={"driver": "d.example.com"}),
        volume("ebs", awsElasticBlockStore={"volumeID": "1"}),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "CSIDriver",
            "metadata": {"name": "d.example.com"},
            "spec": {"tokenRequests": [{"audience": "vault"}, {}]},
        },
    ]
)


@pytest.mark.parametrize(
    ("source", "driver"),
    [
        ({"csi": {"driver": "a"}}, "a"),
        ({"persistentVolumeClaim": {"claimName": "data"}}, "d.example.com"),
        ({"persistentVolumeClaim": {"claimName": "waiting"}}, ""),
        ({"persistentVolumeClaim": {"claimName": "old"}}, "ebs.csi.aws.com"),
        ({"ephemeral": {"volumeClaimTemplate": {}}}, "d.example.com"),
        ({"emptyDir": {}}, ""),
        ({"gcePersistentDisk": {}}, "pd.csi.storage.gke.io"),
        ({"cinder": {}}, "cinder.csi.openstack.org"),
        ({"azureDisk": {}}, "disk.csi.azure.com"),
        ({"azureFile": {}}, "file.csi.azure.com"),
        ({"vsphereVolume": {}}, "csi.vsphere.vmware.com"),
        ({"portworxVolume": {}}, "pxd.portworx.com"),
    ],
)
def test_a_volume_resolves_to_its_csi_driver(source: JSONObject, driver: str) -> None:
    assert driver_of_volume(POD, {"name": "scratch", **source}, CLUSTER) == driver


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ({"persistentVolumeClaim": {"claimName": "x"}}, 'persistentvolumeclaim "x" not found'),
        ({"persistentVolumeClaim": {"claimName": "lost"}}, 'persistentvolume "gone" not found'),
    ],
)
def test_a_missing_claim_or_volume_is_not_found(source: JSONObject, text: str) -> None:
    with pytest.raises(RefusalError, match=f"^{text}$"):
        driver_of_volume(POD, {"name": "v", **source}, CLUSTER)


@pytest.mark.parametrize(("audience", "wanted"), [("vault", True), ("", True), ("other", False)])
def test_a_driver_requests_tokens_for_its_audiences(audience: str, *, wanted: bool) -> None:
    assert wants_audience("d.example.com", audience, CLUSTER) is wanted


def test_a_missing_driver_is_not_found() -> None:
    with pytest.raises(RefusalError, match=r'^csidriver.storage.k8s.io "d" not found$'):
        wants_audience("d", "", CLUSTER)
