"""Requests and limits of containers, Pods and claims, and the BestEffort QoS class.

Sources: ``k8s.io/component-helpers/resource/helpers.go`` and ``pkg/apis/core/helper/qos/qos.go``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping
from typing import TypeAlias

import msgspec

from pratique.apimachinery import statuses
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import JSON, JSONObject, json_type, list_at, mapping_at, member
from pratique.apimachinery.quantities import Quantity, QuantityError

ResourceList: TypeAlias = "Mapping[str, Quantity]"
"""Quantities by resource name: ``cpu``, ``memory``, ``example.com/gpu``."""

_FINEST = -3
"""Thousandths: an API server rounds finer amounts up when it decodes a resource list."""

_POD_LEVEL_RESOURCES = ("cpu", "memory")
"""The resources that pod-level requests and limits may set."""


class ResourceRequirements(msgspec.Struct, frozen=True):
    """Requests and limits: the reserved and the maximum amounts."""

    requests: ResourceList
    limits: ResourceList


class ContainerRequirements(msgspec.Struct, frozen=True):
    """The requests and limits of one container."""

    name: str
    """The container's name; empty if it has none."""
    requirements: ResourceRequirements
    restartable: bool
    """True for a sidecar, an init container with ``restartPolicy: Always`` that keeps running."""


