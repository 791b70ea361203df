"""The accounts of a ledger in a database: its tables, its connections, charging and reconciling."""

from __future__ import annotations

import dataclasses
import logging
import secrets
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa
import tenacity
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool, StaticPool

from pratique.apimachinery.quantities import QuantityError
from pratique.cluster.store import Cluster
from pratique.controllers.quota import ledger, ledger_integrity
from pratique.controllers.quota.ledger import (
    Account,
    AccountKey,
    Charge,
    Decide,
    LedgerLocation,
    LedgerStorage,
    Usage,
)
from pratique.controllers.quota.ledger_integrity import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    LedgerDamageError,
    LedgerFiles,
)
from pratique.controllers.quota.ledger_observations import UsageCount, has_arrived, was_removed

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection

STORAGE_ERRORS = (SQLAlchemyError, OSError, msgspec.DecodeError, QuantityError, LedgerDamageError)
"""What asking a database raises, and what reading rows raises that are not a ledger's."""


def storage_error_reason(error: BaseException) -> str:
    """Say why storage could not be asked, without rows, statements or passwords."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        # drivers name the host, the user and the fault; more lines would quote the statement
        return str(error.orig).partition("\n")[0].strip() or type(error.orig).__name__
    if isinstance(error, LedgerDamageError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'storage'}: {error.strerror or type(error).__name__}"
    if isinstance(error, msgspec.DecodeError | QuantityError):
        return "it holds what no ledger wrote"
    return type(error).__name__


METADATA = sa.MetaData()

# SQLite counts rows up by itself only in a column that is exactly INTEGER, which has 64 bits there.
_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

ACCOUNTS = sa.Table(
    "pratique_quota_accounts",
    METADATA,
    sa.Column("namespace", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("used", sa.Text, nullable=False),
)
"""One row a ResourceQuota, with its usage as ``pratique.controllers.quota.ledger`` writes it. The uid is part of the
key, so that a quota made anew under its old name, and a service that has not seen that yet, do not get in each other's
way."""

CHARGES = sa.Table(
    "pratique_quota_charges",
    METADATA,
    sa.Column("number", _ROW_NUMBER, primary_key=True, autoincrement=True),
    sa.Column("namespace", sa.Text, nullable=False),
    sa.Column("quota_name", sa.Text, nullable=False),
    sa.Column("quota_uid", sa.Text, nullable=False),
    sa.Column("amounts", sa.Text, nullable=False),
    sa.Column("object_group", sa.Text, nullable=False),
    sa.Column("object_resource", sa.Text, nullable=False),
    sa.Column("object_name", sa.Text, nullable=False),
    sa.Column("object_uid", sa.Text, nullable=False),
    sa.Column("old_resource_version", sa.Text),
    sa.Column("request_uid", sa.Text, nullable=False),
    sa.Index("pratique_quota_charges_of_account", "namespace", "quota_name", "quota_uid", "number"),
    sqlite_autoincrement=True,
)
"""One row a charge and account, for as long as its object may not have arrived. Objects are in the quota's namespace.
Numbers only grow, and none is given twice (hence AUTOINCREMENT in SQLite): they are the order in which charges were
made, which is all that is known of their age."""

LEDGER = sa.Table(
    "pratique_quota_ledger",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("turn", sa.BigInteger, nullable=False),
    sa.Column("settled", sa.BigInteger, nullable=False),
)
"""One row. ``identity`` is random and tells this ledger from any other. ``turn`` counts reconciliations. ``settled`` is
the highest number among the charges that were given up: a service may count usage only in a cluster's state that is
known to be younger than all of them."""

EARLIER_TABLE = "pratique_quota_reconciliations"
"""A table of ledgers that went by the clock."""


CONNECTIONS = {LedgerStorage.MEMORY: 1, LedgerStorage.SQLITE: 1, LedgerStorage.POSTGRESQL: 4}
"""Connections at most, each with a thread. SQLite has one writer at a time whoever asks. In PostgreSQL the charges of
one quota follow each other; four let those of others pass by, and leave room for 25 validators under the 100
connections that a server takes unless told otherwise."""

_CONNECT_SECONDS = 5
_LOCK_SECONDS = 5
_STATEMENT_SECONDS = 10
"""As long as Kubernetes lets the evaluation of a quota take (``plugin/resourcequota/controller.go``); a lock is waited
for half as long, so that there is time for what comes after it."""
_IDLE_SECONDS = 10
"""After which the server takes back the locks of a client that fell silent within a transaction."""
_POSTGRESQL_OPTIONS = (
    f"-c lock_timeout={_LOCK_SECONDS}s -c statement_timeout={_STATEMENT_SECONDS}s"
    f" -c idle_in_transaction_session_timeout={_IDLE_SECONDS}s"
)
_CREATE_TABLES_LOCK = 0x70726174
"""PostgreSQL's advisory lock for that: a number of no meaning that others are unlikely to choose."""
_WRITES_OPTION = "pratique_writes"
_IDENTITY_BYTES = 16

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class LedgerDatabase:
    """Two ways into one pool of connections."""

    reader: sa.Engine
    """Each statement sees what is committed at its moment, and locks nothing."""
    writer: sa.Engine
    """Transactions. SQLite's hold the lock on the whole file from their beginning: one that began as a reader could
    not be told to wait for another writer, only to fail."""
    identity: str = ""
    """Of the ledger in it, which tells it from any other."""
    files: LedgerFiles | None = None
    """What SQLite keeps it in."""

    def insert(self, table: sa.Table) -> postgresql.Insert | sqlite.Insert:
        """Begin an INSERT that knows ON CONFLICT."""
        return postgresql.insert(table) if _is_postgresql(self.writer) else sqlite.insert(table)

    def close(self) -> None:
        """Close every connection."""
        self.writer.dispose()


