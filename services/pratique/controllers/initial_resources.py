"""InitialResources: containers that ask for no cpu or memory ask for what their image has used before.

Source: ``plugin/pkg/admission/initialresources/admission.go`` of 1.10, the last release that had it.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, NamedTuple

import msgspec

from pratique.admission.controllers import MUTATE, Controller, Handlers
from pratique.admission.edits import Edits
from pratique.admission.results import Answer, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import rule
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import RefusalError
from pratique.apimachinery.json_values import JSON, JSONObject, member
from pratique.apimachinery.quantities import Quantity
from pratique.controllers.usage_history.histories import (
    LONGEST_IMAGE_NAME,
    UsageHistory,
    UsageHistoryError,
    UsageQuery,
    image_repository,
    open_history,
)
from pratique.pods import pod_spec as containers_module
from pratique.telemetry.logs import describe_error

ANNOTATION = "kubernetes.io/initial-resources"
"""What was set, for people to read."""

DEFAULT_SOURCE = "usage-history.db"
"""The file that is read where nothing else is named, in the folder where the program was started."""

ESTIMATE_TIMEOUT_SECONDS = 2.0
"""How long a Pod waits for its estimates. A webhook has ten seconds by default, which others want a part of."""

_CONCURRENT_QUERIES = 4
"""Questions about one Pod that are under way at once: two containers'."""

_MIN_SAMPLES = 30
"""Samples that make an estimate; the last try is content with any."""

_WEEK, _MONTH = 7 * 86_400, 30 * 86_400

_SCALES: Mapping[str, int] = {"cpu": -3, "memory": 0}
"""The resources that are estimated, and the powers of ten that their amounts count in."""

_CONTAINER_TITLES: Mapping[str, str] = {"initContainers": "init container", "containers": "container"}
"""The containers that are looked at, and what the annotation calls them."""

_log = logging.getLogger(__name__)


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="kebab"):
    """Where usage is looked up, and what is made of it. The API server took them as flags of these names."""

    ir_data_source: str = DEFAULT_SOURCE
    """A SQLite file, or the URL of a Prometheus."""
    ir_percentile: Annotated[int, msgspec.Meta(ge=1, le=100)] = 90
    """Which percentile of the samples is requested."""
    ir_namespace_only: bool = False
    """Samples of the Pod's own namespace count alone."""


class _ResourceOfImage(NamedTuple):
    """What there is to be estimated."""

    resource: str
    image: str


@dataclasses.dataclass(frozen=True, slots=True)
class _OpenContainer:
    """A container that leaves resources open."""

    field: str
    index: int
    name: str
    wanted: tuple[_ResourceOfImage, ...]


