from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pratique.admission.reviews import Review
from pratique.apimachinery.requests import Operation
from pratique.cluster.store import ObjectStore
from pratique.manifests.pod_templates import WorkloadPod, pod_of_workload, template_hash
from pratique.manifests.registry_strategies import safe_encoded
from pratique.manifests.requests import review_of_manifest

SPEC = {"containers": [{"name": "c", "image": "i"}]}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": SPEC}
API_VERSIONS = {
    "Deployment": ("apps/v1", "apps/v1beta1", "apps/v1beta2", "extensions/v1beta1"),
    "ReplicaSet": ("apps/v1", "apps/v1beta2", "extensions/v1beta1"),
    "StatefulSet": ("apps/v1", "apps/v1beta1", "apps/v1beta2"),
    "DaemonSet": ("apps/v1", "apps/v1beta2", "extensions/v1beta1"),
    "Job": ("batch/v1",),
    "CronJob": ("batch/v1", "batch/v1beta1", "batch/v2alpha1"),
    "ReplicationController": ("v1",),
}


def workload(kind: str, api_version: str = "", template: Any = TEMPLATE, **spec: Any) -> dict[str, Any]:
    wanted = {"template": template, **spec}
    if kind == "CronJob":
        wanted = {"jobTemplate": {"spec": wanted}}
    metadata = {"name": "web", "namespace": "shop"}
    version = api_version or API_VERSIONS[kind][0]
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": wanted}


def asked(document: dict[str, Any], *stored: dict[str, Any], **more: Any) -> Review:
    cluster = ObjectStore(stored, assume_namespaces=True)
    return review_of_manifest(document, cluster.resources, cluster=cluster, **more)


def made(document: dict[str, Any], *stored: dict[str, Any]) -> WorkloadPod:
    review = asked(document, *stored)
    found = pod_of_workload(review, review.object)
    assert found is not None
    return found


def metadata_of(document: dict[str, Any]) -> dict[str, Any]:
    metadata: dict[str, Any] = made(document).document["metadata"]
    return metadata


def spec_of(document: dict[str, Any], *stored: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = made(document, *stored).document["spec"]
    return spec


@pytest.mark.parametrize(
    ("kind", "api_version"), [(kind, item) for kind, versions in API_VERSIONS.items() for item in versions]
)
def test_workloads_of_every_version_make_pods(kind: str, api_version: str) -> None:
    pod = made(workload(kind, api_version)).document
    assert (pod["apiVersion"], pod["kind"], pod["metadata"]["namespace"]) == ("v1", "Pod", "shop")
    assert pod["spec"]["containers"] == SPEC["containers"]
    assert pod["metadata"]["labels"]["app"] == "web"


@pytest.mark.parametrize(
    ("kind", "owner", "account", "generate_name"),
    [
        ("ReplicaSet", ("apps/v1", "ReplicaSet", "web"), "replicaset-controller", "web-"),
        ("StatefulSet", ("apps/v1", "StatefulSet", "web"), "statefulset-controller", "web-"),
        ("DaemonSet", ("apps/v1", "DaemonSet", "web"), "daemon-set-controller", "web-"),
        ("Job", ("batch/v1", "Job", "web"), "job-controller", "web-"),
        ("CronJob", ("batch/v1", "Job", "web-28928160"), "job-controller", "web-28928160-"),
        ("ReplicationController", ("v1", "ReplicationController", "web"), "replication-controller", "web-"),
    ],
)
def test_a_controller_requests_and_owns_the_pod(
    kind: str, owner: tuple[str, str, str], account: str, generate_name: str
) -> None:
    pod = made(workload(kind))
    (reference,) = pod.document["metadata"]["ownerReferences"]
    assert (reference["apiVersion"], reference["kind"], reference["name"]) == owner
    assert reference["controller"] is reference["blockOwnerDeletion"] is True
    assert reference["uid"]
    assert pod.document["metadata"]["generateName"] == generate_name
    assert pod.user.username == f"system:serviceaccount:kube-system:{account}"
    assert pod.user.groups == (
        "system:serviceaccounts",
        "system:serviceaccounts:kube-system",
        "system:authenticated",
    )


def test_a_deployment_makes_pods_through_its_replica_set() -> None:
    pod = made(workload("Deployment"))
    metadata = pod.document["metadata"]
    hashed = metadata["labels"]["pod-template-hash"]
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["name"]) == ("ReplicaSet", f"web-{hashed}")
    assert metadata["generateName"] == f"web-{hashed}-"
    assert pod.user.username.endswith(":replicaset-controller")


