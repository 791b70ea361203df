"""Evaluators: what one kind of objects uses of a quota."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Iterator
from typing import TypeAlias

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
"""Tells whether an object is of a scope. Raises InputError where the scope is malformed."""


def _matches_no_scope(scope: ScopeRequirement, reviewed: JSON) -> bool:
    """Tell that an object is of no scope: most kinds have none, and a quota with scopes never counts them."""
    del scope, reviewed
    return False


def _no_constraints(required: Collection[str], reviewed: JSON) -> str:
    """Demand nothing of an object."""
    del required, reviewed
    return ""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class QuotaEvaluator:
    """How the objects of one collection are charged."""

    group: str
    resource: str
    """The collection that they are in."""
    is_charged: Callable[[Review], bool]
    """Tells whether a CREATE or UPDATE can change what is used."""
    is_kind: Callable[[JSON], bool]
    """Tells whether a document is what belongs in the collection."""
    measures: Callable[[str], bool]
    """Tells whether a resource that a quota may name is one that these objects use."""
    usage: Callable[[JSON], ResourceList]
    """Gives what one object uses. Raises RefusalError, 400, where an amount is no quantity."""
    fits: MatchesScope = _matches_no_scope
    missing: Callable[[Collection[str], JSON], str] = _no_constraints
    """Says what an object must specify because a quota names those resources; empty where nothing is missing."""

    def matching(self, scopes: Iterable[ScopeRequirement], reviewed: JSON) -> list[ScopeRequirement]:
        """Those scopes that an object is of.

        Raises:
            InputError: a scope is malformed.
        """
        found = []
        for scope in scopes:
            try:
                if self.fits(scope, reviewed):
                    found.append(scope)
            except InputError as error:
                raise InputError(f"error on matching scope {scope}: {error}") from None
        return found

    def see_that_fit(self, reviewed: JSON) -> None:
        """Refuse to measure what does not belong in the collection.

        Raises:
            RefusalError: it is of another kind; 400.
        """
        if not self.is_kind(reviewed):
            name = qualified_resource(self.group, self.resource)
            text = f"Resource was marked as {name} but was unable to be converted"
            raise RefusalError(statuses.bad_request(text))


_COUNT_PREFIX = "count/"

COUNTED_WITHOUT_PREFIX = ("configmaps", "resourcequotas", "replicationcontrollers", "secrets")
"""Core collections that a quota may name without ``count/``."""


def count_name(group: str, resource: str) -> str:
    """What a quota calls the number of objects of a collection: ``count/deployments.apps``."""
    return f"{_COUNT_PREFIX}{qualified_resource(group, resource)}"


def parse_count_name(name: str) -> tuple[str, str] | None:
    """The group and resource that a name counts; None where it is no count."""
    if not name.startswith(_COUNT_PREFIX):
        return None
    resource, _, group = name.removeprefix(_COUNT_PREFIX).partition(".")
    return group, resource


def object_count(group: str, resource: str) -> QuotaEvaluator:
    """Make the evaluator of a collection whose objects are counted, and nothing more."""
    names = {count_name(group, resource)}
    if not group and resource in COUNTED_WITHOUT_PREFIX:
        names.add(resource)
    return QuotaEvaluator(
        group=group,
        resource=resource,
        is_charged=_is_creation,
        is_kind=lambda _: True,
        measures=names.__contains__,
        usage=lambda _: dict.fromkeys(names, ONE),
    )


def _is_creation(review: Review) -> bool:
    return review.operation is Operation.CREATE and not review.subresource


_SERVICE_COUNT = count_name("", "services")
_SERVICES = "services"
_NODE_PORTS = "services.nodeports"
_LOAD_BALANCERS = "services.loadbalancers"


def service_usage(service: JSON) -> ResourceList:
    """What a Service uses. Ports are not allocated yet when it is reviewed, so its type and ports tell."""
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


def _is_service_charged(review: Review) -> bool:
    """Tell of every update, too, because a Service can change its type."""
    return review.operation in {Operation.CREATE, Operation.UPDATE}


def _is_service(document: JSON) -> bool:
    return isinstance(document, dict) and document.get("kind", "Service") == "Service"


SERVICES = QuotaEvaluator(
    group="",
    resource="services",
    is_charged=_is_service_charged,
    is_kind=_is_service,
    measures={_SERVICE_COUNT, _SERVICES, _NODE_PORTS, _LOAD_BALANCERS}.__contains__,
    usage=service_usage,
)


_CLAIM_COUNT = count_name("", "persistentvolumeclaims")
_CLAIMS = "persistentvolumeclaims"
_STORAGE = "requests.storage"
_STORAGE_CLASS_INFIX = ".storageclass.storage.k8s.io/"
"""Between the name of a StorageClass and what of it is limited."""

_ATTRIBUTES_CLASS_PATHS = (
    ("spec", "volumeAttributesClassName"),
    ("status", "currentVolumeAttributesClassName"),
    ("status", "modifyVolumeStatus", "targetVolumeAttributesClassName"),
)
"""Where a claim names VolumeAttributesClasses: what it wants, what it has, what it is on its way to."""


def claim_usage(claim: JSON) -> ResourceList:
    """What a claim uses, whole bytes of storage.

    Raises:
        RefusalError: an amount is no quantity; 400.
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
    """What a claim requests, or what has been allocated already where that is more."""
    requested = _storage_amount(claim, "spec", "resources", "requests")
    allocated = _storage_amount(claim, "status", "allocatedResources")
    if requested is None or allocated is None or allocated.compare(requested) <= 0:
        return requested
    return allocated


