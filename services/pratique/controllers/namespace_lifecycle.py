"""NamespaceLifecycle: denies creation in a missing or terminating namespace, and protects three from deletion.

Source: ``k8s.io/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go``. It only denies, and does so in the
mutating phase.
"""

from __future__ import annotations

import abc
import asyncio
import threading
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from pratique.admission.controllers import MUTATE, Controller, Handlers
from pratique.admission.results import Answer, Deny, allow, deny
from pratique.admission.reviews import Review
from pratique.admission.rules import Rule
from pratique.apimachinery import statuses
from pratique.apimachinery.errors import CallError
from pratique.apimachinery.json_values import JSONObject, member
from pratique.apimachinery.requests import Operation
from pratique.apimachinery.statuses import StatusCause
from pratique.cluster.api_resources import ApiResources

IMMORTAL_NAMESPACES = frozenset({"default", "kube-system", "kube-public"})
"""Namespaces that cannot be deleted. ``kube-node-lease`` can."""

_FORCE_LIVE_LOOKUP_SECONDS = 30.0
"""How long a deleted namespace is looked up in storage: ``forceLiveLookupTTL``."""

_FORCE_LIVE_LOOKUP_NAMES = 100
"""How many deleted namespaces are remembered."""

_MISSING_WAIT_SECONDS = 0.05
"""How long a cache gets to learn about a namespace: ``missingNamespaceWait``."""


class Settings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Which release to follow where releases differ."""

    allow_updates: bool = False
    """Admit every update, as Kubernetes' main branch does since July 2026. Releases up to 1.36 deny updates in a
    namespace that does not exist."""


class LaggingCluster(abc.ABC):
    """A cluster that answers from a cache, which may lag behind storage."""

    @abc.abstractmethod
    def get(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """One object from the cache, as in :class:`pratique.cluster.store.Cluster`."""

    @abc.abstractmethod
    def list(self, group: str, resource: str, namespace: str | None = None) -> Sequence[JSONObject]:
        """All objects of a resource from the cache, as in :class:`pratique.cluster.store.Cluster`."""

    @property
    @abc.abstractmethod
    def resources(self) -> ApiResources:
        """All kinds that the cache knows, as in :class:`pratique.cluster.store.Cluster`."""

    @abc.abstractmethod
    async def get_live(self, group: str, resource: str, name: str, namespace: str = "") -> JSONObject | None:
        """One object from storage; None if it does not exist.

        Raises:
            CallError: Storage could not be reached; the text says why.
        """


class _Lifecycle(msgspec.Struct, frozen=True):
    settings: Settings
    forced: ForceLiveLookupCache

    def mutate(self, review: Review) -> Answer | Awaitable[Answer]:
        """Deny what the namespace's phase does not allow.

        It is awaited only where storage may have to be asked: every request passes here.
        """
        if _is_namespace(review):
            return self._review_namespace(review)
        if not review.namespace or self._needs_no_namespace(review):
            return allow()
        if isinstance(review.cluster, LaggingCluster):
            return self._mutate_later(review, review.cluster)
        return _answer_for(review, review.cluster.get("", "namespaces", review.namespace))

    async def _mutate_later(self, review: Review, cluster: LaggingCluster) -> Answer:
        try:
            return _answer_for(review, await self._find(cluster, review.namespace, review.operation))
        except CallError as error:
            return deny(status=statuses.internal_error(str(error)))

    def _review_namespace(self, review: Review) -> Answer:
        if review.operation is Operation.DELETE:
            if review.name in IMMORTAL_NAMESPACES:
                resource = review.resource
                text = "this namespace may not be deleted"
                return deny(status=statuses.forbidden(resource.group, resource.resource, review.name, text))
            self.forced.add(review.name)
        return allow()

    def _needs_no_namespace(self, review: Review) -> bool:
        if review.operation is Operation.DELETE:
            return True
        if review.operation is Operation.UPDATE and self.settings.allow_updates:
            return True
        # Anyone may ask for their access; the answer must not reveal whether the namespace exists.
        return (review.resource.group, review.resource.resource) == (
            "authorization.k8s.io",
            "localsubjectaccessreviews",
        )

    async def _find(self, cluster: LaggingCluster, name: str, operation: Operation) -> JSONObject | None:
        """Look up a namespace, in storage if the cache may be out of date."""
        namespace = cluster.get("", "namespaces", name)
        if namespace is None and operation is Operation.CREATE:
            await asyncio.sleep(_MISSING_WAIT_SECONDS)
            namespace = cluster.get("", "namespaces", name)
        # A cache may show a namespace as active for a while after this service let its deletion through.
        stale = namespace is not None and name in self.forced and _phase(namespace) == "Active"
        return await cluster.get_live("", "namespaces", name) if namespace is None or stale else namespace


def _answer_for(review: Review, namespace: JSONObject | None) -> Answer:
    if namespace is None:
        return deny(status=statuses.not_found("", "namespaces", review.namespace))
    creating = review.operation is Operation.CREATE
    return _deny_terminating(review) if creating and _phase(namespace) == "Terminating" else allow()


class ForceLiveLookupCache:
    """Names that expire; when it is full, the least recently used name makes room."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Start empty; ``clock`` is the time in seconds."""
        self._clock = clock
        self._expiries: OrderedDict[str, float] = OrderedDict()
        self._lock = threading.Lock()  # large reviews come in threads

    def add(self, name: str) -> None:
        """Remember a name from now on."""
        with self._lock:
            self._expiries[name] = self._clock() + _FORCE_LIVE_LOOKUP_SECONDS
            self._expiries.move_to_end(name)
            if len(self._expiries) > _FORCE_LIVE_LOOKUP_NAMES:
                self._expiries.popitem(last=False)

    def __contains__(self, name: str) -> bool:
        """Whether the name is remembered, up to and including its last moment."""
        with self._lock:
            expiry = self._expiries.get(name)
            if expiry is None:
                return False
            if self._clock() > expiry:
                del self._expiries[name]
                return False
            self._expiries.move_to_end(name)
            return True


def _is_namespace(review: Review) -> bool:
    return review.kind.group == "" and review.kind.kind == "Namespace"


def _phase(namespace: JSONObject) -> str:
    """The phase; the API server sets ``Active`` where there is none."""
    return str(member(namespace, "status", "phase") or "Active")


def _deny_terminating(review: Review) -> Deny:
    name = review.namespace
    status = statuses.admission_forbidden(
        review, f"unable to create new content in namespace {name} because it is being terminated"
    )
    cause = StatusCause(
        reason="NamespaceTerminating",
        message=f"namespace {name} is being terminated",
        field="metadata.namespace",
    )
    details = msgspec.structs.replace(status.details or statuses.StatusDetails(), causes=(cause,))
    return deny(status=msgspec.structs.replace(status, details=details))


def build(settings: Settings, clock: Callable[[], float] = time.monotonic) -> Handlers:
    """Make the controller; ``clock`` is the time in seconds."""
    return Handlers(mutate=_Lifecycle(settings, ForceLiveLookupCache(clock)).mutate)


CONTROLLER = Controller(
    name="NamespaceLifecycle",
    summary="Denies creation in a missing or terminating namespace, and protects three from deletion.",
    phases=MUTATE,
    rules=(Rule(("CREATE", "UPDATE", "DELETE"), ("*",), ("*",), ("*/*",), "*"),),
    build=build,
    settings=Settings,
    default=True,
    looks_up=("namespaces",),
    denies_in_mutate=True,
    trusted=True,
)
