"""Which volumes a policy allows."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.controllers.pod_security_policy.providers import make_provider
from support.pod_security_policies import pod_with_context, policy

KINDS = {
    "hostPath": "hostPath", "emptyDir": "emptyDir", "gcePersistentDisk": "gcePersistentDisk",
    "awsElasticBlockStore": "awsElasticBlockStore", "gitRepo": "gitRepo", "secret": "secret", "nfs": "nfs",
    "iscsi": "iscsi", "glusterfs": "glusterfs", "persistentVolumeClaim": "persistentVolumeClaim", "rbd": "rbd",
    "flexVolume": "flexVolume", "cinder": "cinder", "cephfs": "cephFS", "flocker": "flocker",
    "downwardAPI": "downwardAPI", "fc": "fc", "azureFile": "azureFile", "configMap": "configMap",
    "vsphereVolume": "vsphereVolume", "quobyte": "quobyte", "azureDisk": "azureDisk",
    "photonPersistentDisk": "photonPersistentDisk", "storageos": "storageos", "projected": "projected",
    "portworxVolume": "portworxVolume", "scaleIO": "scaleIO", "csi": "csi", "ephemeral": "ephemeral",
}  # fmt: skip
"""The field of a volume, and what policies call it."""


def errors_in(volume: JSONObject, mounts: JSON = None, **spec: JSON) -> list[str]:
    containers = [{"name": "c", "volumeMounts": mounts}]
    reviewed = pod_with_context(
        volumes=[{"name": "v", **volume}], containers=containers, initContainers=containers
    )
    return list(map(str, make_provider(policy(**spec)).errors(reviewed)))


@pytest.mark.parametrize(("field", "kind"), KINDS.items())
def test_a_volume_type_must_be_listed(field: str, kind: str) -> None:
    volume: JSONObject = {field: {}}
    text = f'spec.volumes[0]: Invalid value: "{kind}": {kind} volumes are not allowed to be used'
    assert errors_in(volume) == [text]
    assert errors_in(
        volume, volumes=[listed for listed in KINDS.values() if listed not in {kind, "secret"}]
    ) == [text]
    assert errors_in(volume, volumes=[kind]) == []
    assert errors_in(volume, volumes=["*"]) == []


@pytest.mark.parametrize("volume", [{}, {"hostPath": None}])
def test_a_volume_without_a_source_is_an_empty_dir(volume: JSONObject) -> None:
    assert errors_in(volume, volumes=["emptyDir"]) == []
    (fault,) = errors_in(volume, volumes=["hostPath"])
    assert fault.endswith("emptyDir volumes are not allowed to be used")


def test_a_newer_volume_type_is_denied_whatever_is_allowed() -> None:
    assert errors_in({"image": {"reference": "app"}}, volumes=["*"]) == [
        'spec.volumes[0]: Invalid value: "": unknown volume type for volume: v'
    ]


@pytest.mark.parametrize(
    ("path", "prefixes", "allowed"),
    [
        ("/foo", [], True),
        ("/foo", ["/foo"], True),
        ("/foo/", ["/foo"], True),
        ("/foo", ["/foo/"], True),
        ("/foo/bar", ["/foo"], True),
        ("/foo", ["/"], True),
        ("/food", ["/foo"], False),
        ("/fo", ["/foo"], False),
        ("/", ["/foo"], False),
        ("foo", ["/"], False),
        ("/b/c", ["/a", "/b"], True),
    ],
)
def test_a_host_path_must_be_below_an_allowed_prefix(
    path: str, prefixes: list[str], *, allowed: bool
) -> None:
    paths = [{"pathPrefix": prefix} for prefix in prefixes]
    text = f'spec.volumes[0].hostPath.pathPrefix: Invalid value: "{path}": is not allowed to be used'
    found = errors_in({"hostPath": {"path": path}}, volumes=["hostPath"], allowedHostPaths=paths)
    assert found == ([] if allowed else [text])


READ_ONLY = {"pathPrefix": "/foo", "readOnly": True}


@pytest.mark.parametrize(
    ("mount", "paths", "allowed"),
    [
        ({"name": "v", "readOnly": True}, [READ_ONLY], True),
        ({"name": "other"}, [READ_ONLY], True),
        ({"name": "v"}, [READ_ONLY], False),
        ({"name": "v", "readOnly": False}, [READ_ONLY, {"pathPrefix": "/bar"}], False),
        ({"name": "v"}, [READ_ONLY, {"pathPrefix": "/"}], True),
    ],
)
def test_read_only_host_paths_must_be_mounted_read_only_everywhere(
    mount: JSONObject, paths: list[JSONObject], *, allowed: bool
) -> None:
    mounts = [{"name": "v", "readOnly": True}, mount]
    found = errors_in({"hostPath": {"path": "/foo"}}, mounts, volumes=["hostPath"], allowedHostPaths=paths)
    expected = [
        f"spec.{field}[0].volumeMounts[1].readOnly: Invalid value: false: must be read-only"
        for field in ("initContainers", "containers")
    ]
    assert found == ([] if allowed else expected)


@pytest.mark.parametrize(
    ("drivers", "text"),
    [
        ([], None),
        (["example/cifs"], None),
        (
            ["other"],
            'spec.volumes[0].driver: Invalid value: "example/cifs": Flexvolume driver is not allowed to be used',
        ),
    ],
)
def test_flex_volumes_need_an_allowed_driver(drivers: list[str], text: str | None) -> None:
    allowed = [{"driver": driver} for driver in drivers]
    found = errors_in({"flexVolume": {"driver": "example/cifs"}}, volumes=["*"], allowedFlexVolumes=allowed)
    assert found == ([] if text is None else [text])


@pytest.mark.parametrize(
    ("drivers", "text"),
    [
        ([], None),
        (["d"], None),
        (
            ["other"],
            'spec.volumes[0].csi.driver: Invalid value: "d": Inline CSI driver is not allowed to be used',
        ),
    ],
)
def test_inline_csi_volumes_need_an_allowed_driver(drivers: list[str], text: str | None) -> None:
    allowed = [{"name": driver} for driver in drivers]
    found = errors_in({"csi": {"driver": "d"}}, volumes=["csi"], allowedCSIDrivers=allowed)
    assert found == ([] if text is None else [text])


TOKEN = {"serviceAccountToken": {"path": "token", "expirationSeconds": 3607}}
CA = {"configMap": {"name": "kube-root-ca.crt"}}
NAMESPACE_FIELD = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
NAMESPACE = {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": NAMESPACE_FIELD}]}}


@pytest.mark.parametrize(
    ("sources", "is_token"),
    [
        ([], True),
        ([TOKEN, CA, NAMESPACE], True),
        ([{"serviceAccountToken": {"path": "other"}}], False),
        ([{"serviceAccountToken": {"path": "token", "audience": "vault"}}], False),
        ([TOKEN, {"configMap": {"name": "other"}}], False),
        ([TOKEN, {"secret": {"name": "s"}}], False),
        ([{"downwardAPI": {"items": [{"path": "x", "fieldRef": NAMESPACE_FIELD}]}}], False),
        ([{"downwardAPI": {"items": [{"path": "namespace"}]}}], False),
        ([{}], False),
    ],
)
def test_a_policy_that_allows_secrets_allows_the_projected_token(sources: JSON, *, is_token: bool) -> None:
    volume: JSONObject = {"projected": {"sources": sources}}
    assert (errors_in(volume, volumes=["secret"]) == []) is is_token
    assert errors_in(volume, volumes=["configMap"])
