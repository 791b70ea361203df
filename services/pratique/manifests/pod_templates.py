"""The Pods that workloads create, built as their controllers build them.

Sources: ``pkg/controller/controller_utils.go`` ``GetPodFromTemplate``, and ``pkg/controller/{deployment,replicaset,
statefulset,daemon,job,cronjob}``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import Step
from pratique.apimachinery.json_values import JSON, JSONObject, list_at, mapping_at, member
from pratique.apimachinery.names import check_dns1123_subdomain
from pratique.apimachinery.requests import Operation, UserInfo
from pratique.cluster.api_resources import storage_group
from pratique.cluster.store import Cluster
from pratique.manifests.registry_strategies import derived_uid, name_of_created, safe_encoded
from pratique.pods.tolerations import (
    EXISTS,
    NO_EXECUTE,
    NO_SCHEDULE,
    Toleration,
    match_toleration,
    read_toleration,
)

_WORKLOAD_FIELDS = {
    "name": ("metadata", "name"),
    "generateName": ("metadata", "name"),
    "namespace": ("metadata", "namespace"),
    "ownerReferences": ("metadata", "name"),
}
"""Pod metadata that is generated, and the workload's field it derives from."""


def field_in_workload(
    path: Sequence[Step], template: Sequence[Step], volumes: Sequence[Sequence[Step]] | None = None
) -> tuple[Step, ...]:
    """The path in a workload of a field of its Pod.

    Args:
        path: The path in the Pod, such as ``("spec", "containers", 0, "image")``.
        template: The path of the template in the workload, such as ``("spec", "template")``.
        volumes: The path in the workload of every volume; None if all volumes are the template's.
    """
    match tuple(path):
        case ("metadata", str(name), *_) if name in _WORKLOAD_FIELDS:
            return _WORKLOAD_FIELDS[name]
        case ("spec", "volumes", int(index), *rest) if volumes is not None and 0 <= index < len(volumes):
            return (*volumes[index], *rest)
        case whole:
            return (*template, *whole)


_FNV_BASIS = 0x811C9DC5
_FNV_PRIME = 0x01000193
"""The parameters of 32-bit FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A workload that creates and owns Pods."""

    api_version: str
    """The ``apiVersion`` that its controller writes into owner references, whatever the request's version."""
    kind: str
    """The kind that its controller writes into owner references."""
    name: str
    uid: str
    namespace: str
    document: JSONObject = dataclasses.field(repr=False)
    """The object. Do not change it in place."""

    @property
    def spec(self) -> JSONObject:
        """Its spec; empty if it has none."""
        return mapping_at(self.document, "spec")

    @property
    def template(self) -> JSONObject:
        """Its Pod template; empty if it has none."""
        return mapping_at(self.document, "spec", "template")

    @property
    def prefix(self) -> str:
        """The prefix of its Pods' names: ``getPodsPrefix``."""
        # ``maskTrailingDash`` replaces the dash and the character before it by a letter for validation.
        return self.name if check_dns1123_subdomain(f"{self.name[:-1]}a") else f"{self.name}-"

    @property
    def reference(self) -> JSONObject:
        """The owner reference of its Pods: ``NewControllerRef``."""
        return {
            "apiVersion": self.api_version,
            "kind": self.kind,
            "name": self.name,
            "uid": self.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


def pod_from_template(workload: Workload, labels: JSONObject | None = None) -> JSONObject:
    """Make a Pod from a workload's template, with additional ``labels``: ``GetPodFromTemplate``.

    The copy is shallow: add to ``metadata`` and ``spec``, but do not change what they hold.
    """
    written = mapping_at(workload.template, "metadata")
    metadata: JSONObject = {"generateName": workload.prefix, "namespace": workload.namespace}
    metadata["labels"] = {**mapping_at(written, "labels"), **(labels or {})}
    metadata["annotations"] = dict(mapping_at(written, "annotations"))
    metadata["finalizers"] = list(list_at(written, "finalizers"))
    kept = {key: value for key, value in metadata.items() if value}
    kept["ownerReferences"] = [workload.reference]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": kept,
        "spec": dict(mapping_at(workload.template, "spec")),
    }


def template_hash(template: JSON) -> str:
    """A stand-in for the hash of a template: as long, from the same alphabet, and equal for equal templates.

    Kubernetes hashes Go's printed structs, which differ from release to release.
    """
    return safe_encoded(str(_fnv1a_32(msgspec.json.encode(template, order="sorted"))))


