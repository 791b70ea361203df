"""Front doors that the tests of HTTP share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from doors.engines import AllowingEngine
from doors.running import open_door

if TYPE_CHECKING:
    from collections.abc import Iterator

    from doors.running import Door


@pytest.fixture(scope="session")
def allowing() -> Iterator[Door]:
    """A front door that allows everything, for tests that do not ask what it was asked."""
    with open_door(AllowingEngine()) as door:
        yield door
