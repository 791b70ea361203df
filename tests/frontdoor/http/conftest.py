"""Front doors that the tests of HTTP share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors.engines import AllowingEngine
from support.front_doors.running import LONG_TIMEOUTS, Door, open_door


@pytest.fixture(scope="session")
def allowing() -> Iterator[Door]:
    """A front door that allows everything, for tests that do not check its reviews."""
    with open_door(AllowingEngine(), FrontDoorSettings(**LONG_TIMEOUTS)) as door:
        yield door
