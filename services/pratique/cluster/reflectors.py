"""Following one collection of an API server by list and watch, and what is known of it meanwhile.

Source: ``k8s.io/client-go/tools/cache/reflector.go`` for lists, watches, bookmarks and expired versions.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

import msgspec

from pratique.apimachinery.json_values import JSONObject, encode, member
from pratique.apimachinery.kinds import ResourceType
from pratique.apimachinery.names import name_of, namespace_of
from pratique.apimachinery.statuses import qualified_resource
from pratique.cluster.api_collections import At, accepted_for, collection_path, without_managed_fields
from pratique.cluster.api_server import ApiServer, ApiServerError, Backoff, WatchEvent
from pratique.cluster.store import ObjectKey
from pratique.telemetry.logs import describe_error

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_log = logging.getLogger(__name__)

_GONE, _NOT_FOUND = 410, 404
_UNAVAILABLE = frozenset({0, 429, 502, 503, 504})
"""How an API server answers, or does not, that is overloaded, about to end, or cannot be reached."""
_SHORT_WATCH_SECONDS = 1
"""How long the first watch after a failure lasts: when it has ended, what was missed has arrived."""


class Collection(msgspec.Struct, frozen=True):
    """The objects of a resource, or some of them."""

    at: At
    namespace: str = ""
    """The only namespace; empty for all."""
    label_selector: str = ""
    """What their labels must match; empty for all."""
    purpose: str = ""
    """What they are for, if not for look-ups."""

    def __str__(self) -> str:
        """Name it in messages."""
        where = f" in the namespace {self.namespace}" if self.namespace else ""
        return qualified_resource(*self.at) + where + (f" for {self.purpose}" if self.purpose else "")


class Recipient(Protocol):
    """Who takes the objects of collections."""

    def change(self, key: ObjectKey, document: JSONObject | None) -> None:
        """Take an object that is new or has changed; None if it is gone."""

    def publish(self) -> None:
        """Make use of all changes so far at once."""


class Reflector:
    """Follows one collection until cancelled. Used in one event loop; :attr:`problem` may be read in any thread."""

    def __init__(
        self,
        server: ApiServer,
        collection: Collection,
        types: Callable[[], Iterable[ResourceType]],
        recipient: Recipient,
        staleness_seconds: float,
    ) -> None:
        """Start without any object.

        Args:
            server: The API server.
            collection: What to follow.
            types: Gives the versions of the resource, the preferred one first.
            recipient: Who takes the objects.
            staleness_seconds: How long they may be unconfirmed.
        """
        self.collection = collection
        self.synced = asyncio.Event()
        """Set once the objects have been listed."""
        self.lists = 0
        """How many lists have been read."""
        self.failures = 0
        """How many lists and watches have failed."""
        self._server, self._types, self._recipient = server, types, recipient
        self._staleness_seconds = staleness_seconds
        # A quiet collection is confirmed by the end of its watch, so that must come in time.
        self._watch_seconds = max(1, round(staleness_seconds / 3))
        self._confirmed_at = 0.0
        self._failure = ""
        self._type: ResourceType | None = None
        self._known: dict[ObjectKey, tuple[str, int]] = {}  # version and size
        self._bytes = 0
        self._types_changed = asyncio.Event()

    @property
    def objects(self) -> int:
        """How many objects there are."""
        return len(self._known)

    @property
    def bytes(self) -> int:
        """How large the objects are as JSON."""
        return self._bytes

    @property
    def unconfirmed_seconds(self) -> float:
        """How long ago the API server last showed that the objects are current."""
        return time.monotonic() - self._confirmed_at

    @property
    def problem(self) -> str:
        """Why the objects must not be relied on; empty if they may be."""
        why = f": {self._failure}" if self._failure else ""
        if not self.synced.is_set():
            return f"{self.collection} of the live cluster have not been listed yet{why}"
        if not self._is_stale:
            return ""
        return (
            f"{self.collection} of the live cluster were last confirmed {self.unconfirmed_seconds:.0f} s ago,"
            f" and --cluster-staleness is {self._staleness_seconds:g} s{why}"
        )

    @property
    def _is_stale(self) -> bool:
        return self.unconfirmed_seconds > self._staleness_seconds

    def types_changed(self) -> None:
        """Look at once whether a resource is served that was not."""
        self._types_changed.set()

    async def follow(self) -> None:
        """List and watch until cancelled."""
        backoff, version, path = Backoff(), "", ""
        while True:
            try:
                # Changes that were missed for long arrive one after another; a list shows one state.
                if not version or self._is_stale:
                    path, version = await self._list()
                if not path:
                    await self._wait_for_types()
                    continue
                seconds = _SHORT_WATCH_SECONDS if self._failure else self._watch_seconds
                began = time.monotonic()
                async for events in self._events(path, version, seconds):
                    version = self._apply(events) or version
                lasted = time.monotonic() - began
                # What arrives may have been under way for long, but the server did not end the watch before its time.
                self._confirm(began + seconds if lasted >= seconds else began)
                if lasted < 1:
                    await backoff.pause()
                else:
                    backoff.reset()
            except ApiServerError as error:
                if error.code not in {_GONE, _NOT_FOUND}:
                    self._fail(str(error))
                # Only where the server did not say a word about the version is it worth to try it again: what etcd has
                # forgotten can also be an internal error, for ever.
                if error.code not in _UNAVAILABLE:
                    _log.info("a watch begins anew", extra={"resource": str(self.collection)})
                    version = ""
                await backoff.pause()
            except Exception as error:  # noqa: BLE001 - a fault here must not end the watch and go unnoticed
                self._fail(describe_error(error))
                version = ""
                await backoff.pause()

    async def _wait_for_types(self) -> None:
        """Wait until the resource may be served."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._types_changed.wait(), self._watch_seconds)

    def _events(self, path: str, version: str, seconds: int) -> AsyncIterator[Sequence[WatchEvent]]:
        accept, selector = accepted_for(self.collection.at), self.collection.label_selector
        return self._server.watch(path, version, seconds, accept, selector)

    async def _list(self) -> tuple[str, str]:
        """Read all objects; the path and version to watch from. The path is empty if the resource is not served."""
        collection, began = self.collection, time.monotonic()
        self._types_changed.clear()
        for type_ in tuple(self._types()):
            path = collection_path(type_, collection.namespace)
            try:
                objects, version = await self._server.list(
                    path, accepted_for(collection.at), collection.label_selector
                )
            except ApiServerError as error:
                if error.code == _NOT_FOUND:
                    continue
                raise
            self._type = type_
            self._replace(objects)
            self._confirm(began)
            return path, version
        self._replace(())
        self._confirm(began)
        return "", ""

    def _confirm(self, at: float) -> None:
        self._confirmed_at = max(at, self._confirmed_at)
        self._failure = ""
        if not self.synced.is_set():
            self._recipient.publish()
            self.synced.set()

    def _fail(self, reason: str) -> None:
        self.failures += 1
        if reason != self._failure:
            self._failure = reason
            where = {"resource": str(self.collection), "reason": reason}
            _log.warning("a live resource cannot be followed", extra=where)

    def _replace(self, objects: Sequence[JSONObject]) -> None:
        self.lists += 1
        found = {self._key(document): document for document in objects}
        for key in [key for key in self._known if key not in found]:
            self._forget(key)
        for key, document in found.items():
            known = self._known.get(key)
            if known is None or known[0] != _version(document):
                self._take(key, document)
        if not self.synced.is_set() or self._is_stale:
            self._recipient.publish()  # before anything is confirmed by the list

    def _apply(self, events: Sequence[WatchEvent]) -> str:
        """Take over events; the version after them, or nothing if there are none."""
        version = ""
        for event in events:
            version = _version(event.object) or version
            if event.type == "BOOKMARK":
                continue
            key = self._key(event.object)
            if event.type == "DELETED":
                self._forget(key)
            else:
                self._take(key, event.object)
        return version

    def _take(self, key: ObjectKey, document: JSONObject) -> None:
        kept = without_managed_fields(document, self._type)
        size = len(encode(kept))
        self._bytes += size - self._known.get(key, ("", 0))[1]
        self._known[key] = _version(document), size
        self._recipient.change(key, kept)

    def _forget(self, key: ObjectKey) -> None:
        self._bytes -= self._known.pop(key, ("", 0))[1]
        self._recipient.change(key, None)

    def _key(self, document: JSONObject) -> ObjectKey:
        return ObjectKey(*self.collection.at, namespace_of(document) or "", name_of(document))


