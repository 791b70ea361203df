"""A service's host of isolated controllers, run in a thread of the test so that many tests share its processes."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pratique.admission.controllers import Phase
from pratique.admission.results import Outcome
from pratique.admission.reviews import Call, Deadline
from pratique.configuration.settings import ChainSettings, Isolation
from pratique.hosting.running import ValidatorHost
from pratique.hosting.services import host_chain
from support.controller_packages import lay_out
from support.pods import pod
from support.services import hostile_controllers
from support.services.reviews import review_of

PATIENCE_SECONDS = 120


@contextlib.contextmanager
def hostile_package(folder: Path) -> Iterator[Path]:
    """Install the hostile controllers for as long as this lasts; gives the folder that they are in."""
    place = lay_out(folder, "acme_hostile", hostile_controllers.PACKAGE, all="CONTROLLERS")
    sys.path.insert(0, str(place))
    try:
        yield place
    finally:
        sys.path.remove(str(place))


@dataclasses.dataclass(frozen=True)
class Host:
    """A validator's host, from another thread."""

    loop: asyncio.AbstractEventLoop
    host: ValidatorHost

    def ask(self, *names: str, review: str = "bad", seconds: float = 60.0) -> list[Outcome]:
        """Ask controllers of one Pod, side by side. ``bad`` and ``slow`` are names that hostile controllers know."""
        outcomes: list[Outcome] = self.run(self.validate(*names, review=review, seconds=seconds))
        return outcomes

    async def validate(self, *names: str, review: str = "bad", seconds: float = 60.0) -> list[Outcome]:
        """The same where the host's loop runs."""
        calls = [Call(name, seconds) for name in names]
        return await self.host.validate(review_of(pod(name=review)), calls, Deadline.after(90))

    def run(self, awaitable: Any) -> Any:
        """Run something in the host's loop."""
        return asyncio.run_coroutine_threadsafe(awaitable, self.loop).result(PATIENCE_SECONDS)


@contextlib.contextmanager
def isolating(settings: ChainSettings, isolation: Isolation = Isolation.PROCESS) -> Iterator[Host]:
    """Host what the settings name as a validator does."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def run(awaitable: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(awaitable, loop).result(PATIENCE_SECONDS)

    try:
        made = host_chain(settings, Phase.VALIDATE, ValidatorHost, isolation)
        hosted = run(made.__aenter__())
        try:
            yield Host(loop, ValidatorHost(hosted.controllers, hosted.cluster))
        finally:
            run(made.__aexit__(None, None, None))
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
