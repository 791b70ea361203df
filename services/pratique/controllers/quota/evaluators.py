"""Evaluators: what the objects of one kind use of a quota.

Source: ``pkg/quota/v1/evaluator/core`` and ``k8s.io/apiserver/pkg/quota/v1/generic``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeAlias

import msgspec

from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import InputError, RefusalError
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import JSON, member
from pratique.apimachinery.quantities import Quantity
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import qualified_resource
from pratique.controllers.quota.resource_quotas import (
    ONE,
    VOLUME_ATTRIBUTES_CLASS,
    ZERO,
    ScopeRequirement,
    add,
    scope_selects,
)
from pratique.pods.resource_requirements import ResourceList, read_resource_list
from pratique.pods.volumes import is_persistent_volume_claim, storage_class_of

MatchesScope: TypeAlias = Callable[[ScopeRequirement, "JSON"], bool]
"""Whether an object matches a scope. Raises InputError if the scope is malformed."""


def _matches_no_scope(scope: ScopeRequirement, reviewed: JSON) -> bool:
    """Match nothing: most kinds have no scopes, so quotas with scopes never count them."""
    del scope, reviewed
    return False


def _no_constraints(required: Collection[str], reviewed: JSON) -> str:
    """Require nothing of an object."""
    del required, reviewed
    return ""


class QuotaEvaluator(msgspec.Struct, frozen=True, kw_only=True):
    """How the objects of one resource are charged."""

    group: str
    resource: str
    """The plural name of the resource."""
    handles: Callable[[Review], bool]
    """Whether a CREATE or UPDATE can change the usage."""
    is_kind: Callable[[JSON], bool]
    """Whether a document has the kind of the resource."""
    matches_resource: Callable[[str], bool]
    """Whether these objects use a resource that a quota may name."""
    usage: Callable[[JSON], ResourceList]
    """The usage of one object. Raises RefusalError, 400, if an amount is not a quantity."""
    matches_scope: MatchesScope = _matches_no_scope
    missing_constraints: Callable[[Collection[str], JSON], str] = _no_constraints
    """What an object fails to specify although a quota limits it; empty if nothing is missing."""

    def matching_scopes(self, scopes: Iterable[ScopeRequirement], reviewed: JSON) -> list[ScopeRequirement]:
        """The scopes that an object matches.

        Raises:
            InputError: A scope is malformed.
        """
        result = []
        for scope in scopes:
            try:
                if self.matches_scope(scope, reviewed):
                    result.append(scope)
            except InputError as error:
                raise InputError(f"error on matching scope {scope}: {error}") from None
        return result

    def check_kind(self, reviewed: JSON) -> None:
        """Refuse to measure an object of another kind.

        Raises:
            RefusalError: It is of another kind; 400.
        """
        if not self.is_kind(reviewed):
            name = qualified_resource(self.group, self.resource)
            text = f"Resource was marked as {name} but was unable to be converted"
            raise RefusalError(statuses.bad_request(text))


_COUNT_PREFIX = "count/"

COUNTED_WITHOUT_PREFIX = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
"""Core resources that a quota may name without ``count/``."""
COUNTED_RESOURCES = (
    *COUNTED_WITHOUT_PREFIX,
    *("pods", "services", "persistentvolumeclaims", "resourceclaims"),
    *("deployments", "replicasets", "statefulsets", "daemonsets", "jobs", "cronjobs"),
)
"""What quotas usually count: their objects are looked up where the quota's status does not tell its usage."""


def count_name(group: str, resource: str) -> str:
    """The name of a resource's object count in quotas: ``count/deployments.apps``."""
    return f"{_COUNT_PREFIX}{qualified_resource(group, resource)}"


def parse_count_name(name: str) -> tuple[str, str] | None:
    """The group and resource that a name counts; None if it is not a count."""
    if not name.startswith(_COUNT_PREFIX):
        return None
    resource, _, group = name.removeprefix(_COUNT_PREFIX).partition(".")
    return group, resource


