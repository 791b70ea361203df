"""A ledger in memory, SQLite or PostgreSQL. It works in threads, so that the event loop never waits for it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import importlib.util
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from pratique.apimachinery.errors import CallError, ConfigurationError
from pratique.cluster.store import Cluster, ReloadableCluster
from pratique.controllers.quota import ledger
from pratique.controllers.quota.ledger import (
    Account,
    AccountKey,
    Charge,
    Decide,
    LedgerState,
    LedgerStorage,
    Usage,
    UsageOf,
)
from pratique.controllers.quota.ledger_integrity import LedgerReplacedError
from pratique.controllers.quota.ledger_observations import LedgerObservations, count_accounts

if TYPE_CHECKING:
    from pratique.controllers.quota.memory_accounts import MemoryAccounts
    from pratique.controllers.quota.sql_accounts import SQLAccounts

_log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

_CHARGE_ATTEMPTS = 3
"""How often accounts may vanish between their creation and the charge before it is an error. They vanish only if
their quota is deleted, so even a second time is unlikely within these milliseconds."""

REQUEST_SECONDS = 60.0
"""When a charged object is stored or never will be: an API server ends a request after this time
(``--request-timeout``), webhooks and storing included."""

FOLLOW_SECONDS = 90.0
"""How far a cluster's files may lag behind the cluster: a ConfigMap reaches a Pod's files within the kubelet's
``--sync-frequency`` of one minute, plus a jitter of half of that."""


class SQLLedger:
    """A ledger in a database, or in memory. It connects on first use."""

    def __init__(
        self,
        url: str,
        *,
        wait_seconds: float = REQUEST_SECONDS + FOLLOW_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Keep charges at ``url``.

        Args:
            url: As in :func:`open_ledger`.
            wait_seconds: How much younger than a charge a state of the cluster must be for a charge to be given back
                if its object is not in that state.
            clock: Monotonic seconds, which measure this.

        Raises:
            ConfigurationError: The URL is invalid, or PostgreSQL's driver is not installed.
        """
        self._place = ledger.parse_ledger_url(url)
        if self._place.storage is LedgerStorage.POSTGRESQL and importlib.util.find_spec("psycopg") is None:
            raise ConfigurationError(
                "a quota ledger in PostgreSQL needs psycopg, which is not installed: pip install 'pratique[ledger]'"
            )
        self._observations = LedgerObservations(wait_seconds, clock)
        self._arrived: set[int] = set()
        self.seen: Mapping[AccountKey, Usage] = {}
        """See ``Ledger``."""
        # one thread per connection, so that no thread waits for a connection; SQLite's belongs to its thread
        threads = 4 if self._place.storage is LedgerStorage.POSTGRESQL else 1
        self._threads = concurrent.futures.ThreadPoolExecutor(threads, "pratique-ledger")
        self._connecting = threading.Lock()
        self._stored: SQLAccounts | MemoryAccounts | None = None
        self._failing = False
        self._replaced = ""
        """How it showed that a server has another ledger than before."""

    async def charge(self, accounts: Sequence[Account], charge: Charge, decide: Decide) -> None:
        """Charge all accounts or none: see ``Ledger``."""
        given_up = threading.Event()
        try:
            await self._submit(lambda: self._charge(accounts, charge, decide, given_up))
        except asyncio.CancelledError:
            given_up.set()
            raise

    def _charge(
        self, accounts: Sequence[Account], charge: Charge, decide: Decide, given_up: threading.Event
    ) -> None:
        stored = self._connected()
        if charge.is_retry and stored.is_charged(charge):
            return
        for _ in range(_CHARGE_ATTEMPTS):
            used = stored.read(accounts)
            missing = [account for account in accounts if account.key not in used]
            if missing:
                stored.create(missing)
                continue
            # A refusal needs no lock: requests against a full quota repeat again and again.
            if all(new is None for new in decide([used[account.key] for account in accounts])):
                return
            if stored.charge(accounts, charge, decide, lambda: not given_up.is_set()):
                return
        raise CallError(
            "the quota ledger is unavailable: accounts were deleted as often as they were created"
        )

    async def usage(self, accounts: Sequence[Account]) -> Sequence[Usage]:
        """The usage of each account: see ``Ledger``."""
        return await self._submit(lambda: self._usage(accounts))

    def _usage(self, accounts: Sequence[Account]) -> Sequence[Usage]:
        if self._stored is None and not self._place.exists:
            return [account.initial_usage() for account in accounts]
        used = self._connected().read(accounts)
        return [used[account.key] if account.key in used else account.initial_usage() for account in accounts]

    async def accounts(self) -> Mapping[AccountKey, Usage]:
        """The usage of every known account: see ``Ledger``."""
        return await self._submit(self._accounts)

    def _accounts(self) -> Mapping[AccountKey, Usage]:
        if self._stored is None and not self._place.exists:
            return {}
        return self._connected().read_all()

    async def reconcile(self, cluster: Cluster, period_seconds: float, usage_of: UsageOf) -> bool:
        """Reconcile every account: see ``Ledger``."""
        if self._stored is None and not (self._place.exists and cluster.list("", "resourcequotas")):
            return False
        seen = self._observations
        look = await self._submit(lambda: self._read_state(always=not period_seconds))
        # count usage and look up charged objects in the same state of the cluster
        state = cluster.current if isinstance(cluster, ReloadableCluster) else cluster
        seen.record_cluster(state)
        if look.accounts is None or seen.horizon < look.settled:
            return False
        # not in a thread of the ledger: SQLite has only one, and charges need it
        counts = await asyncio.to_thread(count_accounts, state, look.accounts, usage_of)
        await self._submit(lambda: self._connected().reconcile(state, seen.horizon, self._arrived, counts))
        return True

    def _read_state(self, *, always: bool) -> LedgerState:
        stored = self._connected()
        if stored.files is not None:
            stored.files.check_intact()
        look = stored.read_state(self._observations.turn, always=always)
        self._observations.record_ledger(look.turn, look.latest, look.settled)
        self.seen = stored.read_all()
        return look

    async def close(self) -> None:
        """Close connections and threads."""
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)
        if self._stored is not None:
            self._stored.close()

    async def _submit(self, job: Callable[[], _Result]) -> _Result:
        try:
            future = self._threads.submit(self._run, job)
        except RuntimeError:
            raise CallError("the quota ledger is unavailable: it is closed") from None
        return await asyncio.wrap_future(future)

    def _run(self, job: Callable[[], _Result]) -> _Result:
        if self._place.storage is LedgerStorage.MEMORY:
            return job()
        if self._replaced:
            raise CallError(f"the quota ledger is unavailable: {self._replaced}")
        try:
            if self._stored is not None and self._stored.files is not None:
                self._stored.files.check_same()
            result = job()
        except _storage_errors() as error:
            reason = _storage_error_reason(error)
            if isinstance(error, LedgerReplacedError) and self._place.storage is LedgerStorage.POSTGRESQL:
                # Charges whose objects are not in the cluster yet are lost. A file would say so at every charge.
                reason = self._replaced = f"{reason}: restart what charges it, to use it as it is"
            self._log_change(failing=True, reason=reason)
            raise CallError(f"the quota ledger is unavailable: {reason}") from None
        self._log_change(failing=False)
        return result

    def _log_change(self, *, failing: bool, reason: str = "") -> None:
        """Log changes between working and failing, not every one of a thousand failed reviews."""
        if failing and not self._failing:
            _log.error(
                "the quota ledger is unavailable",
                extra={"ledger": self._place.display_url, "reason": reason},
            )
        elif self._failing and not failing:
            _log.info("the quota ledger is available again", extra={"ledger": self._place.display_url})
        self._failing = failing

    def _connected(self) -> SQLAccounts | MemoryAccounts:
        with self._connecting:
            if self._stored is None:
                self._stored = self._connect()
            return self._stored

    def _connect(self) -> SQLAccounts | MemoryAccounts:
        # Imported late, like sql_database.
        if self._place.storage is LedgerStorage.MEMORY:
            from pratique.controllers.quota.memory_accounts import MemoryAccounts  # noqa: PLC0415

            return MemoryAccounts()
        from pratique.controllers.quota import sql_accounts, sql_database  # noqa: PLC0415

        return sql_accounts.SQLAccounts(sql_database.connect(self._place))


# Imported late: importing SQLAlchemy takes as long as a service's start, and offline use has no need of it. Python asks
# for the errors to handle only after one was raised.


def _storage_errors() -> tuple[type[Exception], ...]:
    from pratique.controllers.quota import sql_database  # noqa: PLC0415

    return sql_database.STORAGE_ERRORS


def _storage_error_reason(error: Exception) -> str:
    from pratique.controllers.quota import sql_database  # noqa: PLC0415

    return sql_database.storage_error_reason(error)
