"""The database of a ledger: its tables, and the connections to SQLite and PostgreSQL."""

from __future__ import annotations

import logging
import secrets
import sqlite3
from typing import TYPE_CHECKING, Any

import msgspec
import sqlalchemy as sa
import tenacity
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import QueuePool, StaticPool

from pratique.apimachinery.quantities import QuantityError
from pratique.controllers.quota import ledger_integrity
from pratique.controllers.quota.ledger import (
    LedgerLocation,
    LedgerStorage,
)
from pratique.controllers.quota.ledger_integrity import (
    APPLICATION_ID,
    SCHEMA_VERSION,
    LedgerDamageError,
    LedgerFiles,
)

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection, ExceptionContext


STORAGE_ERRORS = (SQLAlchemyError, OSError, msgspec.DecodeError, QuantityError, LedgerDamageError)
"""The errors of a database, and those of rows that no ledger wrote."""


def storage_error_reason(error: BaseException) -> str:
    """Why storage failed, without rows, statements or passwords."""
    if isinstance(error, DBAPIError) and error.orig is not None:
        # drivers report the host, the user and the error; further lines would quote the statement
        return str(error.orig).partition("\n")[0].strip() or type(error.orig).__name__
    if isinstance(error, LedgerDamageError):
        return str(error)
    if isinstance(error, OSError):
        return f"{error.filename or 'storage'}: {error.strerror or type(error).__name__}"
    if isinstance(error, msgspec.DecodeError | QuantityError):
        return "it contains data that no ledger wrote"
    return type(error).__name__


METADATA = sa.MetaData()

# SQLite increments only columns that are exactly INTEGER, which has 64 bits there.
_ROW_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")

ACCOUNTS = sa.Table(
    "pratique_quota_accounts",
    METADATA,
    sa.Column("namespace", sa.Text, primary_key=True),
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("uid", sa.Text, primary_key=True),
    sa.Column("used", sa.Text, nullable=False),
)
"""One row per ResourceQuota, with its usage as :mod:`pratique.controllers.quota.ledger` encodes it. The uid is part
of the key, so that a quota that was recreated under the same name does not conflict with a service that still knows
the old one."""

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
"""One row per charge and account, until its object must have arrived. Objects are in the quota's namespace. Numbers
only grow and are never reused (hence AUTOINCREMENT in SQLite): they give the order of charges, and nothing else is
known about their age."""

LEDGER = sa.Table(
    "pratique_quota_ledger",
    METADATA,
    sa.Column("number", sa.Integer, primary_key=True),
    sa.Column("identity", sa.Text, nullable=False),
    sa.Column("turn", sa.BigInteger, nullable=False),
    sa.Column("settled", sa.BigInteger, nullable=False),
)
"""One row. ``identity`` is random and distinguishes this ledger from any other. ``turn`` counts reconciliations.
``settled`` is the highest number of all charges that were dropped: a service may count usage only in a state of the
cluster that is known to be younger than all of them."""

EARLIER_TABLE = "pratique_quota_reconciliations"
"""A table of ledgers of an earlier version, which recorded times."""


CONNECTIONS = {LedgerStorage.MEMORY: 1, LedgerStorage.SQLITE: 1, LedgerStorage.POSTGRESQL: 4}
"""The maximum number of connections; each has a thread. SQLite has a single writer at a time anyway. In PostgreSQL,
charges of the same quota are serialized; four connections let other quotas proceed, and 25 validators fit the
server's default of 100 connections."""

_CONNECT_SECONDS = 5
_LOCK_SECONDS = 5
_STATEMENT_SECONDS = 10
"""As long as Kubernetes lets the evaluation of a quota take (``plugin/resourcequota/controller.go``). A lock is
awaited for half as long, which leaves time for the rest."""
_IDLE_SECONDS = 10
"""Then the server releases the locks of a client that fell silent in a transaction."""
_POSTGRESQL_OPTIONS = (
    f"-c lock_timeout={_LOCK_SECONDS}s -c statement_timeout={_STATEMENT_SECONDS}s"
    f" -c idle_in_transaction_session_timeout={_IDLE_SECONDS}s"
)
_KEEPALIVES = {"keepalives_idle": 5, "keepalives_interval": 2, "keepalives_count": 3}
"""Seconds of silence before a probe, seconds between probes, and how many may be lost: a server that vanished while a
thread waits for its answer is given up after as long as a statement may take. By default that takes two hours."""
_READ_ONLY = "25006"
"""PostgreSQL's code for a write on a server, or in a session, that only reads."""
_CREATE_TABLES_LOCK = 0x70726174
"""PostgreSQL's advisory lock for creating the tables: an arbitrary number that others are unlikely to use."""
_WRITES_OPTION = "pratique_writes"
_IDENTITY_BYTES = 16

_log = logging.getLogger(__name__)