def object_count(group: str, resource: str) -> QuotaEvaluator:
    """Make the evaluator of a resource whose objects are only counted."""
    names = {count_name(group, resource)}
    if not group and resource in COUNTED_WITHOUT_PREFIX:
        names.add(resource)
    return QuotaEvaluator(
        group=group,
        resource=resource,
        handles=_handles_creation,
        is_kind=lambda _: True,
        matches_resource=names.__contains__,
        usage=lambda _: dict.fromkeys(names, ONE),
    )


def _handles_creation(review: Review) -> bool:
    return review.operation is Operation.CREATE and not review.subresource


_SERVICE_COUNT = count_name("", "services")
_SERVICES = "services"
_NODE_PORTS = "services.nodeports"
_LOAD_BALANCERS = "services.loadbalancers"


def service_usage(service: JSON) -> ResourceList:
    """The usage of a Service. Its ports are not allocated yet at admission, so its type and ports decide."""
    kind = member(service, "spec", "type")
    return {
        _SERVICE_COUNT: ONE,
        _SERVICES: ONE,
        _LOAD_BALANCERS: ONE if kind == "LoadBalancer" else ZERO,
        _NODE_PORTS: Quantity(_node_ports(service, kind)),
    }


def _node_ports(service: JSON, kind: JSON) -> int:
    ports = member(service, "spec", "ports")
    if kind not in {"NodePort", "LoadBalancer"} or not isinstance(ports, list):
        return 0
    if kind == "LoadBalancer" and member(service, "spec", "allocateLoadBalancerNodePorts") is False:
        return sum(bool(member(port, "nodePort")) for port in ports)
    return len(ports)


def _handles_service(review: Review) -> bool:
    """Charge every update, because a Service can change its type."""
    return review.operation in {Operation.CREATE, Operation.UPDATE}


def _is_service(document: JSON) -> bool:
    return isinstance(document, dict) and document.get("kind", "Service") == "Service"


SERVICES = QuotaEvaluator(
    group="",
    resource="services",
    handles=_handles_service,
    is_kind=_is_service,
    matches_resource={_SERVICE_COUNT, _SERVICES, _NODE_PORTS, _LOAD_BALANCERS}.__contains__,
    usage=service_usage,
)


_CLAIM_COUNT = count_name("", "persistentvolumeclaims")
_CLAIMS = "persistentvolumeclaims"
_STORAGE = "requests.storage"
_STORAGE_CLASS_INFIX = ".storageclass.storage.k8s.io/"
"""The text between a StorageClass's name and the limited resource."""

_ATTRIBUTES_CLASS_PATHS = (
    ("spec", "volumeAttributesClassName"),
    ("status", "currentVolumeAttributesClassName"),
    ("status", "modifyVolumeStatus", "targetVolumeAttributesClassName"),
)
"""Where a claim names VolumeAttributesClasses: the desired, the current and the target class."""


def claim_usage(claim: JSON) -> ResourceList:
    """The usage of a claim; storage in whole bytes.

    Raises:
        RefusalError: An amount is not a quantity; 400.
    """
    used = {_CLAIMS: ONE, _CLAIM_COUNT: ONE}
    storage = _claim_storage(claim)
    if storage is not None:
        used[_STORAGE] = storage
    storage_class = storage_class_of(claim)
    if storage_class:
        used[f"{storage_class}{_STORAGE_CLASS_INFIX}{_CLAIMS}"] = ONE
        if storage is not None:
            used[f"{storage_class}{_STORAGE_CLASS_INFIX}{_STORAGE}"] = storage
    return used


def _claim_storage(claim: JSON) -> Quantity | None:
    """The requested storage, or the allocated storage if that is more."""
    requested = _storage_amount(claim, "spec", "resources", "requests")
    allocated = _storage_amount(claim, "status", "allocatedResources")
    if requested is None or allocated is None or allocated.compare(requested) <= 0:
        return requested
    return allocated


