"""Load: how many bytes of reviews are held at a time, for whom, and who is refused first."""

from __future__ import annotations

import collections
import dataclasses
import enum
from typing import TYPE_CHECKING

from frontdoor.http.requests import RequestError
from pratique.apimachinery import statuses

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from pratique.admission.reviews import Review

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