class LedgerDatabase(msgspec.Struct, frozen=True):
    """A pool of connections, with an engine each for reading and writing."""

    reader: sa.Engine
    """Every statement sees the latest committed data, without locks."""
    writer: sa.Engine
    """For transactions. SQLite's lock the whole file from the start: a transaction that starts as a reader could not
    wait for another writer, only fail."""
    identity: str = ""
    """Distinguishes the ledger from any other."""
    files: LedgerFiles | None = None
    """The files of SQLite."""

    def insert(self, table: sa.Table) -> postgresql.Insert | sqlite.Insert:
        """Start an INSERT that supports ON CONFLICT."""
        return postgresql.insert(table) if _is_postgresql(self.writer) else sqlite.insert(table)

    def close(self) -> None:
        """Close all connections."""
        self.writer.dispose()


def connect(place: LedgerLocation) -> LedgerDatabase:
    """Connect to a database, and create missing tables even if others do so at the same time.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: It cannot be reached or used.
        OSError: The folder of its file cannot be created.
        LedgerDamageError: It is damaged, or is not a ledger.
    """
    expected = "" if place.path is None else ledger_integrity.expected_identity(place.path)
    database = (
        _postgresql_database(place) if place.storage is LedgerStorage.POSTGRESQL else _sqlite_database(place)
    )
    try:
        identity = _create_tables(database, place)
        if place.path is None:
            return msgspec.structs.replace(database, identity=identity)
        ledger_integrity.record_identity(place.path, identity, expected)
        return msgspec.structs.replace(database, identity=identity, files=LedgerFiles(place.path, identity))
    except BaseException:
        database.close()
        raise


def _is_postgresql(engine: sa.Engine | sa.Connection) -> bool:
    return engine.dialect.name == "postgresql"


def _create_tables(database: LedgerDatabase, place: LedgerLocation) -> str:
    """Create the tables if there are none; return the ledger's identity."""
    with database.reader.connect() as connection:
        # the transaction below creates all tables or none; once they exist, no lock is needed
        if sa.inspect(connection).has_table(LEDGER.name):
            return _identity(connection)
    with database.writer.begin() as connection:
        if _is_postgresql(connection):
            # concurrent CREATE TABLE IF NOT EXISTS statements fail
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_CREATE_TABLES_LOCK)))
        there = sa.inspect(connection)
        if there.has_table(LEDGER.name):
            return _identity(connection)
        if there.has_table(EARLIER_TABLE):
            raise LedgerDamageError(
                "it has an earlier version: remove it, or its tables, and usage will be recounted"
            )
        if not _is_postgresql(connection):
            if there.get_table_names():
                raise LedgerDamageError("it is the database of another application")
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.exec_driver_sql(f"PRAGMA user_version = {SCHEMA_VERSION}")
        METADATA.create_all(connection)
        row = {"number": 1, "identity": secrets.token_hex(_IDENTITY_BYTES), "turn": 0, "settled": 0}
        connection.execute(sa.insert(LEDGER), row)
    if place.storage is not LedgerStorage.MEMORY:
        _log.warning("a new quota ledger was created", extra={"ledger": place.display_url})
    return str(row["identity"])


def _identity(connection: sa.Connection) -> str:
    identity = connection.execute(sa.select(LEDGER.c.identity)).scalar()
    if not identity:
        raise LedgerDamageError("it has lost its identity")
    return str(identity)


def _postgresql_database(place: LedgerLocation) -> LedgerDatabase:
    url = sa.make_url(f"postgresql+psycopg://{place.address}")
    own = url.query.get("options", ())
    options = " ".join([*([own] if isinstance(own, str) else own), _POSTGRESQL_OPTIONS])
    engine = sa.create_engine(
        url,
        pool_size=CONNECTIONS[place.storage],
        max_overflow=0,
        pool_pre_ping=True,  # a restarted server is found again, at the cost of a round trip
        isolation_level="READ COMMITTED",  # overrides the server's default: locked rows are read in their current state
        connect_args={
            "application_name": "pratique",
            "client_encoding": "utf8",  # otherwise the texts of an SQL_ASCII database would be bytes
            "connect_timeout": _CONNECT_SECONDS,
            "tcp_user_timeout": _STATEMENT_SECONDS * 1000,
            "options": options,
            **_KEEPALIVES,
        },
        hide_parameters=True,
    )
    event.listen(engine, "handle_error", _leave_read_only_server)
    return LedgerDatabase(engine.execution_options(isolation_level="AUTOCOMMIT"), engine)


def _leave_read_only_server(context: ExceptionContext) -> None:
    """Close all connections to a server that only reads: after a failover, new ones lead to the one that writes."""
    if getattr(context.original_exception, "sqlstate", None) == _READ_ONLY:
        context.is_disconnect = True


def _sqlite_database(place: LedgerLocation) -> LedgerDatabase:
    if place.path is not None:
        # usage reveals who runs what, and how much
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
    """Leave BEGIN to us, let readers work beside a writer, and sync each commit to disk before it returns."""
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
    """Retry while several processes create a file: SQLite does not wait by itself for this one change."""
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
