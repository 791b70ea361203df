"""Pods that are resized in place, or get ephemeral containers.

Source: ``ValidatePodResize`` and ``ValidatePodEphemeralContainersUpdate`` of
``pkg/apis/core/validation/validation.go`` of Kubernetes 1.37. The strategies have dropped what else a request changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery.field_errors import NAMELESS, ROOT, FieldError, FieldPath, forbidden, invalid
from pratique.apimachinery.json_values import JSON, JSONObject, list_at, mapping_at
from pratique.apimachinery.statuses import go_quoted
from pratique.pods.pod_spec import MIRROR_ANNOTATION
from pratique.pods.resource_requirements import qos_class
from pratique.registry.go_values import differs, internal_diff
from pratique.registry.validation.kind_validation import SubresourceTable, SubresourceValidation
from pratique.registry.validation.pods import validate_annotation_changes, validate_pod
from pratique.registry.validation.stored_pods import options_beside

_ANNOTATIONS, _SPEC = ROOT / "metadata" / "annotations", ROOT / "spec"
_SCALED = ("cpu", "memory")


def _annotations(pod: JSONObject) -> JSONObject:
    return mapping_at(pod, "metadata", "annotations")


# Ephemeral containers


def _with_containers(pod: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    if MIRROR_ANNOTATION in _annotations(old):
        return [forbidden(NAMELESS, "static pods do not support ephemeral containers")]
    errors = validate_pod(pod, options_beside(old, is_pod=True))
    errors += validate_annotation_changes(_annotations(pod), _annotations(old), _ANNOTATIONS)
    path = _SPEC / "ephemeralContainers"
    containers = {found.get("name", ""): found for found in list_at(pod, "spec", "ephemeralContainers")}
    for before in list_at(old, "spec", "ephemeralContainers"):
        name = before.get("name", "")
        start = f"existing ephemeral containers {go_quoted(name)} may not be"
        if name not in containers:
            errors.append(forbidden(path, f"{start} removed\n"))
        elif differs("core.EphemeralContainer", before, containers[name]):
            difference = internal_diff("core.EphemeralContainer", before, containers[name])
            errors.append(forbidden(path, f"{start} changed\n{difference}"))
    return errors


# Resizes


def _resized(pod: JSONObject, old: JSONObject, _: Review) -> list[FieldError]:
    spec, old_spec = mapping_at(pod, "spec"), mapping_at(old, "spec")
    for is_refused, pods in (
        (MIRROR_ANNOTATION in _annotations(old), "static"),
        (mapping_at(old_spec, "os").get("name") == "windows", "windows"),
    ):
        if is_refused:
            return [forbidden(NAMELESS, f"{pods} pods cannot be resized")]
    errors = validate_pod(pod, options_beside(old, is_pod=True))
    errors += _validate_class_and_node(pod, old)
    errors += _validate_resources_of_pod(spec, old_spec)
    if misplaced := _validate_order(spec, old_spec):
        return errors + misplaced
    errors += _validate_removals(spec, old_spec)
    errors += _validate_containers(spec, old_spec)
    if differs("[]core.Volume", list_at(old_spec, "volumes"), list_at(spec, "volumes")):
        errors.append(forbidden(_SPEC / "volumes", _VOLUMES_ARE_FIXED))
    if errors or not differs("core.PodSpec", old_spec, _as_before(spec, old_spec)):
        return errors
    return [forbidden(_SPEC, _ONLY_SCALED)]


_ONLY_SCALED = "only cpu and memory resources are mutable"
_GATE = "InPlacePodVerticalScalingMemoryBackedVolumes"
_VOLUMES_ARE_FIXED = f"volumes are immutable on resize when {_GATE} feature gate is disabled"


def _validate_class_and_node(pod: JSONObject, old: JSONObject) -> Iterator[FieldError]:
    before = mapping_at(old, "status").get("qosClass") or qos_class(old)
    if before != qos_class(pod):
        shown = mapping_at(pod, "status").get("qosClass", "")
        yield invalid(_SPEC, shown, "Pod QOS Class may not change as a result of resizing")
    for status in list_at(old, "status", "containerStatuses"):
        if mapping_at(status, "state").get("running") is not None:
            if status.get("resources") is None:
                yield forbidden(_SPEC, "Pod running on node without support for resize")
            return


def _amounts(resources: JSONObject | None) -> tuple[JSONObject, JSONObject]:
    return mapping_at(resources, "requests"), mapping_at(resources, "limits")


def _validate_resources_of_pod(spec: JSONObject, old: JSONObject) -> Iterator[FieldError]:
    """``validatePodLevelResourcesResize``."""
    resources, before = spec.get("resources"), old.get("resources")
    if not any((*_amounts(resources), *_amounts(before))):
        return
    path = _SPEC / "resources"
    if before is not None and resources is None:
        yield forbidden(path, "pod-level resources cannot be removed")
        return
    if before is not None:
        for kind in ("requests", "limits"):
            if _is_removed(mapping_at(resources, kind), mapping_at(before, kind)):
                yield forbidden(path / kind, f"pod-level resource {kind} cannot be removed")
    if differs("*core.ResourceRequirements", before, _with_scaled_of_pod(resources, before)):
        yield forbidden(_SPEC, "only cpu and memory resources are mutable at pod-level")


def _is_removed(amounts: JSONObject, before: JSONObject) -> bool:
    return len(before) > len(amounts) or not before.keys() <= amounts.keys()


def _validate_order(spec: JSONObject, old: JSONObject) -> list[FieldError]:
    """``validatePodResizeContainerOrdering``."""
    errors: list[FieldError] = []
    for field in ("containers", "initContainers"):
        containers, before, path = list_at(spec, field), list_at(old, field), _SPEC / field
        if len(containers) != len(before):
            errors.append(forbidden(path, f"{field} may not be added or removed on resize"))
            continue
        errors += [
            forbidden(path / index / "name", f"{field} may not be renamed or reordered on resize")
            for index, (container, known) in enumerate(zip(containers, before, strict=True))
            if container.get("name") != known.get("name")
        ]
    return errors


def _pairs(
    spec: JSONObject, old: JSONObject, field: str
) -> Iterator[tuple[FieldPath, JSONObject, JSONObject]]:
    pairs = zip(list_at(spec, field), list_at(old, field), strict=True)
    for index, (container, before) in enumerate(pairs):
        yield _SPEC / field / index, container, before


def _validate_removals(spec: JSONObject, old: JSONObject) -> Iterator[FieldError]:
    """``validateContainerResize``."""
    for field in ("initContainers", "containers"):
        for path, container, before in _pairs(spec, old, field):
            for kind in ("requests", "limits"):
                amounts, known = (mapping_at(found, "resources", kind) for found in (container, before))
                if _is_removed(amounts, known):
                    yield forbidden(path / "resources" / kind, f"resource {kind} cannot be removed")


def _validate_containers(spec: JSONObject, old: JSONObject) -> Iterator[FieldError]:
    """Refuse changes of anything but processor and memory."""
    for _, container, before in _pairs(spec, old, "containers"):
        if differs("core.Container", before, _with_scaled(container, before)):
            yield forbidden(_SPEC, _ONLY_SCALED)
    for path, container, before in _pairs(spec, old, "initContainers"):
        if differs("core.Container", before, _with_scaled(container, before)):
            detail = "only cpu and memory resources for init or sidecar containers are mutable"
            yield forbidden(path, detail)
        if container.get("restartPolicy") != "Always" and differs("core.Container", before, container):
            detail = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized"
            for resize in list_at(container, "resizePolicy"):
                if resize.get("restartPolicy") == "RestartContainer":
                    yield forbidden(path, detail)


def _with_scaled(container: JSONObject, before: JSONObject) -> JSONObject:
    """A container with the processor and memory of before: ``dropCPUMemoryResourcesFromContainer``."""
    resources = mapping_at(container, "resources")
    kept = _without_scaling(resources, mapping_at(before, "resources"))
    return {**container, "resources": kept}


def _without_scaling(resources: JSONObject, before: JSONObject) -> JSONObject:
    kept = {"claims": resources["claims"]} if resources.get("claims") else {}
    for kind in ("requests", "limits"):
        amounts = _with_known(mapping_at(resources, kind), mapping_at(before, kind))
        kept |= {kind: amounts} if amounts else {}
    return kept


def _with_known(amounts: JSONObject, known: Mapping[str, JSON]) -> JSONObject:
    kept = {name: amount for name, amount in amounts.items() if name not in _SCALED}
    return kept | {name: known[name] for name in _SCALED if name in known}


def _with_scaled_of_pod(resources: JSONObject | None, before: JSONObject | None) -> JSONObject | None:
    """``dropCPUMemoryResourceRequirementsUpdates``."""
    if resources is None:
        return None
    kept = _without_scaling(resources, before or {})
    return None if before is None and not kept else kept


def _as_before(spec: JSONObject, old: JSONObject) -> JSONObject:
    """The specification without what a resize may change."""
    kept = {**spec, "volumes": list_at(old, "volumes")}
    for field in ("containers", "initContainers"):
        containers: Sequence[JSONObject] = [
            _with_scaled(container, before) for _, container, before in _pairs(spec, old, field)
        ]
        kept[field] = containers
    kept["resources"] = _with_scaled_of_pod(spec.get("resources"), old.get("resources"))
    return kept


SUBRESOURCE_VALIDATIONS: SubresourceTable = {
    ("", "pods", "ephemeralcontainers"): SubresourceValidation(_with_containers),
    ("", "pods", "resize"): SubresourceValidation(_resized),
}
"""What updates of the containers and resources of Pods are validated with."""
