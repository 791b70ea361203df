"""Limits on what clients hold: the bytes of reviews in flight by caller, and unauthenticated connections by address.

Where callers need no credentials, no connection is ever authenticated, and the limits on connections hold for all.
"""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import ipaddress
import logging
import time
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from pratique.admission.reviews import Review
from pratique.apimachinery import statuses
from pratique_frontdoor.http.messages import RequestError

if TYPE_CHECKING:
    from typing import Self

    from pratique_frontdoor.settings import FrontDoorSettings


_SYSTEM_NAMESPACES = frozenset({"kube-system", "kube-node-lease"})
_COMPONENTS = frozenset({"system:kube-controller-manager", "system:kube-scheduler"})
_KUBE_SYSTEM_ACCOUNTS = "system:serviceaccount:kube-system:"
_LEASES = ("coordination.k8s.io", "leases")
_NODE_RESOURCES = frozenset({("", "nodes"), _LEASES})


class PriorityLevel(enum.StrEnum):
    """The priority of a review, by the names of API Priority and Fairness."""

    EXEMPT = "exempt"
    """Administrators (``system:masters``) and the API server itself."""
    LEADER_ELECTION = "leader-election"
    """Leases of components: a component that loses its lease stops."""
    NODE_HIGH = "node-high"
    """Heartbeats of nodes; the Pods of a node without heartbeats are evicted."""
    SYSTEM = "system"
    """Other requests of nodes."""
    WORKLOAD_HIGH = "workload-high"
    """The controller manager, the scheduler, and service accounts in ``kube-system``."""
    ORDINARY = "ordinary"
    """Everybody else: ``workload-low`` and ``global-default``."""


def priority_of(review: Review) -> PriorityLevel:
    """Return the priority of a review."""
    user, resource = review.user, (review.resource.group, review.resource.resource)
    if "system:masters" in user.groups or user.username == "system:apiserver":
        return PriorityLevel.EXEMPT
    is_component = user.username in _COMPONENTS or user.username.startswith(_KUBE_SYSTEM_ACCOUNTS)
    is_node = "system:nodes" in user.groups
    if is_node:
        return PriorityLevel.NODE_HIGH if resource in _NODE_RESOURCES else PriorityLevel.SYSTEM
    if resource == _LEASES and (is_component or review.namespace in _SYSTEM_NAMESPACES):
        return PriorityLevel.LEADER_ELECTION
    return PriorityLevel.WORKLOAD_HIGH if is_component else PriorityLevel.ORDINARY


