"""Servers of PostgreSQL that fail over, or do something else than they are told: nothing is charged, and it heals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Coroutine

import psycopg
import pytest

from pratique.apimachinery.errors import CallError
from pratique.controllers.quota.ledger import parse_ledger_url
from pratique.controllers.quota.sql_database import connect
from pratique.controllers.quota.sql_ledger import SQLLedger
from support import postgres
from support.quota_ledgers import account, charge, plus, pods_used


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def run(url: str, scenario: Callable[[SQLLedger], Coroutine[None, None, None]]) -> None:
    """Run a scenario with a ledger that has been charged once."""

    async def opened() -> None:
        ledger = SQLLedger(url)
        try:
            await ledger.charge([account()], charge(), plus())
            await scenario(ledger)
        finally:
            await ledger.close()

    asyncio.run(opened())


_IGNORE = "CREATE FUNCTION ignore() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'"
_ROW = "FOR EACH ROW EXECUTE FUNCTION ignore()"
IGNORED_WRITES = {
    "a rule": ["CREATE RULE r AS ON UPDATE TO pratique_quota_accounts DO INSTEAD NOTHING"],
    "a trigger of accounts": [
        _IGNORE,
        f"CREATE TRIGGER t BEFORE UPDATE ON pratique_quota_accounts {_ROW}",
    ],
    "a trigger of charges": [
        _IGNORE,
        f"CREATE TRIGGER t BEFORE INSERT ON pratique_quota_charges {_ROW}",
    ],
}


@pytest.mark.parametrize("case", IGNORED_WRITES)
def test_a_charge_that_the_database_does_not_write_is_refused(case: str, server: postgres.Server) -> None:
    url = server.database()

    async def scenario(ledger: SQLLedger) -> None:
        execute(url, *IGNORED_WRITES[case])
        with pytest.raises(CallError, match="the database ignored a write"):
            await ledger.charge([account()], charge("other"), plus())
        assert await pods_used(ledger, account()) == ["1"]

    run(url, scenario)


def test_another_ledger_in_the_place_of_the_first_is_never_charged(server: postgres.Server) -> None:
    url = server.database()
    tables = "pratique_quota_accounts, pratique_quota_charges, pratique_quota_ledger"

    async def scenario(ledger: SQLLedger) -> None:
        execute(url, f"DROP TABLE {tables}")
        other = SQLLedger(url)
        await other.charge([account()], charge("other"), plus())
        for name in ("a", "b"):
            with pytest.raises(
                CallError, match="it is not the same ledger as before: restart what charges it"
            ):
                await ledger.charge([account()], charge(name), plus())
            execute(
                url, "DELETE FROM pratique_quota_accounts"
            )  # an unknown account does not make it known again
        await other.close()

    run(url, scenario)


def test_after_a_failover_the_server_that_writes_is_found_again(server: postgres.Server) -> None:
    url = server.database()
    name = url.rpartition("/")[2]

    async def scenario(ledger: SQLLedger) -> None:
        # connections made from now on only read, as those to a server that became a standby
        execute(
            url,
            f"ALTER DATABASE {name} SET default_transaction_read_only = on",
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            f" WHERE application_name = 'pratique' AND datname = '{name}'",
        )
        with pytest.raises(CallError, match="read-only transaction"):
            await ledger.charge([account()], charge("a"), plus())
        reset = f"ALTER DATABASE {name} RESET default_transaction_read_only"
        execute(url, "SET default_transaction_read_only = off", reset)
        await ledger.charge([account()], charge("b"), plus())
        assert await pods_used(ledger, account()) == ["2"]

    run(url, scenario)


def test_options_of_the_url_and_our_own_both_count(server: postgres.Server) -> None:
    url = server.database()
    execute(url, "CREATE SCHEMA quotas")
    options = "?options=-csearch_path%3Dquotas%20-cstatement_timeout%3D0"
    database = connect(parse_ledger_url(url + options))
    with contextlib.closing(database), database.reader.connect() as connection:
        shown = [
            connection.exec_driver_sql(f"SHOW {name}").scalar()
            for name in ("search_path", "statement_timeout", "lock_timeout")
        ]
        assert shown == ["quotas", "10s", "5s"]


def test_a_server_that_vanished_is_given_up_within_seconds(server: postgres.Server) -> None:
    database = connect(parse_ledger_url(server.database()))
    with contextlib.closing(database), database.reader.connect() as connection:
        driver = connection.connection.driver_connection
        assert isinstance(driver, psycopg.Connection)
        with socket.socket(fileno=os.dup(driver.fileno())) as end:
            options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            probes = [end.getsockopt(socket.IPPROTO_TCP, option) for option in options]
    assert probes == [5, 2, 3]
