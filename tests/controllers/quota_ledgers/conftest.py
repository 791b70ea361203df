from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import postgres


@pytest.fixture(name="server", scope="session")
def _server() -> Iterator[postgres.Server]:
    with postgres.running() as server:
        yield server


@pytest.fixture(name="database", scope="session")
def _database(server: postgres.Server) -> str:
    """A database that each test of a ledger leaves empty."""
    return server.database()


@pytest.fixture(name="shared_url", params=["sqlite", "postgresql"])
def _shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty ledger that several services can open."""
    yield from _empty(request, tmp_path)


@pytest.fixture(name="url", params=["memory", "sqlite", "postgresql"])
def _url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """An empty ledger of each kind."""
    yield from _empty(request, tmp_path)


def _empty(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    if request.param != "postgresql":
        yield "" if request.param == "memory" else str(folder / "quotas.sqlite")
        return
    server: postgres.Server = request.getfixturevalue("server")
    url: str = request.getfixturevalue("database")
    yield url
    server.emptied(url)