def usage_queries(wanted: UsageQuery, *, namespace_only: bool) -> tuple[UsageQuery, ...]:
    """The questions that are asked one after another until one has samples enough.

    ``wanted`` asks for the image itself in the Pod's namespace in the week before its end.
    """
    month, everywhere = wanted.end - _MONTH, ""
    any_tag = dataclasses.replace(wanted, start=month, image=image_repository(wanted.image), any_tag=True)
    in_namespace = (wanted, dataclasses.replace(wanted, start=month))
    if namespace_only:
        return (*in_namespace, any_tag)
    return (
        *in_namespace,
        dataclasses.replace(wanted, namespace=everywhere),
        dataclasses.replace(wanted, namespace=everywhere, start=month),
        dataclasses.replace(any_tag, namespace=everywhere),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class _UsageEstimates:
    settings: Settings
    history: UsageHistory
    now: Callable[[], float]
    patience_seconds: float

    async def mutate(self, review: Review) -> Answer:
        """Set the requests of containers that leave them open, where enough is known of their images."""
        if not containers_module.is_pod(review.object):
            return deny(status=statuses.bad_request(containers_module.NOT_A_POD))
        containers = list(_open_containers(review.object))
        if not containers:
            return allow()
        wanted = {each for container in containers for each in container.wanted}
        amounts = await self._amounts(wanted, review.namespace)
        try:
            return _set_requests(Edits(review.object), containers, amounts).answer()
        except RefusalError:
            return allow()  # of a malformed Pod others tell the user

    async def _amounts(self, wanted: set[_ResourceOfImage], namespace: str) -> Mapping[_ResourceOfImage, int]:
        """Estimate what can be estimated in time."""
        found: dict[_ResourceOfImage, int] = {}
        faults: collections.Counter[str] = collections.Counter()
        gate = asyncio.Semaphore(_CONCURRENT_QUERIES)

        async def estimate(each: _ResourceOfImage) -> None:
            try:
                async with gate:
                    amount = await self._estimate(each, namespace)
            except UsageHistoryError as error:
                faults[str(error)] += 1
            except Exception as error:  # noqa: BLE001 - whatever a history does, it costs the estimate alone
                faults[describe_error(error)] += 1
            else:
                if amount is not None:
                    found[each] = amount

        try:
            async with asyncio.timeout(self.patience_seconds), asyncio.TaskGroup() as group:
                for each in sorted(wanted):
                    group.create_task(estimate(each))
        except TimeoutError:
            faults["the history did not answer in time"] += 1
        for reason, count in faults.items():
            extra = {"controller": "InitialResources", "reason": reason, "count": count}
            _log.warning("usage could not be estimated", extra=extra)
        return found

    async def _estimate(self, wanted: _ResourceOfImage, namespace: str) -> int | None:
        """Ask until there are samples enough; None where even the last answer has none."""
        end = int(self.now())
        query = UsageQuery(
            resource=wanted.resource,
            percentile=self.settings.ir_percentile,
            image=wanted.image,
            namespace=namespace,
            start=end - _WEEK,
            end=end,
        )
        for each in usage_queries(query, namespace_only=self.settings.ir_namespace_only):
            usage = await self.history.usage(each)
            if usage.samples >= _MIN_SAMPLES:
                break
        return usage.amount if usage.samples > 0 else None


def _open_containers(pod: JSONObject) -> Iterator[_OpenContainer]:
    for field, index, container in containers_module.iter_containers(pod):
        image, resources = container.get("image"), container.get("resources")
        if field in _CONTAINER_TITLES and isinstance(image, str) and _is_image_name(image):
            given = {*_resource_names(resources, "requests"), *_resource_names(resources, "limits")}
            wanted = tuple(_ResourceOfImage(each, image) for each in _SCALES if each not in given)
            if wanted:
                yield _OpenContainer(field, index, str(container.get("name") or ""), wanted)


def _is_image_name(image: str) -> bool:
    """Tell whether there can have been containers of an image: nobody is asked of a text that is no name."""
    return 0 < len(image) <= LONGEST_IMAGE_NAME and image.isascii() and image.isprintable()


def _resource_names(resources: JSON, field: str) -> tuple[str, ...]:
    amounts = member(resources, field)
    return tuple(amounts) if isinstance(amounts, dict) else ()


def _set_requests(
    edits: Edits, containers: list[_OpenContainer], amounts: Mapping[_ResourceOfImage, int]
) -> Edits:
    """Set what was found, and say so in the annotation."""
    told = []
    for container in containers:
        found = [each for each in container.wanted if each in amounts]
        for each in found:
            quantity = str(Quantity(amounts[each], _SCALES[each.resource]))
            place = ("spec", container.field, container.index, "resources", "requests", each.resource)
            edits.set(place, quantity)
        if found:
            names = ", ".join(each.resource for each in found)
            told.append(f"{names} request for {_CONTAINER_TITLES[container.field]} {container.name}")
    if told:
        edits.set(("metadata", "annotations", ANNOTATION), f"Initial Resources plugin set: {'; '.join(told)}")
    return edits


def build(
    settings: Settings,
    history: UsageHistory,
    now: Callable[[], float] = time.time,
    patience_seconds: float = ESTIMATE_TIMEOUT_SECONDS,
) -> Handlers:
    """Make the controller.

    Args:
        settings: What is made of the samples.
        history: Where they are.
        now: Tells the time in seconds since 1970, UTC.
        patience_seconds: How long a Pod waits for its estimates.
    """
    estimates = _UsageEstimates(settings, history, now, patience_seconds)
    return Handlers(mutate=estimates.mutate, close=history.close)


def _build(settings: Settings) -> Handlers:
    return build(settings, open_history(settings.ir_data_source))


CONTROLLER = Controller(
    name="InitialResources",
    summary="Requests the cpu and memory that an image has used before, for containers that leave them open.",
    phases=MUTATE,
    rules=(rule("pods", operations=("CREATE",)),),
    build=_build,
    settings=Settings,
    removed_in="1.11",
    replaced_by="the Vertical Pod Autoscaler",
    trusted=True,
)
