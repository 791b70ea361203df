"""One API server for all tests of this folder that need nothing special of it.

Skipped, and said so, where kube-apiserver or etcd is not installed: ``make apiserver``.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support import api_servers
from support.api_servers import ApiServer


@pytest.fixture(name="api_server", scope="session")
def _api_server() -> Iterator[ApiServer]:
    with api_servers.running() as server:
        yield server
