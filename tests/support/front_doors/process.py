"""A front door as a process: ``python -m support.front_doors.process ENGINE SETTINGS``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from pratique_frontdoor.engines.engine import Engine
from pratique_frontdoor.serve import run
from pratique_frontdoor.settings import FrontDoorSettings
from support.front_doors import engines


async def open_engine(_: FrontDoorSettings) -> Engine:
    engine: Engine = getattr(engines, sys.argv[1])()
    return engine


def settings_of(given: dict[str, Any]) -> FrontDoorSettings:
    """Those settings; files are Paths."""
    files = {name: Path(value) for name, value in given.items() if name.endswith("_file")}
    return FrontDoorSettings(port=0, **given | files)


if __name__ == "__main__":
    run(settings_of(json.loads(sys.argv[2])), open_engine)
