"""What the strategies of single kinds make of objects: cases of Kubernetes' ``strategy_test.go`` files."""

from __future__ import annotations

import datetime as dt

import pytest

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, Document, JSONObject, member
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.cluster.api_resources import built_in_resources
from pratique.manifests.requests import review_of_manifest
from pratique.registry.object_validation import complete, receive
from pratique.registry.strategies.preparation import as_read_back, prepare_for_validation

NOW = dt.datetime(2026, 11, 23, 9, 30, 1, tzinfo=dt.UTC).timestamp()
VERSIONS = {
    "APIService": "apiregistration.k8s.io/v1",
    "CSIDriver": "storage.k8s.io/v1",
    "CertificateSigningRequest": "certificates.k8s.io/v1",
    "CustomResourceDefinition": "apiextensions.k8s.io/v1",
    "DaemonSet": "apps/v1",
    "Deployment": "apps/v1",
    "EndpointSlice": "discovery.k8s.io/v1",
    "HorizontalPodAutoscaler": "autoscaling/v1",
    "Ingress": "networking.k8s.io/v1",
    "Job": "batch/v1",
    "Lease": "coordination.k8s.io/v1",
    "PodDisruptionBudget": "policy/v1",
    "PodGroup": "scheduling.k8s.io/v1beta1",
    "ResourceSlice": "resource.k8s.io/v1",
    "StatefulSet": "apps/v1",
    "ValidatingWebhookConfiguration": "admissionregistration.k8s.io/v1",
}
CLAIM = {"kind": "PersistentVolumeClaim", "name": "b"}
OTHER = {"kind": "Ship", "apiGroup": "example.com", "name": "b"}
GATED = {"grpc": {"port": 1, "mode": "TLS"}}
EMPTY_MATCH = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match"


def manifest(kind: str, **fields: JSON) -> JSONObject:
    metadata = {"name": "a", **fields.pop("metadata", {})}
    return {"apiVersion": VERSIONS.get(kind, "v1"), "kind": kind, "metadata": metadata, **fields}


def spec(**fields: JSON) -> JSONObject:
    return {"spec": fields}


def arrived(review: Review) -> Review:
    return complete(receive(review))


def created(kind: str, written: JSONObject) -> JSONObject:
    review = review_of_manifest(manifest(kind, **written), built_in_resources())
    found: JSONObject = as_read_back(prepare_for_validation(arrived(review), NOW)).object
    return found


def updated(kind: str, stored: JSONObject, written: JSONObject) -> JSONObject:
    old = manifest(kind, **stored)
    old["metadata"] |= {"uid": "u", "generation": 4, "creationTimestamp": "2020-01-01T00:00:00Z"}
    review = review_of_manifest(
        manifest(kind, **written), built_in_resources(), operation=Operation.UPDATE, old=old
    )
    found: JSONObject = prepare_for_validation(arrived(review), NOW).object
    return found


def at(value: JSON, path: str) -> JSON:
    for step in path.split("/"):
        value = value[int(step)] if isinstance(value, list) else member(value, step)
    return value


