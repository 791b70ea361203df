"""One API server with the stack behind it for all tests of this folder."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from support import clusters
from support.clusters import Cluster
from support.kubernetes_programs import why_not


@pytest.fixture(name="cluster", scope="package")
def _cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    if missing := why_not():
        pytest.skip(missing)
    if sys.platform != "linux":
        pytest.skip("only Linux has all addresses of 127.0.0.0/8, which Services get here")
    with clusters.running(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster
