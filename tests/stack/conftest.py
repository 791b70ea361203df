"""Stacks for tests that only ask them, or replace their files."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from support.shared_stacks import SharedStacks


@pytest.fixture(scope="session")
def shared_stacks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SharedStacks]:
    """The stacks that the tests of this process share."""
    with contextlib.ExitStack() as ends:
        yield SharedStacks(tmp_path_factory.mktemp("stacks"), ends)
