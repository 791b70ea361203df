"""The Pods of DaemonSets.

Source: ``pkg/controller/daemon/daemon_controller.go`` ``syncNodes``, ``pkg/controller/daemon/util/daemonset_util.go``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.pod_templates.workloads import Workload, items, mapping, pod_from_template, template_hash
from pratique.tolerations import EXISTS, NO_EXECUTE, NO_SCHEDULE, Toleration, is_same, read

if TYPE_CHECKING:
    from pratique.json_values import JSON, JSONObject

_GENERATION = "deprecated.daemonset.template.generation"

_ALWAYS = (
    ("not-ready", NO_EXECUTE),
    ("unreachable", NO_EXECUTE),
    ("disk-pressure", NO_SCHEDULE),
    ("memory-pressure", NO_SCHEDULE),
    ("pid-pressure", NO_SCHEDULE),
    ("unschedulable", NO_SCHEDULE),
)
_ON_HOST_NETWORK = ("network-unavailable", NO_SCHEDULE)


def daemon_pod(workload: Workload, node: str) -> JSONObject:
    """Make the Pod of a DaemonSet for a node."""
    revision = {
        "pod-template-generation": _generation(workload),
        "controller-revision-hash": template_hash(workload.template),
    }
    pod = pod_from_template(workload, revision)
    spec = pod["spec"]
    spec["tolerations"] = _tolerations(spec)
    spec["affinity"] = _affinity(mapping(spec, "affinity"), node)
    return pod


def _generation(workload: Workload) -> str:
    """What the API server counts from 1, in the annotation that the versions before apps/v1 had as a field."""
    old = member(workload.spec, "templateGeneration")
    return str(member(workload.document, "metadata", "annotations", _GENERATION) or old or 1)


def _tolerations(spec: JSONObject) -> list[JSON]:
    """Those of the template and what every daemon tolerates: ``AddOrUpdateDaemonPodTolerations``."""
    tolerations = list(items(spec, "tolerations"))
    added = (*_ALWAYS, _ON_HOST_NETWORK) if spec.get("hostNetwork") is True else _ALWAYS
    for taint, effect in added:
        wanted = Toleration(key=f"node.kubernetes.io/{taint}", operator=EXISTS, effect=effect)
        same = [is_same(wanted, read(each)) for each in tolerations]
        kept = zip(same, tolerations, strict=True)
        tolerations = [wanted.document if replaced else each for replaced, each in kept]
        tolerations += [] if any(same) else [wanted.document]
    return tolerations


def _affinity(affinity: JSONObject, node: str) -> JSONObject:
    """That of the template, for one node alone: ``ReplaceDaemonSetPodNodeNameNodeAffinity``."""
    field = {"key": "metadata.name", "operator": "In", "values": [node]}
    to_node = mapping(affinity, "nodeAffinity")
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    terms = {**mapping(to_node, required), "nodeSelectorTerms": [{"matchFields": [field]}]}
    return {**affinity, "nodeAffinity": {**to_node, required: terms}}
