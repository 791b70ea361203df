"""The objects of a live cluster, listed and watched at its API server.

A resource is watched when something looks it up, or before that if its name is given; so a process holds exactly the
kinds that its chain looks up. Until a resource has been listed, and once it has not been confirmed for too long,
looking it up refuses the review: what is not known must not count as absent.

Source: ``k8s.io/client-go/tools/cache/reflector.go`` for lists, watches, bookmarks and expired versions.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pratique.apimachinery import statuses
from pratique.apimachinery.errors import ConfigurationError, InputError, RefusalError
from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.kinds import ResourceType
from pratique.apimachinery.names import name_of, namespace_of
from pratique.apimachinery.selectors import Selector
from pratique.apimachinery.statuses import qualified_resource
from pratique.cluster.api_collections import (
    At,
    accepted_for,
    collection_path,
    resources_named,
    types_of,
    without_managed_fields,
)
from pratique.cluster.api_resources import CRD_GROUP, CRD_RESOURCE, storage_group
from pratique.cluster.api_server import ApiServer, ApiServerError, Backoff, WatchEvent, connect
from pratique.cluster.store import STALENESS_SECONDS, ObjectKey, ObjectStore, check_namespace_name
from pratique.telemetry.logs import describe_error

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

_log = logging.getLogger(__name__)

_BATCH_SECONDS = 0.05
_GONE, _NOT_FOUND, _CONFLICT = 410, 404, 409


@dataclasses.dataclass(slots=True)
class WatchedResource:
    """What is known of one resource."""

    at: At
    confirmed_at: float = 0.0
    """The monotonic time at which the API server last showed that the objects are current."""
    failure: str = ""
    """Why the last call failed; empty after a success."""
    type_: ResourceType | None = None
    """The version that is followed; None before the first list, or if it is not served."""
    objects: int = 0
    lists: int = 0
    failures: int = 0
    synced: asyncio.Event = dataclasses.field(default_factory=asyncio.Event)


class LiveStore(ObjectStore):
    """A state of a live cluster. It does not change; :class:`LiveCluster` makes a new one for each batch of changes."""

    live: LiveCluster

    @property
    def source(self) -> str:
        """The cluster that the objects are of."""
        return self.live.identity

    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """One object; None if it does not exist.

        Raises:
            RefusalError: the resource has not been listed yet, or has been unconfirmed for too long.
        """
        self.live.check(group, resource)
        return super().get(group, resource, name, namespace)

    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        """The objects of a resource, in one namespace if given.

        Raises:
            RefusalError: as in :meth:`get`.
        """
        self.live.check(group, resource)
        return super().list(group, resource, namespace)

    def has_selected(self, group: str, resource: str, namespace: str, selector: Selector) -> bool:
        """Whether a selector matches any object in a namespace.

        Raises:
            RefusalError: as in :meth:`get`.
        """
        self.live.check(group, resource)
        return super().has_selected(group, resource, namespace, selector)

    def definitions(self) -> Sequence[JSONObject]:
        """The last known CustomResourceDefinitions, however old: they only say which kinds there are."""
        return super().list(CRD_GROUP, CRD_RESOURCE)

    async def create(self, document: JSONObject) -> bool:
        """Create an object at the API server; False if one of its name exists.

        Raises:
            RefusalError: its name is invalid, or the API server refuses it.
            CallError: the API server cannot be reached.
        """
        return await self.live.create(self.key_of(document), document)


class LiveCluster:
    """Keeps the objects of a live cluster up to date. Used in one event loop; look-ups may come from any thread."""

    def __init__(self, server: ApiServer, identity: str, base: ObjectStore, staleness_seconds: float) -> None:
        """Start without any live object.

        Args:
            server: The API server.
            identity: What distinguishes the cluster from others.
            base: Objects that exist unless the cluster has others of their keys.
            staleness_seconds: How long objects may be unconfirmed.
        """
        self.identity = identity
        self.staleness_seconds = staleness_seconds
        self._server = server
        self._base = base
        self._watch_seconds = max(1, round(staleness_seconds / 3))
        self._watched: dict[At, WatchedResource] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._pending: dict[ObjectKey, JSONObject | None] = {}
        self._listeners: list[Callable[[LiveStore], None]] = []
        self.current = LiveStore(document for _, document in base.items())
        self.current.live = self

    def add_listener(self, listener: Callable[[LiveStore], None]) -> None:
        """Call ``listener`` with every new state."""
        self._listeners.append(listener)

    async def sync(self, resources: Iterable[At]) -> None:
        """Watch resources, and wait until all have been listed, however long that takes."""
        watched = [self._watch(at) for at in resources]
        for one in watched:
            await one.synced.wait()
        self._publish()

    def check(self, group: str, resource: str) -> None:
        """Check that a resource is watched and confirmed; if it is not watched, begin.

        Raises:
            RefusalError: it is not.
        """
        at = (storage_group(group, resource), resource)
        watched = self._watched.get(at)
        if watched is None:
            self._loop.call_soon_threadsafe(self._watch, at)
        problem = self._problem(watched, at)
        if problem:
            raise RefusalError(statuses.service_unavailable(problem))

    def problems(self) -> list[str]:
        """Why look-ups are refused, one line for each resource."""
        found = (self._problem(watched, watched.at) for watched in self._watched.values())
        return [problem for problem in found if problem]

    def _problem(self, watched: WatchedResource | None, at: At) -> str:
        name = qualified_resource(*at)
        if watched is None or not watched.synced.is_set():
            why = f": {watched.failure}" if watched and watched.failure else ""
            return f"{name} of the live cluster have not been listed yet{why}"
        age = time.monotonic() - watched.confirmed_at
        if age <= self.staleness_seconds:
            return ""
        why = f": {watched.failure}" if watched.failure else ""
        return (
            f"{name} of the live cluster were last confirmed {age:.0f} s ago,"
            f" and --cluster-staleness is {self.staleness_seconds:g} s{why}"
        )

    async def create(self, key: ObjectKey, document: JSONObject) -> bool:
        """Create an object at the API server; False if one of its name exists."""
        if key[:2] == ("", "namespaces"):
            check_namespace_name(key.name)
        path = collection_path(next(types_of(key[:2], self.current)), key.namespace)
        try:
            await self._server.create(path, document)
        except ApiServerError as error:
            if error.code == _CONFLICT:
                return False
            if 400 <= error.code < 500:
                raise RefusalError(statuses.forbidden(*key[:2], key.name, str(error))) from None
            raise
        return True

    async def close(self) -> None:
        """End all watches and connections."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._server.close()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of every watched resource."""
        from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415 - as asked

        objects = GaugeMetricFamily(
            "pratique_live_objects", "Objects of the live cluster in memory.", labels=["resource"]
        )
        ages = GaugeMetricFamily(
            "pratique_live_unconfirmed_seconds",
            "How long ago the API server last confirmed the objects.",
            labels=["resource"],
        )
        lists = CounterMetricFamily("pratique_live_lists_total", "Whole lists read.", labels=["resource"])
        failures = CounterMetricFamily(
            "pratique_live_failures_total", "Lists and watches that failed.", labels=["resource"]
        )
        now = time.monotonic()
        for at, watched in tuple(self._watched.items()):
            labels = [qualified_resource(*at)]
            objects.add_metric(labels, watched.objects)
            lists.add_metric(labels, watched.lists)
            failures.add_metric(labels, watched.failures)
            if watched.synced.is_set():
                ages.add_metric(labels, now - watched.confirmed_at)
        yield from (objects, ages, lists, failures)

    def _watch(self, at: At) -> WatchedResource:
        at = (storage_group(*at), at[1])
        watched = self._watched.get(at)
        if watched is None:
            watched = self._watched[at] = WatchedResource(at)
            task = asyncio.create_task(self._follow(watched), name=f"watch of {qualified_resource(*at)}")
            self._tasks.add(task)
        return watched

    async def _follow(self, watched: WatchedResource) -> None:
        """List and watch one resource until cancelled."""
        backoff, version, path = Backoff(), "", ""
        while True:
            try:
                if not version:
                    path, version = await self._list(watched)
                if not path:
                    await asyncio.sleep(self._watch_seconds)
                    continue
                began = time.monotonic()
                async for events in self._events(watched.at, path, version):
                    self._confirm(watched, time.monotonic())
                    version = self._apply(watched, events) or version
                self._confirm(watched, time.monotonic())
                if time.monotonic() - began < 1:
                    await backoff.pause()
                else:
                    backoff.reset()
            except ApiServerError as error:
                if error.code in {_GONE, _NOT_FOUND}:
                    _log.info("a watch begins anew", extra={"resource": qualified_resource(*watched.at)})
                    version = ""
                else:
                    self._fail(watched, str(error))
                await backoff.pause()
            except Exception as error:  # noqa: BLE001 - a fault here must not end the watch and go unnoticed
                self._fail(watched, describe_error(error))
                version = ""
                await backoff.pause()

    def _events(self, at: At, path: str, version: str) -> AsyncIterator[Sequence[WatchEvent]]:
        accept = accepted_for(at)
        return self._server.watch(path, version, self._watch_seconds, accept)

    async def _list(self, watched: WatchedResource) -> tuple[str, str]:
        """Read all objects; the path and version to watch from. The path is empty if the resource is not served."""
        accept = accepted_for(watched.at)
        began = time.monotonic()
        for type_ in tuple(types_of(watched.at, self.current)):
            path = collection_path(type_)
            try:
                objects, version = await self._server.list(path, accept)
            except ApiServerError as error:
                if error.code == _NOT_FOUND:
                    continue
                raise
            watched.type_ = type_
            self._replace(watched, objects)
            self._confirm(watched, began)
            return path, version
        self._replace(watched, ())
        self._confirm(watched, began)
        return "", ""

    def _confirm(self, watched: WatchedResource, at: float) -> None:
        watched.confirmed_at = max(at, watched.confirmed_at)
        watched.failure = ""
        if not watched.synced.is_set():
            self._publish()
            watched.synced.set()

    def _fail(self, watched: WatchedResource, reason: str) -> None:
        watched.failures += 1
        if reason != watched.failure:
            watched.failure = reason
            where = {"resource": qualified_resource(*watched.at), "reason": watched.failure}
            _log.warning("a live resource cannot be followed", extra=where)

    def _replace(self, watched: WatchedResource, objects: Sequence[JSONObject]) -> None:
        watched.lists += 1
        found = {self._key(watched.at, document): document for document in objects}
        known = [key for key, _ in self.current.items() if key[:2] == watched.at]
        known += [key for key in self._pending if key[:2] == watched.at]
        for key in known:
            if key not in found:
                self._change(key, None)
        for key, document in found.items():
            self._change(key, without_managed_fields(document, watched.type_))
        watched.objects = len(found)

    def _apply(self, watched: WatchedResource, events: Sequence[WatchEvent]) -> str:
        """Take over events; the version after them, or nothing if there are none."""
        version = ""
        for event in events:
            version = str(member(event.object, "metadata", "resourceVersion") or "") or version
            if event.type == "BOOKMARK":
                continue
            watched.objects += {"ADDED": 1, "DELETED": -1}.get(event.type, 0)
            key = self._key(watched.at, event.object)
            gone = event.type == "DELETED"
            self._change(key, None if gone else without_managed_fields(event.object, watched.type_))
        return version

    def _key(self, at: At, document: JSONObject) -> ObjectKey:
        return ObjectKey(*at, namespace_of(document) or "", name_of(document))

    def _change(self, key: ObjectKey, document: JSONObject | None) -> None:
        if not self._pending:
            self._loop.call_later(_BATCH_SECONDS, self._publish)
        if document is None:
            document = self._base.get(*key[:2], key.name, key.namespace)
        self._pending[key] = document

    def _publish(self) -> None:
        """Make one new state of all pending changes."""
        if not self._pending:
            return
        changes, self._pending = self._pending, {}
        self.current = self.current.updated(_usable(changes))
        for listener in self._listeners:
            listener(self.current)