def read_resource_list(value: JSON, path: FieldPath) -> ResourceList:
    """Read a resource list; a missing one is empty.

    Raises:
        RefusalError: it is not an object of quantities; 400, with the field.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise RefusalError(statuses.bad_request(f"{path}: must be a mapping, not {json_type(value)}"))
    return {name: _read_quantity(amount, path / name) for name, amount in value.items()}


def read_requirements(resources: JSON, path: FieldPath) -> ResourceRequirements:
    """Read the ``resources`` of a container, Pod or claim.

    Raises:
        RefusalError: an amount is not a quantity; 400.
    """
    return ResourceRequirements(
        read_resource_list(member(resources, "requests"), path / "requests"),
        read_resource_list(member(resources, "limits"), path / "limits"),
    )


def container_requirements(pod: JSONObject, field: str) -> tuple[ContainerRequirements, ...]:
    """Read the requests and limits of a Pod's ``containers`` or ``initContainers``.

    Raises:
        RefusalError: an amount is not a quantity; 400.
    """
    items = member(pod, "spec", field)
    path = FieldPath(("spec", field))
    return tuple(
        ContainerRequirements(
            str(item.get("name") or ""),
            read_requirements(item.get("resources"), path / index / "resources"),
            item.get("restartPolicy") == "Always",
        )
        for index, item in enumerate(items if isinstance(items, list) else ())
        if isinstance(item, dict)
    )


def pod_requirements(
    pod: JSONObject,
    containers: Iterable[ContainerRequirements],
    init_containers: Iterable[ContainerRequirements],
) -> ResourceRequirements:
    """The total requests and limits of a Pod; pod-level resources take precedence.

    Args:
        pod: The Pod.
        containers: The requests and limits of its containers.
        init_containers: The requests and limits of its init containers.

    Raises:
        RefusalError: a pod-level amount is not a quantity; 400.
    """
    containers, init_containers = tuple(containers), tuple(init_containers)
    own = read_requirements(member(pod, "spec", "resources"), FieldPath(("spec", "resources")))
    return ResourceRequirements(
        _total(
            [container.requirements.requests for container in containers],
            [(container.requirements.requests, container.restartable) for container in init_containers],
            own.requests,
        ),
        _total(
            [container.requirements.limits for container in containers],
            [(container.requirements.limits, container.restartable) for container in init_containers],
            own.limits,
        ),
    )


def aggregate_containers(
    containers: Iterable[ResourceList], init_containers: Iterable[tuple[ResourceList, bool]]
) -> dict[str, Quantity]:
    """Aggregate the containers of a Pod: the maximum of the running containers and of every init phase.

    Args:
        containers: The amounts of the containers.
        init_containers: The amounts of the init containers in order, each with True for a sidecar.
    """
    total: dict[str, Quantity] = {}
    for amounts in containers:
        _add(total, amounts)
    staying: dict[str, Quantity] = {}
    starting: dict[str, Quantity] = {}
    for amounts, stays in init_containers:
        # A sidecar runs beside the containers, and beside the init containers after it.
        if stays:
            _add(total, amounts)
            _add(staying, amounts)
            raise_to(starting, staying)
        else:
            # An ordinary init container runs alone, except for the sidecars before it.
            needed = dict(amounts)
            _add(needed, staying)
            raise_to(starting, needed)
    raise_to(total, starting)
    return total


def _total(
    containers: Iterable[ResourceList],
    init_containers: Iterable[tuple[ResourceList, bool]],
    own: ResourceList,
) -> ResourceList:
    return aggregate_containers(containers, init_containers) | {
        name: own[name] for name in _POD_LEVEL_RESOURCES if name in own
    }


def _add(total: dict[str, Quantity], amounts: ResourceList) -> None:
    for name, amount in amounts.items():
        total[name] = total[name] + amount if name in total else amount


def raise_to(total: dict[str, Quantity], amounts: ResourceList) -> None:
    """Raise a total to the larger of the two amounts of every resource."""
    for name, amount in amounts.items():
        if name not in total or amount.compare(total[name]) > 0:
            total[name] = amount


def _read_quantity(amount: JSON, path: FieldPath) -> Quantity:
    try:
        return Quantity.from_json(amount).rounded_up(_FINEST)
    except QuantityError as error:
        raise RefusalError(statuses.bad_request(f"{path}: {error}")) from None


BEST_EFFORT = "BestEffort"
_BURSTABLE = "Burstable"

_QOS_RESOURCES = ("cpu", "memory")
"""The resources that determine the QoS class."""


def is_best_effort(pod: JSON) -> bool:
    """Tell whether a Pod is BestEffort: no container has requests or limits of cpu or memory.

    The status takes precedence, then pod-level resources, then containers. Ephemeral containers never count.
    """
    known = member(pod, "status", "qosClass")
    if isinstance(known, str) and known:
        return known == BEST_EFFORT
    return not any(_is_positive(amount) for amount in _amounts(pod))


def qos_class(pod: JSONObject) -> str:
    """The QoS class of a Pod by its specification: ``ComputePodQOS``."""
    own = member(pod, "spec", "resources")
    if own is not None and any(_sets(own, kind) for kind in ("requests", "limits")):
        return _qos_class_of(own)
    containers = (*list_at(pod, "spec", "initContainers"), *list_at(pod, "spec", "containers"))
    classes = {_qos_class_of(member(container, "resources")) for container in containers}
    return classes.pop() if len(classes) == 1 else _BURSTABLE if classes else BEST_EFFORT


def _sets(resources: JSON, kind: str) -> bool:
    return any(
        name in _POD_LEVEL_RESOURCES or name.startswith("hugepages-") for name in mapping_at(resources, kind)
    )


def _qos_class_of(resources: JSON) -> str:
    requests, limits = mapping_at(resources, "requests"), mapping_at(resources, "limits")
    if not requests and not limits:
        return BEST_EFFORT
    amounts = tuple((requests.get(name), limits.get(name)) for name in _QOS_RESOURCES)
    is_text = all(_TEXT_OR_NONE.issuperset(map(type, pair)) for pair in amounts)
    return (_known_qos_class if is_text else _qos_class_of_amounts)(amounts)


_TEXT_OR_NONE = frozenset({str, type(None)})


def _qos_class_of_amounts(amounts: tuple[tuple[JSON, JSON], ...]) -> str:
    """The class of a container by what it requests and is limited to of each resource."""
    try:
        pairs = [(Quantity.from_json(request), Quantity.from_json(limit)) for request, limit in amounts]
    except QuantityError:
        return _BURSTABLE
    classes = {
        _BURSTABLE if request != limit else "Guaranteed" if request.sign else BEST_EFFORT
        for request, limit in pairs
    }
    return classes.pop() if len(classes) == 1 else _BURSTABLE


_known_qos_class = functools.lru_cache(1024)(_qos_class_of_amounts)
"""Most containers request the same as others."""


def _amounts(pod: JSON) -> Iterator[JSON]:
    for resources in _requirements(pod):
        for kind in ("requests", "limits"):
            for name in _QOS_RESOURCES:
                yield member(resources, kind, name)


def _requirements(pod: JSON) -> Iterator[JSON]:
    of_pod = member(pod, "spec", "resources")
    if of_pod is not None:
        yield of_pod
        return
    for field in ("containers", "initContainers"):
        items = member(pod, "spec", field)
        for container in items if isinstance(items, list) else ():
            yield member(container, "resources")


def _is_positive(amount: JSON) -> bool:
    # Only strings and numbers can be quantities.
    if type(amount) not in {str, int, float}:
        return False
    try:
        return Quantity.parse(str(amount)).sign > 0
    except QuantityError:
        return False
