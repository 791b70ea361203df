"""Policies as files contain them."""

from __future__ import annotations

import pytest
from hypothesis import given

from pratique.apimachinery.errors import InputError
from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.cluster.store import ObjectStore
from pratique.controllers.pod_security_policy.api_types import (
    IDRange,
    IDStrategyOptions,
    PodSecurityPolicySpec,
    read_policy,
)
from pratique.controllers.pod_security_policy.providers import make_provider
from support.pod_security_policies import RULES, policy
from support.strategies.pod_security_policies import policies


def test_missing_fields_have_the_api_servers_defaults() -> None:
    spec = read_policy({"metadata": {"name": "p"}, "spec": {}}).spec
    assert spec == PodSecurityPolicySpec()
    assert spec.allow_privilege_escalation
    assert spec.run_as_group.rule == "RunAsAny"
    assert not (spec.privileged)
    assert not (spec.host_network)
    assert not (spec.host_ports)
    assert not (spec.volumes)


def test_null_fields_count_as_missing() -> None:
    nothing: JSON = dict.fromkeys(["privileged", "hostPorts", "runAsGroup", "allowPrivilegeEscalation"])
    assert read_policy(policy(**nothing)).spec == read_policy(policy()).spec
    ranges: JSON = {"rule": "MustRunAs", "ranges": [{"min": 1, "max": None}]}
    assert read_policy(policy(fsGroup=ranges)).spec.fs_group == IDStrategyOptions(
        "MustRunAs", (IDRange(1, 0),)
    )


def test_every_field_is_read_by_its_name() -> None:
    written: JSONObject = {
        **RULES,
        "privileged": True,
        "defaultAddCapabilities": ["A"],
        "requiredDropCapabilities": ["B"],
        "allowedCapabilities": ["C"],
        "volumes": ["csi"],
        "hostNetwork": True,
        "hostPorts": [{"min": 1, "max": 2}],
        "hostPID": True,
        "hostIPC": True,
        "runAsGroup": {"rule": "MayRunAs", "ranges": [{"min": 1, "max": 2}]},
        "readOnlyRootFilesystem": True,
        "defaultAllowPrivilegeEscalation": True,
        "allowPrivilegeEscalation": False,
        "allowedHostPaths": [{"pathPrefix": "/a", "readOnly": True}],
        "allowedFlexVolumes": [{"driver": "d"}],
        "allowedCSIDrivers": [{"name": "d"}],
        "allowedUnsafeSysctls": ["a"],
        "forbiddenSysctls": ["b"],
        "allowedProcMountTypes": ["Unmasked"],
        "runtimeClass": {"allowedRuntimeClassNames": ["a"], "defaultRuntimeClassName": "a"},
    }
    spec, plain = read_policy({"metadata": {"name": "p"}, "spec": written}).spec, PodSecurityPolicySpec()
    unread = {
        name
        for name in PodSecurityPolicySpec.__struct_fields__
        if getattr(spec, name) == getattr(plain, name)
    }
    assert not unread


@pytest.mark.parametrize("api_version", ["policy/v1beta1", "extensions/v1beta1"])
def test_policies_of_both_groups_share_a_collection(api_version: str) -> None:
    store = ObjectStore([{**policy(), "apiVersion": api_version}])
    (found,) = store.list("policy", "podsecuritypolicies")
    assert found["metadata"]["name"] == "p"


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"runAsUser": {}}, "Unrecognized RunAsUser strategy type "),
        ({"runAsUser": {"rule": "MustRunAs"}}, "MustRunAsRange requires at least one range"),
        ({"runAsUser": {"rule": "MayRunAs"}}, "Unrecognized RunAsUser strategy type MayRunAs"),
        ({"runAsGroup": {"rule": "x"}}, "Unrecognized RunAsGroup strategy type x"),
        ({"runAsGroup": {"rule": "MayRunAs"}}, "ranges must be supplied for MayRunAs"),
        ({"seLinux": {"rule": "x"}}, "Unrecognized SELinuxContext strategy type x"),
        ({"seLinux": {"rule": "MustRunAs"}}, "MustRunAs requires SELinuxOptions"),
        ({"fsGroup": {"rule": "x"}}, "Unrecognized FSGroup strategy type x"),
        ({"fsGroup": {"rule": "MustRunAs", "ranges": []}}, "ranges must be supplied for MustRunAs"),
        ({"supplementalGroups": {"rule": "x"}}, "Unrecognized SupplementalGroups strategy type x"),
        (
            {"fsGroup": {"rule": "MustRunAs"}, "supplementalGroups": {"rule": "MustRunAs"}},
            "ranges must be supplied for MustRunAs",
        ),
        (
            {"seLinux": {"rule": "x"}, "runAsUser": {"rule": "y"}},
            "[Unrecognized RunAsUser strategy type y, Unrecognized SELinuxContext strategy type x]",
        ),
        ({"privileged": "yes"}, "Expected `bool`, got `str` - at `$.spec.privileged`"),
    ],
)
def test_an_invalid_policy_states_its_errors(spec: JSONObject, reason: str) -> None:
    with pytest.raises(InputError) as error:
        make_provider(policy(**spec))
    assert str(error.value) == f"error creating provider for PSP p: {reason}"


@given(policies("p"))
def test_valid_policies_are_accepted(document: JSONObject) -> None:
    assert make_provider(document).policy.name == "p"
