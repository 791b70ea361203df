"""What a cluster's objects use of each quota, and what has been seen of them since a charge."""

from __future__ import annotations

import collections
import dataclasses
import logging
from collections.abc import Callable, Iterable

from pratique.apimachinery.json_values import JSONObject, member
from pratique.cluster.store import Cluster
from pratique.controllers.quota.ledger import Charge, Usage, UsageOf
from pratique.controllers.quota.ledger_integrity import LedgerDamageError
from pratique.telemetry.logs import describe_error

_MAX_MARKS = 64
"""Marks within the time that is waited for, at most: charges are given back by a 64th of it later than possible."""


class LedgerObservations:
    """What one service has seen of a ledger and of a cluster, in their order."""

    def __init__(self, wait_seconds: float, clock: Callable[[], float]) -> None:
        """Nothing has been seen.

        Args:
            wait_seconds: How much older than a state of the cluster a charge has to be, so that its object is in that
                state or never will be.
            clock: Seconds that only grow, whatever the time of day is set to.
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
        """The ledger's count of reconciliations when it was last looked at; None before the first look."""
        self.horizon = 0
        """The last charge that is known to be older than the state, by as much as is waited for."""

    def look(self, turn: int, latest: int, settled: int) -> None:
        """Take in where the ledger has come to. The cluster is to be looked at afterwards, with :meth:`see`.

        Raises:
            DamageError: it had come further before.
        """
        if settled < self._settled or turn < (self.turn or 0):
            raise LedgerDamageError(
                "it lacks charges that were in it before: an older copy has taken its place"
            )
        self._seen_before = (self._looked_at, self._settled)
        self.turn, self._settled, self._looked_at = turn, settled, self._clock()
        self._latest = max(latest, self._latest)  # that of the last charge that is still there
        self._mark()

    def see(self, state: object) -> None:
        """Take in the cluster's state, as it is right after :meth:`look`.

        One that was not there the last time has come since then: it is younger than what the ledger held then.
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


@dataclasses.dataclass(frozen=True, slots=True)
class UsageCount:
    """What a cluster says of one account."""

    namespace: str
    name: str
    uid: str
    used: Usage | None
    """What its objects use; None where the quota is gone."""


def count_accounts(
    cluster: Cluster, accounts: Iterable[tuple[str, str, str]], usage_of: UsageOf
) -> list[UsageCount]:
    """Count what is used of each account. One that cannot be counted is left out, and told of."""
    counts = []
    for namespace, name, uid in accounts:
        quota = cluster.get("", "resourcequotas", name, namespace)
        if quota is None or _metadata(quota, "uid") != uid:
            counts.append(UsageCount(namespace, name, uid, None))
            continue
        try:
            counts.append(UsageCount(namespace, name, uid, usage_of(quota, cluster)))
        except Exception as error:  # noqa: BLE001 - one quota, or one object in it, must not stop the others
            quoted = f"{namespace}/{name}"
            _log.error("a quota was not reconciled", extra={"quota": quoted, "error": describe_error(error)})
    return counts


def has_arrived(cluster: Cluster, charge: Charge) -> bool:
    """Tell whether a cluster holds an object as it was charged, so that it is counted among the others.

    In doubt it has not: what is counted twice for a while refuses a little too much; what is not counted at all lets
    too much through.
    """
    found = cluster.get(charge.group, charge.resource, charge.name, charge.namespace) if charge.name else None
    if found is None:
        return False
    uid = _metadata(found, "uid")
    if charge.uid and uid and uid != charge.uid:
        return False  # its predecessor of the same name
    if charge.old_resource_version is None:
        return True
    return _is_later(_metadata(found, "resourceVersion"), charge.old_resource_version)


def was_removed(cluster: Cluster, charge: Charge) -> bool:
    """Tell whether an object that a cluster held is in it no longer, or another one has its name."""
    found = cluster.get(charge.group, charge.resource, charge.name, charge.namespace)
    return found is None or _metadata(found, "uid") not in {"", charge.uid}


def _is_later(version: str, than: str) -> bool:
    """Resource versions are decimal numbers that grow; Kubernetes promises it since 1.35."""
    if not (version.isascii() and version.isdecimal() and than.isascii() and than.isdecimal()):
        return False
    return (len(version), version) > (len(than), than)


def _metadata(document: JSONObject, field: str) -> str:
    value = member(document, "metadata", field)
    return value if isinstance(value, str) else ""
