"""InitialResources: containers without cpu or memory requests request what their image has used before.

Source: ``plugin/pkg/admission/initialresources/admission.go`` of 1.10, the last release that had it.
"""

from __future__ import annotations

import asyncio
import collections
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, NamedTuple

import msgspec

from pratique.admission.controllers import MUTATE, Controller, Handlers
from pratique.admission.results import Answer, Edits, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.quantities import Quantity
from pratique.controllers.usage_history import (
    LONGEST_IMAGE_NAME,
    UsageHistory,
    UsageHistoryError,
    UsageQuery,
    image_repository,
    open_history,
)
from pratique.pods import pod_spec
from pratique.processes.review_threads import work_on_review
from pratique.telemetry.logs import describe_error

ANNOTATION = "kubernetes.io/initial-resources"
"""Tells people what was set."""

DEFAULT_SOURCE = "usage-history.db"
"""The default file, in the folder in which the program was started."""

ESTIMATE_TIMEOUT_SECONDS = 2.0
"""How long a Pod waits for its estimates. A webhook has ten seconds by default, and the rest of the chain needs its
share."""

_CONCURRENT_QUERIES = 4
"""Concurrent queries for one Pod: both resources of two containers."""

_MIN_SAMPLES = 30
"""How many samples make an estimate. The last query is content with any number."""

_WEEK, _MONTH = 7 * 86_400, 30 * 86_400

_SCALES: Mapping[str, int] = {"cpu": -3, "memory": 0}
"""The estimated resources, and the power of ten of the unit that their amounts are counted in."""

_CONTAINER_TITLES: Mapping[str, str] = {"initContainers": "init container", "containers": "container"}
"""The fields of the containers that get estimates, and what the annotation calls the containers."""

_log = logging.getLogger(__name__)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Where usage is looked up and how it is used. These are flags of the API server."""

    ir_data_source: str = DEFAULT_SOURCE
    """A SQLite file, or the URL of a Prometheus server."""
    ir_percentile: Annotated[int, msgspec.Meta(ge=1, le=100)] = 90
    """Which percentile of the samples to request."""
    ir_namespace_only: bool = False
    """Use only samples from the Pod's own namespace."""


class _ResourceOfImage(NamedTuple):
    """A resource of an image that needs an estimate."""

    resource: str
    image: str


class _OpenContainer(msgspec.Struct, frozen=True):
    """A container that leaves resources open."""

    field: str
    index: int
    name: str
    missing: tuple[_ResourceOfImage, ...]


def usage_queries(query: UsageQuery, *, namespace_only: bool) -> tuple[UsageQuery, ...]:
    """The queries to make in turn until one finds enough samples.

    ``wanted`` asks for the image itself in the Pod's namespace in the week before its end.
    """
    month, everywhere = query.end - _MONTH, ""
    any_tag = msgspec.structs.replace(query, start=month, image=image_repository(query.image), any_tag=True)
    in_namespace = (query, msgspec.structs.replace(query, start=month))
    if namespace_only:
        return (*in_namespace, any_tag)
    return (
        *in_namespace,
        msgspec.structs.replace(query, namespace=everywhere),
        msgspec.structs.replace(query, namespace=everywhere, start=month),
        msgspec.structs.replace(any_tag, namespace=everywhere),
    )