def _usable(changes: dict[ObjectKey, JSONObject | None]) -> Iterator[tuple[ObjectKey, JSONObject | None]]:
    """The changes; an object that a store cannot hold counts as removed, and is logged."""
    probe = ObjectStore()
    for key, document in changes.items():
        kept = document
        if document is not None and key.group in {CRD_GROUP, "rbac.authorization.k8s.io"}:
            try:
                probe.put(document, key)
            except InputError as error:
                _log.error("a live object cannot be used", extra={"object": str(key), "reason": str(error)})
                kept = None
        yield key, kept


async def open_live(
    kubeconfig: Path | None,
    context: str,
    looked_up: Iterable[str],
    base: ObjectStore,
    staleness_seconds: float = STALENESS_SECONDS,
) -> LiveCluster:
    """Connect to a live cluster, and wait until the resources of these names have been listed.

    Raises:
        ConfigurationError: the credentials cannot be used.
    """
    server = await connect(kubeconfig, context)
    live: LiveCluster | None = None
    try:
        identity = await _until_answered(lambda: server.get("/api/v1/namespaces/kube-system"))
        uid = str(member(identity, "metadata", "uid"))
        live = LiveCluster(server, uid, base, staleness_seconds)
        await live.sync({(CRD_GROUP, CRD_RESOURCE), *resources_named(looked_up, live.current)})
    except BaseException:
        await (server if live is None else live).close()
        raise
    return live


async def _until_answered(call: Callable[[], Awaitable[JSONObject]]) -> JSONObject:
    """Call until an API server answers, which may be starting itself.

    Raises:
        ConfigurationError: it refuses the user.
    """
    backoff = Backoff()
    while True:
        try:
            return await call()
        except ApiServerError as error:
            if error.code in {401, 403, _NOT_FOUND}:
                raise ConfigurationError(f"the API server refuses the live cluster's user: {error}") from None
            _log.warning("the API server does not answer", extra={"reason": str(error)})
        await backoff.pause()
