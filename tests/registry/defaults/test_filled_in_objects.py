"""What defaulting makes of objects: cases of Kubernetes' ``defaults_test.go`` of each API group."""

from __future__ import annotations

import copy

import pytest

from pratique.apimachinery.json_values import JSON, JSONObject
from pratique.apimachinery.kinds import GroupVersionKind
from pratique.registry.defaults.defaulting import with_defaults

KINDS = {
    "APIService": ("apiregistration.k8s.io", "v1"),
    "CSIDriver": ("storage.k8s.io", "v1"),
    "CronJob": ("batch", "v1"),
    "CustomResourceDefinition": ("apiextensions.k8s.io", "v1"),
    "DaemonSet": ("apps", "v1"),
    "Deployment": ("apps", "v1"),
    "EndpointSlice": ("discovery.k8s.io", "v1"),
    "FlowSchema": ("flowcontrol.apiserver.k8s.io", "v1"),
    "HorizontalPodAutoscaler": ("autoscaling", "v2"),
    "IngressClass": ("networking.k8s.io", "v1"),
    "Job": ("batch", "v1"),
    "MutatingAdmissionPolicyBinding": ("admissionregistration.k8s.io", "v1alpha1"),
    "MutatingWebhookConfiguration": ("admissionregistration.k8s.io", "v1"),
    "NetworkPolicy": ("networking.k8s.io", "v1"),
    "PodGroup": ("scheduling.k8s.io", "v1beta1"),
    "PriorityClass": ("scheduling.k8s.io", "v1"),
    "PriorityLevelConfiguration": ("flowcontrol.apiserver.k8s.io", "v1"),
    "ReplicaSet": ("apps", "v1"),
    "ResourceClaim": ("resource.k8s.io", "v1"),
    "RoleBinding": ("rbac.authorization.k8s.io", "v1"),
    "StatefulSet": ("apps", "v1"),
    "StorageClass": ("storage.k8s.io", "v1"),
    "TokenRequest": ("authentication.k8s.io", "v1"),
    "ValidatingWebhookConfiguration": ("admissionregistration.k8s.io", "v1"),
}
LABELS = {"metadata": {"labels": {"foo": "bar"}}}
UP = [
    {"type": "Pods", "value": 4, "periodSeconds": 15},
    {"type": "Percent", "value": 100, "periodSeconds": 15},
]
DOWN = [{"type": "Percent", "value": 100, "periodSeconds": 15}]
CPU = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}


def spec(**fields: JSON) -> JSONObject:
    return {"spec": fields}


def container(**fields: JSON) -> JSONObject:
    return spec(containers=[fields])


def volume(**fields: JSON) -> JSONObject:
    return spec(volumes=[fields])


