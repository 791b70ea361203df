"""Observations of a ledger and a cluster: what objects use of each quota, and which charged objects have arrived."""

from __future__ import annotations

import collections
import logging
from collections.abc import Callable, Iterable

import msgspec

from pratique.apimachinery.json_values import JSONObject, member
from pratique.cluster.store import Cluster
from pratique.controllers.quota.ledger import Charge, Usage, UsageOf
from pratique.controllers.quota.ledger_integrity import LedgerReplacedError
from pratique.telemetry.logs import describe_error

_MAX_MARKS = 64
"""The maximum number of marks in the waiting time: charges are given back up to a 64th of it late."""


class LedgerObservations:
    """What one service has observed of a ledger and a cluster, in order."""

    def __init__(self, wait_seconds: float, clock: Callable[[], float]) -> None:
        """Start without observations.

        Args:
            wait_seconds: How much older than a state of the cluster a charge must be for its object to be in that
                state, or never to arrive.
            clock: Monotonic seconds.
        """
        self._wait = wait_seconds
        self._clock = clock
        self._marks: collections.deque[tuple[float, int]] = collections.deque()
        self._state: object = None
        self._settled = 0
        self._latest = 0
        self._looked_at = 0.0
        self._seen_before = (0.0, 0)
        self.turn: int | None = None
        """The ledger's count of reconciliations at the last look; None before the first."""
        self.horizon = 0
        """The last charge that is known to be older than the cluster's state by at least the waiting time."""

    def record_ledger(self, turn: int, latest: int, settled: int) -> None:
        """Record the ledger's progress. Look at the cluster afterwards, with :meth:`record_cluster`.

        Raises:
            LedgerReplacedError: The ledger had progressed further before.
        """
        if settled < self._settled or turn < (self.turn or 0):
            raise LedgerReplacedError("it lacks charges that it had before: an older copy has replaced it")
        self._seen_before = (self._looked_at, self._settled)
        self.turn, self._settled, self._looked_at = turn, settled, self._clock()
        # the ledger deletes charges, so its latest one may be an earlier one
        self._latest = max(latest, self._latest)
        self._mark()

    def record_cluster(self, state: object) -> None:
        """Record the cluster's state right after :meth:`record_ledger`.

        A state that differs from the last one has appeared since then, so it is younger than everything the ledger
        held then.
        """
        if state is self._state:
            return
        if self._state is not None:
            looked_at, settled = self._seen_before
            before = (number for at, number in self._marks if at <= looked_at - self._wait)
            self.horizon = max(settled, *before, 0)
        self._state = state

    def _mark(self) -> None:
        if not self._marks or self._looked_at - self._marks[-1][0] >= self._wait / _MAX_MARKS:
            self._marks.append((self._looked_at, self._latest))
        looked_before, _ = self._seen_before
        while len(self._marks) > 1 and self._marks[1][0] <= looked_before - self._wait:
            self._marks.popleft()


_log = logging.getLogger(__name__)


class UsageCount(msgspec.Struct, frozen=True):
    """What a cluster's objects use of one account."""

    namespace: str
    name: str
    uid: str
    used: Usage | None
    """The usage; None if the quota was deleted."""


def count_accounts(
    cluster: Cluster, accounts: Iterable[tuple[str, str, str]], usage_of: UsageOf
) -> list[UsageCount]:
    """Count the usage of each account. Accounts that cannot be counted are logged and left out."""
    counts = []
    for namespace, name, uid in accounts:
        quota = cluster.get("", "resourcequotas", name, namespace)
        if quota is None or _metadata(quota, "uid") != uid:
            counts.append(UsageCount(namespace, name, uid, None))
            continue
        try:
            counts.append(UsageCount(namespace, name, uid, usage_of(quota, cluster)))
        except Exception as error:  # noqa: BLE001 - one bad quota or object must not stop the others
            quoted = f"{namespace}/{name}"
            _log.error("a quota was not reconciled", extra={"quota": quoted, "error": describe_error(error)})
    return counts


def has_arrived(cluster: Cluster, charge: Charge) -> bool:
    """Whether a cluster holds the object that was charged, so that it is counted.

    In doubt, it does not: counting an object twice for a while denies slightly too much; not counting it admits too
    much.
    """
    stored = (
        cluster.get(charge.group, charge.resource, charge.name, charge.namespace) if charge.name else None
    )
    if stored is None:
        return False
    uid = _metadata(stored, "uid")
    if charge.uid and uid and uid != charge.uid:
        return False  # an earlier object of the same name
    if charge.old_resource_version is None:
        return True
    return _is_later(_metadata(stored, "resourceVersion"), charge.old_resource_version)


def was_removed(cluster: Cluster, charge: Charge) -> bool:
    """Whether an object that was in the cluster has left it, or was replaced under the same name."""
    stored = cluster.get(charge.group, charge.resource, charge.name, charge.namespace)
    return stored is None or _metadata(stored, "uid") not in {"", charge.uid}


def _is_later(version: str, than: str) -> bool:
    """Resource versions are growing decimal numbers, as Kubernetes promises since 1.35."""
    if not (version.isascii() and version.isdecimal() and than.isascii() and than.isdecimal()):
        return False
    return (len(version), version) > (len(than), than)


def _metadata(document: JSONObject, field: str) -> str:
    value = member(document, "metadata", field)
    return value if isinstance(value, str) else ""
