"""A front door as a process: ``python -m doors.process ENGINE SETTINGS``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from doors import engines
from frontdoor.serve import run
from frontdoor.settings import FrontDoorSettings

if TYPE_CHECKING:
    from frontdoor.engines.engine import Engine


async def open_engine(_: FrontDoorSettings) -> Engine:
    engine: Engine = getattr(engines, sys.argv[1])()
    return engine


def settings_of(given: dict[str, Any]) -> FrontDoorSettings:
    """Those settings; files are Paths."""
    files = {name: Path(value) for name, value in given.items() if name.endswith("_file")}
    return FrontDoorSettings(port=0, **given | files)


if __name__ == "__main__":
    run(settings_of(json.loads(sys.argv[2])), open_engine)
