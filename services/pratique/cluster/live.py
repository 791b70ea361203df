"""The objects of a live cluster, listed and watched at its API server.

A resource is watched when something looks it up, or before that if its name is given; so a process holds exactly the
kinds that its chain looks up. Until a resource has been listed, and once it has not been confirmed for too long,
looking it up refuses the review: what is not known must not count as absent.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pratique.apimachinery import statuses
from pratique.apimachinery.errors import ConfigurationError, InputError, RefusalError
from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.selectors import Selector
from pratique.apimachinery.statuses import qualified_resource
from pratique.cluster.api_collections import At, collection_path, resources_named, types_of
from pratique.cluster.api_resources import CRD_GROUP, CRD_RESOURCE, storage_group
from pratique.cluster.api_server import ApiServer, ApiServerError, Backoff, connect
from pratique.cluster.reflectors import Collection, Recipient, Reflector, collect_metrics
from pratique.cluster.store import STALENESS_SECONDS, ObjectKey, ObjectStore, check_namespace_name

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

    from pratique.cluster.subject_access_reviews import SubjectAccessReviews

_log = logging.getLogger(__name__)

_BATCH_SECONDS = 0.05
_NOT_FOUND, _CONFLICT = 404, 409


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

    def __init__(
        self,
        server: ApiServer,
        identity: str,
        base: ObjectStore,
        staleness_seconds: float,
        access_reviews: SubjectAccessReviews | None = None,
    ) -> None:
        """Start without any live object.

        Args:
            server: The API server.
            identity: What distinguishes the cluster from others.
            base: Objects that exist unless the cluster has others of their keys.
            staleness_seconds: How long objects may be unconfirmed.
            access_reviews: Asks the API server what users may do, instead of its Roles and bindings.
        """
        self.identity = identity
        self._staleness_seconds = staleness_seconds
        self._server = server
        self._base = base
        self._reflectors: dict[Collection, Reflector] = {}
        self._further: list[Reflector] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.get_running_loop()
        self._pending: dict[ObjectKey, JSONObject | None] = {}
        self._listeners: list[Callable[[LiveStore], None]] = []
        self.current = LiveStore(document for _, document in base.items())
        self.current.live = self
        self.current.access_reviews = self._access_reviews = access_reviews

    def add_listener(self, listener: Callable[[LiveStore], None]) -> None:
        """Call ``listener`` with every new state."""
        self._listeners.append(listener)

    async def sync(self, resources: Iterable[At]) -> None:
        """Watch resources, and wait until all have been listed, however long that takes."""
        reflectors = [self._watch(at) for at in resources]
        for reflector in reflectors:
            await reflector.synced.wait()
        self.publish()

    async def follow(self, collections: Iterable[Collection], recipient: Recipient) -> Sequence[Reflector]:
        """Watch collections for a recipient, beside what is looked up, and wait until all have been listed."""
        reflectors = [self._reflect(collection, recipient) for collection in collections]
        for reflector in reflectors:
            await reflector.synced.wait()
        return reflectors

    def check(self, group: str, resource: str) -> None:
        """Check that a resource is watched and confirmed; if it is not watched, begin.

        Raises:
            RefusalError: it is not.
        """
        at = (storage_group(group, resource), resource)
        reflector = self._reflectors.get(Collection(at))
        if reflector is None:
            self._loop.call_soon_threadsafe(self._watch, at)
            problem = f"{qualified_resource(*at)} of the live cluster have not been listed yet"
        else:
            problem = reflector.problem
        if problem:
            raise RefusalError(statuses.service_unavailable(problem))

    def problems(self) -> list[str]:
        """Why look-ups are refused, one line for each resource."""
        return [problem for reflector in self._all() if (problem := reflector.problem)]

    def _all(self) -> tuple[Reflector, ...]:
        return (*self._reflectors.values(), *self._further)

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
        if self._access_reviews is not None:
            await self._access_reviews.close()
        await self._server.close()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of every watched resource, and of what the API server is asked."""
        yield from collect_metrics({str(one.collection): one for one in self._all()}.values())
        if self._access_reviews is not None:
            yield from self._access_reviews.collect()

    def _watch(self, at: At) -> Reflector:
        collection = Collection((storage_group(*at), at[1]))
        return self._reflectors.get(collection) or self._reflect(collection, self)

    def _reflect(self, collection: Collection, recipient: Recipient) -> Reflector:
        reflector = Reflector(
            self._server,
            collection,
            lambda: types_of(collection.at, self.current),
            recipient,
            self._staleness_seconds,
        )
        if recipient is self:
            self._reflectors[collection] = reflector
        else:
            self._further.append(reflector)
        self._tasks.add(asyncio.create_task(reflector.follow(), name=f"watch of {collection}"))
        return reflector

    def change(self, key: ObjectKey, document: JSONObject | None) -> None:
        """Take a changed object into the next state; where it is gone, the one of a file is back."""
        if not self._pending:
            self._loop.call_later(_BATCH_SECONDS, self.publish)
        if document is None:
            document = self._base.get(*key[:2], key.name, key.namespace)
        self._pending[key] = document

    def publish(self) -> None:
        """Make one new state of all pending changes."""
        if not self._pending:
            return
        changes, self._pending = self._pending, {}
        self.current = self.current.updated(_usable(changes))
        for listener in self._listeners:
            listener(self.current)
        if any(key[:2] == (CRD_GROUP, CRD_RESOURCE) for key in changes):
            for reflector in self._all():
                reflector.types_changed()


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
    *,
    access_review_seconds: tuple[float, float] | None = None,
) -> LiveCluster:
    """Connect to a live cluster, and wait until the resources of these names have been listed.

    Args:
        kubeconfig: The kubeconfig; None means this Pod's ServiceAccount.
        context: The kubeconfig's context; empty for its current one.
        looked_up: The names of the resources.
        base: Objects that exist unless the cluster has others of their keys.
        staleness_seconds: How long objects may be unconfirmed.
        access_review_seconds: How long to remember what the API server says that users may and may not do; None means
            that its Roles and bindings say it.

    Raises:
        ConfigurationError: the credentials cannot be used.
    """
    server = await connect(kubeconfig, context)
    live: LiveCluster | None = None
    try:
        identity = await _until_answered(lambda: server.get("/api/v1/namespaces/kube-system"))
        uid = str(member(identity, "metadata", "uid"))
        live = LiveCluster(
            server, uid, base, staleness_seconds, access_reviews_by(server, access_review_seconds)
        )
        await live.sync({(CRD_GROUP, CRD_RESOURCE), *resources_named(looked_up, live.current)})
    except BaseException:
        await (server if live is None else live).close()
        raise
    return live


def access_reviews_by(server: ApiServer, seconds: tuple[float, float] | None) -> SubjectAccessReviews | None:
    """What asks an API server what users may do; None if it is not to be asked."""
    if seconds is None:
        return None
    from pratique.cluster.subject_access_reviews import SubjectAccessReviews  # noqa: PLC0415 - seldom needed

    return SubjectAccessReviews(server, *seconds)


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