def test_different_templates_have_different_hashes() -> None:
    other = {**TEMPLATE, "spec": {"containers": [{"name": "c", "image": "j"}]}}
    hashes = {
        metadata_of(workload("Deployment", template=template))["labels"]["pod-template-hash"]
        for template in (TEMPLATE, other, TEMPLATE)
    }
    assert len(hashes) == 2


def test_pod_metadata_comes_only_from_the_template() -> None:
    written = {
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "finalizers": ["e/f"],
        "name": "x",
        "uid": "y",
    }
    metadata = metadata_of(workload("ReplicaSet", template={"metadata": written, "spec": SPEC}))
    assert metadata.pop("ownerReferences")
    assert metadata == {
        "generateName": "web-",
        "namespace": "shop",
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "finalizers": ["e/f"],
    }


@pytest.mark.parametrize(("length", "end"), [(10, "-"), (253, "-"), (254, "")])
def test_a_name_prefix_ends_with_a_dash_where_it_fits(length: int, end: str) -> None:
    document = workload("ReplicaSet")
    document["metadata"]["name"] = "a" * length
    assert metadata_of(document)["generateName"] == "a" * length + end


def test_a_name_yet_to_be_generated_is_deterministic() -> None:
    document = workload("ReplicaSet")
    document["metadata"] = {"generateName": "web-", "namespace": "shop"}
    first, second = metadata_of(document), metadata_of(document)
    assert first == second
    name = first["ownerReferences"][0]["name"]
    assert name.startswith("web-")
    assert len(name) == len("web-") + 5


def test_an_owner_keeps_its_uid() -> None:
    review = asked(workload("ReplicaSet"))
    pod = pod_of_workload(review, {**workload("ReplicaSet"), "metadata": {"name": "web", "uid": "u"}})
    assert pod is not None
    assert pod.document["metadata"]["ownerReferences"][0]["uid"] == "u"


def test_a_stateful_set_gives_its_first_pod_an_identity() -> None:
    document = workload("StatefulSet", serviceName="hosts", ordinals={"start": 3})
    pod = made(document).document
    assert pod["metadata"]["name"] == pod["spec"]["hostname"] == "web-3"
    assert pod["spec"]["subdomain"] == "hosts"
    labels = pod["metadata"]["labels"]
    assert labels["statefulset.kubernetes.io/pod-name"] == "web-3"
    assert labels["apps.kubernetes.io/pod-index"] == "3"
    assert labels["controller-revision-hash"].startswith("web-")


def test_claim_templates_replace_volumes_of_the_same_name() -> None:
    volumes = [
        {"name": "tmp", "emptyDir": {}},
        {"name": "data", "emptyDir": {}},
        {"name": "run", "emptyDir": {}},
    ]
    document = workload(
        "StatefulSet",
        template={"spec": {**SPEC, "volumes": volumes}},
        volumeClaimTemplates=[{"metadata": {"name": "data"}}],
    )
    pod = made(document)
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}
    assert pod.document["spec"]["volumes"] == [claim, volumes[0], volumes[2]]
    assert [pod.field_in_workload(("spec", "volumes", n)) for n in range(4)] == [
        ("spec", "volumeClaimTemplates", 0),
        ("spec", "template", "spec", "volumes", 0),
        ("spec", "template", "spec", "volumes", 2),
        ("spec", "template", "spec", "volumes", 3),
    ]


@pytest.mark.parametrize(("host_network", "count"), [(False, 6), (True, 7)])
def test_a_daemon_tolerates_node_taints(host_network: bool, count: int) -> None:  # noqa: FBT001 - a table's column
    spec = spec_of(workload("DaemonSet", template={"spec": {**SPEC, "hostNetwork": host_network}}))
    taints = [item["key"].removeprefix("node.kubernetes.io/") for item in spec["tolerations"]]
    assert len(taints) == count
    assert ("network-unavailable" in taints) is host_network
    assert {item["operator"] for item in spec["tolerations"]} == {"Exists"}


def test_a_daemon_keeps_its_tolerations_without_duplicates() -> None:
    mine = {"key": "mine", "operator": "Exists"}
    timed = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 5,
    }
    spec = spec_of(workload("DaemonSet", template={"spec": {**SPEC, "tolerations": [timed, mine]}}))
    assert len(spec["tolerations"]) == 7
    assert spec["tolerations"][1] == mine
    assert "tolerationSeconds" not in spec["tolerations"][0]