def connect(place: LedgerLocation) -> LedgerDatabase:
    """Connect to a database, and make the tables where they are missing, whoever else is about to do so.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: it cannot be reached or used.
        OSError: the folder of its file cannot be made.
        DamageError: it is not what it should be.
    """
    expected = "" if place.path is None else ledger_integrity.expected_identity(place.path)
    database = (
        _postgresql_database(place) if place.storage is LedgerStorage.POSTGRESQL else _sqlite_database(place)
    )
    try:
        identity = _create_tables(database, place)
        if place.path is None:
            return dataclasses.replace(database, identity=identity)
        ledger_integrity.record_identity(place.path, identity, expected)
        return dataclasses.replace(database, identity=identity, files=LedgerFiles(place.path, identity))
    except BaseException:
        database.close()
        raise


def _is_postgresql(engine: sa.Engine | sa.Connection) -> bool:
    return engine.dialect.name == "postgresql"


def _create_tables(database: LedgerDatabase, place: LedgerLocation) -> str:
    """Make the tables where there are none, and give the ledger's identity."""
    with database.reader.connect() as connection:
        # the transaction below makes all or nothing; where it was made, nobody need wait for a lock
        if sa.inspect(connection).has_table(LEDGER.name):
            return _identity(connection)
    with database.writer.begin() as connection:
        if _is_postgresql(connection):
            # CREATE TABLE IF NOT EXISTS fails where two do it at once
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATE_TABLES_LOCK)))
        there = sa.inspect(connection)
        if there.has_table(LEDGER.name):
            return _identity(connection)
        if there.has_table(EARLIER_TABLE):
            raise LedgerDamageError(
                "it is of an earlier version: remove it, or its tables, and usage is counted anew"
            )
        if not _is_postgresql(connection):
            if there.get_table_names():
                raise LedgerDamageError("it is a database of something else")
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")
        METADATA.create_all(connection)
        row = {"number": 1, "identity": secrets.token_hex(_IDENTITY_BYTES), "turn": 0, "settled": 0}
        connection.execute(sa.insert(LEDGER), row)
    if place.storage is not LedgerStorage.MEMORY:
        _log.warning("a new ledger of quotas was begun", extra={"ledger": place.shown})
    return str(row["identity"])