# kind, what is written, path of what is looked at, what is there then
CASES: list[tuple[str, JSONObject, str, JSON]] = [
    # core
    ("Pod", {}, "spec.restartPolicy", "Always"),
    ("Pod", {}, "spec.dnsPolicy", "ClusterFirst"),
    ("Pod", {}, "spec.schedulerName", "default-scheduler"),
    ("Pod", {}, "spec.securityContext", {}),
    ("Pod", {}, "spec.enableServiceLinks", True),
    ("Pod", spec(enableServiceLinks=False), "spec.enableServiceLinks", False),
    ("Pod", {}, "spec.terminationGracePeriodSeconds", 30),
    ("Pod", spec(terminationGracePeriodSeconds=-1), "spec.terminationGracePeriodSeconds", 1),
    ("PodTemplate", {"template": spec(terminationGracePeriodSeconds=-1)},
     "template.spec.terminationGracePeriodSeconds", -1),
    ("PodTemplate", {}, "template.spec.enableServiceLinks", None),
    ("Pod", spec(serviceAccount="a"), "spec.serviceAccountName", "a"),
    ("Pod", spec(serviceAccount="a", serviceAccountName="b"), "spec.serviceAccount", "b"),
    ("Pod", spec(hostNetwork=True, containers=[{"ports": [{"containerPort": 8080}]}]),
     "spec.containers.0.ports.0.hostPort", 8080),
    ("Pod", container(ports=[{"containerPort": 8080}]), "spec.containers.0.ports.0.hostPort", None),
    ("Pod", container(ports=[{}]), "spec.containers.0.ports.0.protocol", "TCP"),
    ("Pod", container(resources={"limits": {"cpu": "1"}}), "spec.containers.0.resources.requests", {"cpu": "1"}),
    ("Pod", container(resources={"limits": {"cpu": "1"}, "requests": {"memory": "2"}}),
     "spec.containers.0.resources.requests",
     {"memory": "2", "cpu": "1"}),
    ("Pod", container(resources={"limits": {"cpu": "100.5m"}}),
     "spec.containers.0.resources.requests", {"cpu": "101m"}),
    ("ReplicationController", spec(template=container(resources={"limits": {"cpu": "1"}})),
     "spec.template.spec.containers.0.resources", {"limits": {"cpu": "1"}}),
    ("Pod", container(), "spec.containers.0.terminationMessagePath", "/dev/termination-log"),
    ("Pod", container(), "spec.containers.0.terminationMessagePolicy", "File"),
    ("Pod", container(image="nginx"), "spec.containers.0.imagePullPolicy", "Always"),
    ("Pod", container(image="nginx:latest"), "spec.containers.0.imagePullPolicy", "Always"),
    ("Pod", container(image="nginx:1.27"), "spec.containers.0.imagePullPolicy", "IfNotPresent"),
    ("Pod", container(image="registry:5000/nginx"), "spec.containers.0.imagePullPolicy", "Always"),
    ("Pod", container(image="nginx@sha256:" + "a" * 64), "spec.containers.0.imagePullPolicy", "IfNotPresent"),
    ("Pod", container(image="not An image"), "spec.containers.0.imagePullPolicy", "IfNotPresent"),
    ("Pod", spec(ephemeralContainers=[{"image": "a"}]), "spec.ephemeralContainers.0.imagePullPolicy", "Always"),
    ("Pod", container(env=[{"valueFrom": {"fieldRef": {}}}]),
     "spec.containers.0.env.0.valueFrom.fieldRef.apiVersion", "v1"),
    ("Pod", container(livenessProbe={"httpGet": {}}), "spec.containers.0.livenessProbe",
     {"httpGet": {"path": "/", "scheme": "HTTP"}, "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1,
      "failureThreshold": 3}),
    ("Pod", container(startupProbe={"grpc": {"port": 1}}),
     "spec.containers.0.startupProbe.grpc", {"port": 1, "service": ""}),
    ("Pod", container(lifecycle={"preStop": {"httpGet": {}}}),
     "spec.containers.0.lifecycle.preStop.httpGet.scheme", "HTTP"),
    ("Pod", container(env=[{"valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}}]),
     "spec.containers.0.env.0.valueFrom.resourceFieldRef.divisor", "0"),
    ("Pod", volume(name="v"), "spec.volumes.0", {"name": "v", "emptyDir": {}}),
    ("Pod", volume(image={"reference": "a:1"}), "spec.volumes.0.image.pullPolicy", "IfNotPresent"),
    ("Pod", volume(secret={}), "spec.volumes.0.secret.defaultMode", 0o644),
    ("Pod", volume(configMap={"defaultMode": 0}), "spec.volumes.0.configMap.defaultMode", 0),
    ("Pod", volume(hostPath={"path": "/a"}), "spec.volumes.0.hostPath", {"path": "/a", "type": ""}),
    ("Pod", volume(iscsi={}), "spec.volumes.0.iscsi.iscsiInterface", "default"),
    ("Pod", volume(rbd={}), "spec.volumes.0.rbd", {"pool": "rbd", "user": "admin", "keyring": "/etc/ceph/keyring"}),
    ("Pod", volume(scaleIO={}), "spec.volumes.0.scaleIO", {"storageMode": "ThinProvisioned", "fsType": "xfs"}),
    ("Pod", volume(azureDisk={"fsType": ""}), "spec.volumes.0.azureDisk",
     {"fsType": "", "cachingMode": "ReadWrite", "kind": "Shared", "readOnly": False}),
    ("Pod", volume(projected={"sources": [{"serviceAccountToken": {}}]}),
     "spec.volumes.0.projected.sources.0.serviceAccountToken.expirationSeconds", 3600),
    ("Pod", volume(ephemeral={"volumeClaimTemplate": {}}),
     "spec.volumes.0.ephemeral.volumeClaimTemplate.spec.volumeMode", "Filesystem"),
    ("Pod", {"status": {"podIPs": [{"ip": "1.1.1.1"}]}}, "status.podIP", "1.1.1.1"),
    ("Pod", {"status": {"podIP": "1.1.1.1", "podIPs": [{"ip": "2.2.2.2"}]}}, "status.podIPs", [{"ip": "1.1.1.1"}]),
    ("ReplicationController", spec(template=LABELS), "spec.selector", {"foo": "bar"}),
    ("ReplicationController", spec(template=LABELS), "metadata.labels", {"foo": "bar"}),
    ("ReplicationController", {}, "spec.replicas", 1),
    ("ReplicationController", spec(replicas=0), "spec.replicas", 0),
    ("Service", {}, "spec", {"sessionAffinity": "None", "type": "ClusterIP", "internalTrafficPolicy": "Cluster"}),
    ("Service", spec(sessionAffinity="ClientIP"), "spec.sessionAffinityConfig.clientIP.timeoutSeconds", 10800),
    ("Service", spec(sessionAffinity="None", sessionAffinityConfig={}), "spec.sessionAffinityConfig", None),
    ("Service", spec(ports=[{"port": 80}, {"targetPort": "a"}]), "spec.ports",
     [{"port": 80, "targetPort": 80, "protocol": "TCP"}, {"targetPort": "a", "protocol": "TCP"}]),
    ("Service", spec(type="LoadBalancer"), "spec.allocateLoadBalancerNodePorts", True),
    ("Service", spec(type="LoadBalancer"), "spec.externalTrafficPolicy", "Cluster"),
    ("Service", spec(type="ExternalName"), "spec.internalTrafficPolicy", None),
    ("Service", spec(externalIPs=["1.2.3.4"]), "spec.externalTrafficPolicy", "Cluster"),
    ("Secret", {}, "type", "Opaque"),
    ("PersistentVolume", {}, "spec", {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"}),
    ("PersistentVolume", spec(hostPath={}), "spec.hostPath.type", ""),
    ("PersistentVolumeClaim", {}, "status.phase", "Pending"),
    ("PersistentVolumeClaim", {}, "spec.volumeMode", "Filesystem"),
    ("Endpoints", {"subsets": [{"ports": [{"protocol": "UDP"}, {}]}]},
     "subsets.0.ports", [{"protocol": "UDP"}, {"protocol": "TCP"}]),
    ("Namespace", {"metadata": {"name": "a"}}, "metadata.labels", {"kubernetes.io/metadata.name": "a"}),
    ("Namespace", {"metadata": {"generateName": "a"}}, "metadata.labels", None),
    ("Namespace", {}, "status.phase", "Active"),
    ("Node", {"status": {"capacity": {"cpu": "1"}}}, "status.allocatable", {"cpu": "1"}),
    ("LimitRange", spec(limits=[{"type": "Container", "max": {"cpu": "2"}, "min": {"memory": "1"}}]),
     "spec.limits.0.defaultRequest",
     {"cpu": "2", "memory": "1"}),
    ("LimitRange", spec(limits=[{"type": "Pod", "max": {"cpu": "2"}}]), "spec.limits.0.default", None),
    ("ResourceQuota", spec(hard={"cpu": "1u"}), "spec.hard.cpu", "1m"),
    # apps and batch
    ("Deployment", {},
     "spec.strategy", {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}),
    ("Deployment", spec(strategy={"type": "Recreate"}), "spec.strategy", {"type": "Recreate"}),
    ("Deployment", {}, "spec.progressDeadlineSeconds", 600),
    ("Deployment", {}, "spec.template.spec.restartPolicy", "Always"),
    ("DaemonSet", {},
     "spec.updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}),
    ("DaemonSet", {}, "spec.revisionHistoryLimit", 10),
    ("StatefulSet", {},
     "spec.updateStrategy", {"type": "RollingUpdate", "rollingUpdate": {"partition": 0, "maxUnavailable": 1}}),
    ("StatefulSet", spec(updateStrategy={"type": "RollingUpdate"}), "spec.updateStrategy", {"type": "RollingUpdate"}),
    ("StatefulSet", spec(updateStrategy={"type": "OnDelete"}), "spec.updateStrategy", {"type": "OnDelete"}),
    ("StatefulSet", {}, "spec.persistentVolumeClaimRetentionPolicy", {"whenDeleted": "Retain", "whenScaled": "Retain"}),
    ("StatefulSet", spec(volumeClaimTemplates=[{}]), "spec.volumeClaimTemplates.0.status.phase", "Pending"),
    ("ReplicaSet", spec(replicas=3), "spec.replicas", 3),
    ("Job", spec(completions=5), "spec.parallelism", 1),
    ("Job", spec(parallelism=5), "spec.completions", None),
    ("Job", {}, "spec.completions", 1),
    ("Job", {}, "spec.backoffLimit", 6),
    ("Job", spec(backoffLimitPerIndex=1), "spec.backoffLimit", 2**31 - 1),
    ("Job", spec(podFailurePolicy={}), "spec.podReplacementPolicy", "Failed"),
    ("Job", spec(podFailurePolicy={"rules": [{"onPodConditions": [{}]}]}),
     "spec.podFailurePolicy.rules.0.onPodConditions.0.status", "True"),
    ("Job", spec(template=LABELS), "metadata.labels", {"foo": "bar"}),
    ("CronJob", {}, "spec.successfulJobsHistoryLimit", 3),
    ("CronJob", spec(jobTemplate=spec()), "spec.jobTemplate.spec.completions", None),
    ("CronJob", {}, "spec.jobTemplate.spec.template.spec.dnsPolicy", "ClusterFirst"),
    # the other groups
    ("HorizontalPodAutoscaler", {}, "spec", {"minReplicas": 1, "metrics": [CPU]}),
    ("HorizontalPodAutoscaler", spec(behavior={}), "spec.behavior",
     {"scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": UP},
      "scaleDown": {"selectPolicy": "Max", "policies": DOWN}}),
    ("HorizontalPodAutoscaler", spec(behavior={"scaleUp": {"policies": []}}), "spec.behavior.scaleUp.policies", []),
    ("NetworkPolicy", {}, "spec.policyTypes", ["Ingress"]),
    ("NetworkPolicy", spec(egress=[{"ports": [{}]}]), "spec.policyTypes", ["Ingress", "Egress"]),
    ("NetworkPolicy", spec(egress=[{"ports": [{}]}]), "spec.egress.0.ports.0.protocol", "TCP"),
    ("IngressClass", spec(parameters={}), "spec.parameters.scope", "Cluster"),
    ("IngressClass", {}, "spec", None),
    ("RoleBinding", {"subjects": [{"kind": "User"}, {"kind": "ServiceAccount"}]}, "subjects",
     [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io"}, {"kind": "ServiceAccount"}]),
    ("RoleBinding", {}, "roleRef.apiGroup", "rbac.authorization.k8s.io"),
    ("PriorityClass", {}, "preemptionPolicy", "PreemptLowerPriority"),
    ("PodGroup", {}, "spec", {"disruptionMode": {"single": {}}}),
    ("StorageClass", {}, "volumeBindingMode", "Immediate"),
    ("CSIDriver", {}, "spec.volumeLifecycleModes", ["Persistent"]),
    ("CSIDriver", {}, "spec.preventPodSchedulingIfMissing", False),
    ("EndpointSlice", {"ports": [{}]}, "ports.0", {"name": "", "protocol": "TCP"}),
    ("FlowSchema", {}, "spec.matchingPrecedence", 1000),
    ("PriorityLevelConfiguration", spec(limited={"limitResponse": {"queuing": {}}}), "spec.limited",
     {"nominalConcurrencyShares": 30, "lendablePercent": 0,
      "limitResponse": {"queuing": {"handSize": 8, "queues": 64, "queueLengthLimit": 50}}}),
    ("ResourceClaim", spec(devices={"requests": [{"exactly": {"tolerations": [{}]}}]}),
     "spec.devices.requests.0.exactly",
     {"allocationMode": "ExactCount", "count": 1, "tolerations": [{"operator": "Equal"}]}),
    ("ResourceClaim", spec(devices={"requests": [{"exactly": {"allocationMode": "All"}}]}),
     "spec.devices.requests.0.exactly",
     {"allocationMode": "All"}),
    ("TokenRequest", {}, "spec.expirationSeconds", 3600),
    ("APIService", spec(service={}), "spec.service.port", 443),
    ("CustomResourceDefinition", spec(names={"kind": "Ship"}),
     "spec.names", {"kind": "Ship", "singular": "ship", "listKind": "ShipList"}),
    ("CustomResourceDefinition", {}, "spec.conversion", {"strategy": "None"}),
    ("CustomResourceDefinition", spec(versions=[{"name": "a"}, {"name": "b", "storage": True}]),
     "status.storedVersions", ["b"]),
    ("ValidatingWebhookConfiguration", {"webhooks": [{"rules": [{}], "clientConfig": {"service": {}}}]}, "webhooks.0",
     {"rules": [{"scope": "*"}], "clientConfig": {"service": {"port": 443}}, "failurePolicy": "Fail",
      "matchPolicy": "Equivalent",
      "namespaceSelector": {}, "objectSelector": {}, "timeoutSeconds": 10}),
    ("MutatingWebhookConfiguration", {"webhooks": [{}]}, "webhooks.0.reinvocationPolicy", "Never"),
    ("MutatingAdmissionPolicyBinding", spec(paramRef={}), "spec.paramRef.parameterNotFoundAction", "Deny"),
]  # fmt: skip


def at(value: JSON, path: str) -> JSON:
    for step in path.split("."):
        match value:
            case list():
                value = value[int(step)]
            case dict():
                value = value.get(step)
            case _:
                return None
    return value


@pytest.mark.parametrize(("kind", "written", "path", "expected"), CASES)
def test_objects_are_filled_in_as_by_kubernetes(
    kind: str, written: JSONObject, path: str, expected: JSON
) -> None:
    group, version = KINDS.get(kind, ("", "v1"))
    before = copy.deepcopy(written)

    filled = with_defaults(GroupVersionKind(group, version, kind), written)

    assert at(filled, path) == expected
    assert written == before


def test_a_taint_of_devices_gets_the_time_of_now() -> None:
    kind = GroupVersionKind("resource.k8s.io", "v1", "DeviceTaintRule")
    filled = with_defaults(kind, {})
    assert str(at(filled, "spec.taint.timeAdded")).endswith("Z")
    assert with_defaults(kind, filled) is filled


def test_a_request_without_a_class_of_v1beta1_has_subrequests_and_no_count() -> None:
    kind = GroupVersionKind("resource.k8s.io", "v1beta1", "ResourceClaim")
    written = spec(devices={"requests": [{"firstAvailable": [{}]}, {"deviceClassName": "a"}]})
    filled = with_defaults(kind, written)
    assert at(filled, "spec.devices.requests") == [
        {"firstAvailable": [{"allocationMode": "ExactCount", "count": 1}]},
        {"deviceClassName": "a", "allocationMode": "ExactCount", "count": 1},
    ]
