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
    """How urgent a review is, by the names that API Priority and Fairness has for it."""

    EXEMPT = "exempt"
    """Administrators (``system:masters``) and the API server itself."""
    LEADER_ELECTION = "leader-election"
    """Leases of components: who loses one ends its work."""
    NODE_HIGH = "node-high"
    """Nodes that say that they are alive; the Pods of one that cannot are evicted."""
    SYSTEM = "system"
    """All else of nodes."""
    WORKLOAD_HIGH = "workload-high"
    """The controller manager, the scheduler, and service accounts in ``kube-system``."""
    ORDINARY = "ordinary"
    """Everybody else: ``workload-low`` and ``global-default``."""


def priority_of(review: Review) -> PriorityLevel:
    """Tell how urgent a review is."""
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
"""What a review counts for at least once it is complete: small ones cost objects and tasks, not bytes."""
SMALL_BODY_BYTES = 256 * 1024
"""Up to here a body may use what is reserved while it comes, as nobody knows yet how urgent it is. A Node with fifty
images and their names has 30 KiB."""
UNREAD = "unread"
"""What stands for the priority of a review whose body has not come whole."""


@dataclasses.dataclass(frozen=True, slots=True)
class LoadLimits:
    """How much may be held. In all but the first, 0 is no limit."""

    total_bytes: int
    """By all reviews together."""
    reserved_bytes: int = 0
    """Beyond that, by urgent ones."""
    unfinished_bytes: int = 0
    """Of the total, by bodies that are still coming."""
    holder_requests: int = 0
    """Reviews in flight of one caller, or of one address where callers are not known."""
    holder_bytes: int = 0
    """Bytes that those hold."""


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
        """How many share it now."""
        self.refused: collections.Counter[tuple[str, ...]] = collections.Counter()
        """How often it would have been too much, by the priority of the review and by the limit."""
        self._bytes_of: collections.Counter[str] = collections.Counter()
        self._requests_of: collections.Counter[str] = collections.Counter()

    @property
    def limit_bytes(self) -> int:
        """How many bytes may be held by reviews that are not urgent."""
        return self._limits.total_bytes

    @property
    def shed(self) -> int:
        """How often it would have been too much."""
        return self.refused.total()

    def come(self, holder: str) -> None:
        """Count a request."""
        self.reviews += 1
        self._requests_of[holder] += 1

    def go(self, holder: str, size: int) -> None:
        """Forget a request, and what it held."""
        self.reviews -= 1
        self._requests_of[holder] -= 1
        self._bytes_of[holder] -= size
        self.held_bytes -= size
        if not self._requests_of[holder]:
            del self._requests_of[holder], self._bytes_of[holder]

    def take(self, size: int, holder: str, priority: PriorityLevel | None, *, may_use_reserve: bool) -> None:
        """Hold more.

        Raises:
            RequestError: it would be too much (503). Nothing is changed then.
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
        """Name the limit that would be exceeded; None where there is none."""
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
    """What one request holds, until the ``with`` ends."""

    __slots__ = ("_bytes", "_holder", "_load", "_unfinished")

    def __init__(self, load: Load, holder: str = "") -> None:
        """Start with nothing held; ``holder`` is the caller, or the address where callers are not known."""
        self._load = load
        self._holder = holder
        self._bytes = 0
        self._unfinished = 0

    def hold(self, size: int) -> None:
        """Hold that many more bytes of a body; raises RequestError (503) where that is too much."""
        small = self._bytes + size <= SMALL_BODY_BYTES
        self._load.take(size, self._holder, None, may_use_reserve=small)
        self._bytes += size
        self._unfinished += size
        self._load.unfinished_bytes += size

    def complete(self, priority: PriorityLevel = PriorityLevel.ORDINARY) -> None:
        """Count the request as a review; until then, a client that sends nothing costs nothing.

        Raises RequestError (503) where that is too much for a review of that priority.
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
"""What a connection over TLS takes before anything came: 61 KiB were seen, most of them OpenSSL's and uvloop's."""
PLAIN_BYTES = 8 * 1024
"""The same without TLS: 6 KiB were seen."""
UNAUTHENTICATED_WINDOW_BYTES = 16 * 1024
"""What the kernel takes of a stranger before it is read: as much as a head may have, because Linux doubles it."""
CALLER_WINDOW_BYTES = 1024 * 1024
"""What it takes of a caller, as far as the system lets it: a body of 7 MiB comes in some round trips."""
_LOG_SECONDS = 10.0
"""A line of log in that time for each reason, however many connections are closed."""

_log = logging.getLogger(__name__)


class CountedConnection(Protocol):
    """One connection, as seen from here."""

    @property
    def is_busy(self) -> bool:
        """Whether a request is being read or answered on it."""

    def abandon(self) -> None:
        """Close it at once, and let go of all that it holds."""


class UnauthenticatedConnections:
    """Those that are open and were not let in.

    Too much is closed, not kept waiting: where strangers could fill the places, whoever may call would find none. So it
    is a connection of the address that has most, and the oldest of them that does nothing: an honest one is let in
    within a round trip.
    """

    def __init__(self, settings: FrontDoorSettings) -> None:
        """Start with none."""
        self._max_connections = settings.max_address_connections
        self._max_bytes = settings.max_unauthenticated_bytes
        self._sizes: dict[str, dict[CountedConnection, int]] = {}
        self._totals: dict[str, int] = {}
        self.held_bytes = 0
        """What all of them take up together."""
        self.closed: collections.Counter[tuple[str, ...]] = collections.Counter(
            {("address",): 0, ("memory",): 0, ("stalled",): 0}
        )
        """How many were closed, by the reason: too many from an address, too much memory, answers that nobody reads."""
        self._logged: dict[str, float] = {}

    def __len__(self) -> int:
        """How many there are."""
        return sum(map(len, self._sizes.values()))

    def opened(self, connection: CountedConnection, address: str, size: int) -> None:
        """Take one in, and close others, or that one, where it is too much."""
        of_address = self._sizes.setdefault(address, {})
        of_address[connection] = 0
        self.resize(connection, address, size)
        if self._max_connections and len(of_address) > self._max_connections:
            self._close(_oldest_idle(of_address, connection), address, "address")

    def resize(self, connection: CountedConnection, address: str, size: int) -> None:
        """Note what a connection takes up now, in bytes."""
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
        """Forget a connection that is closed, or was let in. Again has no effect."""
        of_address = self._sizes.get(address, {})
        size = of_address.pop(connection, None)
        if size is None:
            return
        self.held_bytes -= size
        self._totals[address] -= size
        if not of_address:
            del self._sizes[address], self._totals[address]

    def count(self, reason: str, address: str) -> None:
        """Count one that is closed, and log it where that was not done for a while."""
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
    """Give what counts as one address: of IPv6 the first 64 bits, which is what one machine gets of a network.

    Sockets without an address, such as Unix ones, are all ``local``.
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