def _identity(connection: sa.Connection) -> str:
    identity = connection.execute(sa.select(LEDGER.c.identity)).scalar()
    if not identity:
        raise LedgerDamageError("it has lost what tells it from others")
    return str(identity)


def _postgresql_database(place: LedgerLocation) -> LedgerDatabase:
    engine = sa.create_engine(
        f"postgresql+psycopg://{place.address}",
        pool_size=CONNECTIONS[place.storage],
        max_overflow=0,
        pool_pre_ping=True,  # a server that was started again is found again, at the price of a round trip
        isolation_level="READ COMMITTED",  # whatever the server's default: locked rows are read as they are now
        connect_args={
            "application_name": "pratique",
            "client_encoding": "utf8",  # else texts of a database that says SQL_ASCII would come as bytes
            "connect_timeout": _CONNECT_SECONDS,
            "tcp_user_timeout": _STATEMENT_SECONDS * 1000,
            "options": _POSTGRESQL_OPTIONS,
        },
        hide_parameters=True,
    )
    return LedgerDatabase(engine.execution_options(isolation_level="AUTOCOMMIT"), engine)


def _sqlite_database(place: LedgerLocation) -> LedgerDatabase:
    if place.path is not None:
        # what is used says who runs what, and how much of it
        place.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    pool: dict[str, Any] = (
        {"poolclass": StaticPool}
        if place.path is None
        else {"poolclass": QueuePool, "pool_size": CONNECTIONS[place.storage], "max_overflow": 0}
    )
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=None if place.path is None else str(place.path)),
        connect_args={"timeout": _LOCK_SECONDS, "check_same_thread": False},
        hide_parameters=True,
        **pool,
    )
    event.listen(engine, "connect", _prepare_connection)
    event.listen(engine, "begin", _begin_transaction)
    return LedgerDatabase(engine, engine.execution_options(**{_WRITES_OPTION: True}))


def _prepare_connection(connection: DBAPIConnection, _: object) -> None:
    """Leave BEGIN to us, let readers read beside a writer, and have each commit on the disk before it returns."""
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        for attempt in _retry_while_locked():
            with attempt:
                cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA cell_size_check = ON")
    finally:
        cursor.close()


def _retry_while_locked() -> tenacity.Retrying:
    """Try again where several make a file at once: for this one change SQLite does not wait by itself."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(
            lambda error: getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
        ),
        wait=tenacity.wait_random(0.005, 0.05),
        stop=tenacity.stop_after_delay(_LOCK_SECONDS),
        reraise=True,
    )


def _begin_transaction(connection: sa.Connection) -> None:
    if connection.get_execution_options().get(_WRITES_OPTION):
        connection.exec_driver_sql("BEGIN IMMEDIATE")


_ACCOUNT_KEY = sa.tuple_(ACCOUNTS.c.namespace, ACCOUNTS.c.name, ACCOUNTS.c.uid)


def key_of(account: Account) -> AccountKey:
    """The account's key."""
    return account.namespace, account.name, account.uid


def read_accounts(database: LedgerDatabase, accounts: Sequence[Account]) -> dict[AccountKey, Usage]:
    """The usage of those accounts that the ledger knows; all of one moment, without a lock."""
    with database.reader.connect() as connection:
        return _select_usage(connection, accounts)


def read_all_accounts(database: LedgerDatabase) -> dict[AccountKey, Usage]:
    """The usage of every account that there is."""
    with database.reader.connect() as connection:
        rows = connection.execute(sa.select(ACCOUNTS).order_by(*ACCOUNTS.primary_key.columns))
        return {(row.namespace, row.name, row.uid): ledger.decode_usage(row.used) for row in rows}


