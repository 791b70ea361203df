"""The URLs that ``--resource-quota-ledger`` accepts, and the errors for others."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from pathlib import Path

import pytest

from pratique.apimachinery.errors import CallError, ConfigurationError
from pratique.controllers.quota.ledger import LedgerStorage, open_ledger, parse_ledger_url
from support.quota_ledgers import account, charge, plus


@pytest.mark.parametrize("url", ["", ":memory:", "sqlite://", "sqlite:///:memory:"])
def test_an_empty_url_is_memory(url: str) -> None:
    assert parse_ledger_url(url).storage is LedgerStorage.MEMORY


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("/var/lib/pratique/quotas.sqlite", "/var/lib/pratique/quotas.sqlite"),
        ("sqlite:////var/lib/pratique/quotas.sqlite", "/var/lib/pratique/quotas.sqlite"),
        ("quotas.sqlite", str(Path.cwd() / "quotas.sqlite")),
        ("sqlite:///here/quotas.sqlite", str(Path.cwd() / "here" / "quotas.sqlite")),
        ("/a folder/100%?.sqlite", "/a folder/100%?.sqlite"),
    ],
)
def test_a_path_is_a_sqlite_file(url: str, path: str) -> None:
    place = parse_ledger_url(url)
    assert (place.storage, str(place.path)) == (LedgerStorage.SQLITE, path)


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://me@db.example:5433/quotas", "postgresql://me@db.example:5433/quotas"),
        ("postgres://db/quotas?sslmode=verify-full", "postgresql://db/quotas"),
        ("postgresql+psycopg://me:s3cret@[::1]/quotas", "postgresql://me@[::1]/quotas"),
        ("postgresql:///quotas?host=/run/postgresql&password=s3cret", "postgresql:///quotas"),
    ],
)
def test_a_database_is_shown_without_its_password(url: str, shown: str) -> None:
    place = parse_ledger_url(url)
    assert (place.storage, place.display_url) == (LedgerStorage.POSTGRESQL, shown)
    assert "s3cret" not in repr(place)


@pytest.mark.parametrize(
    "url",
    [
        "mysql://me:s3cret@db/quotas",
        "postgresql://me:s3cret@db",
        "postgresql://me:s3cret@db:port/quotas",
        "postgresql://me:s3cret@db:99999/quotas",
        "postgresql://me:s3cret@db/quotas/more",
        "postgresql://me:s3@cret@db/quotas",
        "sqlite://quotas.sqlite",
        "sqlite:///",
        "redis://s3cret",
        "a\0b",
    ],
)
def test_an_invalid_url_is_rejected_with_the_valid_forms(url: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^resource-quota-ledger: .*postgresql://USER@HOST"
    ) as caught:
        open_ledger(url)
    assert "s3cret" not in str(caught.value)


def test_opening_a_ledger_imports_no_database_and_touches_no_file(tmp_path: Path) -> None:
    program = (
        "import sys; from pratique.controllers.quota.ledger import open_ledger; open_ledger(sys.argv[1]);"
        "assert not {'sqlalchemy', 'psycopg'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path / "new" / "quotas.sqlite")], check=True)
    assert list(tmp_path.iterdir()) == []


def fail(url: str) -> str:
    """Charge twice where it is impossible, and return the reason."""

    async def scenario() -> list[BaseException | None]:
        ledger = open_ledger(url)
        charges = [ledger.charge([account()], charge(), plus()) for _ in range(2)]
        errors = await asyncio.gather(*charges, return_exceptions=True)
        await ledger.close()
        return errors

    first, second = asyncio.run(scenario())
    assert isinstance(first, CallError)
    assert isinstance(second, CallError)
    assert str(first).startswith("the quota ledger is unavailable: ")
    return str(first)


def test_a_folder_that_cannot_be_created_fails_the_charge(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    assert fail(f"{tmp_path}/file/quotas.sqlite").endswith(f"{tmp_path}/file: File exists")
    [record] = caplog.records  # logged once, not for every charge
    assert (record.levelno, vars(record)["ledger"]) == (logging.ERROR, f"{tmp_path}/file/quotas.sqlite")


def test_a_folder_in_place_of_the_file_fails_the_charge(tmp_path: Path) -> None:
    assert fail(str(tmp_path)).endswith("unable to open database file")


def test_a_file_that_is_not_a_database_fails_the_charge(tmp_path: Path) -> None:
    (tmp_path / "quotas.sqlite").write_text("no database " * 100)
    assert fail(str(tmp_path / "quotas.sqlite")).endswith("file is not a database")


def test_an_unreachable_server_fails_the_charge_without_revealing_the_password(
    caplog: pytest.LogCaptureFixture,
) -> None:
    message = fail("postgresql://me:s3cret@127.0.0.1:1/quotas")
    assert "refused" in message
    assert "s3cret" not in message + "".join(str(vars(record)) for record in caplog.records)
