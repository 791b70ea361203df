"""The Pods of StatefulSets.

Source: ``pkg/controller/statefulset/stateful_set_utils.go`` ``newStatefulSetPod``, ``initIdentity``,
``updateStorage``, ``setPodRevision``, and ``pkg/controller/history/controller_history.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.pod_templates.workloads import Workload, items, pod_from_template, template_hash

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pratique.field_errors import Step
    from pratique.json_values import JSON, JSONObject

_LONGEST_PREFIX = 223
"""Characters of the name that a revision's name begins with."""


def stateful_pod(workload: Workload) -> JSONObject:
    """Make the first Pod of a StatefulSet."""
    ordinal = _first_ordinal(workload)
    name = f"{workload.name}-{ordinal}"
    revision = f"{workload.name[:_LONGEST_PREFIX]}-{template_hash(workload.template)}"
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
    """Tell for each volume of its Pods which field of the StatefulSet it comes from."""
    return [origin for _, origin in _volumes(workload, "")]


def _volumes(workload: Workload, pod_name: str) -> Iterator[tuple[JSON, tuple[Step, ...]]]:
    """Volumes of the claims first, then those of the template whose names no claim has."""
    claims = {
        name: index
        for index, claim in enumerate(items(workload.spec, "volumeClaimTemplates"))
        if isinstance(name := member(claim, "metadata", "name"), str)
    }
    for name, index in claims.items():
        claim = {"claimName": f"{name}-{pod_name}"}
        yield {"name": name, "persistentVolumeClaim": claim}, ("spec", "volumeClaimTemplates", index)
    for index, volume in enumerate(items(workload.template, "spec", "volumes")):
        name = member(volume, "name")
        if not isinstance(name, str) or name not in claims:
            yield volume, ("spec", "template", "spec", "volumes", index)


def _first_ordinal(workload: Workload) -> int:
    start = member(workload.spec, "ordinals", "start")
    return start if type(start) is int else 0