def begin(database: LedgerDatabase, accounts: Iterable[Account]) -> None:
    """Begin accounts with what they say they start with, unless somebody else was faster."""
    # counted before the transaction: it may take its time, and nobody is to wait for it
    rows = [
        {
            "namespace": one.namespace,
            "name": one.name,
            "uid": one.uid,
            "used": ledger.encode_usage(one.start()),
        }
        for one in sorted(accounts, key=key_of)
    ]
    with database.writer.begin() as connection:
        connection.execute(database.insert(ACCOUNTS).on_conflict_do_nothing(), rows)


def charge(
    database: LedgerDatabase,
    accounts: Sequence[Account],
    charge: Charge,
    decide: Decide,
    is_wanted: Callable[[], bool],
) -> bool:
    """Charge accounts in one transaction that locks them.

    Args:
        database: Where they are.
        accounts: What to charge.
        charge: What for.
        decide: Says what their usage becomes.
        is_wanted: Asked before it is committed: False where nobody waits for it any longer.

    Returns:
        False where one of the accounts is not known, so that nothing was done.

    Raises:
        RefusalError: ``decide`` refused; nothing is written.
    """
    with database.writer.begin() as connection:
        used = _select_usage(connection, accounts, lock=True)
        if any(key_of(one) not in used for one in accounts):
            return False
        before = [used[key_of(one)] for one in accounts]
        after = decide(before)
        for account, old, new in zip(accounts, before, after, strict=True):
            if new is not None:
                write_usage(connection, key_of(account), ledger.encode_usage(new))
                _insert_charge(connection, account, ledger.increases(old, new), charge)
        if not is_wanted():
            connection.rollback()
    return True


def is_charged(database: LedgerDatabase, charge: Charge) -> bool:
    """Tell whether a request was charged for already, as long as the ledger remembers it."""
    alike = (
        CHARGES.c.namespace == charge.namespace,
        CHARGES.c.request_uid == charge.request_uid,
        CHARGES.c.object_group == charge.group,
        CHARGES.c.object_resource == charge.resource,
        CHARGES.c.object_name == charge.name,
        CHARGES.c.object_uid == charge.uid,
    )
    with database.reader.connect() as connection:
        return connection.execute(sa.select(CHARGES.c.number).where(*alike).limit(1)).first() is not None


def _select_usage(
    connection: sa.Connection, accounts: Sequence[Account], *, lock: bool = False
) -> dict[AccountKey, Usage]:
    # in the order of the key, whatever the order asked for: two that lock the same rows never wait for each other
    query = (
        sa.select(ACCOUNTS)
        .where(_ACCOUNT_KEY.in_([key_of(one) for one in accounts]))
        .order_by(*ACCOUNTS.primary_key.columns)
    )
    rows = connection.execute(query.with_for_update() if lock else query)
    return {(row.namespace, row.name, row.uid): ledger.decode_usage(row.used) for row in rows}


def write_usage(connection: sa.Connection, key: AccountKey, used: str) -> None:
    """Write an account's usage."""
    connection.execute(sa.update(ACCOUNTS).where(_ACCOUNT_KEY.in_([key])).values(used=used))


def _insert_charge(connection: sa.Connection, account: Account, more: Usage, charge: Charge) -> None:
    row = {
        "namespace": account.namespace,
        "quota_name": account.name,
        "quota_uid": account.uid,
        "amounts": ledger.encode_usage(more),
        "object_group": charge.group,
        "object_resource": charge.resource,
        "object_name": charge.name,
        "object_uid": charge.uid,
        "old_resource_version": charge.old_resource_version,
        "request_uid": charge.request_uid,
    }
    connection.execute(sa.insert(CHARGES), row)


_CHARGE_ACCOUNT_KEY = sa.tuple_(CHARGES.c.namespace, CHARGES.c.quota_name, CHARGES.c.quota_uid)


@dataclasses.dataclass(frozen=True, slots=True)
class LedgerState:
    """Where a ledger has come to."""

    turn: int
    latest: int
    """The number of the last charge."""
    settled: int
    """The number of the last charge that was given up."""
    accounts: Sequence[AccountKey] | None
    """All that there are, for the one service that is to reconcile now; None for the others."""