def _version(document: JSONObject) -> str:
    return str(member(document, "metadata", "resourceVersion") or "")


def collect_metrics(reflectors: Iterable[Reflector]) -> Iterator[Metric]:
    """Yield the metrics of reflectors."""
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - as asked

    labels = ["resource"]
    objects = GaugeMetricFamily(
        "pratique_live_objects", "Objects of the live cluster in memory.", labels=labels
    )
    sizes = GaugeMetricFamily(
        "pratique_live_object_bytes",
        "How large these objects are as JSON; in memory they take several times as much.",
        labels=labels,
    )
    ages = GaugeMetricFamily(
        "pratique_live_unconfirmed_seconds",
        "How long ago the API server last confirmed the objects.",
        labels=labels,
    )
    lists = CounterMetricFamily("pratique_live_lists_total", "Whole lists read.", labels=labels)
    failures = CounterMetricFamily(
        "pratique_live_failures_total", "Lists and watches that failed.", labels=labels
    )
    for reflector in reflectors:
        named = [str(reflector.collection)]
        objects.add_metric(named, reflector.objects)
        sizes.add_metric(named, reflector.bytes)
        lists.add_metric(named, reflector.lists)
        failures.add_metric(named, reflector.failures)
        if reflector.synced.is_set():
            ages.add_metric(named, reflector.unconfirmed_seconds)
    yield from (objects, sizes, ages, lists, failures)