def test_a_daemon_is_bound_to_one_node() -> None:
    nodes = [{"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}} for name in ("b", "a")]
    affinity: dict[str, Any] = {
        "podAffinity": {},
        "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []},
    }
    spec = spec_of(workload("DaemonSet", template={"spec": {**SPEC, "affinity": affinity}}), *nodes)
    required = spec["affinity"]["nodeAffinity"].pop("requiredDuringSchedulingIgnoredDuringExecution")
    assert required == {
        "nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]
    }
    assert spec["affinity"] == affinity


@pytest.mark.parametrize(
    ("document", "generation"),
    [
        (workload("DaemonSet"), "1"),
        (workload("DaemonSet", "extensions/v1beta1", templateGeneration=4), "4"),
    ],
)
def test_a_daemon_is_labelled_with_its_generation(document: dict[str, Any], generation: str) -> None:
    assert metadata_of(document)["labels"]["pod-template-generation"] == generation


@pytest.mark.parametrize(("kind", "name"), [("Job", "web"), ("CronJob", "web-28928160")])
def test_a_jobs_pod_is_labelled_and_has_the_tracking_finalizer(kind: str, name: str) -> None:
    metadata = metadata_of(workload(kind))
    uid = metadata["ownerReferences"][0]["uid"]
    assert metadata["labels"] == {
        "app": "web",
        "job-name": name,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        "batch.kubernetes.io/controller-uid": uid,
    }
    assert metadata["finalizers"] == ["batch.kubernetes.io/job-tracking"]


def test_a_job_with_a_manual_selector_adds_no_labels() -> None:
    assert metadata_of(workload("Job", manualSelector=True))["labels"] == {"app": "web"}


def test_an_indexed_job_gives_its_pods_their_index() -> None:
    document = workload("Job", completionMode="Indexed", completions=2, backoffLimitPerIndex=1)
    pod = made(document).document
    assert pod["metadata"]["generateName"] == "web-0-"
    assert pod["metadata"]["labels"]["batch.kubernetes.io/job-completion-index"] == "0"
    assert pod["metadata"]["annotations"] == {
        "batch.kubernetes.io/job-completion-index": "0",
        "batch.kubernetes.io/job-index-failure-count": "0",
    }
    assert pod["spec"]["hostname"] == "web-0"
    (variable,) = pod["spec"]["containers"][0]["env"]
    assert variable["name"] == "JOB_COMPLETION_INDEX"


@pytest.mark.parametrize("template", [None, 3, [], {}, {"spec": None}, {"spec": "x"}])
def test_a_malformed_template_makes_no_pod(template: Any) -> None:
    review = asked(workload("Deployment", template=template))
    assert pod_of_workload(review, review.object) is None


def test_other_objects_and_operations_make_no_pod() -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}, "spec": SPEC}
    deletion = asked(workload("Deployment"), operation=Operation.DELETE)
    status = msgspec.structs.replace(asked(workload("Deployment")), subresource="status")
    assert pod_of_workload(status, status.object) is None
    assert pod_of_workload(asked(pod), pod) is None
    assert pod_of_workload(deletion, deletion.old_object) is None


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = ("volumes", "tolerations", "affinity", "containers", "initContainers", "hostNetwork")


@given(
    kind=st.sampled_from(sorted(API_VERSIONS)),
    metadata=ANYTHING | st.dictionaries(st.sampled_from(["labels", "annotations", "finalizers"]), ANYTHING),
    spec=st.dictionaries(st.sampled_from(FIELDS), ANYTHING),
    more=st.dictionaries(st.sampled_from(["volumeClaimTemplates", "ordinals", "serviceName"]), ANYTHING),
)
def test_any_template_makes_a_pod_and_is_not_changed(kind: str, metadata: Any, spec: Any, more: Any) -> None:
    document = workload(kind, template={"metadata": metadata, "spec": spec}, completionMode="Indexed", **more)
    before = repr(document)
    assert made(document).document["kind"] == "Pod"
    assert repr(document) == before


@given(st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=3), st.integers(-9, 9), max_size=4))
def test_the_template_hash_is_fnv_1a(template: dict[str, int]) -> None:
    value = 0x811C9DC5
    for byte in msgspec.json.encode(template, order="sorted"):
        value = (value ^ byte) * 0x01000193 % 2**32
    assert template_hash(template) == safe_encoded(str(value))
