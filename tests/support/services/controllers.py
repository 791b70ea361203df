"""Controllers for tests of services: each does one thing, in whichever phase it is hosted."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import NoReturn

from pratique.admission.controllers import BOTH, Controller, Handler, Handlers, NoSettings
from pratique.admission.results import Allow, Answer, allow, deny, patch
from pratique.admission.reviews import Review
from pratique.hosting.catalogue import HostedController

SECRET = "canary-4f9d2c"  # what no log, message or status may show


def hosted(
    name: str, handler: Handler, *, trusted: bool = False, mutating_only: bool = False
) -> HostedController:
    """A controller that runs ``handler`` in both phases, as the catalogue would hand it to a service."""
    handlers = Handlers(mutate=handler, validate=None if mutating_only else handler)
    controller = Controller(
        name=name, summary=f"Does what {name} does.", phases=BOTH, build=lambda _: handlers, trusted=trusted
    )
    return HostedController(controller, NoSettings(), handlers)


def allowing(_review: Review) -> Answer:
    """Let everything through."""
    return allow()


def denying(_review: Review) -> Answer:
    """Refuse everything."""
    return deny("not today")


def labelling(label: str) -> Callable[[Review], Answer]:
    """Make a handler that adds ``label`` to the labels that are there, with how many there were as its value."""

    def handler(review: Review) -> Answer:
        labels = review.object.get("metadata", {}).get("labels", {})
        metadata = review.object.get("metadata", {}) | {"labels": {**labels, label: str(len(labels))}}
        return patch(review.object | {"metadata": metadata})

    return handler


def raising(error: BaseException) -> Callable[[Review], NoReturn]:
    """Make a handler that raises ``error``."""

    def handler(_review: Review) -> NoReturn:
        raise error

    return handler


def raising_later(error: BaseException) -> Handler:
    """Make an async handler that raises ``error``."""

    async def handler(_review: Review) -> Allow:
        await asyncio.sleep(0)
        raise error

    return handler


async def hanging(_review: Review) -> Answer:
    """Never answer."""
    await asyncio.Event().wait()
    return allow()


def hanging_once(began: asyncio.Event) -> Handler:
    """Hang in the first review, which sets ``began``, and allow all others."""

    async def handler(review: Review) -> Answer:
        if began.is_set():
            return allow()
        began.set()
        return await hanging(review)

    return handler


def blocking(release: threading.Event) -> Callable[[Review], Answer]:
    """Make a handler that blocks its thread until it is released, which a test does at its end."""

    def handler(_review: Review) -> Answer:
        release.wait(120)
        return allow()

    return handler


async def stubborn(_review: Review) -> Answer:
    """Go on when cancelled, as careless code does that retries after every exception; for a second."""
    end = time.monotonic() + 1
    while time.monotonic() < end:
        try:
            await asyncio.sleep(0.05)
        except asyncio.CancelledError:
            continue
    return allow()