def _storage_amount(claim: JSON, *place: str) -> Quantity | None:
    storage = read_resource_list(member(claim, *place), FieldPath(place)).get("storage")
    # As Go's Quantity.Value(), by which Kubernetes counts bytes.
    return None if storage is None else storage.rounded_up(0)


def _measures_claims(name: str) -> bool:
    """Whether claims use a resource that a quota names."""
    return name in {_CLAIM_COUNT, _CLAIMS, _STORAGE} or name.endswith(
        (f"{_STORAGE_CLASS_INFIX}{_CLAIMS}", f"{_STORAGE_CLASS_INFIX}{_STORAGE}")
    )


def _claim_matches_scope(scope: ScopeRequirement, claim: JSON) -> bool:
    """Whether a claim matches a scope. Claims have only the scope of their VolumeAttributesClasses."""
    if scope.scope_name != VOLUME_ATTRIBUTES_CLASS:
        return False
    named = (member(claim, *place) for place in _ATTRIBUTES_CLASS_PATHS)
    return scope_selects(scope, [str(name) for name in named if name])


def _handles_claim(review: Review) -> bool:
    """Charge updates, because claims grow, and of their status, which shows the growth first."""
    if review.subresource == "status":
        return is_persistent_volume_claim(review.object) and is_persistent_volume_claim(review.old_object)
    return not review.subresource and review.operation in {Operation.CREATE, Operation.UPDATE}


VOLUME_CLAIMS = QuotaEvaluator(
    group="",
    resource="persistentvolumeclaims",
    handles=_handles_claim,
    is_kind=is_persistent_volume_claim,
    matches_resource=_measures_claims,
    usage=claim_usage,
    matches_scope=_claim_matches_scope,
)


_GROUP = "resource.k8s.io"
_DEVICE_CLAIM_COUNT = count_name(_GROUP, "resourceclaims")
_DEVICES = ".deviceclass.resource.k8s.io/devices"

_ALLOCATION_RESULTS_MAX_SIZE = 32
"""The maximum number of devices that a claim can get: ``AllocationResultsMaxSize`` of ``k8s.io/api/resource/v1``."""


def device_usage(claim: JSON) -> ResourceList:
    """The maximum usage of a claim: of several alternatives, the most devices of each class."""
    used: ResourceList = {_DEVICE_CLAIM_COUNT: ONE}
    for request in _list(member(claim, "spec", "devices", "requests")):
        most: dict[str, Quantity] = {}
        for name, devices in _device_alternatives(request):
            most[name] = max(most.get(name, devices), devices, key=lambda amount: amount.number)
        used = add(used, most)
    return used


def _device_alternatives(request: JSON) -> Iterator[tuple[str, Quantity]]:
    # Before v1beta2, a request had the fields that are now below ``exactly``.
    exact = member(request, "exactly") or request
    for alternative in _list(member(request, "firstAvailable")) or [exact]:
        name = member(alternative, "deviceClassName")
        if name:
            yield f"{name}{_DEVICES}", Quantity(_device_count(alternative))


def _device_count(request: JSON) -> int:
    """The number of devices. The API server defaults it to one if neither mode nor count is set."""
    mode = member(request, "allocationMode") or "ExactCount"
    if mode == "All":
        return _ALLOCATION_RESULTS_MAX_SIZE
    count = member(request, "count")
    return (count if isinstance(count, int) and count else 1) if mode == "ExactCount" else 0


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _handles_device_claim(review: Review) -> bool:
    return not review.subresource and review.operation in {Operation.CREATE, Operation.UPDATE}


def _is_resource_claim(document: JSON) -> bool:
    return isinstance(document, dict) and document.get("kind", "ResourceClaim") == "ResourceClaim"


DEVICE_CLAIMS = QuotaEvaluator(
    group=_GROUP,
    resource="resourceclaims",
    handles=_handles_device_claim,
    is_kind=_is_resource_claim,
    matches_resource=lambda name: name == _DEVICE_CLAIM_COUNT or name.endswith(_DEVICES),
    usage=device_usage,
)