# kind, what is written, path of what is looked at, what is there then
CREATED: list[tuple[str, JSONObject, str, JSON]] = [
    ("Secret", {"stringData": {"a": "b"}, "data": {"c": "YQ=="}}, "data", {"a": "Yg==", "c": "YQ=="}),
    ("Secret", {"stringData": {"a": "b"}}, "stringData", None),
    ("Node", spec(podCIDR="10.0.0.0/24"), "spec/podCIDRs", ["10.0.0.0/24"]),
    ("Node", {"status": {"phase": "Running"}}, "status/phase", "Running"),
    ("Node", spec(configSource={}), "spec/configSource", None),
    ("StatefulSet", spec(volumeClaimTemplates=[{}]), "spec/volumeClaimTemplates/0/kind", "PersistentVolumeClaim"),
    ("DaemonSet", {}, "metadata/annotations", {"deprecated.daemonset.template.generation": "1"}),
    ("DaemonSet", {"metadata": {"annotations": {"deprecated.daemonset.template.generation": "7"}}},
     "metadata/annotations", {"deprecated.daemonset.template.generation": "7"}),
    ("Pod", spec(containers=[{}]), "status", {"phase": "Pending", "qosClass": "BestEffort"}),
    ("Pod", spec(containers=[{"resources": {"limits": {"cpu": "1", "memory": "1"}}}]), "status/qosClass", "Guaranteed"),
    ("Pod", spec(containers=[{"resources": {"limits": {"cpu": "1"}}}]), "status/qosClass", "Burstable"),
    ("Pod", spec(containers=[{"resources": {"limits": {"cpu": "1"}}}, {}]), "status/qosClass", "Burstable"),
    ("Pod", spec(resources={"requests": {"cpu": "1"}}, containers=[{}]), "status/qosClass", "Burstable"),
    ("Pod", spec(schedulingGates=[{"name": "g"}]), "status/conditions/0/reason", "SchedulingGated"),
    ("Pod", {"metadata": {"annotations": {"pod.beta.kubernetes.io/init-containers": "[]"}}},
     "metadata/annotations", {}),
    ("Pod", {"metadata": {"labels": {"k": "v"}},
             **spec(topologySpreadConstraints=[{"matchLabelKeys": ["k", "x"], "labelSelector": {}}])},
     "spec/topologySpreadConstraints/0/labelSelector/matchExpressions", [{"key": "k", "operator": "In",
     "values": ["v"]}]),
    ("Pod", {"metadata": {"labels": {"k": "v"}},
             **spec(affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
                 {"podAffinityTerm": {"mismatchLabelKeys": ["k"], "labelSelector": {}}}]}})},
     "spec/affinity/podAntiAffinity/preferredDuringSchedulingIgnoredDuringExecution/0/podAffinityTerm/labelSelector",
     {"matchExpressions": [{"key": "k", "operator": "NotIn", "values": ["v"]}]}),
    ("Pod", spec(resources={"limits": {"cpu": "2"}}, containers=[{"resources": {"requests": {"cpu": "500m",
     "memory": "1Gi"}}}]),
     "spec/resources", {"limits": {"cpu": "2"}, "requests": {"cpu": "500m", "memory": "1Gi"}}),
    ("Pod", spec(resources={"requests": {"cpu": "3"}}, containers=[{"resources": {"limits": {"cpu": "2"}}}]),
     "spec/resources", {"limits": {"cpu": "3"}, "requests": {"cpu": "3"}}),
    ("Pod", spec(resources={}, containers=[{"resources": {"limits": {"cpu": "2"}}}]), "spec/resources", {}),
    ("Pod", spec(containers=[{"livenessProbe": GATED}]), "spec/containers/0/livenessProbe/grpc/mode", None),
    ("Pod", spec(volumes=[{"emptyDir": {"mode": 1}}]), "spec/volumes/0/emptyDir", {}),
    ("Deployment", spec(template=spec(schedulingGroup={})), "spec/template/spec/schedulingGroup", None),
    ("Job", {}, "metadata/labels/job-name", "a"),
    ("Job", spec(scheduling={}), "spec/scheduling", None),
    ("Lease", spec(strategy="OldestEmulationVersion", holderIdentity="h"), "spec", {"holderIdentity": "h"}),
    ("PodGroup", spec(preemptionPolicy="Never"), "spec/preemptionPolicy", None),
    ("ResourceSlice", spec(devices=[{"attributes": {"a": {"ints": [1], "int": 1}}}]),
     "spec/devices/0/attributes/a", {"int": 1}),
    ("PersistentVolume", {"status": {"phase": "Bound"}}, "status",
     {"phase": "Pending", "lastPhaseTransitionTime": "2026-11-23T09:30:01Z"}),
    ("PersistentVolumeClaim", {"status": {"phase": "Bound"}}, "status", {"phase": "Pending"}),
    ("PersistentVolumeClaim", spec(dataSource=CLAIM), "spec/dataSourceRef", CLAIM),
    ("PersistentVolumeClaim", spec(dataSourceRef=OTHER), "spec/dataSource", OTHER),
    ("PersistentVolumeClaim", spec(dataSource=OTHER), "spec/dataSource", None),
    ("PersistentVolumeClaim", spec(dataSourceRef=CLAIM | {"namespace": "x"}), "spec/dataSourceRef", None),
    ("ServiceAccount", {"secrets": [{"name": "s", "namespace": "n"}]}, "secrets", [{"name": "s"}]),
    ("EndpointSlice", {"endpoints": [{"addresses": [], "deprecatedTopology": {"a": "b"}}]},
     "endpoints", [{"addresses": []}]),
    ("Ingress", {"status": {"loadBalancer": {}}}, "status", None),
    ("HorizontalPodAutoscaler", spec(maxReplicas=2), "spec/targetCPUUtilizationPercentage", 80),
    ("CustomResourceDefinition", spec(versions=[{"name": "v1", "storage": True}]),
     "status", {"storedVersions": ["v1"]}),
    ("APIService", {}, "status/conditions/0/reason", "Local"),
    ("APIService", spec(service={}), "status", None),
    ("PodDisruptionBudget", spec(selector={"matchExpressions": [{"key": EMPTY_MATCH, "operator": "Exists"},
     {"key": "a"}]}),
     "spec/selector/matchExpressions", [{"key": "a"}]),
    ("PodDisruptionBudget", spec(selector={"matchExpressions": [{"key": EMPTY_MATCH, "operator": "Exists"}]}),
     "spec/selector/matchExpressions", [{"key": EMPTY_MATCH, "operator": "Exists"}]),
    ("ConfigMap", {"metadata": {"uid": "own", "selfLink": "/x", "deletionTimestamp": "2020-01-01T00:00:00Z"}},
     "metadata/deletionTimestamp", None),
    ("ConfigMap", {"metadata": {"ownerReferences": [{"uid": "u"}, {"uid": "u"}, {"uid": "v"}]}},
     "metadata/ownerReferences",
     [{"uid": "u"}, {"uid": "v"}]),
    ("DaemonSet", spec(updateStrategy={"type": "OnDelete", "rollingUpdate": {"maxSurge": 8}}),
     "spec/updateStrategy/rollingUpdate", {"maxUnavailable": 0, "maxSurge": 8}),
    ("StatefulSet", spec(ordinals={}), "spec/ordinals", {"start": 0}),
    ("Pod", spec(volumes=[{"iscsi": {}}]), "spec/volumes/0/iscsi/lun", 0),
    ("ResourceSlice", spec(devices=[{"capacity": {"a": {}}}], sharedCounters=[{"counters": {"b": {}}}]),
     "spec/devices/0/capacity/a", {"value": "0"}),
    ("ResourceSlice", spec(sharedCounters=[{"counters": {"b": {}}}]), "spec/sharedCounters/0/counters/b",
     {"value": "0"}),
    ("CustomResourceDefinition", spec(versions=[{"storage": True}]), "status", {"storedVersions": [""]}),
    ("Service", {}, "spec/ipFamilyPolicy", "SingleStack"),
    ("Service", {}, "spec/ipFamilies", ["IPv4"]),
    ("Service", spec(clusterIP="None", selector={"a": "b"}), "spec/ipFamilies", ["IPv4"]),
    ("Service", spec(clusterIP="None"), "spec/ipFamilies", ["IPv4", "IPv6"]),
    ("Service", spec(clusterIP="None"), "spec/ipFamilyPolicy", "RequireDualStack"),
    ("Service", spec(clusterIP="None"), "spec/clusterIPs", ["None"]),
    ("Service", spec(clusterIP="fd00::1"), "spec/ipFamilies", ["IPv6"]),
    ("Service", spec(type="ExternalName"), "spec/ipFamilyPolicy", None),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "written", "path", "expected"), CREATED)