def _fnv1a_32(data: bytes) -> int:
    value = _FNV_BASIS
    # Two bytes at a time take half as long, because only the last product needs truncating to 32 bits.
    for first, second in zip(data[::2], data[1::2], strict=False):
        value = ((value ^ first) * _FNV_PRIME ^ second) * _FNV_PRIME & 0xFFFFFFFF
    if len(data) % 2:
        value = (value ^ data[-1]) * _FNV_PRIME & 0xFFFFFFFF
    return value


_HASH_LABEL = "pod-template-hash"
_MAX_SUBDOMAIN_LENGTH = 253
"""The maximum length of a DNS subdomain."""


def replicated_pod(workload: Workload) -> JSONObject:
    """A Pod of a ReplicaSet or ReplicationController."""
    return pod_from_template(workload)


def deployed_pod(workload: Workload) -> JSONObject:
    """A Pod of the ReplicaSet that a Deployment creates."""
    return pod_from_template(_replica_set(workload))


def _replica_set(deployment: Workload) -> Workload:
    hashed = template_hash(deployment.template)
    name = f"{deployment.name[: _MAX_SUBDOMAIN_LENGTH - len(hashed) - 1]}-{hashed}"
    template = deployment.template
    metadata = mapping_at(template, "metadata")
    labels = {**mapping_at(metadata, "labels"), _HASH_LABEL: hashed}
    document: JSONObject = {
        "metadata": {"name": name, "namespace": deployment.namespace, "labels": labels},
        "spec": {"template": {**template, "metadata": {**metadata, "labels": labels}}},
    }
    return Workload(
        api_version="apps/v1",
        kind="ReplicaSet",
        name=name,
        uid=derived_uid(deployment.uid, name),
        namespace=deployment.namespace,
        document=document,
    )


_MAX_REVISION_PREFIX = 223
"""The maximum length of the StatefulSet's name in the name of a ControllerRevision."""


def stateful_pod(workload: Workload) -> JSONObject:
    """The first Pod of a StatefulSet."""
    ordinal = _first_ordinal(workload)
    name = f"{workload.name}-{ordinal}"
    revision = f"{workload.name[:_MAX_REVISION_PREFIX]}-{template_hash(workload.template)}"
    identity = {
        "statefulset.kubernetes.io/pod-name": name,
        "apps.kubernetes.io/pod-index": str(ordinal),
        "controller-revision-hash": revision,
    }
    pod = pod_from_template(workload, identity)
    pod["metadata"]["name"] = name
    pod["spec"]["hostname"] = name
    if service := member(workload.spec, "serviceName"):
        pod["spec"]["subdomain"] = service
    if volumes := [volume for volume, _ in _volumes(workload, name)]:
        pod["spec"]["volumes"] = volumes
    return pod


def volume_origins(workload: Workload) -> list[tuple[Step, ...]]:
    """The path in a StatefulSet of every volume of its Pods."""
    return [origin for _, origin in _volumes(workload, "")]


def _volumes(workload: Workload, pod_name: str) -> Iterator[tuple[JSON, tuple[Step, ...]]]:
    """The volumes of claim templates, then the template's volumes of other names, each with its path."""
    claims = {
        name: index
        for index, claim in enumerate(list_at(workload.spec, "volumeClaimTemplates"))
        if isinstance(name := member(claim, "metadata", "name"), str)
    }
    for name, index in claims.items():
        claim = {"claimName": f"{name}-{pod_name}"}
        yield {"name": name, "persistentVolumeClaim": claim}, ("spec", "volumeClaimTemplates", index)
    for index, volume in enumerate(list_at(workload.template, "spec", "volumes")):
        name = member(volume, "name")
        if not isinstance(name, str) or name not in claims:
            yield volume, ("spec", "template", "spec", "volumes", index)


def _first_ordinal(workload: Workload) -> int:
    start = member(workload.spec, "ordinals", "start")
    return start if type(start) is int else 0


_GENERATION = "deprecated.daemonset.template.generation"

_DAEMON_TAINTS = (
    ("not-ready", NO_EXECUTE),
    ("unreachable", NO_EXECUTE),
    ("disk-pressure", NO_SCHEDULE),
    ("memory-pressure", NO_SCHEDULE),
    ("pid-pressure", NO_SCHEDULE),
    ("unschedulable", NO_SCHEDULE),
)
_HOST_NETWORK_TAINT = ("network-unavailable", NO_SCHEDULE)


