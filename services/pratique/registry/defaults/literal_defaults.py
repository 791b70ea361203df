"""Defaults that are the same for every object: what a ``SetDefaults_`` function does, said as data.

A function is named by its API group, version and type: ``core.v1.Probe`` is ``SetDefaults_Probe`` in
``pkg/apis/core/v1/defaults.go``.

Sources: ``pkg/apis/*/*/defaults.go`` of Kubernetes 1.37.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from pratique.apimachinery.json_values import JSON, JSONObject


class Literals(msgspec.Struct, frozen=True):
    """The default values of fields."""

    zero: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    """For fields that are empty or zero, or not there."""
    missing: Mapping[str, JSON] = msgspec.field(default_factory=dict)
    """For fields that are not there: Go has a pointer, so that an empty value is a value."""

    def fill(self, value: JSONObject) -> JSONObject:
        """The value with its defaults: the same one if it has them all."""
        absent = [item for item in self.zero.items() if not value.get(item[0])]
        if self.missing:
            absent += [item for item in self.missing.items() if value.get(item[0]) is None]
        return value | dict(absent) if absent else value


_MODE = 0o644
_FAIL = Literals(missing={"failurePolicy": "Fail"})
_MATCH_RESOURCES = Literals(
    missing={"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
)
_VALIDATING_WEBHOOK: Mapping[str, JSON] = {
    "failurePolicy": "Fail",
    "matchPolicy": "Equivalent",
    "namespaceSelector": {},
    "objectSelector": {},
    "timeoutSeconds": 10,
}
_HTTPS_PORT = Literals(missing={"port": 443})
_DEFAULT_MODE = Literals(missing={"defaultMode": _MODE})

LITERALS: Mapping[str, Literals] = {
    "admissionregistration.v1.MatchResources": _MATCH_RESOURCES,
    "admissionregistration.v1.MutatingAdmissionPolicySpec": _FAIL,
    "admissionregistration.v1.MutatingWebhook": Literals(
        missing={**_VALIDATING_WEBHOOK, "reinvocationPolicy": "Never"}
    ),
    "admissionregistration.v1.Rule": Literals(missing={"scope": "*"}),
    "admissionregistration.v1.ServiceReference": _HTTPS_PORT,
    "admissionregistration.v1.ValidatingAdmissionPolicySpec": _FAIL,
    "admissionregistration.v1.ValidatingWebhook": Literals(missing=_VALIDATING_WEBHOOK),
    "admissionregistration.v1alpha1.MatchResources": _MATCH_RESOURCES,
    "admissionregistration.v1alpha1.MutatingAdmissionPolicySpec": _FAIL,
    "admissionregistration.v1alpha1.ParamRef": Literals(missing={"parameterNotFoundAction": "Deny"}),
    "admissionregistration.v1beta1.MatchResources": _MATCH_RESOURCES,
    "admissionregistration.v1beta1.MutatingAdmissionPolicySpec": _FAIL,
    "apiextensions.v1.ServiceReference": _HTTPS_PORT,
    "apiregistration.v1.ServiceReference": _HTTPS_PORT,
    "authentication.v1.TokenRequestSpec": Literals(missing={"expirationSeconds": 3600}),
    "batch.v1.PodFailurePolicyOnPodConditionsPattern": Literals(zero={"status": "True"}),
    "core.v1.ConfigMap": Literals(),  # an empty map for none, which JSON leaves out
    "core.v1.ConfigMapVolumeSource": _DEFAULT_MODE,
    "core.v1.DownwardAPIVolumeSource": _DEFAULT_MODE,
    "core.v1.HTTPGetAction": Literals(zero={"path": "/", "scheme": "HTTP"}),
    "core.v1.HostPathVolumeSource": Literals(missing={"type": ""}),
    "core.v1.NamespaceStatus": Literals(zero={"phase": "Active"}),
    "core.v1.ObjectFieldSelector": Literals(zero={"apiVersion": "v1"}),
    "core.v1.PersistentVolumeClaimSpec": Literals(missing={"volumeMode": "Filesystem"}),
    "core.v1.Probe": Literals(
        zero={"timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3}
    ),
    "core.v1.ProjectedVolumeSource": _DEFAULT_MODE,
    "core.v1.Secret": Literals(zero={"type": "Opaque"}),
    "core.v1.SecretVolumeSource": _DEFAULT_MODE,
    "core.v1.ServiceAccountTokenProjection": Literals(missing={"expirationSeconds": 3600}),
    "discovery.v1.EndpointPort": Literals(missing={"name": "", "protocol": "TCP"}),
    "flowcontrol.v1.ExemptPriorityLevelConfiguration": Literals(
        missing={"nominalConcurrencyShares": 0, "lendablePercent": 0}
    ),
    "flowcontrol.v1.FlowSchemaSpec": Literals(zero={"matchingPrecedence": 1000}),
    "flowcontrol.v1.LimitedPriorityLevelConfiguration": Literals(
        missing={"nominalConcurrencyShares": 30, "lendablePercent": 0}
    ),
    "flowcontrol.v1.QueuingConfiguration": Literals(
        zero={"handSize": 8, "queues": 64, "queueLengthLimit": 50}
    ),
    "networking.v1.NetworkPolicyPort": Literals(missing={"protocol": "TCP"}),
    "resource.v1alpha3.ResourcePoolStatusRequestSpec": Literals(missing={"limit": 100}),
    "scheduling.v1.PriorityClass": Literals(missing={"preemptionPolicy": "PreemptLowerPriority"}),
    # These set a preemption policy, if the feature gate PodGroupPreemptionPolicy is on, which it is not by default.
    "scheduling.v1alpha3.CompositePodGroup": Literals(),
    "scheduling.v1alpha3.PodGroup": Literals(),
    "scheduling.v1beta1.PodGroup": Literals(),
    "storage.v1.StorageClass": Literals(
        missing={"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"}
    ),
}
"""What functions do that set constants."""

_DEFINITIONS = "apiextensions-apiserver.pkg.apis.apiextensions.v1.CustomResourceDefinition"
_DEVICES = ("api.resource.v1", "api.resource.v1beta1", "api.resource.v1beta2")
_NO_AMOUNT: Mapping[str, JSON] = {"value": "0"}

WRITTEN_ZEROS: Mapping[str, Mapping[str, JSON]] = {
    f"{_DEFINITIONS}Version": {"served": False, "storage": False},
    "api.apps.v1.ControllerRevision": {"revision": 0},
    "api.apps.v1.StatefulSetOrdinals": {"start": 0},
    "api.core.v1.ISCSIPersistentVolumeSource": {"lun": 0},
    "api.core.v1.ISCSIVolumeSource": {"lun": 0},
    "api.core.v1.ResourceFieldSelector": {"divisor": "0"},
    "api.core.v1.SleepAction": {"seconds": 0},
    "api.scheduling.v1.PriorityClass": {"value": 0},
    **{f"{group}.Counter": _NO_AMOUNT for group in _DEVICES},
    **{f"{group}.DeviceCapacity": _NO_AMOUNT for group in _DEVICES},
    **{f"{group}.ResourcePool": {"generation": 0} for group in _DEVICES},
}
"""Zero values that Go writes even where nothing was given, by type: those that are found in specifications."""

LEADING_TO_ZEROS: Mapping[str, tuple[str, ...]] = {
    f"{_DEFINITIONS}Spec": ("versions",),
    "api.apps.v1.StatefulSetSpec": ("ordinals",),
    "api.core.v1.DownwardAPIVolumeFile": ("resourceFieldRef",),
    "api.core.v1.EnvVarSource": ("resourceFieldRef",),
    "api.core.v1.LifecycleHandler": ("sleep",),
    "api.resource.v1beta1.BasicDevice": ("capacity", "consumesCounters"),
    **{f"{group}.CounterSet": ("counters",) for group in _DEVICES},
    **{f"{group}.Device": ("capacity", "consumesCounters") for group in _DEVICES if group != _DEVICES[1]},
    **{f"{group}.DeviceCounterConsumption": ("counters",) for group in _DEVICES},
    **{f"{group}.ResourceSliceSpec": ("pool", "sharedCounters") for group in _DEVICES},
}
"""The fields that lead to these types."""