def test_a_created_object_is_stored_as_kubernetes_stores_it(
    kind: str, written: JSONObject, path: str, expected: JSON
) -> None:
    found = at(created(kind, written), path)
    assert found == expected


ADDRESS = {
    "clusterIP": "10.0.0.1",
    "clusterIPs": ["10.0.0.1"],
    "ipFamilies": ["IPv4"],
    "ipFamilyPolicy": "SingleStack",
}
PORTS = [{"port": 80, "nodePort": 30080}]

# kind, what is stored, what is written, path of what is looked at, what is there then
UPDATED: list[tuple[str, JSONObject, JSONObject, str, JSON]] = [
    ("ConfigMap", {}, {}, "metadata/uid", "u"),
    ("ConfigMap", {}, {}, "metadata/creationTimestamp", "2020-01-01T00:00:00Z"),
    ("Deployment", {}, {"metadata": {"generation": 9}}, "metadata/generation", 4),
    ("Deployment", {}, spec(replicas=1), "metadata/generation", 4),
    ("Deployment", {}, spec(replicas=2), "metadata/generation", 5),
    ("Deployment", {}, {"metadata": {"annotations": {"a": "b"}}}, "metadata/generation", 5),
    ("Deployment", {"status": {"replicas": 1}}, {"status": {"replicas": 2}}, "status", {"replicas": 1}),
    ("CSIDriver", {}, spec(requiresRepublish=True), "metadata/generation", 5),
    ("EndpointSlice", {}, {"metadata": {"labels": {"a": "b"}}}, "metadata/generation", 5),
    ("ValidatingWebhookConfiguration", {}, {"webhooks": [{}]}, "metadata/generation", 5),
    ("DaemonSet", {}, spec(template=spec(hostPID=True)),
     "metadata/annotations", {"deprecated.daemonset.template.generation": "1"}),
    ("DaemonSet", {}, {"metadata": {"annotations": {"deprecated.daemonset.template.generation": "7"}}},
     "metadata/annotations",
     {"deprecated.daemonset.template.generation": "0"}),
    ("DaemonSet", spec(template=spec(containers=[{"name": "c", "resources": {}}])),
     spec(template=spec(containers=[{"name": "c"}])),
     "metadata/annotations", {"deprecated.daemonset.template.generation": "0"}),
    ("DaemonSet", spec(template=spec(containers=[])), spec(template=spec(securityContext={"seLinuxOptions": {}})),
     "metadata/annotations", {"deprecated.daemonset.template.generation": "1"}),
    ("Namespace", spec(finalizers=["kubernetes"]), spec(finalizers=["x"]), "spec/finalizers", ["kubernetes"]),
    ("Pod", spec(resources={"limits": {"cpu": "1"}}), {}, "spec/resources", {"limits": {"cpu": "1"}}),
    ("Pod", spec(containers=[{"livenessProbe": GATED}]), spec(containers=[{"livenessProbe": GATED}]),
     "spec/containers/0/livenessProbe/grpc/mode", "TLS"),
    ("CertificateSigningRequest", spec(username="a"), spec(username="b"), "spec", {"username": "a"}),
    ("PersistentVolumeClaim", spec(dataSource=OTHER), spec(dataSource=OTHER), "spec/dataSourceRef", OTHER),
    ("Service", spec(**ADDRESS), {}, "spec/clusterIP", "10.0.0.1"),
    ("Service", spec(**ADDRESS), spec(type="ExternalName", **ADDRESS), "spec",
     {"type": "ExternalName", "sessionAffinity": "None"}),
    ("Service", spec(**ADDRESS), spec(clusterIP="None", selector={"a": "b"}), "spec/clusterIPs", ["None"]),
    ("Service", spec(type="NodePort", ports=PORTS), spec(type="NodePort", ports=[{"port": 81}]),
     "spec/ports/0/nodePort", 30080),
    ("Service", spec(type="NodePort", ports=PORTS), spec(ports=PORTS), "spec/ports/0/nodePort", None),
    ("Service", spec(type="NodePort", ports=PORTS), spec(ports=[{"port": 80, "nodePort": 30081}]),
     "spec/ports/0/nodePort", 30081),
    ("Service", spec(type="LoadBalancer"), spec(type="ClusterIP", allocateLoadBalancerNodePorts=True),
     "spec/allocateLoadBalancerNodePorts", None),
    ("Service", spec(type="LoadBalancer", externalTrafficPolicy="Local", healthCheckNodePort=1),
     spec(type="LoadBalancer", externalTrafficPolicy="Local"), "spec/healthCheckNodePort", 1),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "stored", "written", "path", "expected"), UPDATED)