def daemon_pod(workload: Workload, node: str) -> JSONObject:
    """The Pod of a DaemonSet for a node."""
    revision = {
        "pod-template-generation": _generation(workload),
        "controller-revision-hash": template_hash(workload.template),
    }
    pod = pod_from_template(workload, revision)
    spec = pod["spec"]
    spec["tolerations"] = _tolerations(spec)
    spec["affinity"] = _affinity(mapping_at(spec, "affinity"), node)
    return pod


def _generation(workload: Workload) -> str:
    """The template generation, from 1: an annotation that versions before apps/v1 had as a field."""
    old = member(workload.spec, "templateGeneration")
    return str(member(workload.document, "metadata", "annotations", _GENERATION) or old or 1)


def _tolerations(spec: JSONObject) -> list[JSON]:
    """The template's tolerations and those of every daemon: ``AddOrUpdateDaemonPodTolerations``."""
    tolerations = list(list_at(spec, "tolerations"))
    added = (*_DAEMON_TAINTS, _HOST_NETWORK_TAINT) if spec.get("hostNetwork") is True else _DAEMON_TAINTS
    for taint, effect in added:
        wanted = Toleration(key=f"node.kubernetes.io/{taint}", operator=EXISTS, effect=effect)
        same = [match_toleration(wanted, read_toleration(toleration)) for toleration in tolerations]
        kept = zip(same, tolerations, strict=True)
        tolerations = [wanted.document if replaced else toleration for replaced, toleration in kept]
        tolerations += [] if any(same) else [wanted.document]
    return tolerations


def _affinity(affinity: JSONObject, node: str) -> JSONObject:
    """The template's affinity, restricted to one node: ``ReplaceDaemonSetPodNodeNameNodeAffinity``."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    to_node = mapping_at(affinity, "nodeAffinity")
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = {**mapping_at(to_node, required), "nodeSelectorTerms": [{"matchFields": [field]}]}
    return {**affinity, "nodeAffinity": {**to_node, required: terms}}


_FINALIZER = "batch.kubernetes.io/job-tracking"
_INDEX = "batch.kubernetes.io/job-completion-index"
_INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_MAX_JOB_PREFIX = 58
"""The length of a DNS label without the five random characters."""

SCHEDULED_MINUTE = 28_928_160
"""The assumed schedule time of a CronJob, 2025-01-01T00:00:00Z in minutes, the suffix of its Jobs' names."""


def cron_job_pod(workload: Workload) -> JSONObject:
    """The first Pod of the Job that a CronJob creates."""
    name = f"{workload.name}-{SCHEDULED_MINUTE}"
    job = Workload(
        api_version="batch/v1",
        kind="Job",
        name=name,
        uid=derived_uid(workload.uid, name),
        namespace=workload.namespace,
        document={"spec": mapping_at(workload.spec, "jobTemplate", "spec")},
    )
    return job_pod(job)


def job_pod(workload: Workload) -> JSONObject:
    """The first Pod of a Job."""
    pod = pod_from_template(workload, _selected_labels(workload))
    finalizers = list_at(pod, "metadata", "finalizers")
    if _FINALIZER not in finalizers:
        pod["metadata"]["finalizers"] = [*finalizers, _FINALIZER]
    if member(workload.spec, "completionMode") == "Indexed":
        _set_first_index(pod, workload)
    return pod


def _selected_labels(job: Workload) -> JSONObject:
    """The labels that the Job controller selects its Pods by, unless the Job has a manual selector."""
    if member(job.spec, "manualSelector") is True:
        return {}
    given = {
        "job-name": job.name,
        "batch.kubernetes.io/job-name": job.name,
        "controller-uid": job.uid,
        "batch.kubernetes.io/controller-uid": job.uid,
    }
    return given | mapping_at(job.template, "metadata", "labels")


def _set_first_index(pod: JSONObject, job: Workload) -> None:
    """Turn a Pod into that of the first completion index."""
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["labels"] = {**mapping_at(metadata, "labels"), _INDEX: "0"}
    metadata["annotations"] = {**mapping_at(metadata, "annotations"), _INDEX: "0"}
    if member(job.spec, "backoffLimitPerIndex") is not None:
        metadata["annotations"][_INDEX_FAILURES] = "0"
    metadata["generateName"] = job.name[: _MAX_JOB_PREFIX - len("-0-")] + "-0-"
    spec["hostname"] = f"{job.name}-0"
    for field in ("initContainers", "containers"):
        if containers := list_at(spec, field):
            spec[field] = [_with_index_variable(container) for container in containers]


