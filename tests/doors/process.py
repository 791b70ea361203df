"""A front door as a process: ``python -m doors.process ENGINE SETTINGS``."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from doors import engines
from frontdoor.serve import run
from frontdoor.settings import FrontDoorSettings

if TYPE_CHECKING:
    from frontdoor.engines import Engine


async def open_engine(_: FrontDoorSettings) -> Engine:
    engine: Engine = getattr(engines, sys.argv[1])()
    return engine


if __name__ == "__main__":
    run(FrontDoorSettings(port=0, **json.loads(sys.argv[2])), open_engine)
