"""A ledger in a database: SQLite or PostgreSQL, asked in threads so that the event loop never waits for it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from pratique.apimachinery.errors import CallError
from pratique.cluster.store import Cluster, ReloadableCluster
from pratique.controllers.quota import ledger
from pratique.controllers.quota.ledger import (
    Account,
    AccountKey,
    Charge,
    Decide,
    LedgerStorage,
    Usage,
    UsageOf,
)
from pratique.controllers.quota.ledger_observations import LedgerObservations, count_accounts

if TYPE_CHECKING:
    from pratique.controllers.quota.sql_accounts import LedgerDatabase, LedgerState

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

_CHARGE_ATTEMPTS = 3
"""How often accounts may be gone between the moment they were begun and the charge, before that is an error. They go
only when their quota was deleted, so that even a second time is a matter of milliseconds."""

REQUEST_SECONDS = 60.0
"""After which a charged object is stored or never will be: an API server ends a request then (``--request-timeout``), a
webhook's answer and what comes after it included."""

FOLLOW_SECONDS = 90.0
"""By which a cluster's files may be behind what they tell of when they change: a ConfigMap reaches a Pod's files within
the kubelet's ``--sync-frequency`` of a minute, and half of that more by its jitter."""


class SQLLedger:
    """A ledger in a database. It connects when it is first used."""

    def __init__(
        self,
        url: str,
        *,
        wait_seconds: float = REQUEST_SECONDS + FOLLOW_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep charges at ``url``.

        Args:
            url: As ``open_ledger`` takes it.
            wait_seconds: By how much younger than a charge a state of the cluster has to be, so that a charge whose
                object is not in it is given back.
            clock: What this is measured by: seconds that only grow, whatever the time of day is set to.

        Raises:
            ConfigurationError: the URL cannot be used.
        """
        self._place = ledger.parse_ledger_url(url)
        self._observations = LedgerObservations(wait_seconds, clock)
        self._arrived: set[int] = set()
        self.seen: Mapping[AccountKey, Usage] = {}
        """See ``Ledger``."""
        # as many as connections, so that none waits for another's; SQLite's stays with the one that made it
        threads = 4 if self._place.storage is LedgerStorage.POSTGRESQL else 1
        self._threads = concurrent.futures.ThreadPoolExecutor(threads, "pratique-ledger")
        self._connecting = threading.Lock()
        self._database: LedgerDatabase | None = None
        self._failing = False

    async def charge(self, accounts: Sequence[Account], charge: Charge, decide: Decide) -> None:
        """Charge accounts, all of them or none: see ``Ledger``."""
        given_up = threading.Event()
        try:
            await self._ask(lambda: self._charge(accounts, charge, decide, given_up))
        except asyncio.CancelledError:
            given_up.set()
            raise

    def _charge(
        self, accounts: Sequence[Account], charge: Charge, decide: Decide, given_up: threading.Event
    ) -> None:
        from pratique.controllers.quota import sql_accounts  # noqa: PLC0415 - SQLAlchemy takes as long to import as a service

        database = self._connected()
        if charge.is_retry and sql_accounts.is_charged(database, charge):
            return
        for _ in range(_CHARGE_ATTEMPTS):
            used = sql_accounts.read_accounts(database, accounts)
            missing = [one for one in accounts if sql_accounts.key_of(one) not in used]
            if missing:
                sql_accounts.begin(database, missing)
                continue
            # What is refused now needs no lock: a quota that is full is asked again and again.
            if all(new is None for new in decide([used[sql_accounts.key_of(one)] for one in accounts])):
                return
            if sql_accounts.charge(database, accounts, charge, decide, lambda: not given_up.is_set()):
                return
        raise CallError("the ledger of quotas cannot be asked: accounts went as often as they were begun")

    async def usage(self, accounts: Sequence[Account]) -> Sequence[Usage]:
        """The usage of each account: see ``Ledger``."""
        return await self._ask(lambda: self._usage(accounts))

    def _usage(self, accounts: Sequence[Account]) -> Sequence[Usage]:
        if self._database is None and not self._place.exists:
            return [one.start() for one in accounts]
        from pratique.controllers.quota import sql_accounts  # noqa: PLC0415 - as above

        used = sql_accounts.read_accounts(self._connected(), accounts)
        keys = ((one, sql_accounts.key_of(one)) for one in accounts)
        return [used[key] if key in used else one.start() for one, key in keys]

    async def accounts(self) -> Mapping[AccountKey, Usage]:
        """The usage of every account that the ledger knows: see ``Ledger``."""
        return await self._ask(self._accounts)

    def _accounts(self) -> Mapping[AccountKey, Usage]:
        if self._database is None and not self._place.exists:
            return {}
        from pratique.controllers.quota import sql_accounts  # noqa: PLC0415 - as above

        return sql_accounts.read_all_accounts(self._connected())

    async def reconcile(self, cluster: Cluster, period_seconds: float, usage_of: UsageOf) -> bool:
        """Put every account's usage right: see ``Ledger``."""
        if self._database is None and not (self._place.exists and cluster.list("", "resourcequotas")):
            return False
        from pratique.controllers.quota import sql_accounts  # noqa: PLC0415 - as above

        seen = self._observations
        look = await self._ask(lambda: self._look(always=not period_seconds))
        # one state of the cluster throughout: what is counted in it is what is looked up in it
        state = cluster.current if isinstance(cluster, ReloadableCluster) else cluster
        seen.see(state)
        if look.accounts is None or seen.horizon < look.settled:
            return False
        # not in a thread of the ledger: SQLite's only one is for charges
        counts = await asyncio.to_thread(count_accounts, state, look.accounts, usage_of)
        settlement = sql_accounts.Reconciliation(
            database=self._connected(), cluster=state, horizon=seen.horizon, arrived=self._arrived
        )
        await self._ask(lambda: settlement.settle(counts))
        return True

    def _look(self, *, always: bool) -> LedgerState:
        from pratique.controllers.quota import sql_accounts  # noqa: PLC0415 - as above

        database = self._connected()
        if database.files is not None:
            database.files.see_that_sound()
        look = sql_accounts.read_state(database, self._observations.turn, always=always)
        self._observations.look(look.turn, look.latest, look.settled)
        self.seen = sql_accounts.read_all_accounts(database)
        return look

    async def close(self) -> None:
        """Let go of connections and threads."""
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        if self._database is not None:
            self._database.close()

    async def _ask(self, job: Callable[[], _Result]) -> _Result:
        try:
            future = self._threads.submit(self._tried, job)
        except RuntimeError:
            raise CallError("the ledger of quotas cannot be asked: it is closed") from None
        return await asyncio.wrap_future(future)

    def _tried(self, job: Callable[[], _Result]) -> _Result:
        from pratique.controllers.quota import sql_accounts  # noqa: PLC0415 - as above

        try:
            if self._database is not None and self._database.files is not None:
                self._database.files.see_that_same()
            done = job()
        except sql_accounts.STORAGE_ERRORS as error:
            self._tell(failing=True, reason=sql_accounts.storage_error_reason(error))
            raise CallError(
                f"the ledger of quotas cannot be asked: {sql_accounts.storage_error_reason(error)}"
            ) from None
        self._tell(failing=False)
        return done

    def _tell(self, *, failing: bool, reason: str = "") -> None:
        """Log what changes, not each of a thousand reviews that a database that is away costs."""
        if failing and not self._failing:
            _log.error(
                "the ledger of quotas cannot be asked", extra={"ledger": self._place.shown, "reason": reason}
            )
        elif self._failing and not failing:
            _log.info("the ledger of quotas can be asked again", extra={"ledger": self._place.shown})
        self._failing = failing

    def _connected(self) -> LedgerDatabase:
        from pratique.controllers.quota import sql_accounts  # noqa: PLC0415 - as above

        with self._connecting:
            if self._database is None:
                self._database = sql_accounts.connect(self._place)
            return self._database