def _with_index_variable(container: JSON) -> JSON:
    variables = list_at(container, "env")
    if not isinstance(container, dict) or any(member(v, "name") == _INDEX_VARIABLE for v in variables):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{_INDEX}']"}}
    return {**container, "env": [*variables, {"name": _INDEX_VARIABLE, "valueFrom": source}]}


_ANY_NODE = "node"
"""The node name in a DaemonSet's Pod if the cluster has no nodes."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadPod:
    """A Pod that a workload would create."""

    document: JSONObject = dataclasses.field(repr=False)
    """The Pod. Do not change it in place."""
    user: UserInfo
    """The requesting user: the service account of the controller."""
    template: tuple[Step, ...]
    """The path of the template in the workload."""
    volumes: tuple[tuple[Step, ...], ...] | None = None
    """The path in the workload of every volume; None if all volumes are the template's."""

    def field_in_workload(self, path: tuple[Step, ...]) -> tuple[Step, ...]:
        """The path in the workload of a field of the Pod, such as ``("spec", "template", *path)``."""
        return field_in_workload(path, self.template, self.volumes)


class _WorkloadKind(msgspec.Struct, frozen=True):
    api_version: str
    kind: str
    account: str
    make: Callable[[Workload], JSONObject] | None
    """Makes a Pod; None for DaemonSets, which need the cluster's nodes."""
    template: tuple[str, ...] = ("spec", "template")

    @property
    def user(self) -> UserInfo:
        namespace = "kube-system"
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return UserInfo(username=f"system:serviceaccount:{namespace}:{self.account}", groups=groups)


def _on_first_node(workload: Workload, cluster: Cluster) -> JSONObject:
    nodes = sorted(str(member(node, "metadata", "name")) for node in cluster.list("", "nodes"))
    return daemon_pod(workload, nodes[0] if nodes else _ANY_NODE)


_CRON_JOB_TEMPLATE = ("spec", "jobTemplate", "spec", "template")
_WORKLOAD_KINDS: Mapping[tuple[str, str], _WorkloadKind] = {
    ("apps", "deployments"): _WorkloadKind("apps/v1", "Deployment", "replicaset-controller", deployed_pod),
    ("apps", "replicasets"): _WorkloadKind("apps/v1", "ReplicaSet", "replicaset-controller", replicated_pod),
    ("apps", "statefulsets"): _WorkloadKind("apps/v1", "StatefulSet", "statefulset-controller", stateful_pod),
    ("apps", "daemonsets"): _WorkloadKind("apps/v1", "DaemonSet", "daemon-set-controller", None),
    ("batch", "jobs"): _WorkloadKind("batch/v1", "Job", "job-controller", job_pod),
    ("batch", "cronjobs"): _WorkloadKind(
        "batch/v1", "CronJob", "job-controller", cron_job_pod, _CRON_JOB_TEMPLATE
    ),
    ("", "replicationcontrollers"): _WorkloadKind(
        "v1", "ReplicationController", "replication-controller", replicated_pod
    ),
}


def pod_of_workload(review: Review, document: JSON) -> WorkloadPod | None:
    """Make the first Pod of a reviewed workload; its other Pods are alike.

    Args:
        review: The CREATE or UPDATE of the workload.
        document: The workload as the chain left it.

    Returns:
        None if the review is of anything else, or the template is missing or malformed.
    """
    resource = review.resource
    group = storage_group(resource.group, resource.resource)
    kind = _WORKLOAD_KINDS.get((group, resource.resource))
    if kind is None or review.subresource or review.operation not in {Operation.CREATE, Operation.UPDATE}:
        return None
    if not isinstance(document, dict) or not isinstance(member(document, *kind.template, "spec"), dict):
        return None
    workload = _workload(review, kind, document)
    volumes = tuple(volume_origins(workload)) if kind.kind == "StatefulSet" else None
    made = _on_first_node(workload, review.cluster) if kind.make is None else kind.make(workload)
    return WorkloadPod(document=made, user=kind.user, template=kind.template, volumes=volumes)


def _workload(review: Review, kind: _WorkloadKind, document: JSONObject) -> Workload:
    uid = member(document, "metadata", "uid")
    return Workload(
        api_version=kind.api_version,
        kind=kind.kind,
        name=name_of_created(review, document),
        uid=uid if isinstance(uid, str) and uid else derived_uid(review.uid),
        namespace=review.namespace,
        document=document,
    )