def test_an_updated_object_is_stored_as_kubernetes_stores_it(
    kind: str, stored: JSONObject, written: JSONObject, path: str, expected: JSON
) -> None:
    assert at(updated(kind, stored, written), path) == expected


def test_a_signing_request_says_who_asks() -> None:
    user = UserInfo(username="jane", groups=("dev",), extra={"scope": ("a",)})
    written = manifest("CertificateSigningRequest", **spec(username="root", signerName="example.com/s"))
    review = review_of_manifest(written, built_in_resources(), user=user)
    assert prepare_for_validation(review, NOW).object["spec"] == {
        "signerName": "example.com/s",
        "username": "jane",
        "groups": ["dev"],
        "extra": {"scope": ["a"]},
    }


def test_a_job_labelled_as_its_template_gets_the_labels_of_its_pods() -> None:
    """Go defaults the labels of a Job to the very map of its template's."""
    labels = created("Job", spec(template={"metadata": {"labels": {"own": "x"}}}))["metadata"]["labels"]
    assert labels["own"] == "x"
    assert labels["batch.kubernetes.io/job-name"] == "a"


def test_a_limit_range_without_a_name_gets_a_uid_for_one() -> None:
    review = review_of_manifest(manifest("LimitRange"), built_in_resources())
    unnamed = review.with_object(Document.from_data({"metadata": {}, "spec": {}}))
    metadata = prepare_for_validation(unnamed, NOW).object["metadata"]
    assert metadata["name"] == metadata["uid"]
