"""What the strategies of subresources take from a request, and what they keep of the stored object.

A request to ``status`` changes the status alone, one to ``scale`` the replicas, one to ``resize`` the resources of
containers. Whatever else it brings is dropped in silence, as an API server does.

Sources: ``PrepareForUpdate`` of the strategies of subresources in ``pkg/registry/*/*/strategy.go`` of Kubernetes 1.37,
``k8s.io/apiextensions-apiserver`` and ``k8s.io/kube-aggregator``, ``ResetObjectMetaForStatus`` of
``k8s.io/apimachinery/pkg/apis/meta/v1/helpers.go``, and ``scaleFromDeployment`` of
``pkg/registry/apps/deployment/storage/storage.go`` and its like.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeAlias

from pratique.admission.reviews import Review
from pratique.apimachinery.json_values import JSON, JSONObject, list_at, mapping_at
from pratique.cluster.api_resources import storage_group
from pratique.cluster.schemas import built_in_schema
from pratique.registry.defaults.round_trips import template_generation, with_template_generation
from pratique.registry.strategies.pod_strategies import (
    with_pod_level_resources,
    without_init_container_annotations,
)

_Prepared: TypeAlias = Callable[[JSONObject, JSONObject, str], JSONObject]
"""Prepares an object, given the stored one and the time."""

_METADATA_OF_SCALE = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_METADATA_KEPT = ("deletionTimestamp", "labels", "annotations", "finalizers", "ownerReferences")


def prepare_subresource(review: Review, written: JSONObject, stored: JSONObject, time: str) -> JSONObject:
    """The object that an UPDATE of a subresource stores; its generation and its uid are not settled yet.

    Args:
        review: The review.
        written: The object as it is sent, after mutations.
        stored: The stored object, with its defaults.
        time: The time of the request, as objects have it.
    """
    if written.get("kind") == "Scale":
        return _scale(written, stored)
    is_status = review.subresource == "status"
    if built_in_schema(review.kind) is None:
        return _status_of_custom_resource(written, stored) if is_status else written
    if is_status:
        resource = review.resource
        return _status(
            (storage_group(resource.group, resource.resource), resource.resource), written, stored, time
        )
    change = _OTHERS.get(review.subresource)
    return written if change is None else change(written, stored, time)


def _with_fields_of(written: JSONObject, stored: JSONObject, *fields: str) -> JSONObject:
    """An object with some fields as they are stored; those that the stored object does not have are dropped."""
    kept = {name: value for name, value in written.items() if name not in fields or name in stored}
    return kept | {name: stored[name] for name in fields if name in stored}


def _with_metadata_of(
    written: JSONObject, stored: JSONObject, fields: Iterable[str] = _METADATA_KEPT
) -> JSONObject:
    metadata = _with_fields_of(mapping_at(written, "metadata"), mapping_at(stored, "metadata"), *fields)
    return {**written, "metadata": metadata}


def _scale(written: JSONObject, stored: JSONObject) -> JSONObject:
    """A Scale of which the replicas count, and the version that it was made from."""
    metadata = mapping_at(stored, "metadata")
    kept = {name: metadata[name] for name in _METADATA_OF_SCALE if name in metadata}
    if version := mapping_at(written, "metadata").get("resourceVersion"):
        kept["resourceVersion"] = version
    return {**_with_fields_of(written, stored, "status"), "metadata": kept}


def _status_of_custom_resource(written: JSONObject, stored: JSONObject) -> JSONObject:
    metadata = mapping_at(stored, "metadata")
    if managed := mapping_at(written, "metadata").get("managedFields"):
        metadata = {**metadata, "managedFields": managed}
    kept = {name: value for name, value in stored.items() if name != "status"}
    status = {"status": written["status"]} if "status" in written else {}
    return {**kept, "apiVersion": written.get("apiVersion"), "metadata": metadata, **status}


# Status


def _status(at: tuple[str, str], written: JSONObject, stored: JSONObject, time: str) -> JSONObject:
    prepared = _with_fields_of(written, stored, "spec")
    if at in _KEEPING_METADATA:
        prepared = _with_metadata_of(prepared, stored)
    change = _CHANGES.get(at)
    return prepared if change is None else change(prepared, stored, time)


_KEEPING_METADATA = frozenset(
    {
        ("admissionregistration.k8s.io", "validatingadmissionpolicies"),
        ("apiregistration.k8s.io", "apiservices"),
        ("certificates.k8s.io", "podcertificaterequests"),
        ("internal.apiserver.k8s.io", "storageversions"),
        ("lifecycle.k8s.io", "evictionrequests"),
        ("lifecycle.k8s.io", "evictions"),
        ("networking.k8s.io", "servicecidrs"),
        ("resource.k8s.io", "devicetaintrules"),
        ("resource.k8s.io", "resourceclaims"),
        ("resource.k8s.io", "resourcepoolstatusrequests"),
        ("scheduling.k8s.io", "compositepodgroups"),
        ("scheduling.k8s.io", "podgroups"),
        ("storage.k8s.io", "csinodes"),
        ("storage.k8s.io", "volumeattachments"),
        ("storagemigration.k8s.io", "storageversionmigrations"),
    }
)
"""Resources whose status is written without any change of metadata."""


def _without_status(written: JSONObject, *fields: str) -> JSONObject:
    status = mapping_at(written, "status")
    if not any(name in status for name in fields):
        return written
    return {**written, "status": {name: value for name, value in status.items() if name not in fields}}


def _finalized_namespace(written: JSONObject, stored: JSONObject, _: str) -> JSONObject:
    return _with_fields_of(written, stored, "status")


def _unless_used(*fields: str) -> _Prepared:
    """Drop fields of features that are off, unless the stored status has them."""

    def prepared(written: JSONObject, stored: JSONObject, _: str) -> JSONObject:
        status = mapping_at(stored, "status")
        return _without_status(written, *(name for name in fields if not status.get(name)))

    return prepared


def _deployment(written: JSONObject, stored: JSONObject, _: str) -> JSONObject:
    return _with_metadata_of(written, stored, ("labels",))


def _daemon_set(written: JSONObject, stored: JSONObject, _: str) -> JSONObject:
    """Keep the generation of the template, which is a field of the specification and an annotation of objects."""
    return with_template_generation(written, template_generation(stored) or 0)


def _flow_control(written: JSONObject, stored: JSONObject, _: str) -> JSONObject:
    metadata = mapping_at(stored, "metadata")
    if managed := mapping_at(written, "metadata").get("managedFields"):
        metadata = {**metadata, "managedFields": managed}
    return {**written, "metadata": metadata}


def _node(written: JSONObject, stored: JSONObject, _: str) -> JSONObject:
    written = _unless_used("config")(written, stored, "")
    information, before = mapping_at(written, "status", "nodeInfo"), mapping_at(stored, "status", "nodeInfo")
    if "runningInUserNamespace" not in information or before.get("runningInUserNamespace") is not None:
        return written
    kept = {name: value for name, value in information.items() if name != "runningInUserNamespace"}
    return {**written, "status": {**mapping_at(written, "status"), "nodeInfo": kept}}


def _persistent_volume(written: JSONObject, stored: JSONObject, time: str) -> JSONObject:
    """Note when the phase has changed."""
    status, before = mapping_at(written, "status"), mapping_at(stored, "status")
    since, told = before.get("lastPhaseTransitionTime"), status.get("lastPhaseTransitionTime")
    if (status.get("phase") or "") == (before.get("phase") or ""):
        changed = since if told is None else told
    else:
        changed = time if told is None or told == since else told
    if changed == told:
        return written
    return {**written, "status": {**status, "lastPhaseTransitionTime": changed}}


# Certificates


def _signing_request(written: JSONObject, stored: JSONObject, time: str) -> JSONObject:
    """Keep approvals and denials as they are, unless there are more or fewer, which validation refuses."""
    conditions, before = list_at(written, "status", "conditions"), list_at(stored, "status", "conditions")
    for type_ in ("Approved", "Denied"):
        places = [index for index, found in enumerate(conditions) if found.get("type") == type_]
        kept = [found for found in before if found.get("type") == type_]
        if places and len(places) == len(kept):
            replaced = dict(zip(places, kept, strict=True))
            conditions = [replaced.get(index, found) for index, found in enumerate(conditions)]
    return _with_conditions(written, _with_times(conditions, before, time))


def _approval(written: JSONObject, stored: JSONObject, time: str) -> JSONObject:
    """Take the conditions alone."""
    before = list_at(stored, "status", "conditions")
    conditions = _with_times(list_at(written, "status", "conditions"), before, time)
    return _with_conditions(_with_fields_of(written, stored, "spec", "status"), conditions)


def _with_conditions(written: JSONObject, conditions: list[JSONObject]) -> JSONObject:
    kept = {name: value for name, value in mapping_at(written, "status").items() if name != "conditions"}
    return {**written, "status": kept | ({"conditions": conditions} if conditions else {})}


def _with_times(
    conditions: Iterable[JSONObject], before: Iterable[JSONObject], time: str
) -> list[JSONObject]:
    """Conditions with the times at which they were updated and came to be."""
    since = {
        (found.get("type"), found.get("status")): found["lastTransitionTime"]
        for found in reversed(list(before))
        if found.get("lastTransitionTime")
    }
    return [
        {
            **condition,
            "lastUpdateTime": condition.get("lastUpdateTime") or time,
            "lastTransitionTime": condition.get("lastTransitionTime")
            or since.get((condition.get("type"), condition.get("status")), time),
        }
        for condition in conditions
    ]


# Devices


def _resource_claim(written: JSONObject, stored: JSONObject, _: str) -> JSONObject:
    """Drop what is known of devices that the claim is given no longer, and a field of a feature that is off."""
    written = _without_skipped_operations(written, stored)
    given = {_device(result) for result in list_at(written, "status", "allocation", "devices", "results")}
    before = {_device(result) for result in list_at(stored, "status", "allocation", "devices", "results")}
    devices = list_at(written, "status", "devices")
    kept = [device for device in devices if _device(device) not in before - given]
    if len(kept) == len(devices):
        return written
    if not kept:
        return _without_status(written, "devices")
    return {**written, "status": {**mapping_at(written, "status"), "devices": kept}}


_SKIPPED = "skipNodeOperations"


def _without_skipped_operations(written: JSONObject, stored: JSONObject) -> JSONObject:
    """Drop what ``DRAOptionalNodeOperations`` adds to results, unless stored ones have it."""
    results, before = (
        list_at(claim, "status", "allocation", "devices", "results") for claim in (written, stored)
    )
    if not any(_SKIPPED in result for result in results) or any(result.get(_SKIPPED) for result in before):
        return written
    kept = [{name: value for name, value in result.items() if name != _SKIPPED} for result in results]
    status, allocation = mapping_at(written, "status"), mapping_at(written, "status", "allocation")
    devices = {**mapping_at(allocation, "devices"), "results": kept}
    return {**written, "status": {**status, "allocation": {**allocation, "devices": devices}}}


def _device(result: JSONObject) -> tuple[JSON, ...]:
    return tuple(result.get(name) or "" for name in ("driver", "pool", "device", "shareID"))


# Pods


_KEPT_OF_PODS = (
    "resourceClaimStatuses",
    "extendedResourceClaimStatus",
    "nodeAllocatableResourceClaimStatuses",
)


def _pod(written: JSONObject, stored: JSONObject, _: str) -> JSONObject:
    """Keep what old kubelets do not know of, and who owns the Pod."""
    prepared = _with_metadata_of(written, stored, ("ownerReferences", "deletionTimestamp"))
    status, before = mapping_at(written, "status"), mapping_at(stored, "status")
    kept = {name: before[name] for name in _KEPT_OF_PODS if name in before and status.get(name) is None}
    for name in ("qosClass", "observedGeneration"):
        if before.get(name) and not status.get(name):
            kept[name] = before[name]
    if conditions := status.get("conditions"):
        kept["conditions"] = _with_generations(conditions, list_at(before, "conditions"))
    prepared = {**prepared, "status": status | kept}
    return without_init_container_annotations(_unless_used("volumeHealth")(prepared, stored, ""))


def _with_generations(conditions: Iterable[JSONObject], before: Iterable[JSONObject]) -> list[JSONObject]:
    """Conditions with the generations that those of the same types were seen at, if they name none."""
    generations: dict[JSON, list[JSON]] = {}
    for found in before:
        generations.setdefault(found.get("type"), []).append(found.get("observedGeneration"))
    completed = []
    for condition in conditions:
        known = generations.get(condition.get("type"))
        generation = known.pop(0) if known else None
        if generation and not condition.get("observedGeneration"):
            condition = {**condition, "observedGeneration": generation}  # noqa: PLW2901 - the completed one
        completed.append(condition)
    return completed


def _with_ephemeral_containers(written: JSONObject, stored: JSONObject, _: str) -> JSONObject:
    kept = _with_metadata_of(_with_fields_of(written, stored, "spec", "status"), stored)
    spec = {
        name: value for name, value in mapping_at(stored, "spec").items() if name != "ephemeralContainers"
    }
    containers = list_at(written, "spec", "ephemeralContainers")
    return {**kept, "spec": spec | ({"ephemeralContainers": containers} if containers else {})}


_RESIZED = ("resources", "resizePolicy")


def _resized_pod(written: JSONObject, stored: JSONObject, _: str) -> JSONObject:
    """Take the resources of the containers and of the Pod; other containers are for validation to refuse."""
    spec, before = mapping_at(written, "spec"), mapping_at(stored, "spec")
    prepared = written
    fields = ("containers", "initContainers")
    if all(len(list_at(spec, field)) == len(list_at(before, field)) for field in fields):
        taken: JSONObject = {
            field: _resized(list_at(spec, field), list_at(before, field)) for field in fields
        }
        taken |= {"resources": spec.get("resources")}
        kept = {name: value for name, value in before.items() if name not in taken}
        prepared = _with_metadata_of(_with_fields_of(written, stored, "status"), stored)
        prepared = {**prepared, "spec": kept | {name: value for name, value in taken.items() if value}}
    resources = before.get("resources")
    if resources is not None and mapping_at(prepared, "spec").get("resources") is None:
        prepared = {**prepared, "spec": {**mapping_at(prepared, "spec"), "resources": resources}}
    return without_init_container_annotations(with_pod_level_resources(prepared))


def _resized(containers: list[JSONObject], before: list[JSONObject]) -> list[JSONObject]:
    pairs = list(zip(containers, before, strict=True))
    if any(container.get("name") != old.get("name") for container, old in pairs):
        return containers
    return [_with_fields_of(old, container, *_RESIZED) for container, old in pairs]


_CHANGES: Mapping[tuple[str, str], _Prepared] = {
    ("", "nodes"): _node,
    ("", "persistentvolumeclaims"): _unless_used("healthStatus"),
    ("", "persistentvolumes"): _persistent_volume,
    ("", "pods"): _pod,
    ("apps", "daemonsets"): _daemon_set,
    ("apps", "deployments"): _deployment,
    ("certificates.k8s.io", "certificatesigningrequests"): _signing_request,
    ("flowcontrol.apiserver.k8s.io", "flowschemas"): _flow_control,
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"): _flow_control,
    ("resource.k8s.io", "resourceclaims"): _resource_claim,
    ("storage.k8s.io", "csinodes"): _unless_used("storageHealth"),
}
"""What else happens to the status of single resources."""
_OTHERS: Mapping[str, _Prepared] = {
    "approval": _approval,
    "ephemeralcontainers": _with_ephemeral_containers,
    "finalize": _finalized_namespace,
    "resize": _resized_pod,
}
"""What happens to other subresources than ``status`` and ``scale``."""