def read_state(database: LedgerDatabase, turn: int | None, *, always: bool) -> LedgerState:
    """Look where a ledger has come to, and take the turn to reconcile where nobody has since it was at ``turn``.

    Every service looks once in a period. Who dies in its turn is missed for one period. ``always`` takes the turn in
    any case.

    Raises:
        DamageError: the ledger lacks what each has.
    """
    with database.writer.begin() as connection:
        found = connection.execute(sa.select(LEDGER)).first()
        if found is None or found.identity != database.identity:
            raise LedgerDamageError("it is another ledger than before")
        latest = connection.execute(sa.select(sa.func.max(CHARGES.c.number))).scalar() or 0
        accounts, now = None, found.turn
        if always or now == turn:
            taken = sa.update(LEDGER).where(LEDGER.c.turn == now).values(turn=now + 1)
            if connection.execute(taken).rowcount:
                now += 1
                rows = connection.execute(sa.select(ACCOUNTS.c.namespace, ACCOUNTS.c.name, ACCOUNTS.c.uid))
                accounts = [(row.namespace, row.name, row.uid) for row in rows]
    return LedgerState(now, max(latest, found.settled), found.settled, accounts)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Reconciliation:
    """Putting accounts right by one state of the cluster."""

    database: LedgerDatabase
    cluster: Cluster
    """The state."""
    horizon: int
    """The last charge that is older than the state: its object is in it, or will never be."""
    arrived: set[int]
    """Charges whose objects this service has seen in the cluster; what it sees of others is added."""

    def settle(self, counts: Iterable[UsageCount]) -> None:
        """Put accounts right, one by one so that nobody waits for long, and give up what the state has answered.

        What is charged after the cluster was looked at is among the charges when the account's row is locked. Where
        others have given up charges that may be younger than this state, nothing is done: their objects need not be
        in it.
        """
        for one in counts:
            with self.database.writer.begin() as connection:
                self._settle(connection, one)
        with self.database.writer.begin() as connection:
            # locked, so that it never goes back
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

    def _settle(self, connection: sa.Connection, count: UsageCount) -> None:
        key = (count.namespace, count.name, count.uid)
        locked = sa.select(ACCOUNTS.c.used).where(_ACCOUNT_KEY.in_([key])).with_for_update()
        stored = connection.execute(locked).scalar()
        young = {} if stored is None else self._charges(connection, key)
        # in this order: who gives charges up says so in the same moment
        if stored is None or self._is_behind(connection):
            return
        if count.used is None:
            # one that is charged is a quota that another service sees
            if not young:
                connection.execute(sa.delete(ACCOUNTS).where(_ACCOUNT_KEY.in_([key])))
            return
        on_the_way = [ledger.decode_usage(amounts) for amounts in self._on_the_way(connection, young)]
        used = ledger.encode_usage(ledger.sum_usage([count.used, *on_the_way]))
        if used != stored:
            write_usage(connection, key, used)

    def _on_the_way(self, connection: sa.Connection, young: dict[int, tuple[Charge, str]]) -> list[str]:
        """The amounts of those charges whose objects are not in the cluster yet; those that have left it go."""
        kept, gone = [], []
        for number, (charge, amounts) in young.items():
            if has_arrived(self.cluster, charge):
                if charge.uid:  # else it may be the predecessor of the same name
                    self.arrived.add(number)
            elif number in self.arrived and was_removed(self.cluster, charge):
                gone.append(number)
            else:
                kept.append(amounts)
        if gone:
            one = sa.delete(CHARGES).where(CHARGES.c.number == sa.bindparam("gone"))
            connection.execute(one, [{"gone": number} for number in gone])
        return kept

    def _charges(self, connection: sa.Connection, key: AccountKey) -> dict[int, tuple[Charge, str]]:
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
