"""A service with slow controllers: ``python -m support.services.slow_services mutator|validator [GRACE]``."""

from __future__ import annotations

import asyncio
import sys
import time

from pratique.admission.results import Answer, allow
from pratique.admission.reviews import Review
from pratique.rpc.servers import ServerSettings
from pratique.rpc.service_process import run_process, run_server
from support.services import controllers
from support.services.controllers import hosted
from support.services.servers import KINDS


def say_began() -> None:
    """Tell the test that a controller has begun."""
    sys.stdout.write("began\n")
    sys.stdout.flush()


async def slow(_review: Review) -> Answer:
    """Allow after half a second."""
    say_began()
    await asyncio.sleep(0.5)
    return allow()


async def hanging(review: Review) -> Answer:
    """Never answer."""
    say_began()
    return await controllers.hanging(review)


def blocking(_review: Review) -> Answer:
    """Never answer, and never let go of the thread."""
    say_began()
    while True:
        time.sleep(60)


def busy(_review: Review) -> Answer:
    """Never answer, and never let go of the event loop."""
    say_began()
    while True:
        pass


def main(name: str, grace_seconds: str = "30") -> None:
    """Serve all four."""
    kind = next(kind for kind in KINDS if kind.name == name)
    hosting = [hosted("slow", slow), hosted("hanging", hanging), hosted("blocking", blocking)]
    services = kind.services([*hosting, hosted("busy", busy, trusted=True)])
    settings = ServerSettings(drain_seconds=0, grace_seconds=float(grace_seconds))
    run_process(name, run_server(name, services, settings))


if __name__ == "__main__":
    main(*sys.argv[1:])
