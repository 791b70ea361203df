"""The status of Pods.

Source: ``ValidatePodStatusUpdate`` of ``pkg/apis/core/validation/validation.go`` of Kubernetes 1.37, and
``ContainerShouldRestart`` of ``pkg/api/v1/pod/util.go``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from pratique.admission.reviews import Review
from pratique.apimachinery import names
from pratique.apimachinery.field_errors import (
    ROOT,
    FieldError,
    FieldPath,
    duplicate,
    forbidden,
    internal,
    invalid,
    not_supported,
    required,
    too_long,
)
from pratique.apimachinery.json_values import JSONObject, list_at, mapping_at
from pratique.apimachinery.quantities import Quantity
from pratique.registry.go_values import internal_value
from pratique.registry.validation.addresses import ip_warnings, is_ipv6, parse_ip, validate_legacy_ip
from pratique.registry.validation.kind_validation import SubresourceTable, SubresourceValidation
from pratique.registry.validation.metadata import subdomain_name, validate_immutable
from pratique.registry.validation.pod_annotations import validate_pod_annotations
from pratique.registry.validation.pods import validate_annotation_changes
from pratique.registry.validation.stored_pods import options_beside

_ANNOTATIONS, _STATUS = ROOT / "metadata" / "annotations", ROOT / "status"
_STATUSES: Mapping[str, str] = {
    "containerStatuses": "containers",
    "initContainerStatuses": "initContainers",
    "ephemeralContainerStatuses": "ephemeralContainers",
}
"""The statuses of containers, and the field of the containers that they are of."""
_EPHEMERAL = "ephemeralContainerStatuses"


def _validate(pod: JSONObject, old: JSONObject, _: Review) -> Iterator[FieldError]:
    spec, status, old_status = (
        mapping_at(pod, "spec"),
        mapping_at(pod, "status"),
        mapping_at(old, "status"),
    )
    annotations, before = (mapping_at(found, "metadata", "annotations") for found in (pod, old))
    yield from validate_annotation_changes(annotations, before, _ANNOTATIONS)
    yield from validate_pod_annotations(annotations, spec, _ANNOTATIONS, options_beside(old, is_pod=True))
    yield from _validate_conditions(list_at(status, "conditions"))
    yield from _validate_nominated_node(status, old_status, spec)
    generation = status.get("observedGeneration", 0)
    if generation < 0:
        yield invalid(_STATUS / "observedGeneration", generation, _NOT_NEGATIVE)
    yield from validate_immutable(
        status.get("qosClass", ""), old_status.get("qosClass", ""), _STATUS / "qosClass"
    )
    for field in _STATUSES:
        yield from _validate_transitions(field, list_at(status, field), list_at(old_status, field), spec)
    yield from _validate_claims(status, spec)
    yield from _validate_extended_claim(status.get("extendedResourceClaimStatus"), spec)
    yield from _validate_addresses(status, old_status, "podIP")
    yield from _validate_addresses(status, old_status, "hostIP")
    for field in _STATUSES:
        yield from _validate_users(list_at(status, field), _STATUS / field, spec)
    for field in _STATUSES:
        yield from _validate_allocations(field, status, spec)


_NOT_NEGATIVE = "must be a non-negative integer"
_OF_SYSTEM = frozenset({"PodScheduled", "Ready", "Initialized"})


def _validate_conditions(conditions: Iterable[JSONObject]) -> Iterator[FieldError]:
    for index, condition in enumerate(conditions):
        path = _STATUS / "conditions" / index
        generation, type_ = condition.get("observedGeneration", 0), condition.get("type", "")
        if generation < 0:
            yield invalid(path / "observedGeneration", generation, _NOT_NEGATIVE)
        if type_ not in _OF_SYSTEM:
            for message in names.check_qualified_name(type_):
                yield invalid(path / "Type", type_, message)


def _validate_nominated_node(status: JSONObject, old: JSONObject, spec: JSONObject) -> Iterator[FieldError]:
    name, path = status.get("nominatedNodeName", ""), _STATUS / "nominatedNodeName"
    if not name or name == old.get("nominatedNodeName", ""):
        return
    for message in subdomain_name(name, False):
        yield invalid(path, name, message)
    if spec.get("nodeName"):
        yield forbidden(path, "may not be set on pods that are already bound to a node")


# What containers may become


def _validate_transitions(
    field: str, statuses: Sequence[JSONObject], old: Sequence[JSONObject], spec: JSONObject
) -> Iterator[FieldError]:
    """Refuse that what has ended and is not restarted runs again."""
    if field != _EPHEMERAL and _restarts_all(spec):
        return
    running: dict[str, list[JSONObject]] = defaultdict(list)
    for found in statuses:
        if mapping_at(found, "state").get("terminated") is None:
            running[found.get("name", "")].append(found)
    containers = {found.get("name"): found for found in reversed(list_at(spec, _STATUSES[field]))}
    for index, before in enumerate(old):
        ended = mapping_at(before, "state").get("terminated")
        if ended is None:
            continue
        again = running.get(before.get("name", ""), [])
        exit_code = ended.get("exitCode", 0)
        if field != _EPHEMERAL:
            again = again[:1]
            if again and _is_restarted(containers.get(before.get("name", "")), spec, exit_code):
                continue
        for _ in again:
            yield forbidden(
                _STATUS / field / index / "state", "may not be transitioned to non-terminated state"
            )


def _restarts_all(spec: JSONObject) -> bool:
    """Whether the end of some container restarts all of them: ``AllContainersCouldRestart``."""
    return any(
        rule.get("action") == "RestartAllContainers"
        for field in ("initContainers", "containers")
        for container in list_at(spec, field)
        for rule in list_at(container, "restartPolicyRules")
    )


def _is_restarted(container: JSONObject | None, spec: JSONObject, exit_code: int) -> bool:
    """``ContainerShouldRestart``; a container that is not there is not restarted."""
    if container is None:
        return False
    policy = container.get("restartPolicy")
    if policy is not None:
        for rule in list_at(container, "restartPolicyRules"):
            if _matches(rule, exit_code):
                return True
    policy = policy or spec.get("restartPolicy")
    return exit_code != 0 if policy == "OnFailure" else policy != "Never"


def _matches(rule: JSONObject, exit_code: int) -> bool:
    codes = rule.get("exitCodes")
    if codes is None:
        return False
    is_among = exit_code in list_at(codes, "values")
    return is_among if codes.get("operator") == "In" else not is_among


# Claims for devices


def _validate_claims(status: JSONObject, spec: JSONObject) -> Iterator[FieldError]:
    path, known = _STATUS / "resourceClaimStatuses", set()
    claims = {claim.get("name") for claim in list_at(spec, "resourceClaims")}
    for index, claim in enumerate(list_at(status, "resourceClaimStatuses")):
        name, place = claim.get("name", ""), path / index
        if name not in claims:
            yield invalid(place / "name", name, "must match the name of an entry in `spec.resourceClaims`")
        if name in known:
            yield duplicate(place / "name", name)
        known.add(name)
        claim_name = claim.get("resourceClaimName")
        for message in () if claim_name is None else subdomain_name(claim_name, False):
            yield invalid(place / "resourceClaimName", claim_name, message)


def _validate_extended_claim(claim: JSONObject | None, spec: JSONObject) -> Iterator[FieldError]:
    if claim is None:
        return
    path = _STATUS / "extendedResourceClaimStatus"
    mappings, seen = list_at(claim, "requestMappings"), set()
    if not mappings:
        yield required(path / "requestMappings", "at least one request mapping is required")
    for index, mapping in enumerate(mappings):
        place = path / "requestMappings" / index
        fields = ("containerName", "resourceName", "requestName")
        key = tuple(mapping.get(field, "") for field in fields)
        yield from _validate_mapping(mapping, place, path, spec)
        for field, value in zip(fields, key, strict=True) if key in seen else ():
            yield duplicate(place / field, value)
        seen.add(key)
    name = claim.get("resourceClaimName", "")
    if not name:
        yield required(path / "resourceClaimName")
    for message in subdomain_name(name, False) if name else ():
        yield invalid(path / "resourceClaimName", name, message)


def _validate_mapping(
    mapping: JSONObject, place: FieldPath, path: FieldPath, spec: JSONObject
) -> Iterator[FieldError]:
    containers = {
        container.get("name", ""): container
        for field in ("initContainers", "containers")
        for container in list_at(spec, field)
    }
    name, resource, request = (
        mapping.get(field, "") for field in ("containerName", "resourceName", "requestName")
    )
    if name not in containers:
        detail = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
        yield invalid(place / "containerName", name, detail)
    elif resource not in mapping_at(containers[name], "resources", "requests"):
        detail = (
            "must match the extended resource name of an entry in spec.initContainers.resources.requests or"
            " spec.containers.resources.requests"
        )
        yield invalid(place / "resourceName", resource, detail)
    for message in names.check_dns1123_label(request):
        yield invalid(path / "requestName", request, message)


# Addresses


def _validate_addresses(status: JSONObject, old: JSONObject, field: str) -> Iterator[FieldError]:
    """Validate the address of the Pod or of its host, and the list that it is the first of."""
    plural = f"{field}s"
    path, first = _STATUS / plural, status.get(field, "")
    addresses = [found.get("ip", "") for found in list_at(status, plural)]
    known = {found.get("ip", "") for found in list_at(old, plural)}
    is_first = not addresses or addresses[0] == first
    mismatch = [] if is_first else [invalid(path / 0 / "ip", addresses[0], f"must be equal to `{field}`")]
    if field == "hostIP":
        yield from mismatch
    for index, address in enumerate(addresses):
        yield from validate_legacy_ip(address, path / index / "ip", known)
    yield from _validate_families(addresses, f"[]core.{field[0].upper()}{field[1:]}", list_at(status, plural))
    if field == "podIP":
        if bool(first) is not bool(addresses):
            value = internal_value("[]core.PodIP", list_at(status, plural) or None)
            yield invalid(path, value, "podIP and podIPs must either both be set or both be unset")
        elif addresses:
            yield from mismatch


def _validate_families(
    addresses: Sequence[str], type_name: str, written: list[JSONObject]
) -> Iterator[FieldError]:
    if len(addresses) <= 1:
        return
    path = _STATUS / ("podIPs" if type_name == "[]core.PodIP" else "hostIPs")
    unreadable = next(((index, text) for index, text in enumerate(addresses) if parse_ip(text) is None), None)
    if unreadable is not None:
        index, text = unreadable
        detail = f"failed to check for dual stack with error:invalid IP[{index}]: {text}"
        yield internal(path, detail)
    families = {is_ipv6(text) for text in addresses}
    if unreadable is not None or len(families) == 1 or len(addresses) != len(families):
        value = internal_value(type_name, written)
        yield invalid(path, value, "may specify no more than one IP for each IP family")


# Users and resources of containers


_MAX_UID, _MAX_GID = 2**32 - 1, 2**31 - 1


def _validate_users(
    statuses: Iterable[JSONObject], path: FieldPath, spec: JSONObject
) -> Iterator[FieldError]:
    os_name = mapping_at(spec, "os").get("name", "linux")
    for index, status in enumerate(statuses):
        user, place = mapping_at(status, "user").get("linux"), path / index / "user" / "linux"
        if user is None:
            continue
        if os_name == "windows":
            yield forbidden(place, "cannot be set for a windows pod")
        elif os_name == "linux":
            yield from _validate_user(user, place)


def _validate_user(user: JSONObject, path: FieldPath) -> Iterator[FieldError]:
    uid = user.get("uid", 0)
    if not 0 <= uid <= _MAX_UID:
        yield invalid(path / "uid", uid, f"must be between 0 and {_MAX_UID}, inclusive")
    groups = [(path / "gid", user.get("gid", 0))]
    groups += [
        (path / "supplementalGroups" / index, group)
        for index, group in enumerate(list_at(user, "supplementalGroups"))
    ]
    for place, group in groups:
        if not 0 <= group <= _MAX_GID:
            yield invalid(place, group, f"must be between 0 and {_MAX_GID}, inclusive")


_HEALTH = ("Healthy", "Unhealthy", "Unknown")
_LONGEST_MESSAGE = 1024


def _validate_allocations(field: str, status: JSONObject, spec: JSONObject) -> Iterator[FieldError]:
    containers = list_at(spec, _STATUSES[field])
    for index, found in enumerate(list_at(status, field)):
        path = _STATUS / field / index / "allocatedResourcesStatus"
        allocations = list_at(found, "allocatedResourcesStatus")
        if field == _EPHEMERAL:
            if allocations:
                yield forbidden(path, "must not be specified in container status")
            continue
        container = next((item for item in containers if item.get("name") == found.get("name")), None)
        for number, allocation in enumerate(allocations):
            if container is not None:
                yield from _validate_allocated_name(
                    allocation.get("name", ""), container, status, path / number / "name"
                )
            yield from _validate_health(list_at(allocation, "resources"), path / number / "resources")


_CLAIM = "claim:"


def _validate_allocated_name(
    name: str, container: JSONObject, status: JSONObject, path: FieldPath
) -> Iterator[FieldError]:
    resources = mapping_at(container, "resources")
    if not name.startswith(_CLAIM):
        if name not in mapping_at(resources, "requests"):
            yield invalid(path, name, "must match one of the container's resource requests")
        return
    known = {
        _CLAIM + "/".join(text for text in (claim.get("name", ""), claim.get("request")) if text)
        for claim in list_at(resources, "claims")
    }
    if name not in known and not _is_extended(name, container, status):
        detail = (
            "must match one of the container's resource claims as 'claim:<claimName>/<requestName>' when"
            " container.resources.claims[*].request is set or 'claim:<claimName>' when it is empty"
        )
        yield invalid(path, name, detail)


def _is_extended(name: str, container: JSONObject, status: JSONObject) -> bool:
    """``matchesExtendedResourceClaimStatus``."""
    claim, _, request = name.removeprefix(_CLAIM).partition("/")
    extended = mapping_at(status, "extendedResourceClaimStatus")
    if not request or claim != extended.get("resourceClaimName"):
        return False
    requests = mapping_at(container, "resources", "requests")
    return any(
        mapping.get("containerName") == container.get("name")
        and mapping.get("requestName") == request
        and mapping.get("resourceName") in requests
        and Quantity.from_json(requests[mapping["resourceName"]]).sign != 0
        for mapping in list_at(extended, "requestMappings")
    )


def _validate_health(resources: Iterable[JSONObject], path: FieldPath) -> Iterator[FieldError]:
    known: set[str] = set()
    for index, resource in enumerate(resources):
        health, message, identifier = (resource.get(name) for name in ("health", "message", "resourceID"))
        place = path / index
        if health not in _HEALTH:
            yield not_supported(place / "health", health or "", _HEALTH)
        if message is not None and not message:
            yield required(place / "message", "must be non-empty if specified")
        elif message is not None and len(message.encode()) > _LONGEST_MESSAGE:
            yield too_long(place / "message", _LONGEST_MESSAGE)
        if (identifier or "") in known:
            yield duplicate(place / "resourceID", identifier or "")
        known.add(identifier or "")


def _warnings(pod: JSONObject, _old: JSONObject, _: Review) -> Iterator[str]:
    for field in ("podIPs", "hostIPs"):
        for index, found in enumerate(list_at(pod, "status", field)):
            yield from ip_warnings(found.get("ip", ""), _STATUS / field / index / "ip")


SUBRESOURCE_VALIDATIONS: SubresourceTable = {
    ("", "pods", "status"): SubresourceValidation(_validate, _warnings)
}
"""What updates of the status of Pods are validated with."""
