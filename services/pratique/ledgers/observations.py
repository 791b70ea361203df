"""Observations: which charges are older than a cluster's state, told without any clock that can be set.

A charge whose object does not show in the cluster is on its way, or it was refused after it had been charged, or what
is known of the cluster is older than the object. Only a later look at the cluster tells these apart. A service
therefore remembers, by a clock that nobody can set, up to which charge the ledger had come at several moments; and
when it is given another state of the cluster, it knows which charges had been made long enough before.
"""

from __future__ import annotations

import collections
from typing import TYPE_CHECKING

from pratique.ledgers.integrity import DamageError

if TYPE_CHECKING:
    from collections.abc import Callable

_MARKS = 64
"""Marks within the time that is waited for, at most: charges are given back by a 64th of it later than possible."""


class Observations:
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
            raise DamageError("it lacks charges that were in it before: an older copy has taken its place")
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
        if not self._marks or self._looked_at - self._marks[-1][0] >= self._wait / _MARKS:
            self._marks.append((self._looked_at, self._latest))
        looked_before, _ = self._seen_before
        while len(self._marks) > 1 and self._marks[1][0] <= looked_before - self._wait:
            self._marks.popleft()
