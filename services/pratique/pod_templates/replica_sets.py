"""The Pods of Deployments, ReplicaSets and ReplicationControllers.

Source: ``pkg/controller/deployment/sync.go`` ``getNewReplicaSet``, ``pkg/controller/replicaset/replica_set.go``
``manageReplicas``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.pod_templates.workloads import Workload, mapping, pod_from_template, template_hash, uid_of

if TYPE_CHECKING:
    from pratique.json_values import JSONObject

_HASH_LABEL = "pod-template-hash"
_LONGEST_NAME = 253
"""Characters of a DNS subdomain."""


def replicated_pod(workload: Workload) -> JSONObject:
    """Make a Pod of a ReplicaSet or a ReplicationController."""
    return pod_from_template(workload)


def deployed_pod(workload: Workload) -> JSONObject:
    """Make a Pod of the ReplicaSet that a Deployment would make."""
    return pod_from_template(_replica_set(workload))


def _replica_set(deployment: Workload) -> Workload:
    hashed = template_hash(deployment.template)
    name = f"{deployment.name[: _LONGEST_NAME - len(hashed) - 1]}-{hashed}"
    template = deployment.template
    metadata = mapping(template, "metadata")
    labels = {**mapping(metadata, "labels"), _HASH_LABEL: hashed}
    document: JSONObject = {
        "metadata": {"name": name, "namespace": deployment.namespace, "labels": labels},
        "spec": {"template": {**template, "metadata": {**metadata, "labels": labels}}},
    }
    return Workload(
        api_version="apps/v1",
        kind="ReplicaSet",
        name=name,
        uid=uid_of(deployment.uid, name),
        namespace=deployment.namespace,
        document=document,
    )
