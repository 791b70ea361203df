"""Integrity: a ledger whose file has changed charges nothing, and never starts anew by itself."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from pratique.apimachinery.errors import CallError
from pratique.cluster.store import ObjectStore
from pratique.controllers.quota.ledger import parse_ledger_url
from pratique.controllers.quota.sql_database import connect
from pratique.controllers.quota.sql_ledger import SQLLedger
from support import postgres
from support.quota_ledgers import account, admitted, charge, plus, pods_used, quota, sizes_of_pods, up_to

PERIOD = 10.0


def overwrite(file: Path) -> None:
    """Overwrite all pages but the first, like a failing disk."""
    with file.open("r+b") as opened:
        opened.seek(4096)
        opened.write(b"\xa5" * (file.stat().st_size - 4096))


def flip(file: Path) -> None:
    """Set the usage of every account to zero, in a way that SQLite does not notice."""
    written = file.read_bytes()
    assert b'{"pods":"3"}' in written
    with file.open("r+b") as opened:
        opened.write(written.replace(b'{"pods":"3"}', b'{"pods":"0"}'))


def cut(file: Path) -> None:
    os.truncate(file, 4096)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def remove(file: Path) -> None:
    file.unlink()


def remove_what_is_committed(file: Path) -> None:
    file.with_name(f"{file.name}-wal").unlink()


def replace_by_a_copy(file: Path) -> None:
    shutil.copy(file, file.with_name("copy"))
    file.with_name("copy").replace(file)


def write_another_over_it(file: Path) -> None:
    shutil.copyfile(file.with_name("other.sqlite"), file)


DAMAGES = [
    (overwrite, "damaged|malformed|not a database"),
    (flip, "it contains data that no ledger wrote"),
    (cut, "was truncated|malformed|damaged"),
    (empty, "was truncated"),
    (remove, "was removed while it was in use"),
    (remove_what_is_committed, "was removed while it was in use"),
    (replace_by_a_copy, "was replaced while it was in use"),
    (write_another_over_it, "not the same ledger as before"),
]


def charged(file: Path, pods: int = 3) -> None:
    """Let a service charge and exit."""

    async def scenario() -> None:
        ledger = SQLLedger(str(file))
        for number in range(pods):
            await ledger.charge([account()], charge(str(number)), plus())
        await ledger.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(("damage", "words"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
def test_damage_to_a_file_in_use_is_detected_at_the_next_charge(
    damage: Callable[[Path], None], words: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "quotas.sqlite"
    charged(file)
    charged(tmp_path / "other.sqlite")
    caplog.clear()

    async def scenario() -> None:
        ledger = SQLLedger(str(file))
        assert await pods_used(ledger, account()) == ["3"]
        damage(file)
        for name in ("one", "two"):
            with pytest.raises(CallError, match=words):
                await ledger.charge([account()], charge(name), up_to(10))
            with pytest.raises(CallError, match=words):
                await ledger.reconcile(ObjectStore([quota()]), PERIOD, sizes_of_pods)
        await ledger.close()

    caplog.set_level(logging.ERROR)
    asyncio.run(scenario())
    assert caplog.messages == ["the quota ledger is unavailable"]  # once


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (overwrite, "damaged|malformed"),
        (flip, "it contains data that no ledger wrote"),
        (cut, "damaged|malformed|gone"),
        (empty, "is gone, and its charges with it"),
        (remove, "is gone, and its charges with it.*quotas.sqlite.identity to start a new ledger"),
    ],
)
def test_damage_to_a_file_at_rest_is_detected_at_the_start(
    damage: Callable[[Path], None], words: str, tmp_path: Path
) -> None:
    file = tmp_path / "quotas.sqlite"
    charged(file)
    damage(file)

    async def scenario() -> None:
        ledger = SQLLedger(str(file))
        with pytest.raises(CallError, match=words):
            await ledger.charge([account()], charge(), plus())
        with pytest.raises(CallError, match=words):
            await ledger.usage([account()])
        await ledger.close()

    asyncio.run(scenario())


def test_a_replaced_ledger_is_detected_at_the_start(tmp_path: Path) -> None:
    file, other = tmp_path / "quotas.sqlite", tmp_path / "other.sqlite"
    charged(file)
    charged(other)
    other.replace(file)
    with pytest.raises(CallError, match="is not the ledger that was there before"):
        charged(file)


@pytest.mark.parametrize("pods", [1, 2])
def test_removing_the_identity_file_too_starts_a_new_ledger_with_a_warning(
    pods: int, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "quotas.sqlite"
    charged(file)
    for leftover in tmp_path.iterdir():
        leftover.unlink()
    caplog.clear()
    charged(file, pods)
    assert caplog.messages == ["a new quota ledger was created"]


def test_a_restored_file_is_used_again(tmp_path: Path) -> None:
    file = tmp_path / "quotas.sqlite"

    async def scenario() -> None:
        ledger = SQLLedger(str(file))
        await ledger.charge([account()], charge(), plus())
        file.rename(tmp_path / "away")
        with pytest.raises(CallError, match="was removed while it was in use"):
            await ledger.charge([account()], charge(), plus())
        (tmp_path / "away").rename(file)
        await ledger.charge([account()], charge(), plus())
        assert await pods_used(ledger, account()) == ["2"]
        await ledger.close()

    asyncio.run(scenario())


def test_many_charges_by_several_services_cause_no_damage(tmp_path: Path) -> None:
    """They all write the file again and again, and every one inspects it."""

    async def scenario() -> None:
        ledgers = [SQLLedger(str(tmp_path / "quotas.sqlite")) for _ in range(3)]
        names = [str(number) for number in range(600)]
        charging = [
            admitted(ledger, [account()], names[first::3], up_to(600)) for first, ledger in enumerate(ledgers)
        ]
        assert sum(map(len, await asyncio.gather(*charging))) == 600
        await asyncio.gather(*(ledger.close() for ledger in ledgers))

    asyncio.run(scenario())


def test_a_database_of_something_else_is_never_changed(tmp_path: Path) -> None:
    file = tmp_path / "quotas.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE theirs (number INTEGER)")
    with pytest.raises(CallError, match="it is the database of another application"):
        charged(file)
    with contextlib.closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == [("theirs",)]


def test_a_server_with_a_recreated_ledger_is_detected(server: postgres.Server) -> None:
    url = server.database()

    async def scenario() -> None:
        ledger = SQLLedger(url)
        await ledger.charge([account()], charge(), plus())
        database = connect(parse_ledger_url(url))
        with database.writer.begin() as connection:
            connection.exec_driver_sql("UPDATE pratique_quota_ledger SET identity = 'another'")
        database.close()
        with pytest.raises(CallError, match="it is not the same ledger as before"):
            await ledger.reconcile(ObjectStore([quota()]), PERIOD, sizes_of_pods)
        await ledger.close()

    asyncio.run(scenario())


def test_every_connection_syncs_each_commit_to_disk(tmp_path: Path) -> None:
    database = connect(parse_ledger_url(str(tmp_path / "quotas.sqlite")))
    for engine in (database.reader, database.writer):
        with engine.connect() as connection:
            settings = [
                connection.exec_driver_sql(f"PRAGMA {name}").scalar()
                for name in ("synchronous", "journal_mode")
            ]
            assert settings == [2, "wal"]  # 2 is FULL
    database.close()


def test_a_ledgers_folder_is_private_to_its_user(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    mask = os.umask(0o022)
    try:
        charged(folder / "quotas.sqlite")
    finally:
        os.umask(mask)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "quotas.sqlite.identity").stat().st_mode) == 0o600


def test_a_ledger_of_an_earlier_version_says_what_to_do(tmp_path: Path) -> None:
    file = tmp_path / "quotas.sqlite"
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("CREATE TABLE pratique_quota_reconciliations (number INTEGER)")
    with pytest.raises(CallError, match="has an earlier version: remove it, or its tables"):
        charged(file)


def test_a_ledger_restored_from_an_older_copy_is_detected(shared_url: str) -> None:
    """A server, too, may be restored from a backup without the latest charges."""

    async def scenario() -> None:
        ledger = SQLLedger(shared_url)
        await ledger.charge([account()], charge(), plus())
        for _ in range(3):
            await ledger.reconcile(ObjectStore([quota()]), 0, sizes_of_pods)
        database = connect(parse_ledger_url(shared_url))
        with database.writer.begin() as connection:
            connection.exec_driver_sql("UPDATE pratique_quota_ledger SET turn = 1")
        database.close()
        with pytest.raises(CallError, match="an older copy has replaced it"):
            await ledger.reconcile(ObjectStore([quota()]), PERIOD, sizes_of_pods)
        await ledger.close()

    asyncio.run(scenario())
