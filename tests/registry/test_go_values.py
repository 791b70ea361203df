"""Values of objects, printed as Go writes them as internal types."""

from __future__ import annotations

import pytest

from pratique.apimachinery.json_values import JSON
from pratique.registry.go_values import differs, internal_diff, internal_value

CLAIM = {
    "metadata": {"name": "data", "annotations": {"a": "b"}},
    "spec": {"accessModes": [""], "resources": {"requests": {"storage": "1Gi"}}, "volumeMode": "Filesystem"},
    "status": {"phase": "Pending"},
}
PRINTED_CLAIM = (
    '{"name":"data","annotations":{"a":"b"},"Spec":{"AccessModes":[""],"Selector":null,"Resources":{"Limits":null,'
    '"Requests":{"storage":"1Gi"}},"VolumeName":"","StorageClassName":null,"VolumeMode":"Filesystem",'
    '"DataSource":null,"DataSourceRef":null,"VolumeAttributesClassName":null},"Status":{"Phase":"Pending",'
    '"AccessModes":null,"Capacity":null,"Conditions":null,"AllocatedResources":null,'
    '"AllocatedResourceStatuses":null,"CurrentVolumeAttributesClassName":null,"ModifyVolumeStatus":null,'
    '"HealthStatus":null}}'
)


@pytest.mark.parametrize(
    ("type_name", "value", "printed"),
    [
        ("rbac.RoleRef", {"name": "view", "apiGroup": "g"}, '{"APIGroup":"g","Kind":"","Name":"view"}'),
        (
            "core.ServicePort",
            {"port": 80, "protocol": "TCP"},
            '{"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}',
        ),
        ("[]core.PersistentVolumeClaim", [CLAIM], f"[{PRINTED_CLAIM}]"),
        ("*meta.v1.LabelSelector", {"matchLabels": {"b": "<", "a": ""}}, r'{"matchLabels":{"a":"","b":"\u003c"}}'),
        ("*meta.v1.LabelSelector", None, "null"),
        ("meta.v1.LabelSelector", None, "{}"),
        ("map[string]string", {"b": "2", "a": "1"}, '{"a":"1","b":"2"}'),
        (
            "core.RBDVolumeSource",
            {"monitors": ["m"], "user": "u", "image": "i", "pool": "p", "fsType": "ext4"},
            ('{"CephMonitors":["m"],"RBDImage":"i","FSType":"ext4","RBDPool":"p","RadosUser":"u","Keyring":"",'
            '"SecretRef":null,"ReadOnly":false}'),
        ),
        ("core.ExecAction", {"command": []}, '{"Command":[]}'),
        (
            "core.ResourceRequirements",
            {"requests": {"a": "1.5", "b": "x"}},
            '{"Limits":null,"Requests":{"a":"1500m","b":"x"},"Claims":null}',
        ),
        ("core.EnvVar", None, '{"Name":"","Value":"","ValueFrom":null}'),
    ],
)  # fmt: skip
def test_a_value_prints_as_go_writes_its_internal_type(type_name: str, value: JSON, printed: str) -> None:
    assert internal_value(type_name, value).text == printed


def test_a_type_that_is_not_there_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(KeyError):
        internal_value("core.RoleRef", {})


def test_a_difference_shows_three_lines_around_what_has_changed() -> None:
    old, new = ({"name": "v", "mountPath": path, "readOnly": False} for path in ("/<v>", "/w"))
    assert internal_diff("core.VolumeMount", old, new).split("\n") == [
        "@@ -2,7 +2,7 @@",
        '  "Name": "v",',
        '  "ReadOnly": false,',
        '  "RecursiveReadOnly": null,',
        r'- "MountPath": "/\u003cv\u003e",',
        '+ "MountPath": "/w",',
        '  "SubPath": "",',
        '  "MountPropagation": null,',
        '  "SubPathExpr": "",',
        "",
    ]


@pytest.mark.parametrize(
    ("type_name", "old", "new", "is_different"),
    [
        ("*batch.PodFailurePolicy", None, {}, True),
        ("batch.PodFailurePolicy", {"rules": []}, {}, False),
        ("*string", None, "", True),
        ("*int32", None, 0, True),
        ("core.ServicePort", {"port": 0}, {"name": ""}, False),
        ("core.ResourceRequirements", {"requests": {"a": "1.5"}}, {"requests": {"a": "1500m"}}, False),
        ("core.ResourceRequirements", {"requests": {"a": "1"}}, {"requests": {"a": "2"}, "limits": {}}, True),
        ("core.PodSecurityContext", {}, {"seLinuxOptions": {}}, True),
        ("[]core.PersistentVolumeClaim", [{"metadata": {"labels": {}}}], [{}], False),
    ],
)
def test_what_is_empty_is_missing_unless_go_has_a_pointer_to_it(
    type_name: str, old: JSON, new: JSON, *, is_different: bool
) -> None:
    assert differs(type_name, old, new) == is_different
