"""One API server for all tests of this folder that need nothing special of it, and one that tests disturb.

Skipped, and said so, where kube-apiserver or etcd is not installed: ``make apiserver``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from support import api_servers
from support.api_servers import ApiServer


@pytest.fixture(name="api_server", scope="session")
def _api_server() -> Iterator[ApiServer]:
    with api_servers.running() as server:
        yield server


@pytest.fixture(name="disturbed_server", scope="session")
def _disturbed_server() -> Iterator[ApiServer]:
    """A server for tests that stop it, start it again, or register webhooks that nobody answers.

    Without its cache, what etcd forgets is forgotten.
    """
    with api_servers.running(flags={"watch-cache": "false"}) as server:
        yield server


@pytest.fixture(name="restarts", scope="session")
def _restarts(disturbed_server: ApiServer) -> Iterator[contextlib.ExitStack]:
    """Where :func:`support.api_servers.restarted` of that server is entered, which then runs as long as others."""
    del disturbed_server  # ends after what has replaced it
    with contextlib.ExitStack() as stack:
        yield stack
