"""What the strategies of Pods, and of kinds with templates of Pods, fill in.

Sources: ``pkg/registry/core/pod/strategy.go``, ``pkg/registry/apps/daemonset/strategy.go``,
``pkg/registry/batch/job/strategy.go`` and ``pkg/api/pod/util.go`` of Kubernetes 1.37.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping

from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.field_errors import ROOT
from pratique.apimachinery.json_values import JSON, JSONObject, list_at, mapping_at, member
from pratique.apimachinery.quantities import Quantity
from pratique.pods import pod_spec
from pratique.pods.resource_requirements import (
    ContainerRequirements,
    ResourceList,
    aggregate_containers,
    container_requirements,
    qos_class,
)

_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_ANNOTATIONS = ROOT / "metadata" / "annotations"


def created_pod(pod: JSONObject) -> JSONObject:
    """A Pod as it is created: pending, with selectors, AppArmor profiles and resources completed."""
    pod = {**pod, "status": _status_of_created(pod)}
    pod = without_init_container_annotations(_with_selectors(pod))
    pod = with_pod_level_resources(_with_app_armor_profiles(pod))
    return {**pod, "status": {**pod["status"], "qosClass": qos_class(pod)}}


def updated_pod(pod: JSONObject, stored: JSONObject) -> JSONObject:
    """A Pod as it is updated: its own resources cannot be taken away."""
    resources = member(stored, "spec", "resources")
    if resources is not None and member(pod, "spec", "resources") is None:
        pod = {**pod, "spec": {**mapping_at(pod, "spec"), "resources": resources}}
    return without_init_container_annotations(pod)


def _status_of_created(pod: JSONObject) -> JSONObject:
    if not list_at(pod, "spec", "schedulingGates"):
        return {"phase": "Pending"}
    gated = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates",
    }
    return {"phase": "Pending", "conditions": [gated]}


_INIT_CONTAINER_ANNOTATIONS = frozenset(
    f"pod.{version}.kubernetes.io/init-container{suffix}"
    for version in ("alpha", "beta")
    for suffix in ("s", "-statuses")
)


def without_init_container_annotations(template: JSONObject) -> JSONObject:
    """Drop the annotations that init containers were once written in, from a Pod or a template."""
    metadata = template.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    if not annotations or _INIT_CONTAINER_ANNOTATIONS.isdisjoint(annotations):
        return template
    kept = {name: text for name, text in annotations.items() if name not in _INIT_CONTAINER_ANNOTATIONS}
    return {**template, "metadata": {**mapping_at(template, "metadata"), "annotations": kept}}


# Selectors that name labels of the Pod, by whose values they select.


def _with_selectors(pod: JSONObject) -> JSONObject:
    """Add the labels that terms of affinity and of spreading name: ``mutatePodAffinity`` and its like."""
    spec = mapping_at(pod, "spec")
    affinity, constraints = spec.get("affinity"), spec.get("topologySpreadConstraints")
    if not affinity and not constraints:
        return pod
    labels = mapping_at(pod, "metadata", "labels")
    changed: JSONObject = {}
    if isinstance(constraints, list):
        changed["topologySpreadConstraints"] = [
            _with_expressions(constraint, labels, ("matchLabelKeys", "In")) for constraint in constraints
        ]
    if isinstance(affinity, dict):
        own = {
            field: _with_terms(affinity[field], labels)
            for field in ("podAffinity", "podAntiAffinity")
            if isinstance(affinity.get(field), dict)
        }
        changed["affinity"] = {**affinity, **own}
    return {**pod, "spec": {**spec, **changed}}


_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_MATCHED, _MISMATCHED = ("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")


def _with_terms(affinity: JSONObject, labels: JSONObject) -> JSONObject:
    changed = dict(affinity)
    if isinstance(affinity.get(_REQUIRED), list):
        changed[_REQUIRED] = [
            _with_expressions(term, labels, _MATCHED, _MISMATCHED) for term in affinity[_REQUIRED]
        ]
    if isinstance(affinity.get(_PREFERRED), list):
        changed[_PREFERRED] = [
            {**weighted, "podAffinityTerm": _with_expressions(term, labels, _MATCHED, _MISMATCHED)}
            if isinstance(term := member(weighted, "podAffinityTerm"), dict)
            else weighted
            for weighted in affinity[_PREFERRED]
        ]
    return changed


def _with_expressions(term: JSON, labels: JSONObject, *keys: tuple[str, str]) -> JSON:
    selector = member(term, "labelSelector")
    if not isinstance(selector, dict) or not isinstance(term, dict):
        return term
    added = [
        {"key": key, "operator": operator, "values": [labels[key]]}
        for field, operator in keys
        for key in term.get(field) or ()
        if key in labels
    ]
    if not added:
        return term
    expressions = [*(selector.get("matchExpressions") or ()), *added]
    return {**term, "labelSelector": {**selector, "matchExpressions": expressions}}


# AppArmor


_LOCALHOST = "localhost/"
_APP_ARMOR_TYPES = {"unconfined": "Unconfined", "runtime/default": "RuntimeDefault"}
_MAX_PROFILE_LENGTH = 4095  # of a path in Linux: PATH_MAX - 1


def _with_app_armor_profiles(pod: JSONObject) -> JSONObject:
    """Turn AppArmor annotations into fields: ``applyAppArmorVersionSkew``."""
    if member(pod, "spec", "os", "name") == "windows" or not pod_spec.has_app_armor_annotation(pod):
        return pod
    annotations = mapping_at(pod, "metadata", "annotations")
    spec = mapping_at(pod, "spec")
    of_pod = member(spec, "securityContext", "appArmorProfile")
    containers = {
        field: [_with_app_armor(container, annotations, of_pod) for container in spec[field]]
        for field in _CONTAINERS
        if isinstance(spec.get(field), list)
    }
    return {**pod, "spec": {**spec, **containers}}


APP_ARMOR_FIELD = 'deprecated since v1.30; use the "appArmorProfile" field instead'
"""What is said of an annotation with a profile of AppArmor."""


def app_armor_warnings(pod: JSONObject) -> Iterator[str]:
    """Warn of annotations that :func:`created_pod` turns into fields, and of those that it cannot."""
    if member(pod, "spec", "os", "name") == "windows" or not pod_spec.has_app_armor_annotation(pod):
        return
    annotations, spec = mapping_at(pod, "metadata", "annotations"), mapping_at(pod, "spec")
    of_pod = member(spec, "securityContext", "appArmorProfile")
    for container in itertools.chain.from_iterable(list_at(spec, field) for field in _CONTAINERS):
        key = f"{pod_spec.APP_ARMOR_ANNOTATION}{member(container, 'name') or ''}"
        if key not in annotations or member(container, "securityContext", "appArmorProfile") is not None:
            continue
        profile = app_armor_profile(annotations[key])
        if profile is None or profile != of_pod:
            yield f"{_ANNOTATIONS.key(key)}: {APP_ARMOR_FIELD}"


def _with_app_armor(container: JSON, annotations: JSONObject, of_pod: JSON) -> JSON:
    profile = app_armor_profile(
        annotations.get(f"{pod_spec.APP_ARMOR_ANNOTATION}{member(container, 'name')}")
    )
    own = member(container, "securityContext", "appArmorProfile")
    if profile is None or profile == of_pod or own is not None or not isinstance(container, dict):
        return container
    context = mapping_at(container, "securityContext")
    return {**container, "securityContext": {**context, "appArmorProfile": profile}}


def app_armor_profile(annotation: JSON) -> JSONObject | None:
    """The field for an annotation: ``ApparmorFieldForAnnotation``; None if there is none, or it would be invalid."""
    if not isinstance(annotation, str):
        return None
    if annotation in _APP_ARMOR_TYPES:
        return {"type": _APP_ARMOR_TYPES[annotation]}
    name = annotation.removeprefix(_LOCALHOST)
    if name == annotation or not name or name.strip() != name or len(name.encode()) > _MAX_PROFILE_LENGTH:
        return None
    return {"type": "Localhost", "localhostProfile": name}


# Resources of the Pod itself


_HUGE_PAGES = "hugepages-"
_OVERCOMMITTED = ("cpu", "memory")


def with_pod_level_resources(pod: JSONObject) -> JSONObject:
    """Complete the resources of a Pod itself from those of its containers: ``DefaultPodLevelResources``."""
    resources = member(pod, "spec", "resources")
    if not isinstance(resources, dict) or not (resources.get("requests") or resources.get("limits")):
        return pod
    try:
        groups = [container_requirements(pod, field) for field in ("containers", "initContainers")]
    except RefusalError:
        return pod
    containers, init_containers = groups
    requested = _aggregated(containers, init_containers, is_limit=False)
    limited = _aggregated(containers, init_containers, is_limit=True)
    requests, limits = dict(resources.get("requests") or {}), dict(resources.get("limits") or {})
    for name, amount in limited.items():
        if name.startswith(_HUGE_PAGES) and name not in requests:
            limits.setdefault(name, str(amount))
    for name in _OVERCOMMITTED:
        if name in requested:
            requests.setdefault(name, str(requested[name]))
    for name, limit in limits.items():
        if _is_pod_level(name):
            requests.setdefault(name, limit)
    _complete_limits(limits, requests, (*containers, *init_containers), limited)
    completed = {
        **resources,
        **({"requests": requests} if requests else {}),
        **({"limits": limits} if limits else {}),
    }
    return {**pod, "spec": {**mapping_at(pod, "spec"), "resources": completed}}


def _is_pod_level(name: str) -> bool:
    return name in _OVERCOMMITTED or name.startswith(_HUGE_PAGES)


def _aggregated(
    containers: Iterable[ContainerRequirements],
    init_containers: Iterable[ContainerRequirements],
    *,
    is_limit: bool,
) -> Mapping[str, Quantity]:
    def amounts(container: ContainerRequirements) -> ResourceList:
        requirements = container.requirements
        return requirements.limits if is_limit else requirements.requests

    return aggregate_containers(
        [amounts(container) for container in containers],
        [(amounts(container), container.restartable) for container in init_containers],
    )


def _complete_limits(
    limits: JSONObject,
    requests: JSONObject,
    containers: tuple[ContainerRequirements, ...],
    limited: Mapping[str, Quantity],
) -> None:
    """Limit what every container limits, to no less than is requested."""
    for name, request in requests.items():
        if name in limits or not _is_pod_level(name) or name not in limited:
            continue
        if all(name in container.requirements.limits for container in containers):
            wanted = Quantity.from_json(request)
            limits[name] = str(wanted if wanted.compare(limited[name]) > 0 else limited[name])


# Jobs


_CONTROLLER_UID = "batch.kubernetes.io/controller-uid"


def with_selector_of_job(job: JSONObject, name: str) -> JSONObject:
    """Let a Job select its Pods by its uid: ``generateSelector``."""
    spec, template = mapping_at(job, "spec"), mapping_at(job, "spec", "template")
    if spec.get("manualSelector") is True:
        return job
    uid = job["metadata"].get("uid") or ""
    own = {
        "job-name": name,
        "batch.kubernetes.io/job-name": name,
        "controller-uid": uid,
        _CONTROLLER_UID: uid,
    }
    metadata, selector = mapping_at(template, "metadata"), mapping_at(spec, "selector")
    written = mapping_at(metadata, "labels")
    labels = own | written
    selected = {_CONTROLLER_UID: uid} | mapping_at(selector, "matchLabels")
    changed = {
        **job,
        "spec": {
            **spec,
            "selector": {**selector, "matchLabels": selected},
            "template": {**template, "metadata": {**metadata, "labels": labels}},
        },
    }
    # Go defaults the labels of a Job to the very map of its template's, if that has any, so that these come along.
    of_job = member(job, "metadata", "labels")
    if of_job and of_job is member(metadata, "labels"):
        changed["metadata"] = {**job["metadata"], "labels": labels}
    return changed
