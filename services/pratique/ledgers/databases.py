"""Connecting to the database that holds a ledger."""

from __future__ import annotations

import dataclasses
import logging
import secrets
import sqlite3
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
import tenacity
from sqlalchemy import event
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.pool import QueuePool, StaticPool

from pratique.ledgers import integrity
from pratique.ledgers.integrity import APPLICATION_ID, FORM, DamageError, Files
from pratique.ledgers.tables import EARLIER, LEDGER, METADATA
from pratique.ledgers.urls import Storage

if TYPE_CHECKING:
    from sqlalchemy.engine.interfaces import DBAPIConnection

    from pratique.ledgers.urls import Place

CONNECTIONS = {Storage.MEMORY: 1, Storage.SQLITE: 1, Storage.POSTGRESQL: 4}
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
_SETTINGS = (
    f"-c lock_timeout={_LOCK_SECONDS}s -c statement_timeout={_STATEMENT_SECONDS}s"
    f" -c idle_in_transaction_session_timeout={_IDLE_SECONDS}s"
)
_MAKING_TABLES = 0x70726174
"""PostgreSQL's advisory lock for that: a number of no meaning that others are unlikely to choose."""
_WRITES = "pratique_writes"
_IDENTITY_BYTES = 16

_log = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, slots=True)
class Database:
    """Two ways into one pool of connections."""

    reader: sa.Engine
    """Each statement sees what is committed at its moment, and locks nothing."""
    writer: sa.Engine
    """Transactions. SQLite's hold the lock on the whole file from their beginning: one that began as a reader could
    not be told to wait for another writer, only to fail."""
    identity: str = ""
    """Of the ledger in it, which tells it from any other."""
    files: Files | None = None
    """What SQLite keeps it in."""

    def insert(self, table: sa.Table) -> postgresql.Insert | sqlite.Insert:
        """Begin an INSERT that knows ON CONFLICT."""
        return postgresql.insert(table) if _is_postgresql(self.writer) else sqlite.insert(table)

    def close(self) -> None:
        """Close every connection."""
        self.writer.dispose()


def connect(place: Place) -> Database:
    """Connect to a database, and make the tables where they are missing, whoever else is about to do so.

    Raises:
        sqlalchemy.exc.SQLAlchemyError: it cannot be reached or used.
        OSError: the folder of its file cannot be made.
        DamageError: it is not what it should be.
    """
    expected = "" if place.path is None else integrity.expected(place.path)
    database = _postgresql(place) if place.storage is Storage.POSTGRESQL else _sqlite(place)
    try:
        identity = _made(database, place)
        if place.path is None:
            return dataclasses.replace(database, identity=identity)
        integrity.expect(place.path, identity, expected)
        return dataclasses.replace(database, identity=identity, files=Files(place.path, identity))
    except BaseException:
        database.close()
        raise


def _is_postgresql(engine: sa.Engine | sa.Connection) -> bool:
    return engine.dialect.name == "postgresql"


def _made(database: Database, place: Place) -> str:
    """Make the tables where there are none, and give the ledger's identity."""
    with database.reader.connect() as connection:
        # the transaction below makes all or nothing; where it was made, nobody need wait for a lock
        if sa.inspect(connection).has_table(LEDGER.name):
            return _identity(connection)
    with database.writer.begin() as connection:
        if _is_postgresql(connection):
            # CREATE TABLE IF NOT EXISTS fails where two do it at once
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_MAKING_TABLES)))
        there = sa.inspect(connection)
        if there.has_table(LEDGER.name):
            return _identity(connection)
        if there.has_table(EARLIER):
            raise DamageError(
                "it is of an earlier version: remove it, or its tables, and usage is counted anew"
            )
        if not _is_postgresql(connection):
            if there.get_table_names():
                raise DamageError("it is a database of something else")
            connection.exec_driver_sql(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.exec_driver_sql(f"PRAGMA user_version = {FORM}")
        METADATA.create_all(connection)
        row = {"number": 1, "identity": secrets.token_hex(_IDENTITY_BYTES), "turn": 0, "settled": 0}
        connection.execute(sa.insert(LEDGER), row)
    if place.storage is not Storage.MEMORY:
        _log.warning("a new ledger of quotas was begun", extra={"ledger": place.shown})
    return str(row["identity"])


def _identity(connection: sa.Connection) -> str:
    identity = connection.execute(sa.select(LEDGER.c.identity)).scalar()
    if not identity:
        raise DamageError("it has lost what tells it from others")
    return str(identity)


def _postgresql(place: Place) -> Database:
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
            "options": _SETTINGS,
        },
        hide_parameters=True,
    )
    return Database(engine.execution_options(isolation_level="AUTOCOMMIT"), engine)


def _sqlite(place: Place) -> Database:
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
    event.listen(engine, "connect", _prepare)
    event.listen(engine, "begin", _begin)
    return Database(engine, engine.execution_options(**{_WRITES: True}))


def _prepare(connection: DBAPIConnection, _: object) -> None:
    """Leave BEGIN to us, let readers read beside a writer, and have each commit on the disk before it returns."""
    connection.isolation_level = None
    cursor = connection.cursor()
    try:
        for attempt in _while_locked():
            with attempt:
                cursor.execute("PRAGMA journal_mode = WAL")
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA cell_size_check = ON")
    finally:
        cursor.close()


def _while_locked() -> tenacity.Retrying:
    """Try again where several make a file at once: for this one change SQLite does not wait by itself."""
    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(
            lambda error: getattr(error, "sqlite_errorcode", None) == sqlite3.SQLITE_BUSY
        ),
        wait=tenacity.wait_random(0.005, 0.05),
        stop=tenacity.stop_after_delay(_LOCK_SECONDS),
        reraise=True,
    )


def _begin(connection: sa.Connection) -> None:
    if connection.get_execution_options().get(_WRITES):
        connection.exec_driver_sql("BEGIN IMMEDIATE")
