"""The accounts of a ledger in a database: reading, charging and reconciling them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from pratique.cluster.store import Cluster
from pratique.controllers.quota import ledger
from pratique.controllers.quota.ledger import (
    Account,
    AccountKey,
    Charge,
    Decide,
    LedgerState,
    Usage,
)
from pratique.controllers.quota.ledger_integrity import (
    LedgerDamageError,
    LedgerFiles,
    LedgerReplacedError,
)
from pratique.controllers.quota.ledger_observations import UsageCount, has_arrived, was_removed
from pratique.controllers.quota.sql_database import ACCOUNTS, CHARGES, LEDGER, LedgerDatabase

_ACCOUNT_KEY = sa.tuple_(ACCOUNTS.c.namespace, ACCOUNTS.c.name, ACCOUNTS.c.uid)


class SQLAccounts(msgspec.Struct, frozen=True):
    """The accounts in a database."""

    database: LedgerDatabase

    @property
    def files(self) -> LedgerFiles | None:
        """The files of SQLite."""
        return self.database.files

    def close(self) -> None:
        """Close all connections."""
        self.database.close()

    def read(self, accounts: Sequence[Account]) -> dict[AccountKey, Usage]:
        """The usage of the known accounts, all of one moment, without a lock."""
        with self.database.reader.connect() as connection:
            return _select_usage(self.database, connection, accounts)

    def read_all(self) -> dict[AccountKey, Usage]:
        """The usage of every account."""
        with self.database.reader.connect() as connection:
            rows = connection.execute(sa.select(ACCOUNTS).order_by(*ACCOUNTS.primary_key.columns))
            return {(row.namespace, row.name, row.uid): ledger.decode_usage(row.used) for row in rows}

    def create(self, accounts: Iterable[Account]) -> None:
        """Create accounts with their initial usage, unless another service was faster."""
        # counted before the transaction, because counting may be slow and others would wait
        rows = [
            {
                "namespace": account.namespace,
                "name": account.name,
                "uid": account.uid,
                "used": ledger.encode_usage(account.initial_usage()),
            }
            for account in sorted(accounts, key=lambda account: account.key)
        ]
        with self.database.writer.begin() as connection:
            connection.execute(self.database.insert(ACCOUNTS).on_conflict_do_nothing(), rows)

    def charge(
        self,
        accounts: Sequence[Account],
        charge: Charge,
        decide: Decide,
        is_wanted: Callable[[], bool],
    ) -> bool:
        """Charge accounts in one transaction that locks them.

        Args:
            accounts: What to charge.
            charge: What the charge is for.
            decide: Computes the new usage.
            is_wanted: Asked before the commit; False if the caller has given up.

        Returns:
            False if an account is unknown; then nothing was done.

        Raises:
            RefusalError: ``decide`` refused; nothing is written.
            LedgerDamageError: It is not the same ledger, or the database ignored what was written.
        """
        with self.database.writer.begin() as connection:
            used = _select_usage(self.database, connection, accounts, lock=True)
            if any(account.key not in used for account in accounts):
                return False
            before = [used[account.key] for account in accounts]
            after = decide(before)
            for account, old, new in zip(accounts, before, after, strict=True):
                if new is not None:
                    _write_usage(connection, account.key, ledger.encode_usage(new))
                    _insert_charge(connection, account, ledger.increases(old, new), charge)
            if not is_wanted():
                connection.rollback()
        return True

    def is_charged(self, charge: Charge) -> bool:
        """Whether a request was charged already, as far as the ledger remembers."""
        columns = {"namespace": charge.namespace} | _columns_of_request(charge)
        alike = (CHARGES.c[name] == value for name, value in columns.items())
        with self.database.reader.connect() as connection:
            return connection.execute(sa.select(CHARGES.c.number).where(*alike).limit(1)).first() is not None

    def read_state(self, turn: int | None, *, always: bool) -> LedgerState:
        """Read the ledger's progress, and take the turn to reconcile unless another service has since ``turn``.

        Every service looks once per period. If one dies in its turn, a single period is skipped. ``always`` takes the
        turn in any case.

        Raises:
            LedgerReplacedError: It is not the same ledger.
        """
        with self.database.writer.begin() as connection:
            ledger_row = connection.execute(sa.select(LEDGER)).first()
            if ledger_row is None or ledger_row.identity != self.database.identity:
                raise LedgerReplacedError
            latest = connection.execute(sa.select(sa.func.max(CHARGES.c.number))).scalar() or 0
            accounts, now = None, ledger_row.turn
            if always or now == turn:
                taken = sa.update(LEDGER).where(LEDGER.c.turn == now).values(turn=now + 1)
                if connection.execute(taken).rowcount:
                    now += 1
                    rows = connection.execute(
                        sa.select(ACCOUNTS.c.namespace, ACCOUNTS.c.name, ACCOUNTS.c.uid)
                    )
                    accounts = [(row.namespace, row.name, row.uid) for row in rows]
        return LedgerState(now, max(latest, ledger_row.settled), ledger_row.settled, accounts)

    def reconcile(
        self, cluster: Cluster, horizon: int, arrived: set[int], counts: Iterable[UsageCount]
    ) -> None:
        """Set the accounts to what the state of a cluster says; see :class:`Reconciliation`."""
        Reconciliation(database=self.database, cluster=cluster, horizon=horizon, arrived=arrived).run(counts)


def _select_usage(
    database: LedgerDatabase,
    connection: sa.Connection,
    accounts: Sequence[Account],
    *,
    lock: bool = False,
) -> dict[AccountKey, Usage]:
    # always in the order of the key, so that two transactions with the same rows never deadlock
    query = (
        sa.select(ACCOUNTS, LEDGER.c.identity)
        .join_from(ACCOUNTS, LEDGER, sa.true())
        .where(_ACCOUNT_KEY.in_([account.key for account in accounts]))
        .order_by(*ACCOUNTS.primary_key.columns)
    )
    rows = connection.execute(query.with_for_update(of=ACCOUNTS) if lock else query).all()
    if any(row.identity != database.identity for row in rows):
        raise LedgerReplacedError
    return {(row.namespace, row.name, row.uid): ledger.decode_usage(row.used) for row in rows}


def _write_usage(connection: sa.Connection, key: AccountKey, used: str) -> None:
    written = connection.execute(sa.update(ACCOUNTS).where(_ACCOUNT_KEY.in_([key])).values(used=used))
    _check_written(written)


def _check_written(result: sa.CursorResult[Any]) -> None:
    """Check that a row was written: a trigger, a rule or a policy of the database can leave it out, silently.

    Raises:
        LedgerDamageError: It was not.
    """
    if result.rowcount == 0:
        raise LedgerDamageError("the database ignored a write: its tables have triggers, rules or policies")


def _columns_of_request(charge: Charge) -> dict[str, str]:
    columns = {
        "object_group": charge.group,
        "object_resource": charge.resource,
        "object_name": charge.name,
        "object_uid": charge.uid,
        "request_uid": charge.request_uid,
    }
    return {name: _storable(text) for name, text in columns.items()}


def _storable(text: str) -> str:
    """A text as a column can hold it: PostgreSQL refuses a NUL, which a caller can write into a uid."""
    return text.replace("\0", "\N{SYMBOL FOR NULL}")


def _insert_charge(connection: sa.Connection, account: Account, more: Usage, charge: Charge) -> None:
    version = charge.old_resource_version
    row = {
        "namespace": account.namespace,
        "quota_name": account.name,
        "quota_uid": account.uid,
        "amounts": ledger.encode_usage(more),
        "old_resource_version": version and _storable(version),
        **_columns_of_request(charge),
    }
    insert = sa.insert(CHARGES).execution_options(preserve_rowcount=True)
    _check_written(connection.execute(insert, row))


_CHARGE_ACCOUNT_KEY = sa.tuple_(CHARGES.c.namespace, CHARGES.c.quota_name, CHARGES.c.quota_uid)


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """Reconciles accounts with one state of the cluster."""

    database: LedgerDatabase
    cluster: Cluster
    """The state."""
    horizon: int
    """The last charge that is older than the state: its object is in the state, or will never be."""
    arrived: set[int]
    """The charges whose objects this service has seen in the cluster; new ones are added."""

    def run(self, counts: Iterable[UsageCount]) -> None:
        """Correct the accounts one by one, so that nobody waits long, and drop the charges up to the horizon.

        A charge made after the cluster was looked at is among the charges once the account's row is locked. If
        another service has dropped charges that may be younger than this state, nothing is changed: their objects may
        be missing from it.
        """
        for count in counts:
            with self.database.writer.begin() as connection:
                self._reconcile_account(connection, count)
        with self.database.writer.begin() as connection:
            # locked, so that it never decreases
            if self._is_behind(connection, lock=True):
                return
            connection.execute(sa.update(LEDGER).values(settled=self.horizon))
            connection.execute(sa.delete(CHARGES).where(CHARGES.c.number <= self.horizon))
            left = set(connection.execute(sa.select(CHARGES.c.number)).scalars()) if self.arrived else set()
        self.arrived.intersection_update(left)

    def _is_behind(self, connection: sa.Connection, *, lock: bool = False) -> bool:
        query = sa.select(LEDGER.c.settled)
        settled: int = connection.execute(query.with_for_update() if lock else query).scalar_one()
        return settled > self.horizon

    def _reconcile_account(self, connection: sa.Connection, count: UsageCount) -> None:
        key = (count.namespace, count.name, count.uid)
        locked = sa.select(ACCOUNTS.c.used).where(_ACCOUNT_KEY.in_([key])).with_for_update()
        stored = connection.execute(locked).scalar()
        recent = {} if stored is None else self._recent_charges(connection, key)
        # in this order: whoever drops charges records it in the same transaction
        if stored is None or self._is_behind(connection):
            return
        if count.used is None:
            # a quota with recent charges exists: another service sees it
            if not recent:
                connection.execute(sa.delete(ACCOUNTS).where(_ACCOUNT_KEY.in_([key])))
            return
        pending = [ledger.decode_usage(amounts) for amounts in self._pending_amounts(connection, recent)]
        used = ledger.encode_usage(ledger.sum_usage([count.used, *pending]))
        if used != stored:
            _write_usage(connection, key, used)

    def _pending_amounts(self, connection: sa.Connection, recent: dict[int, tuple[Charge, str]]) -> list[str]:
        """The amounts of charges whose objects have not arrived yet. Charges whose objects have left are deleted."""
        pending, gone = [], []
        for number, (charge, amounts) in recent.items():
            if has_arrived(self.cluster, charge):
                if charge.uid:  # otherwise it may be an earlier object of the same name
                    self.arrived.add(number)
            elif number in self.arrived and was_removed(self.cluster, charge):
                gone.append(number)
            else:
                pending.append(amounts)
        if gone:
            delete = sa.delete(CHARGES).where(CHARGES.c.number == sa.bindparam("gone"))
            connection.execute(delete, [{"gone": number} for number in gone])
        return pending

    def _recent_charges(self, connection: sa.Connection, key: AccountKey) -> dict[int, tuple[Charge, str]]:
        rows = connection.execute(
            sa.select(CHARGES).where(_CHARGE_ACCOUNT_KEY.in_([key]), CHARGES.c.number > self.horizon)
        )
        return {
            row.number: (
                Charge(
                    group=row.object_group,
                    resource=row.object_resource,
                    namespace=row.namespace,
                    name=row.object_name,
                    uid=row.object_uid,
                    old_resource_version=row.old_resource_version,
                ),
                row.amounts,
            )
            for row in rows
        }
