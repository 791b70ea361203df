"""The resource usage of a Pod as quotas count it: requests and limits, allocated resources, and overhead.

Source: ``k8s.io/component-helpers/resource/helpers.go`` ``PodRequests`` and ``PodLimits`` with ``UseStatusResources``,
as in an API server with in-place Pod resize.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pratique.apimachinery.field_errors import FieldPath
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.quantities import Quantity
from pratique.pods.resource_requirements import (
    ContainerRequirements,
    ResourceList,
    ResourceRequirements,
    aggregate_containers,
    container_requirements,
    raise_to,
    read_requirements,
    read_resource_list,
)

_POD_RESOURCES = FieldPath(("spec", "resources"))
_STATUSES = ("containerStatuses", "initContainerStatuses")


def pod_usage(pod: JSONObject) -> ResourceRequirements:
    """Compute the usage of a Pod.

    It is the maximum, per resource, of the requested, the allocated and the actual resources; requests of an infeasible
    resize do not count. Pod-level resources override those of containers, and overhead is added.

    Raises:
        RefusalError: an amount is not a quantity; 400.
    """
    containers = _ContainerStatuses(pod)
    own = pod_level_requirements(pod)
    overhead = read_resource_list(member(pod, "spec", "overhead"), FieldPath(("spec", "overhead")))
    requests = _maximum(
        containers.totals(_requested, containers.allocated, containers.actual_requests)
    ) | dict(own.requests)
    limits = _maximum(containers.totals(_limited, containers.actual_limits)) | dict(own.limits)
    for name, amount in overhead.items():
        requests[name] = requests[name] + amount if name in requests else amount
        if name in limits and limits[name].sign:
            limits[name] = limits[name] + amount
    return ResourceRequirements(requests, limits)


def pod_level_requirements(pod: JSONObject) -> ResourceRequirements:
    """The supported pod-level requests and limits of a Pod.

    Raises:
        RefusalError: an amount is not a quantity; 400.
    """
    written = read_requirements(member(pod, "spec", "resources"), _POD_RESOURCES)
    return ResourceRequirements(_pod_level_resources(written.requests), _pod_level_resources(written.limits))


def _pod_level_resources(amounts: ResourceList) -> ResourceList:
    return {
        name: amount
        for name, amount in amounts.items()
        if name in {"cpu", "memory"} or name.startswith("hugepages-")
    }


class _ContainerStatuses:
    """A Pod's containers with their statuses."""

    def __init__(self, pod: JSONObject) -> None:
        self._containers = container_requirements(pod, "containers")
        self._init_containers = container_requirements(pod, "initContainers")
        self._statuses = _statuses(pod)
        self._infeasible = _is_resize_infeasible(pod)

    def totals(
        self,
        requested: Callable[[ContainerRequirements], ResourceList],
        *sources: Callable[[ContainerRequirements], ResourceList | None],
    ) -> list[ResourceList]:
        """The Pod's totals by its requested resources, and by each of ``sources``."""
        totals = [self._total(requested, source) for source in sources]
        return totals if self._infeasible else [self._total(requested, requested), *totals]

    def _total(
        self,
        requested: Callable[[ContainerRequirements], ResourceList],
        source: Callable[[ContainerRequirements], ResourceList | None],
    ) -> ResourceList:
        def amounts(container: ContainerRequirements) -> ResourceList:
            found = source(container)
            if found is not None:
                return found
            return {} if self._infeasible else requested(container)

        return aggregate_containers(
            [amounts(container) for container in self._containers],
            [(amounts(container), container.restartable) for container in self._init_containers],
        )

    def allocated(self, container: ContainerRequirements) -> ResourceList | None:
        return self._read(container, "allocatedResources")

    def actual_requests(self, container: ContainerRequirements) -> ResourceList | None:
        actual = self._read(container, "resources", "requests")
        return self.allocated(container) if actual is None else actual

    def actual_limits(self, container: ContainerRequirements) -> ResourceList | None:
        return self._read(container, "resources", "limits")

    def _read(self, container: ContainerRequirements, *place: str) -> ResourceList | None:
        """A resource list in the container's status; None if there is none."""
        field, index, status = self._statuses.get(container.name, ("", 0, None))
        found = member(status, *place)
        return (
            None if found is None else read_resource_list(found, FieldPath(("status", field, index, *place)))
        )


def _requested(container: ContainerRequirements) -> ResourceList:
    return container.requirements.requests


def _limited(container: ContainerRequirements) -> ResourceList:
    return container.requirements.limits


def _statuses(pod: JSONObject) -> Mapping[str, tuple[str, int, JSON]]:
    """The container statuses by name, each with its field and index; the first of two with one name wins."""
    found: dict[str, tuple[str, int, JSON]] = {}
    for field in _STATUSES:
        statuses = member(pod, "status", field)
        for index, status in enumerate(statuses if isinstance(statuses, list) else ()):
            name = member(status, "name")
            if isinstance(name, str):
                found.setdefault(name, (field, index, status))
    return found


def _is_resize_infeasible(pod: JSONObject) -> bool:
    conditions = member(pod, "status", "conditions")
    for condition in conditions if isinstance(conditions, list) else ():
        if member(condition, "type") == "PodResizePending":
            return bool(member(condition, "reason") == "Infeasible")
    return False


def _maximum(lists: list[ResourceList]) -> dict[str, Quantity]:
    maximum: dict[str, Quantity] = {}
    for amounts in lists:
        raise_to(maximum, amounts)
    return maximum