MIN_REVIEW_BYTES = 64 * 1024
"""The minimum a complete review counts for: small reviews cost objects and tasks, not bytes."""
SMALL_BODY_BYTES = 256 * 1024
"""Up to this size, an incomplete body may use the reserve, as its priority is not known yet. A Node with fifty images
and their names has 30 KiB."""
UNREAD = "unread"
"""The label for the priority of a review whose body is incomplete."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoadLimits:
    """How many bytes and reviews may be held. 0 is no limit, except in the first."""

    total_bytes: int
    """Bytes of all reviews together."""
    reserved_bytes: int = 0
    """Additional bytes for urgent reviews."""
    unfinished_bytes: int = 0
    """Bytes of incomplete bodies, part of the total."""
    holder_requests: int = 0
    """Reviews in flight of one caller, or of one address if callers are not authenticated."""
    holder_bytes: int = 0
    """Bytes of those reviews."""


class Load:
    """The bytes that all requests together hold."""

    __slots__ = (
        "_bytes_of",
        "_limits",
        "_requests_of",
        "held_bytes",
        "refused",
        "reviews",
        "unfinished_bytes",
    )

    def __init__(self, limits: LoadLimits) -> None:
        """Start with nothing held."""
        self._limits = limits
        self.held_bytes = 0
        self.unfinished_bytes = 0
        self.reviews = 0
        """Requests in flight."""
        self.refused: collections.Counter[tuple[str, ...]] = collections.Counter()
        """Refused requests, by the priority of the review and by the limit."""
        self._bytes_of: collections.Counter[str] = collections.Counter()
        self._requests_of: collections.Counter[str] = collections.Counter()

    @property
    def limit_bytes(self) -> int:
        """The bytes that reviews that are not urgent may hold."""
        return self._limits.total_bytes

    @property
    def shed(self) -> int:
        """The number of refused requests."""
        return self.refused.total()

    def come(self, holder: str) -> None:
        """Count a request."""
        self.reviews += 1
        self._requests_of[holder] += 1

    def go(self, holder: str, size: int) -> None:
        """Forget a request, and release what it held."""
        self.reviews -= 1
        self._requests_of[holder] -= 1
        self._bytes_of[holder] -= size
        self.held_bytes -= size
        if not self._requests_of[holder]:
            del self._requests_of[holder], self._bytes_of[holder]

    def take(self, size: int, holder: str, priority: PriorityLevel | None, *, may_use_reserve: bool) -> None:
        """Hold more bytes.

        Raises:
            RequestError: a limit would be exceeded (503); nothing has changed then.
        """
        reason = self._excess(size, holder, priority, may_use_reserve=may_use_reserve)
        if reason:
            self.refused[priority or UNREAD, reason] += 1
            text = "the server is currently unable to handle the request: too many reviews are in flight"
            raise RequestError(statuses.service_unavailable(text))
        self.held_bytes += size
        self._bytes_of[holder] += size

    def _excess(
        self, size: int, holder: str, priority: PriorityLevel | None, *, may_use_reserve: bool
    ) -> str | None:
        """Return the limit that would be exceeded; None if there is none."""
        limits = self._limits
        reserved = limits.reserved_bytes if may_use_reserve else 0
        if self.held_bytes + size > limits.total_bytes + reserved:
            return "total"
        if priority is None:
            too_many = limits.unfinished_bytes and self.unfinished_bytes + size > limits.unfinished_bytes
            return "unfinished" if too_many else None
        if priority is not PriorityLevel.ORDINARY:
            return None
        if limits.holder_requests and self._requests_of[holder] > limits.holder_requests:
            return "caller"
        if limits.holder_bytes and self._bytes_of[holder] + size > limits.holder_bytes:
            return "caller"
        return None


class LoadShare:
    """What one request holds until its ``with`` block ends."""

    __slots__ = ("_bytes", "_holder", "_load", "_unfinished")

    def __init__(self, load: Load, holder: str = "") -> None:
        """Start with nothing held; ``holder`` is the caller, or the address if callers are not authenticated."""
        self._load = load
        self._holder = holder
        self._bytes = 0
        self._unfinished = 0

    def hold(self, size: int) -> None:
        """Hold more bytes of a body; raises RequestError (503) if a limit would be exceeded."""
        small = self._bytes + size <= SMALL_BODY_BYTES
        self._load.take(size, self._holder, None, may_use_reserve=small)
        self._bytes += size
        self._unfinished += size
        self._load.unfinished_bytes += size

    def complete(self, priority: PriorityLevel = PriorityLevel.ORDINARY) -> None:
        """Count the request as a review; until then, a client that sends nothing costs nothing.

        Raises RequestError (503) if that exceeds a limit for a review of that priority.
        """
        more = max(0, MIN_REVIEW_BYTES - self._bytes)
        is_urgent = priority is not PriorityLevel.ORDINARY
        self._load.take(more, self._holder, priority, may_use_reserve=is_urgent)
        self._bytes += more
        self._finish()

    def _finish(self) -> None:
        self._load.unfinished_bytes -= self._unfinished
        self._unfinished = 0

    def __enter__(self) -> Self:
        self._load.come(self._holder)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._finish()
        self._load.go(self._holder, self._bytes)


TLS_BYTES = 64 * 1024
"""Memory of a connection over TLS before it receives anything: 61 KiB measured, most of them OpenSSL's and uvloop's."""
PLAIN_BYTES = 8 * 1024
"""The same without TLS: 6 KiB measured."""
UNAUTHENTICATED_WINDOW_BYTES = 16 * 1024
"""Bytes that the kernel buffers for an unauthenticated connection: as much as a head may have, because Linux doubles
it."""
CALLER_WINDOW_BYTES = 1024 * 1024
"""Bytes that it buffers for an authenticated caller, if the system allows it: a body of 7 MiB arrives in a few round
trips."""
_LOG_SECONDS = 10.0
"""At most one log line per reason in that time, however many connections are closed."""

_log = logging.getLogger(__name__)


class CountedConnection(Protocol):
    """A connection that is counted."""

    @property
    def is_busy(self) -> bool:
        """Whether a request is being read or answered on the connection."""

    def abandon(self) -> None:
        """Close it immediately, and release everything that it holds."""


class UnauthenticatedConnections:
    """The open connections that are not authenticated.

    Excess connections are closed, not queued: if attackers could fill the queue, allowed callers would find no place.
    The oldest idle connection of the address with the most is closed: an honest client is authenticated within a round
    trip.
    """

    def __init__(self, settings: FrontDoorSettings) -> None:
        """Start without connections."""
        self._max_connections = settings.max_address_connections
        self._max_bytes = settings.max_unauthenticated_bytes
        self._sizes: dict[str, dict[CountedConnection, int]] = {}
        self._totals: dict[str, int] = {}
        self.held_bytes = 0
        """The bytes of all connections."""
        self.closed: collections.Counter[tuple[str, ...]] = collections.Counter(
            {("address",): 0, ("memory",): 0, ("stalled",): 0}
        )
        """Closed connections by reason: too many from an address, too much memory, responses that the client does not
        read."""
        self._logged: dict[str, float] = {}

    def __len__(self) -> int:
        """Return the number of connections."""
        return sum(map(len, self._sizes.values()))

    def opened(self, connection: CountedConnection, address: str, size: int) -> None:
        """Count a new connection, and close others, or this one, if a limit is exceeded."""
        of_address = self._sizes.setdefault(address, {})
        of_address[connection] = 0
        self.resize(connection, address, size)
        if self._max_connections and len(of_address) > self._max_connections:
            self._close(_oldest_idle(of_address, connection), address, "address")

    def resize(self, connection: CountedConnection, address: str, size: int) -> None:
        """Update the bytes of a connection."""
        of_address = self._sizes.get(address, {})
        if connection not in of_address:
            return  # let in, or closed
        difference = size - of_address[connection]
        of_address[connection] = size
        self._totals[address] = self._totals.get(address, 0) + difference
        self.held_bytes += difference
        while difference > 0 and self._max_bytes and self.held_bytes > self._max_bytes:
            heaviest = max(self._totals, key=self._totals.__getitem__)
            victim = _oldest_idle(self._sizes[heaviest], None)
            if victim is None:
                heaviest, victim = address, connection
            self._close(victim, heaviest, "memory")
            if victim is connection:
                return

    def left(self, connection: CountedConnection, address: str) -> None:
        """Forget a connection that is closed or authenticated. Calling it again has no effect."""
        of_address = self._sizes.get(address, {})
        size = of_address.pop(connection, None)
        if size is None:
            return
        self.held_bytes -= size
        self._totals[address] -= size
        if not of_address:
            del self._sizes[address], self._totals[address]

    def count(self, reason: str, address: str) -> None:
        """Count a closed connection, and log it unless that was done recently."""
        self.closed[reason,] += 1
        now = time.monotonic()
        if now - self._logged.get(reason, -_LOG_SECONDS) >= _LOG_SECONDS:
            self._logged[reason] = now
            extra = {"reason": reason, "address": address, "closed": self.closed[reason,]}
            _log.warning("connections are closed", extra=extra)

    def _close(self, connection: CountedConnection | None, address: str, reason: str) -> None:
        if connection is not None:
            self.left(connection, address)
            self.count(reason, address)
            connection.abandon()


def _oldest_idle(
    connections: dict[CountedConnection, int], otherwise: CountedConnection | None
) -> CountedConnection | None:
    return next((one for one in connections if one is not otherwise and not one.is_busy), otherwise)


@functools.lru_cache(maxsize=4096)
def network_address(host: str | None) -> str:
    """Return what counts as one address: for IPv6 the first 64 bits, which is what one machine gets of a network.

    Sockets without an address, such as Unix ones, all count as ``local``.
    """
    try:
        address = ipaddress.ip_address((host or "").partition("%")[0])
    except ValueError:
        return "local"
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((address, 64), strict=False))
