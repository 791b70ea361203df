"""The Pods of Jobs, and of the Jobs of CronJobs.

Source: ``pkg/controller/job/job_controller.go`` ``manageJob``, ``pkg/controller/job/indexed_job_utils.go``,
``pkg/registry/batch/job/strategy.go`` ``generateSelector``,
``pkg/controller/cronjob/utils.go`` ``getJobFromTemplate2``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pratique.json_values import member
from pratique.pod_templates.workloads import Workload, items, mapping, pod_from_template, uid_of

if TYPE_CHECKING:
    from pratique.json_values import JSON, JSONObject

_FINALIZER = "batch.kubernetes.io/job-tracking"
_INDEX = "batch.kubernetes.io/job-completion-index"
_INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
_INDEX_VARIABLE = "JOB_COMPLETION_INDEX"
_LONGEST_PREFIX = 58
"""Characters of a DNS label, less the five that are drawn."""

SCHEDULED_MINUTE = 28_928_160
"""When a CronJob is taken to be due: 2025-01-01T00:00:00Z, in minutes, which the names of its Jobs end with."""


def cron_job_pod(workload: Workload) -> JSONObject:
    """Make the first Pod of the Job that a CronJob would make."""
    name = f"{workload.name}-{SCHEDULED_MINUTE}"
    job = Workload(
        api_version="batch/v1",
        kind="Job",
        name=name,
        uid=uid_of(workload.uid, name),
        namespace=workload.namespace,
        document={"spec": mapping(workload.spec, "jobTemplate", "spec")},
    )
    return job_pod(job)


def job_pod(workload: Workload) -> JSONObject:
    """Make the first Pod of a Job."""
    pod = pod_from_template(workload, _selected_labels(workload))
    finalizers = items(pod, "metadata", "finalizers")
    if _FINALIZER not in finalizers:
        pod["metadata"]["finalizers"] = [*finalizers, _FINALIZER]
    if member(workload.spec, "completionMode") == "Indexed":
        _index(pod, workload)
    return pod


def _selected_labels(job: Workload) -> JSONObject:
    """The labels that a Job is given to know its Pods by, unless it says how it does."""
    if member(job.spec, "manualSelector") is True:
        return {}
    given = {
        "job-name": job.name,
        "batch.kubernetes.io/job-name": job.name,
        "controller-uid": job.uid,
        "batch.kubernetes.io/controller-uid": job.uid,
    }
    return given | mapping(job.template, "metadata", "labels")


def _index(pod: JSONObject, job: Workload) -> None:
    """Make it the Pod of the first index."""
    metadata, spec = pod["metadata"], pod["spec"]
    metadata["labels"] = {**mapping(metadata, "labels"), _INDEX: "0"}
    metadata["annotations"] = {**mapping(metadata, "annotations"), _INDEX: "0"}
    if member(job.spec, "backoffLimitPerIndex") is not None:
        metadata["annotations"][_INDEX_FAILURES] = "0"
    metadata["generateName"] = job.name[: _LONGEST_PREFIX - len("-0-")] + "-0-"
    spec["hostname"] = f"{job.name}-0"
    for field in ("initContainers", "containers"):
        if containers := items(spec, field):
            spec[field] = [_told_its_index(each) for each in containers]


def _told_its_index(container: JSON) -> JSON:
    variables = items(container, "env")
    if not isinstance(container, dict) or any(member(v, "name") == _INDEX_VARIABLE for v in variables):
        return container
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{_INDEX}']"}}
    return {**container, "env": [*variables, {"name": _INDEX_VARIABLE, "valueFrom": source}]}
