"""Made Pods: which workloads make Pods, and one Pod of each, as its controller would ask for it.

Source: ``cmd/kube-controller-manager/app`` for who asks, ``pkg/controller`` for what.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pratique.field_errors import Step
from pratique.json_values import JSON, JSONObject, member
from pratique.pod_templates.daemon_sets import daemon_pod
from pratique.pod_templates.fields import field_in_workload
from pratique.pod_templates.jobs import cron_job_pod, job_pod
from pratique.pod_templates.replica_sets import deployed_pod, replicated_pod
from pratique.pod_templates.stateful_sets import stateful_pod, volume_origins
from pratique.pod_templates.workloads import Workload, safe_encoded, uid_of
from pratique.resources import storage_group
from pratique.reviews import Operation, Review, UserInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pratique.clusters import Cluster
    from pratique.field_errors import Step

_ANY_NODE = "node"
"""The node of a DaemonSet's Pod where the cluster has none."""
_GENERATED = 5
"""Characters that an API server adds to a ``generateName``."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class MadePod:
    """A Pod that a workload would make."""

    document: JSONObject = dataclasses.field(repr=False)
    """The Pod. Not to be changed in place."""
    user: UserInfo
    """Who asks for it: the service account of the controller."""
    template: tuple[Step, ...]
    """Where the workload has the template."""
    volumes: tuple[tuple[Step, ...], ...] | None = None
    """For each volume, where the workload has it; None where the template has them all."""

    def field_in_workload(self, path: tuple[Step, ...]) -> tuple[Step, ...]:
        """Tell where a field of the Pod is written in the workload: ``("spec", "template", *path)`` and the like."""
        return field_in_workload(path, self.template, self.volumes)


@dataclasses.dataclass(frozen=True, slots=True)
class _Kind:
    api_version: str
    kind: str
    account: str
    make: Callable[[Workload], JSONObject] | None
    """Makes a Pod; None where that takes a look at the nodes."""
    template: tuple[str, ...] = ("spec", "template")

    @property
    def user(self) -> UserInfo:
        namespace = "kube-system"
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated")
        return UserInfo(username=f"system:serviceaccount:{namespace}:{self.account}", groups=groups)


def _on_first_node(workload: Workload, cluster: Cluster) -> JSONObject:
    nodes = sorted(str(member(node, "metadata", "name")) for node in cluster.list("", "nodes"))
    return daemon_pod(workload, nodes[0] if nodes else _ANY_NODE)


_OF_JOBS = ("spec", "jobTemplate", "spec", "template")
_KINDS: Mapping[tuple[str, str], _Kind] = {
    ("apps", "deployments"): _Kind("apps/v1", "Deployment", "replicaset-controller", deployed_pod),
    ("apps", "replicasets"): _Kind("apps/v1", "ReplicaSet", "replicaset-controller", replicated_pod),
    ("apps", "statefulsets"): _Kind("apps/v1", "StatefulSet", "statefulset-controller", stateful_pod),
    ("apps", "daemonsets"): _Kind("apps/v1", "DaemonSet", "daemon-set-controller", None),
    ("batch", "jobs"): _Kind("batch/v1", "Job", "job-controller", job_pod),
    ("batch", "cronjobs"): _Kind("batch/v1", "CronJob", "job-controller", cron_job_pod, _OF_JOBS),
    ("", "replicationcontrollers"): _Kind(
        "v1", "ReplicationController", "replication-controller", replicated_pod
    ),
}


def made_pod(review: Review, document: JSON) -> MadePod | None:
    """Make one of the Pods that a reviewed workload would make; its others are like it.

    Args:
        review: The CREATE or UPDATE of the workload.
        document: The workload as the chain left it.

    Returns:
        None where the review is of something else, or where there is no template that a Pod can be made of.
    """
    resource = review.resource
    group = storage_group(resource.group, resource.resource)
    kind = _KINDS.get((group, resource.resource))
    if kind is None or review.subresource or review.operation not in {Operation.CREATE, Operation.UPDATE}:
        return None
    if not isinstance(document, dict) or not isinstance(member(document, *kind.template, "spec"), dict):
        return None
    workload = _workload(review, kind, document)
    volumes = tuple(volume_origins(workload)) if kind.kind == "StatefulSet" else None
    made = _on_first_node(workload, review.cluster) if kind.make is None else kind.make(workload)
    return MadePod(document=made, user=kind.user, template=kind.template, volumes=volumes)


def _workload(review: Review, kind: _Kind, document: JSONObject) -> Workload:
    uid = member(document, "metadata", "uid")
    return Workload(
        api_version=kind.api_version,
        kind=kind.kind,
        name=_name(review, document),
        uid=uid if isinstance(uid, str) and uid else uid_of(review.uid),
        namespace=review.namespace,
        document=document,
    )


def _name(review: Review, document: JSONObject) -> str:
    """Its name; where that is still to be drawn, one that is the same every time."""
    name = review.name or member(document, "metadata", "name")
    if isinstance(name, str) and name:
        return name
    prefix = member(document, "metadata", "generateName")
    return f"{prefix or ''}{safe_encoded(uid_of(review.uid))[:_GENERATED]}"
