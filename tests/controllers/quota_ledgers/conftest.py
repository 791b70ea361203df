from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import postgres


@pytest.fixture(name="server", scope="session")
def _server() -> Iterator[postgres.Server]:
    with postgres.running() as server:
        yield server


@pytest.fixture(name="shared_url", params=["sqlite", "postgresql"])
def _shared_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty ledger that several services can open."""
    return str(tmp_path / "quotas.sqlite") if request.param == "sqlite" else _database(request)


@pytest.fixture(name="url", params=["memory", "sqlite", "postgresql"])
def _url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty ledger of each kind."""
    if request.param == "memory":
        return ""
    return str(tmp_path / "quotas.sqlite") if request.param == "sqlite" else _database(request)


def _database(request: pytest.FixtureRequest) -> str:
    server: postgres.Server = request.getfixturevalue("server")
    return server.database()