class _UsageEstimates(msgspec.Struct, frozen=True):
    settings: Settings
    history: UsageHistory
    now: Callable[[], float]
    estimate_timeout_seconds: float

    async def mutate(self, review: Review) -> Answer:
        """Set the requests of containers that leave them open, if enough is known about their images."""
        if not pod_spec.is_pod(review.object):
            return deny(status=statuses.bad_request(pod_spec.NOT_A_POD))
        values = review.received_values
        containers = await work_on_review(values, lambda: list(_open_containers(review.object)))
        if not containers:
            return allow()
        missing = {resource for container in containers for resource in container.missing}
        amounts = await self._amounts(missing, review.namespace)
        try:
            return await work_on_review(
                values, lambda: _set_requests(Edits(review.object), containers, amounts).answer()
            )
        except RefusalError:
            return allow()  # other controllers report malformed Pods

    async def _amounts(
        self, missing: set[_ResourceOfImage], namespace: str
    ) -> Mapping[_ResourceOfImage, int]:
        """Estimate as many amounts as the time allows."""
        amounts: dict[_ResourceOfImage, int] = {}
        errors: collections.Counter[str] = collections.Counter()
        waiting = iter(sorted(missing))

        async def estimate_waiting() -> None:
            for resource in waiting:
                try:
                    amount = await self._estimate(resource, namespace)
                except UsageHistoryError as error:
                    errors[str(error)] += 1
                except Exception as error:  # noqa: BLE001 - whatever fails in a history costs only the estimate
                    errors[describe_error(error)] += 1
                else:
                    if amount is not None:
                        amounts[resource] = amount

        try:
            async with asyncio.timeout(self.estimate_timeout_seconds), asyncio.TaskGroup() as group:
                for _ in range(_CONCURRENT_QUERIES):
                    group.create_task(estimate_waiting())
        except TimeoutError:
            errors["the history did not answer in time"] += 1
        _log_errors(errors)
        return amounts

    async def _estimate(self, missing: _ResourceOfImage, namespace: str) -> int | None:
        """Query until there are enough samples; None if even the last query finds none."""
        end = int(self.now())
        query = UsageQuery(
            resource=missing.resource,
            percentile=self.settings.ir_percentile,
            image=missing.image,
            namespace=namespace,
            start=end - _WEEK,
            end=end,
        )
        for variant in usage_queries(query, namespace_only=self.settings.ir_namespace_only):
            usage = await self.history.usage(variant)
            if usage.samples >= _MIN_SAMPLES:
                break
        return usage.amount if usage.samples > 0 else None


def _log_errors(errors: Mapping[str, int]) -> None:
    for reason, count in errors.items():
        extra = {"controller": "InitialResources", "reason": reason, "count": count}
        _log.warning("usage could not be estimated", extra=extra)


def _open_containers(pod: JSONObject) -> Iterator[_OpenContainer]:
    for field, index, container in pod_spec.iter_containers(pod):
        image, resources = container.get("image"), container.get("resources")
        if field in _CONTAINER_TITLES and isinstance(image, str) and _is_image_name(image):
            given = {*_resource_names(resources, "requests"), *_resource_names(resources, "limits")}
            missing = tuple(
                _ResourceOfImage(resource, image) for resource in _SCALES if resource not in given
            )
            if missing:
                yield _OpenContainer(field, index, str(container.get("name") or ""), missing)


def _is_image_name(image: str) -> bool:
    """Whether a text can be the name of an image. Other texts are never looked up."""
    return 0 < len(image) <= LONGEST_IMAGE_NAME and image.isascii() and image.isprintable()


def _resource_names(resources: JSON, field: str) -> tuple[str, ...]:
    amounts = member(resources, field)
    return tuple(amounts) if isinstance(amounts, dict) else ()


def _set_requests(
    edits: Edits, containers: list[_OpenContainer], amounts: Mapping[_ResourceOfImage, int]
) -> Edits:
    """Set the amounts that were found, and list them in the annotation."""
    descriptions = []
    for container in containers:
        estimated = [missing for missing in container.missing if missing in amounts]
        for missing in estimated:
            quantity = str(Quantity(amounts[missing], _SCALES[missing.resource]))
            place = ("spec", container.field, container.index, "resources", "requests", missing.resource)
            edits.set(place, quantity)
        if estimated:
            names = ", ".join(missing.resource for missing in estimated)
            descriptions.append(f"{names} request for {_CONTAINER_TITLES[container.field]} {container.name}")
    if descriptions:
        edits.set(
            ("metadata", "annotations", ANNOTATION),
            f"Initial Resources plugin set: {'; '.join(descriptions)}",
        )
    return edits


def build(
    settings: Settings,
    history: UsageHistory,
    now: Callable[[], float] = time.time,
    estimate_timeout_seconds: float = ESTIMATE_TIMEOUT_SECONDS,
) -> Handlers:
    """Make the controller.

    Args:
        settings: How to use the samples.
        history: Where the samples are.
        now: The time in seconds since 1970, UTC.
        estimate_timeout_seconds: How long a Pod waits for its estimates.
    """
    estimates = _UsageEstimates(settings, history, now, estimate_timeout_seconds)
    return Handlers(mutate=estimates.mutate, close=history.close)


def _build(settings: Settings) -> Handlers:
    return build(settings, open_history(settings.ir_data_source))


CONTROLLER = Controller(
    name="InitialResources",
    summary="Requests the CPU and memory that an image has used before, for containers that request none.",
    phases=MUTATE,
    rules=(rule("pods", operations=("CREATE",)),),
    build=_build,
    settings=Settings,
    removed_in="1.11",
    replaced_by="the Vertical Pod Autoscaler",
    trusted=True,
)
