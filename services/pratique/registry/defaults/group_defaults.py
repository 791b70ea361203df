"""Computed defaults of Services, workloads and the kinds of the other groups.

Sources: ``pkg/apis/{apps,autoscaling,batch,core,networking,rbac,resource,storage}/*/defaults.go`` of Kubernetes
1.37 and ``pkg/apis/apiextensions/v1/defaults.go`` of ``k8s.io/apiextensions-apiserver``.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.registry.defaults.literal_defaults import Literals

_Function = Callable[[JSONObject], JSONObject]


def _in(field: str, change: _Function) -> _Function:
    """A function that changes the value of a field, empty if it is not there."""

    def changed(value: JSONObject) -> JSONObject:
        before = value.get(field)
        inner = before if isinstance(before, dict) else {}
        after = change(inner)
        return value if after is inner else {**value, field: after}

    return changed


_ACCESSIBLE = frozenset({"LoadBalancer", "NodePort"})
_WITH_CLUSTER_IP = frozenset({"LoadBalancer", "NodePort", "ClusterIP"})
_SERVICE = Literals(zero={"sessionAffinity": "None", "type": "ClusterIP"})
_THREE_HOURS: JSONObject = {"clientIP": {"timeoutSeconds": 10800}}


def _service(service: JSONObject) -> JSONObject:
    filled = _service_spec(service)
    status = filled.get("status") or {}
    balancer = status.get("loadBalancer") or {}
    ingresses = balancer.get("ingress") or []
    if filled["spec"]["type"] != "LoadBalancer" or not any(_needs_mode(one) for one in ingresses):
        return filled
    with_modes = [{**one, "ipMode": "VIP"} if _needs_mode(one) else one for one in ingresses]
    return {**filled, "status": {**status, "loadBalancer": {**balancer, "ingress": with_modes}}}


def _needs_mode(ingress: JSON) -> bool:
    return isinstance(ingress, dict) and bool(ingress.get("ip")) and ingress.get("ipMode") is None


def _service_fields(written: JSONObject) -> JSONObject:
    spec = _SERVICE.fill(written)
    filled: JSONObject = {}
    kind, affinity = spec["type"], spec["sessionAffinity"]
    if affinity == "ClientIP" and _timeout(spec) is None:
        filled["sessionAffinityConfig"] = _THREE_HOURS
    ports = spec.get("ports") or []
    with_targets = [_with_target(port) for port in ports]
    if with_targets != ports:
        filled["ports"] = with_targets
    is_accessible = kind in _ACCESSIBLE or (kind == "ClusterIP" and bool(spec.get("externalIPs")))
    if is_accessible and not spec.get("externalTrafficPolicy"):
        filled["externalTrafficPolicy"] = "Cluster"
    if kind in _WITH_CLUSTER_IP and spec.get("internalTrafficPolicy") is None:
        filled["internalTrafficPolicy"] = "Cluster"
    if kind == "LoadBalancer" and spec.get("allocateLoadBalancerNodePorts") is None:
        filled["allocateLoadBalancerNodePorts"] = True
    spec = {**spec, **filled} if filled else spec
    if affinity == "None" and spec.get("sessionAffinityConfig") is not None:
        spec = {name: value for name, value in spec.items() if name != "sessionAffinityConfig"}
    return spec


def _timeout(spec: JSONObject) -> JSON:
    return ((spec.get("sessionAffinityConfig") or {}).get("clientIP") or {}).get("timeoutSeconds")


def _with_target(port: JSONObject) -> JSONObject:
    return port if port.get("targetPort") else {**port, "targetPort": port.get("port") or 0}


_service_spec = _in("spec", _service_fields)

_DEPLOYMENT = Literals(missing={"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600})
_DEPLOYMENT_UPDATE = Literals(missing={"maxUnavailable": "25%", "maxSurge": "25%"})
_DAEMON_SET_UPDATE = Literals(missing={"maxUnavailable": 1, "maxSurge": 0})
_ROLLING = Literals(zero={"type": "RollingUpdate"})


def _rolling(update: Literals) -> _Function:
    """A strategy that is a rolling update unless it says otherwise, with defaults of its own."""
    fill = _in("rollingUpdate", update.fill)

    def changed(strategy: JSONObject) -> JSONObject:
        strategy = _ROLLING.fill(strategy)
        return fill(strategy) if strategy["type"] == "RollingUpdate" else strategy

    return changed


_deployment_strategy = _in("strategy", _rolling(_DEPLOYMENT_UPDATE))
_daemon_set_strategy = _in("updateStrategy", _rolling(_DAEMON_SET_UPDATE))
_HISTORY = Literals(missing={"revisionHistoryLimit": 10})
_STATEFUL_SET = Literals(
    zero={"podManagementPolicy": "OrderedReady"}, missing={"replicas": 1, "revisionHistoryLimit": 10}
)
_STATEFUL_SET_UPDATE = Literals(missing={"partition": 0, "maxUnavailable": 1})
_retained = _in(
    "persistentVolumeClaimRetentionPolicy",
    Literals(zero={"whenDeleted": "Retain", "whenScaled": "Retain"}).fill,
)


def _stateful_set_update(strategy: JSONObject) -> JSONObject:
    if not strategy.get("type"):
        strategy = {**strategy, "type": "RollingUpdate", "rollingUpdate": strategy.get("rollingUpdate") or {}}
    rolling = strategy.get("rollingUpdate")
    if strategy["type"] != "RollingUpdate" or rolling is None:
        return strategy
    filled = _STATEFUL_SET_UPDATE.fill(rolling)
    return strategy if filled is rolling else {**strategy, "rollingUpdate": filled}


_stateful_set_strategy = _in("updateStrategy", _stateful_set_update)

_JOB = Literals(missing={"completionMode": "NonIndexed", "suspend": False, "manualSelector": False})
_MAX_INT32 = 2**31 - 1


def _job_spec(spec: JSONObject) -> JSONObject:
    filled: JSONObject = {}
    if spec.get("parallelism") is None:
        filled["parallelism"] = 1
        if spec.get("completions") is None:
            filled["completions"] = 1
    if spec.get("backoffLimit") is None:
        filled["backoffLimit"] = 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32
    if spec.get("podReplacementPolicy") is None:
        has_policy = spec.get("podFailurePolicy") is not None
        filled["podReplacementPolicy"] = "Failed" if has_policy else "TerminatingOrFailed"
    return _JOB.fill({**spec, **filled} if filled else spec)


_job_fields = _in("spec", _job_spec)


def labelled_as_its_pods(job: JSONObject) -> JSONObject:
    """A Job with the labels of its template, if it has none."""
    metadata, template = job.get("metadata") or {}, (job.get("spec") or {}).get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    if not labels or metadata.get("labels"):
        return job
    return {**job, "metadata": {**metadata, "labels": labels}}


def _job(job: JSONObject) -> JSONObject:
    return _job_fields(labelled_as_its_pods(job))


_CRON_JOB = Literals(
    zero={"concurrencyPolicy": "Allow"},
    missing={"suspend": False, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1},
)

_ONE_REPLICA = Literals(missing={"minReplicas": 1})
_CPU_METRIC: JSONObject = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_ALL_PODS: JSONObject = {"type": "Percent", "value": 100, "periodSeconds": 15}
_SCALE_UP = Literals(
    missing={
        "stabilizationWindowSeconds": 0,
        "selectPolicy": "Max",
        "policies": [{"type": "Pods", "value": 4, "periodSeconds": 15}, _ALL_PODS],
    }
)
_SCALE_DOWN = Literals(missing={"selectPolicy": "Max", "policies": [_ALL_PODS]})
_scale_up, _scale_down = _in("scaleUp", _SCALE_UP.fill), _in("scaleDown", _SCALE_DOWN.fill)


def _autoscaler_spec(spec: JSONObject) -> JSONObject:
    spec = _ONE_REPLICA.fill(spec)
    if not spec.get("metrics"):
        spec = {**spec, "metrics": [_CPU_METRIC]}
    behavior = spec.get("behavior")
    if behavior is None:
        return spec
    filled = scaling_behavior(behavior)
    return spec if filled is behavior else {**spec, "behavior": filled}


def scaling_behavior(behavior: JSONObject) -> JSONObject:
    """A scaling behavior with the rules that it leaves out: ``SetDefaults_HorizontalPodAutoscalerBehavior``."""
    return _scale_down(_scale_up(behavior))


def _network_policy_spec(spec: JSONObject) -> JSONObject:
    if spec.get("policyTypes"):
        return spec
    return {**spec, "policyTypes": ["Ingress", "Egress"] if spec.get("egress") else ["Ingress"]}


def _ingress_class_spec(spec: JSONObject) -> JSONObject:
    parameters = spec.get("parameters")
    if parameters is None or parameters.get("scope") is not None:
        return spec
    return {**spec, "parameters": {**parameters, "scope": "Cluster"}}


_RBAC = "rbac.authorization.k8s.io"
_in_rbac = _in("roleRef", Literals(zero={"apiGroup": _RBAC}).fill)


def _subject(subject: JSONObject) -> JSONObject:
    if subject.get("apiGroup") or subject.get("kind") not in {"User", "Group"}:
        return subject
    return {**subject, "apiGroup": _RBAC}


_EXACT_COUNT = Literals(zero={"allocationMode": "ExactCount"})
_ONE_DEVICE = Literals(zero={"count": 1})


def _device_request(request: JSONObject) -> JSONObject:
    request = _EXACT_COUNT.fill(request)
    return _ONE_DEVICE.fill(request) if request["allocationMode"] == "ExactCount" else request


def _device_request_v1beta1(request: JSONObject) -> JSONObject:
    """A request of a class; one without it has subrequests instead."""
    return _device_request(request) if request.get("deviceClassName") else request


def _device_taint(taint: JSONObject) -> JSONObject:
    if taint.get("timeAdded") is not None:
        return taint
    return {**taint, "timeAdded": dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}


_CSI_DRIVER = Literals(
    zero={"volumeLifecycleModes": ["Persistent"]},
    missing={
        "attachRequired": True,
        "podInfoOnMount": False,
        "storageCapacity": False,
        "fsGroupPolicy": "ReadWriteOnceWithFSType",
        "requiresRepublish": False,
        "seLinuxMount": False,
        "preventPodSchedulingIfMissing": False,
    },
)


def _definition(definition: JSONObject) -> JSONObject:
    """Note the version in which custom resources are stored first."""
    status = definition.get("status") or {}
    versions = (definition.get("spec") or {}).get("versions") or []
    stored = next((version.get("name") or "" for version in versions if version.get("storage")), None)
    if status.get("storedVersions") or stored is None:
        return definition
    return {**definition, "status": {**status, "storedVersions": [stored]}}


def _definition_spec(spec: JSONObject) -> JSONObject:
    names = spec.get("names") or {}
    kind = names.get("kind") or ""
    filled = (
        Literals(zero={"singular": kind.lower(), "listKind": f"{kind}List"}).fill(names) if kind else names
    )
    if filled is not names:
        spec = {**spec, "names": filled}
    return spec if spec.get("conversion") is not None else {**spec, "conversion": {"strategy": "None"}}


GROUP_DEFAULTS: Mapping[str, _Function] = {
    "apiextensions.v1.CustomResourceDefinition": _definition,
    "apiextensions.v1.CustomResourceDefinitionSpec": _definition_spec,
    "apps.v1.DaemonSet": _in("spec", lambda spec: _daemon_set_strategy(_HISTORY.fill(spec))),
    "apps.v1.Deployment": _in("spec", lambda spec: _deployment_strategy(_DEPLOYMENT.fill(spec))),
    "apps.v1.ReplicaSet": _in("spec", Literals(missing={"replicas": 1}).fill),
    "apps.v1.StatefulSet": _in(
        "spec", lambda spec: _retained(_stateful_set_strategy(_STATEFUL_SET.fill(spec)))
    ),
    "autoscaling.v1.HorizontalPodAutoscaler": _in("spec", _ONE_REPLICA.fill),
    "autoscaling.v2.HorizontalPodAutoscaler": _in("spec", _autoscaler_spec),
    "batch.v1.CronJob": _in("spec", _CRON_JOB.fill),
    "batch.v1.Job": _job,
    "core.v1.Service": _service,
    "networking.v1.IngressClass": _in("spec", _ingress_class_spec),
    "networking.v1.NetworkPolicy": _in("spec", _network_policy_spec),
    "rbac.v1.ClusterRoleBinding": _in_rbac,
    "rbac.v1.RoleBinding": _in_rbac,
    "rbac.v1.Subject": _subject,
    "resource.v1.DeviceSubRequest": _device_request,
    "resource.v1.DeviceTaint": _device_taint,
    "resource.v1.ExactDeviceRequest": _device_request,
    "resource.v1alpha3.DeviceTaint": _device_taint,
    "resource.v1beta1.DeviceRequest": _device_request_v1beta1,
    "resource.v1beta1.DeviceSubRequest": _device_request,
    "resource.v1beta1.DeviceTaint": _device_taint,
    "resource.v1beta2.DeviceSubRequest": _device_request,
    "resource.v1beta2.DeviceTaint": _device_taint,
    "resource.v1beta2.ExactDeviceRequest": _device_request,
    "storage.v1.CSIDriver": _in("spec", _CSI_DRIVER.fill),
}
"""What functions of the other groups do that compute."""