def _storage_amount(claim: JSON, *place: str) -> Quantity | None:
    storage = read_resource_list(member(claim, *place), FieldPath(place)).get("storage")
    return None if storage is None else storage.rounded_up(0)


def measures(name: str) -> bool:
    """Tell whether a quota's resource is used by claims."""
    return name in {_CLAIM_COUNT, _CLAIMS, _STORAGE} or name.endswith(
        (f"{_STORAGE_CLASS_INFIX}{_CLAIMS}", f"{_STORAGE_CLASS_INFIX}{_STORAGE}")
    )


def fits(scope: ScopeRequirement, claim: JSON) -> bool:
    """Tell whether a claim is of a scope; claims have one, that of their VolumeAttributesClasses."""
    if scope.scope_name != VOLUME_ATTRIBUTES_CLASS:
        return False
    named = (member(claim, *place) for place in _ATTRIBUTES_CLASS_PATHS)
    return scope_selects(scope, [str(name) for name in named if name])


def _is_claim_charged(review: Review) -> bool:
    """Tell of updates, too, because claims grow, and of their status, where that shows first."""
    if review.subresource == "status":
        return is_persistent_volume_claim(review.object) and is_persistent_volume_claim(review.old_object)
    return not review.subresource and review.operation in {Operation.CREATE, Operation.UPDATE}


VOLUME_CLAIMS = QuotaEvaluator(
    group="",
    resource="persistentvolumeclaims",
    is_charged=_is_claim_charged,
    is_kind=is_persistent_volume_claim,
    measures=measures,
    usage=claim_usage,
    fits=fits,
)


_GROUP = "resource.k8s.io"
_DEVICE_CLAIM_COUNT = count_name(_GROUP, "resourceclaims")
_DEVICES = ".deviceclass.resource.k8s.io/devices"

_ALLOCATION_RESULTS_MAX_SIZE = 32
"""As many devices a claim can be given at most: ``AllocationResultsMaxSize`` of ``k8s.io/api/resource/v1``."""


def device_usage(claim: JSON) -> ResourceList:
    """What a claim uses, at worst: one of several alternatives is the one that takes most of each class."""
    used: ResourceList = {_DEVICE_CLAIM_COUNT: ONE}
    for request in _list(member(claim, "spec", "devices", "requests")):
        most: dict[str, Quantity] = {}
        for name, devices in _device_alternatives(request):
            most[name] = max(most.get(name, devices), devices, key=lambda amount: amount.number)
        used = add(used, most)
    return used


def _device_alternatives(request: JSON) -> Iterator[tuple[str, Quantity]]:
    # Before v1beta2, a request held what stands below ``exactly`` since.
    exact = member(request, "exactly") or request
    for one in _list(member(request, "firstAvailable")) or [exact]:
        name = member(one, "deviceClassName")
        if name:
            yield f"{name}{_DEVICES}", Quantity(_device_count(one))


def _device_count(request: JSON) -> int:
    """The number of devices; an API server fills in one where neither mode nor count is given."""
    mode = member(request, "allocationMode") or "ExactCount"
    if mode == "All":
        return _ALLOCATION_RESULTS_MAX_SIZE
    count = member(request, "count")
    return (count if isinstance(count, int) and count else 1) if mode == "ExactCount" else 0


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _is_device_claim_charged(review: Review) -> bool:
    return not review.subresource and review.operation in {Operation.CREATE, Operation.UPDATE}


def _is_resource_claim(document: JSON) -> bool:
    return isinstance(document, dict) and document.get("kind", "ResourceClaim") == "ResourceClaim"


DEVICE_CLAIMS = QuotaEvaluator(
    group=_GROUP,
    resource="resourceclaims",
    is_charged=_is_device_claim_charged,
    is_kind=_is_resource_claim,
    measures=lambda name: name == _DEVICE_CLAIM_COUNT or name.endswith(_DEVICES),
    usage=device_usage,
)
