"""The switch interval of services."""

from __future__ import annotations

import subprocess
import sys

from pratique.processes.thread_pool import SWITCH_INTERVAL_SECONDS

SERVICE = """
import sys
from pratique.rpc.service_process import run_process

async def live() -> None:
    print(sys.getswitchinterval())

run_process("mutator", live())
"""

FRONT_DOOR = """
import sys
from pratique_frontdoor.serve import run
from pratique_frontdoor.settings import FrontDoorSettings
from pratique.apimachinery.errors import ConfigurationError

async def open_engine(settings):
    print(sys.getswitchinterval())
    raise ConfigurationError("that is enough")

try:
    run(FrontDoorSettings(), open_engine)
except ConfigurationError:
    pass
"""


def printed_by(program: str) -> float:
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return float(ran.stdout)


def test_services_set_a_short_switch_interval() -> None:
    assert printed_by(SERVICE) == SWITCH_INTERVAL_SECONDS


def test_the_front_door_sets_a_short_switch_interval() -> None:
    assert printed_by(FRONT_DOOR) == SWITCH_INTERVAL_SECONDS
